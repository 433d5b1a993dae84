"""The steps that `curves.py` measures: each takes a size and returns figures by name.

Every step runs in a process of its own. `PREPARED` has what must exist before: tables and states are cached in
`.cache/bench`. They are synthetic, and no row is read.
"""

from __future__ import annotations

import os
import pathlib
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import psutil

from bench import planning
from bench.lake import growth
from bench.service import idle_poll
from bench.service_state import GROUP, TABLE, make_plan, make_state, make_table, scope
from penstock.enumerator.clocks import monotonic_ms
from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import round_id
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.store.journal import Journal
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.model.groups import Assignments, GroupSpec, SplitProgress, StartLatest
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, PlanRequest, Snapshot
from penstock.proto.model.splits import Plan
from penstock.table.hudi_table import open_table

CACHE: Final = planning.CACHE
CALLS: Final = 200
"""How many calls are measured. A figure is their mean."""
PARTITION_SLICES: Final = 100
"""File slices of each partition, where partitions are not the size."""
UNLIMITED: Final = CoordinatorSettings(max_groups_of_table=10**9)

Figures = Mapping[str, float]
"""Figures of a step by name."""


# --- planning


def slices_table(size: int) -> str:
    """A table of `size` file slices."""
    folder = CACHE / f"curve-slices-{size}"
    return str(planning.make_table(folder, 20, size, in_a_partition=PARTITION_SLICES))


def slices(size: int) -> Figures:
    """Plans of a snapshot, and the peak of memory above that of the process before."""
    path = slices_table(size)
    before = psutil.Process().memory_info().rss
    by_metadata = _plan_s(path, metadata=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"metadata_s": by_metadata, "folders_s": _plan_s(path, metadata=False), "peak_mib": (peak - before) / 2**20}


def partitions_table(size: int) -> str:
    """A table of `size` partitions, each of one file slice."""
    return str(planning.make_table(CACHE / f"curve-partitions-{size}", 20, size, in_a_partition=1))


def partitions(size: int) -> Figures:
    """Plans of a snapshot and of one partition."""
    path = partitions_table(size)
    one = f"p = '{size // 2:04d}'"
    return {
        "folders_s": _plan_s(path, metadata=False),
        "one_s": _plan_s(path, metadata=True, where=one),
    }


def instants_table(size: int) -> str:
    """A table whose active timeline has `size` instants."""
    folder = CACHE / f"curve-instants-{size}"
    return str(planning.make_table(folder, size, 1000, in_a_partition=PARTITION_SLICES))


def instants(size: int) -> Figures:
    """Opening a table, and plans of ten commits and of a snapshot while it is open."""
    path = instants_table(size)
    opened = planning.open_seconds(path)
    table = open_table(path)
    figures = {"open_s": opened}
    for name, (_, query, metadata) in zip(("snapshot_s", "range_s"), planning.questions(size), strict=False):
        request = PlanRequest(table="t", query=query, metadata=metadata)
        planning.plan_seconds(table, request)
        figures[name] = statistics.median(planning.plan_seconds(table, request)[0] for _ in range(3))
    return figures


def _plan_s(path: str, *, metadata: bool, where: str | None = None) -> float:
    request = PlanRequest(table="t", query=Snapshot(), where=where, metadata=metadata)
    return statistics.median(planning.plan_seconds(open_table(path), request)[0] for _ in range(3))


# --- looks and discovery


def idle_table(instants: int, files: int) -> None:
    """The table of `idle_poll`, last written an hour ago: a folder that was written just now is listed at each look."""
    table = make_table(CACHE / f"service-{instants}-{files}", instants, files)
    hour_ago = time.time() - 3600
    for written in (table / ".hoodie" / "timeline", table / ".hoodie" / "hoodie.properties"):
        os.utime(written, (hour_ago, hour_ago))


def idle_by_instants(size: int) -> Figures:
    """The first look at a table, and looks at it while it does not change."""
    poll = idle_poll(size, 1000)
    return {"first_ms": poll.first_ms, "idle_ms": poll.p50_ms, "operations": poll.operations}


def idle_by_files(size: int) -> Figures:
    """Looks at a table that does not change."""
    poll = idle_poll(100, size)
    return {"idle_ms": poll.p50_ms, "operations": poll.operations}


def tables(size: int) -> Figures:
    """For each of `size` tables with three groups: a look, the plan of a new commit, a scan of the groups."""
    return growth(size, 3, 10)


def groups_of_a_table(size: int) -> Figures:
    """For a table with `size` groups: a look, the plan of a new commit for all groups, a scan of the groups."""
    return growth(2, size, 10)


def commits(size: int) -> Figures:
    """For a table of `size` commits with three groups: a look, and the plan of a new commit."""
    return growth(3, 3, size)


# --- the service and its state


@contextmanager
def _service(state: pathlib.Path) -> Iterator[EnumeratorService]:
    """A service without threads on this state directory. The number of groups has no limit."""
    table = make_table(CACHE / "service-empty", 1, 0)
    store = open_sqlite(str(state))
    journal = Journal(store)
    coordinator = durable_coordinator(store, journal, clock_ms=monotonic_ms, settings=UNLIMITED)
    yield EnumeratorService({TABLE: str(table)}, coordinator=coordinator, clock_ms=monotonic_ms, poll_ms=None)
    journal.close()
    store.close()


def pending(size: int) -> Figures:
    """A service with `size` pending splits: its start, its memory, a hand-out with its commit, its state on disk."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        state = pathlib.Path(shutil.copytree(make_state(CACHE, size), pathlib.Path(folder) / "state"))
        before = psutil.Process().memory_info().rss
        began = time.process_time()
        with _service(state) as service:
            start_s = time.process_time() - began
            member = service.join_group(GROUP, "r", GroupSpec(scope=scope(), start=StartLatest()), "once").member
            began = time.process_time()
            for number in range(min(CALLS, size)):
                answer = service.request_splits(member, 1, number + 1)
                assert isinstance(answer, Assignments), answer
                done = tuple(SplitProgress(ref=one.ref, ordinal=1, finished=True) for one in answer.splits)
                service.commit_splits(member, done)
            call_s = (time.process_time() - began) / min(CALLS, size)
            memory = psutil.Process().memory_info().rss - before
        return {"start_s": start_s, "call_ms": call_s * 1000, "mib": memory / 2**20, "state_mib": _mib(state)}


def finished(size: int) -> Figures:
    """A service whose group finished `size` rounds of one split: its next start, a round, its state on disk."""
    key, begin = GroupKey(TABLE, GROUP), Progress(EARLIEST, layout=2)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        state = pathlib.Path(folder) / "state"
        with _service(state) as service:
            coordinator = service.coordinator
            coordinator.handle(ev.CreateGroup(key=key, scope=scope(), limits=NO_LIMITS, progress=begin))
            number = coordinator.read(lambda state: state.groups[key].number)
            member = service.join_group(GROUP, "r", GroupSpec(scope=scope(), start=StartLatest()), "once").member
            at, one_split = EARLIEST, make_plan(1, Position(InstantTime("1")))
            began = 0.0
            for round_number in range(size):
                if round_number == size - CALLS // 2:
                    began = time.process_time()
                upto = Position(InstantTime(f"2026{round_number:013d}"))
                commit_range = CommitRange(at, upto)
                plan = replace(one_split, commit_range=commit_range)
                coordinator.handle(_discovered(key, number, plan), (round_id(key, number, commit_range), plan))
                answer = service.request_splits(member, 1, round_number + 1)
                assert isinstance(answer, Assignments), answer
                done = tuple(SplitProgress(ref=one.ref, ordinal=1, finished=True) for one in answer.splits)
                service.commit_splits(member, done)
                at = upto
                if round_number % 50 == 0:
                    coordinator.tick()  # compacts a long log
            round_ms = (time.process_time() - began) / (CALLS // 2) * 1000
        began = time.process_time()
        with _service(state):
            start_s = time.process_time() - began
        return {"start_s": start_s, "round_ms": round_ms, "state_mib": _mib(state)}


def _discovered(key: GroupKey, number: int, plan: Plan) -> ev.Discovered:
    return ev.Discovered(
        key=key,
        number=number,
        start=plan.commit_range.after,
        commit_range=plan.commit_range,
        progress=Progress(plan.commit_range.upto, layout=2),
        facts=facts_of((split.size_bytes, split.partition, split.file_group) for split in plan.splits),
        reshaped=frozenset(),
        commits=1,
    )


def groups(size: int) -> Figures:
    """A service with `size` groups without splits: its start, its memory, a tick, its state on disk."""
    begin = Progress(EARLIEST, layout=2)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        state = pathlib.Path(folder) / "state"
        with _service(state) as service:
            for number in range(size):
                key = GroupKey(TABLE, f"g{number:07d}")
                created = ev.CreateGroup(key=key, scope=scope(), limits=NO_LIMITS, progress=begin)
                service.coordinator.handle(created)
        before, began = psutil.Process().memory_info().rss, time.process_time()
        with _service(state) as service:
            start_s = time.process_time() - began
            began = time.process_time()
            for _ in range(10):
                service.coordinator.tick()
            tick_ms = (time.process_time() - began) * 100
            memory = psutil.Process().memory_info().rss - before
        return {"start_s": start_s, "tick_ms": tick_ms, "mib": memory / 2**20, "state_mib": _mib(state)}


def _mib(folder: pathlib.Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


STEPS: Final[Mapping[str, Callable[[int], Figures]]] = {
    step.__name__: step
    for step in (
        slices,
        partitions,
        instants,
        idle_by_instants,
        idle_by_files,
        tables,
        groups_of_a_table,
        commits,
        pending,
        finished,
        groups,
    )
}
"""The steps by name."""
PREPARED: Final[Mapping[str, Callable[[int], object]]] = {
    "slices": slices_table,
    "partitions": partitions_table,
    "instants": instants_table,
    "idle_by_instants": lambda size: idle_table(size, 1000),
    "idle_by_files": lambda size: idle_table(100, size),
    "pending": lambda size: make_state(CACHE, size),
}
"""What writes the tables and states of a step."""
