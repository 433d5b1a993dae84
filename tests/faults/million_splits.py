"""Memory of a million pending splits in a state directory.

Run as `python million_splits.py WHAT DIR`. `plan`: plans ten rounds of 100,000 splits, assigns 20,000 and commits
5,000. `replay`: opens this state in a new process. Prints the pending splits, and the growth of the peak of resident
memory in MiB.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.coordinator import Coordinator, durable_coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import needs_discovery
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import CoordinatorSettings, SplitsGranted
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.store.journal import Journal
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.model.groups import GroupScope, Joined, SplitProgress, SplitRef
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest

ROUNDS, SPLITS = 10, 100_000
KEY = GroupKey("t", "g")
SETTINGS = CoordinatorSettings(max_pending_splits=ROUNDS * SPLITS)


def peak_mib() -> float:
    """Peak resident memory of this process (`getrusage` reports the peak of the parent if that was larger)."""
    [line] = [line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def facts(number: int) -> Iterator[tuple[int, str, str]]:
    return (
        (128 << 20, f"day={n % 365}", f"{n % 60_000:08x}-0000-0000-0000-{number % 2:012d}-0") for n in range(SPLITS)
    )


def plan(coordinator: Coordinator) -> None:
    scope = GroupScope(request=PlanRequest(table="t", query=Incremental()))
    created = ev.CreateGroup(key=KEY, scope=scope, limits=NO_LIMITS, progress=Progress(EARLIEST))
    coordinator.handle(created)
    number = coordinator.read(lambda state: state.groups[KEY].number)
    start = EARLIEST
    for round_number in range(1, ROUNDS + 1):
        assert coordinator.read(lambda state: needs_discovery(state.groups[KEY], SETTINGS))
        end = Position(InstantTime(f"{20260101000000000 + round_number}"))
        discovered = ev.Discovered(
            key=KEY, number=number, start=start, commit_range=CommitRange(start, end),
            progress=Progress(end, layout=2), facts=facts_of(facts(round_number)), reshaped=frozenset(), commits=1,
        )  # fmt: skip
        coordinator.handle(discovered)
        start = end
    assert not coordinator.read(lambda state: needs_discovery(state.groups[KEY], SETTINGS)), "discovery pauses"
    assert coordinator.read(lambda state: state.groups[KEY].progress.position) == start
    joined = coordinator.handle(ev.Join(key=KEY, reader_id="r", scope=scope, request_id="j"))
    assert isinstance(joined, Joined)
    for sequence in range(1, 21):
        granted = coordinator.handle(ev.RequestSplits(joined.member, 1000, sequence))
        assert isinstance(granted, SplitsGranted) and len(granted.splits) == 1000
        if sequence % 4 == 0:
            done = [
                SplitProgress(ref=SplitRef(one.plan_id, one.index), ordinal=1, finished=True) for one in granted.splits
            ]
            coordinator.handle(ev.CommitSplits(joined.member, tuple(done)))


def main(what: str, directory: str) -> None:
    before_mib = peak_mib()
    store = open_sqlite(directory)
    journal = Journal(store)
    coordinator = durable_coordinator(store, journal, clock_ms=lambda: 0, settings=SETTINGS)
    if what == "plan":
        plan(coordinator)
    pending = coordinator.read(lambda state: state.groups[KEY].pending)
    print(pending, round(peak_mib()), round(peak_mib() - before_mib))
    journal.close()
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
