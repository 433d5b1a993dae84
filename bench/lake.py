"""One service over many tables: its cost while nothing happens, and the time from commits to the hand-out of splits.

    python -m bench.lake [--tables 1000] [--groups 3] [--commits 20] [--idle-s 60] [--load-s 60] [--rate 50]
    python -m bench.lake --growth

The tables are simulated (`tests.simulated_lake`) on the local disk. The service runs in a process of its own, with its
state on disk; this process writes the commits. Two phases: nothing happens, with an interval of 5 s; then `--rate`
commits a second over all tables, with an interval of 1 s. The age of a split is the time from the completion of its
commit until a member of the group has received it. Each group has one member, in the process of the service, which asks
as soon as a round is planned: the transport is not part of the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from penstock.enumerator.groups.lag_monitor import LagMonitor
from penstock.enumerator.observer import Observation, RoundDiscovered
from penstock.enumerator.server.assembly import running_service
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.followed_tables import FollowedTables
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.enumerator.tables.registry import TableRegistry
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, Member, SplitProgress, StartLatest
from penstock.proto.model.queries import Incremental, PlanRequest
from tests.simulated_lake import SimulatedLake, time_of

LEASE_MS: Final = 3_600_000
"""No member has to renew its lease during a run."""
IDLE_S: Final = 5
"""Interval of looks in the phase without commits, seconds."""
REPOSITORY: Final = pathlib.Path(__file__).resolve().parent.parent
THREADS: Final = 32
"""Threads of members: calls that wait for the disk at the same time share a sync."""
WAIT_S: Final = 60.0
"""How long splits that are not handed out yet are waited for after the last commit."""


class HandOut:
    """Members that request splits as soon as a round is planned. An `Observer`."""

    def __init__(self) -> None:
        self.ages_ms: deque[int] = deque()
        self._planned = [queue.SimpleQueue[tuple[str, str]]() for _ in range(THREADS)]
        self._members: dict[tuple[str, str], tuple[Member, int]] = {}

    def observe(self, event: Observation) -> None:
        """See `Observer.observe`."""
        if isinstance(event, RoundDiscovered):
            key = (event.table, event.group)
            self._planned[hash(key) % THREADS].put(key)

    def join(self, service: EnumeratorService, table: str, group: str) -> None:
        """A member of the group, which starts at the newest commit."""
        scope = GroupScope(request=PlanRequest(table=table, query=Incremental()))
        joined = service.join_group(group, "r", GroupSpec(scope=scope, start=StartLatest()), "once")
        self._members[table, group] = (joined.member, 0)

    def run(self, service: EnumeratorService, number: int) -> None:
        """Requests and commits splits without end, for the groups of this thread."""
        while True:
            key = self._planned[number].get()
            member, sequence = self._members[key]
            self._members[key] = (member, sequence + 1)
            answer = service.request_splits(member, 100, sequence + 1)
            if not isinstance(answer, Assignments):
                continue
            now_ms = time.time_ns() // 1_000_000
            for assigned in answer.splits:
                assert assigned.split.base is not None
                instant = assigned.split.base.path.rpartition("_")[2].removesuffix(".parquet")
                self.ages_ms.append(now_ms - time_of(instant) - 1)
            done = tuple(SplitProgress(ref=assigned.ref, ordinal=0, finished=True) for assigned in answer.splits)
            service.commit_splits(member, done)


def serve(folder: pathlib.Path, state: str, groups: int, interval_ms: int) -> None:
    """The service's process: serves the tables, and writes the ages of splits, as a line, for each line of stdin."""
    hand_out = HandOut()
    tables = {path.name: TableSettings(path=str(path)) for path in sorted(folder.iterdir())}
    settings = Settings(tables=tables, state=state, poll_interval_ms=interval_ms, lease_ms=LEASE_MS)
    joins: list[Future[None]] = []
    with running_service(settings, hand_out) as service, ThreadPoolExecutor(THREADS) as joining:
        for name in tables:
            for number in range(groups):
                joins.append(joining.submit(hand_out.join, service, name, f"g{number}"))
        for joined in joins:
            joined.result()
        for number in range(THREADS):
            threading.Thread(target=hand_out.run, args=(service, number), daemon=True).start()
        print("ready", flush=True)
        for _ in sys.stdin:
            ages = [hand_out.ages_ms.popleft() for _ in range(len(hand_out.ages_ms))]  # others append meanwhile
            print(json.dumps(ages), flush=True)


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """The service's process, seen from outside."""

    process: subprocess.Popen[str]

    def cpu_s(self) -> float:
        """Processor seconds since its start."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> tuple[float, float]:
        """Resident memory now, and its peak."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        sizes = {name: int(rest.split()[0]) / 1024 for name, _, rest in (line.partition(":") for line in lines)
                 if name in ("VmRSS", "VmHWM")}  # fmt: skip
        return sizes["VmRSS"], sizes["VmHWM"]

    def ages_ms(self) -> list[int]:
        """Ages of the splits that were handed out since the last call."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return list(json.loads(self.process.stdout.readline()))


@contextmanager
def service_process(folder: pathlib.Path, state: str, groups: int, interval_ms: int) -> Iterator[ServiceProcess]:
    """A service over the tables of the folder, with its groups."""
    arguments = ["--serve", str(folder), "--state", state, "--groups", str(groups), "--interval-ms", str(interval_ms)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen([sys.executable, "-P", "-m", "bench.lake", *arguments], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, env=environment) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield ServiceProcess(process)
        process.communicate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The size of a measurement."""

    tables: int = 1000
    """Tables."""
    groups: int = 3
    """Groups of each table."""
    commits: int = 20
    """Commits of each table at the start."""
    idle_s: float = 60.0
    """Duration of the phase without commits; 0 leaves it out."""
    load_s: float = 60.0
    """Duration of the phase with commits; 0 leaves it out."""
    rate: float = 50.0
    """Commits a second over all tables."""
    settle_s: float = 10.0
    """Time after the start of a service, before anything is measured."""


def share_of_core(service: ServiceProcess, seconds: float) -> float:
    """Its processor seconds for each second of a time in which no table changes; 0 for no time."""
    if not seconds:
        return 0.0
    begin_s, cpu_s = time.monotonic(), service.cpu_s()
    time.sleep(seconds)
    return (service.cpu_s() - cpu_s) / (time.monotonic() - begin_s)


def idle(service: ServiceProcess, plan: Plan) -> dict[str, Any]:
    """Its cost while no table changes."""
    time.sleep(plan.settle_s)
    share = share_of_core(service, plan.idle_s)
    now_mib, peak_mib = service.memory_mib()
    return {"cpu_percent": 100 * share, "cpu_us_per_look": 1e6 * share * IDLE_S / plan.tables, "rss_mib": now_mib,
            "peak_mib": peak_mib}  # fmt: skip


def load(service: ServiceProcess, lake: SimulatedLake, plan: Plan) -> dict[str, Any]:
    """Its cost and the ages of splits while commits are written to random tables.

    `cpu_ms_per_commit` is its processor time from the first commit to the last hand-out, without that of looks at idle
    tables, which is measured before. It depends little on what else the machine does; times do.
    """
    time.sleep(plan.settle_s)
    idle_share = share_of_core(service, plan.settle_s)
    service.ages_ms()
    chance, tables = random.Random(21), list(lake.tables.values())
    begin_s, cpu_s, commits = time.monotonic(), service.cpu_s(), 0
    while (passed_s := time.monotonic() - begin_s) < plan.load_s:
        if commits < passed_s * plan.rate:
            chance.choice(tables).commit(time.time_ns() // 1_000_000)
            commits += 1
        else:
            time.sleep(max(0.0, (commits + 1) / plan.rate - passed_s))
    load_share = (service.cpu_s() - cpu_s) / passed_s
    ages_ms, waited_s = service.ages_ms(), 0.0
    while len(ages_ms) < commits * plan.groups and waited_s < WAIT_S:
        time.sleep(0.5)
        waited_s += 0.5
        ages_ms += service.ages_ms()
    per_commit_s = (service.cpu_s() - cpu_s - idle_share * (time.monotonic() - begin_s)) / commits
    ages_ms.sort()

    def at(share: float) -> int | None:
        return ages_ms[min(len(ages_ms) - 1, int(share * len(ages_ms)))] if ages_ms else None

    now_mib, peak_mib = service.memory_mib()
    return {"commits": commits, "written_per_s": commits / passed_s, "expected": commits * plan.groups,
            "handed_out": len(ages_ms), "p50_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99),
            "most_ms": at(1), "cpu_percent": 100 * load_share, "idle_cpu_percent": 100 * idle_share,
            "cpu_ms_per_commit": 1000 * per_commit_s, "rss_mib": now_mib, "peak_mib": peak_mib}  # fmt: skip


def measure(plan: Plan) -> dict[str, dict[str, Any]]:
    """The figures by phase."""
    figures: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        newest_ms = time.time_ns() // 1_000_000 - 60_000
        lake = SimulatedLake.create(folder / "lake", plan.tables, plan.commits, newest_ms)
        if plan.idle_s:
            with service_process(folder / "lake", str(folder / "idle"), plan.groups, IDLE_S * 1000) as service:
                figures["idle"] = idle(service, plan)
        if plan.load_s:
            with service_process(folder / "lake", str(folder / "load"), plan.groups, 1_000) as service:
                figures["load"] = load(service, lake, plan)
    return figures


def growth(tables: int, groups: int, commits: int) -> dict[str, float]:
    """Processor microseconds of the steps, on one thread: an idle look at a table, the plan of a new commit for all its
    groups, and a scan of all groups, for each table."""
    with tempfile.TemporaryDirectory() as scratch:
        lake = SimulatedLake.create(pathlib.Path(scratch) / "lake", tables, commits, 1_700_000_000_000)
        now_ms, newest_ms = 0, lake.newest_write_ms()
        reads = OpenTables(wall_ms=lambda: newest_ms + 3_600_000 + now_ms)
        registry = TableRegistry(lake.paths, default_interval_ms=5_000)
        service = EnumeratorService(
            registry, reads=reads, follows=FollowedTables(reads), clock_ms=lambda: now_ms, poll_ms=None
        )
        members = HandOut()
        for name in lake.tables:
            for number in range(groups):
                members.join(service, name, f"g{number}")
        discovery = service.split_discovery
        while discovery.due():
            discovery.discover()
        monitor = LagMonitor(discovery)

        def spent_us(step: Callable[[], object]) -> float:
            begin_s = time.thread_time()
            step()
            return (time.thread_time() - begin_s) / tables * 1e6

        now_ms += 5_000
        look_us = spent_us(lambda: [discovery.discover_table(name) for name in lake.tables])
        scan_us = spent_us(lambda: (discovery.due_times(), monitor.gauges(), monitor.due()))
        for table in lake.tables.values():
            table.commit(1_700_000_100_000)
        newest_ms = lake.newest_write_ms()
        now_ms += 5_000
        plan_us = spent_us(lambda: [discovery.discover_table(name) for name in lake.tables])
        return {"look_us": look_us, "plan_us": plan_us, "scan_us": scan_us}


def main() -> None:
    """Prints the figures of both phases, or with `--growth` those of single steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Plan):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    parser.add_argument("--serve", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--state", help=argparse.SUPPRESS)
    parser.add_argument("--interval-ms", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--growth", action="store_true", help="processor time of single steps, by groups and commits")
    args = parser.parse_args()
    if args.growth:
        steps = Table("groups", "commits", "look, us", "new commit, us", "scan, us", title="for each table")
        for groups, commits in ((1, 10), (3, 10), (10, 10), (3, 100), (3, 1000)):
            figures = growth(20, groups, commits)
            steps.add_row(str(groups), str(commits), *(f"{value:,.0f}" for value in figures.values()))
        Console(width=120).print(steps)
        return
    if args.serve:
        serve(args.serve, args.state, args.groups, args.interval_ms)
        return
    plan = Plan(**{field.name: getattr(args, field.name) for field in fields(Plan)})
    report = Table("phase", "figure", "value", title=f"{plan.tables} tables x {plan.groups} groups")
    for phase, of_phase in measure(plan).items():
        for name, value in of_phase.items():
            report.add_row(phase, name, f"{value:,.1f}" if isinstance(value, float) else str(value))
    Console(width=120).print(report)


if __name__ == "__main__":
    main()
