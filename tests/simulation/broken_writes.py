"""Cores, servers and worlds of writes with one defect each. Search and schedules must detect it, by its invariant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from penstock.enumerator.core.event import Event
from penstock.enumerator.core.records import Durable
from penstock.enumerator.core.results import Decision
from penstock.enumerator.core.state import State
from penstock.enumerator.core.writes import decide as core
from penstock.enumerator.core.writes import events as ev
from penstock.enumerator.core.writes import state as core_state
from penstock.enumerator.core.writes.records import CommitDecided, GroupsLeased, WriteFailed, WriteRecord
from penstock.enumerator.core.writes.state import TableWrites, Write
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups, WriteEnd, WriteId, WriteState
from tests.simulation import writes_timeline as tl
from tests.simulation import writes_world
from tests.simulation.writes_timeline import Timeline
from tests.simulation.writes_values import Job, World, Writer
from tests.simulation.writes_world import WriteWorld

RIVALS = (Writer("a", 1, "f"), Writer("b", 1, "fg"))
"""Two owners that change one file group."""
EPOCHS = (Writer("a", 1, "f"), Writer("a", 2, "f"))
"""Two epochs of one owner."""


class AnswersBeforeSync(WriteWorld):
    """Answers are sent before the log is durable."""

    def releases(self, is_durable: bool) -> bool:
        return True


class WorksBeforeSync(WriteWorld):
    """The timeline is changed before the log is durable."""

    def works(self, is_durable: bool) -> bool:
        return True


class CompletesBlindly(WriteWorld):
    """A decided instant is completed without a look at the timeline."""

    def completion(self, world: World, number: int, instant: int) -> tuple[Job, Timeline]:
        return Job("complete", number, instant), tl.completed(world.timeline, number, instant)


class AnswersEarly(WriteWorld):
    """A commit is answered as complete when it is decided."""

    def decided(self, state: State, event: Event[Any]) -> Decision[Any]:
        decision = super().decided(state, event)
        if isinstance(event, ev.CommitWrite):
            return Decision(decision.records, replace(decision.answer, state=WriteState.COMPLETED))
        return decision


class FencesDecided(WriteWorld):
    """A later epoch fences a decided commit."""

    def decided(self, state: State, event: Event[Any]) -> Decision[Any]:
        if isinstance(event, ev.BeginWrite):
            writes = state.writes.get("t", TableWrites()).live.values()
            earlier = [each for each in writes if each.id.owner == event.id.owner and each.id < event.id]
            fenced = [
                WriteFailed(id=each.id, end=WriteEnd.FENCED) for each in earlier if each.state is WriteState.DECIDED
            ]
            decision = super().decided(state, event)
            return Decision((*fenced, *decision.records), decision.answer)
        return super().decided(state, event)


class KeepsLeasesInMemory(WriteWorld):
    """Leases are not appended."""

    def appends(self, record: Durable) -> bool:
        return not isinstance(record, GroupsLeased)


class NeverRollsBack(WriteWorld):
    """That an instant is rolled back is not recorded."""

    def decided(self, state: State, event: Event[Any]) -> Decision[Any]:
        if isinstance(event, ev.InstantRolledBack):
            return Decision((), None)
        return super().decided(state, event)


class BeginsAgain(WriteWorld):
    """An open write gets another instant."""

    def decided(self, state: State, event: Event[Any]) -> Decision[Any]:
        if isinstance(event, ev.BeginWrite):
            write = state.writes["t"].get(event.id) if "t" in state.writes else None
            if write is not None and write.state is WriteState.OPEN:
                again = core.WriteBegun(
                    id=write.id,
                    instant=InstantTime(f"{int(write.instant) + 50:017d}"),
                    newest_completed="",
                    pending=(),
                    order=write.begun,
                )
                return Decision((again,), replace(write, instant=again.instant))
        return super().decided(state, event)


def _no_conflict(writes: TableWrites, write: Write, added: TouchedGroups) -> str:
    return ""


def _only_live(writes: TableWrites, write: Write) -> Iterable[Write]:
    return (other for other in writes.live.values() if other.id != write.id)


def _refuses_nothing(write_id: WriteId, earlier: Write) -> None:
    return None


def _open_or_failed(tables: Any, write_id: WriteId, principal: str, *, also_requested: bool = False) -> Write:
    write = core._known_write(tables, write_id, principal)
    if write.state is WriteState.FAILED:
        return write
    return _open_write(tables, write_id, principal, also_requested=also_requested)


def _releases_when_decided(write: Write, record: WriteRecord) -> Write:
    changed = _changed(write, record)
    return replace(changed, held=TouchedGroups()) if isinstance(record, CommitDecided) else changed


def _of_nobody(self: TableWrites, owner: str) -> Iterator[Write]:
    return iter(())


def _decodes_another(stored: Any) -> Durable:
    record = _decode(stored)
    return replace(record, end=WriteEnd.ABORTED) if isinstance(record, WriteFailed) else record


def _loses_leases(state: State) -> Iterator[Durable]:
    return (record for record in _compacted(state) if not isinstance(record, GroupsLeased))


_changed = core_state._changed
_open_write = core._open_write
_decode = writes_world.decode_record
_compacted = writes_world.compacted_records


@dataclass(frozen=True, slots=True)
class Broken:
    """A defect, and the invariant that detects it."""

    name: str
    invariant: str
    writers: tuple[Writer, ...]
    world: type[WriteWorld] = WriteWorld
    patches: tuple[tuple[object, str, Any], ...] = ()

    @contextmanager
    def in_place(self, world: type[WriteWorld] = WriteWorld) -> Iterator[type[WriteWorld]]:
        """The world with the defect; `world` is mixed in."""
        with ExitStack() as stack:
            for target, name, value in self.patches:
                stack.enter_context(patch.object(target, name, value))
            yield self.world if world is WriteWorld else type("Broken", (world, self.world), {})


BROKEN: tuple[Broken, ...] = (
    Broken("answers before the log is synced", "durable", RIVALS, AnswersBeforeSync),
    Broken("timeline changed before the log is synced", "decided first", RIVALS, WorksBeforeSync),
    Broken("completed without a look at the timeline", "completed once", RIVALS, CompletesBlindly),
    Broken("commit answered when it is decided", "acknowledged", RIVALS, AnswersEarly),
    Broken(
        "decided commit fenced",
        "fenced",
        EPOCHS,
        FencesDecided,
        patches=((core, "_refuse_unfinished", _refuses_nothing),),
    ),
    Broken("leases not appended", "replay", RIVALS, KeepsLeasesInMemory),
    Broken("rollback not recorded", "liveness", RIVALS, NeverRollsBack),
    Broken("repeated begin has another instant", "same answer", RIVALS, BeginsAgain),
    Broken("leases unchecked", "one holder", RIVALS, patches=((core, "_first_conflict", _no_conflict),)),
    Broken(
        "leases end with the decision",
        "lost update",
        RIVALS,
        patches=((core_state, "_changed", _releases_when_decided),),
    ),
    Broken("completed writes forgotten", "lost update", RIVALS, patches=((core, "_others", _only_live),)),
    Broken("failed write commits", "fenced", RIVALS, patches=((core, "_open_write", _open_or_failed),)),
    Broken("earlier epoch begins later", "fenced", EPOCHS, patches=((TableWrites, "of_owner", _of_nobody),)),
    Broken(
        "begins beside a decided commit",
        "one at a time",
        EPOCHS,
        patches=((core, "_refuse_unfinished", _refuses_nothing),),
    ),
    Broken("instants in no order", "instants", RIVALS, patches=((TableWrites, "last_instant", ""),)),
    Broken("record decoded as another", "codec", RIVALS, patches=((writes_world, "decode_record", _decodes_another),)),
    Broken(
        "compaction loses leases", "shortened", RIVALS, patches=((writes_world, "compacted_records", _loses_leases),)
    ),
)
