"""The state of a server that coordinates writes: its copy, what of it matters, and its invariants (`writes_world`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.enumerator.core.state import State
from penstock.enumerator.core.writes.state import TableWrites, Write
from penstock.proto.model.writes import WriteState
from tests.simulation.checkers import fail


def check_state(state: State) -> None:
    """The invariants of a state of the server."""
    for writes in state.writes.values():
        live = list(writes.live.values())
        for number, first in enumerate(live):
            for second in live[number + 1 :]:
                if both := first.held.groups & second.held.groups:
                    fail("one holder", f"{first.id} and {second.id} hold {sorted(both)}")
        begun = sorted((write for write in _all(writes) if write.begun), key=lambda write: write.begun)
        for first in live:
            later = [each.id for each in _all(writes) if each.id.owner == first.id.owner and each.id > first.id]
            if first.end is not None and first.state is not WriteState.FAILED:
                fail("fenced", f"{first.id} has failed, and is {first.state}")
            if first.is_open and later:
                fail("fenced", f"{first.id} is open, and {later[0]} has begun")
            if first.state is WriteState.DECIDED and later:
                fail("one at a time", f"{first.id} is not complete yet, and {later[0]} has begun")
        instants = [write.instant for write in begun]
        if instants != sorted(set(instants)):
            fail("instants", f"the writes began in the order {instants}")


def copied_state(state: State) -> State:
    """A copy, to which records can be applied."""
    writes = {table: TableWrites(dict(each.live), dict(each.ended)) for table, each in state.writes.items()}
    return State(writes=writes)


def _all(writes: TableWrites) -> tuple[Write, ...]:
    return (*writes.live.values(), *writes.ended.values())


def form_of(state: State) -> tuple[Any, ...]:
    """What of the state matters: leases are volatile."""
    return tuple(
        (
            table,
            tuple(sorted((replace(each, until_ms=None) for each in writes.live.values()), key=lambda each: each.id)),
            tuple(replace(each, until_ms=None) for each in writes.ended.values()),
        )
        for table, writes in sorted(state.writes.items())
        if writes.live or writes.ended
    )
