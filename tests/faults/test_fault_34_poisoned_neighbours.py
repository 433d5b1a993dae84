"""Fault 34: two tables on one server, one of them hostile: groups, plans and streams of the other continue, and health,
page, metrics and `DescribeServer` name the bad table and the reason.

The hostile table is a real one, changed on disk, or its storage is replaced (`hostile_tables`). The test runs in this
process, over gRPC on loopback.
"""

from __future__ import annotations

import json
import pathlib
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.enumerator.clocks import wall_ms
from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.groups import discovery_threads, split_discovery, table_jobs
from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.server import assembly
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.enumerator.server.metrics.prometheus import Metrics, MetricsPort
from penstock.enumerator.server.rpc.turns import Turns
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables import table_checks
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import PenstockError
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, StartAt
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest, Snapshot
from penstock.proto.model.streams import StartAfter, StreamScope
from tests.faults.hostile_tables import FOR_READERS, ON_DISK, STORAGE, inject
from tests.faults.served import until

CASE = "A_merge_event_long_v6_h0150"
SLOW_MS = 300
CALLERS = 8
SCOPE = GroupScope(request=PlanRequest(table="bad", query=Incremental()))


# --- a server and its calls


@dataclass
class Running:
    """A server of tables `good` and `bad`; `bad` has a group already."""

    service: EnumeratorService
    address: str
    page: str

    def client(self, deadline_ms: int = 20_000) -> EnumeratorClient:
        return EnumeratorClient(
            self.address, CallLimits(deadline_ms=deadline_ms, plan_deadline_ms=deadline_ms, attempts=10)
        )

    def health(self) -> str:
        with grpc.insecure_channel(self.address) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

    def http_get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.page}/{path}", timeout=10) as answer:
            return bytes(answer.read()).decode()

    def metric(self, text: str) -> float:
        """The value of a series, 0 if it does not exist."""
        lines = (line for line in self.http_get("metrics").splitlines() if line.startswith(text))
        return float(next(lines, "0").rpartition(" ")[2])


@contextmanager
def server(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(assembly, "FIRST_CHECKS_S", 0.3)
    monkeypatch.setattr(discovery_threads, "STOP_S", 0.1)
    for module in (split_discovery, table_jobs, table_checks):
        monkeypatch.setattr(module, "SLOW_DISCOVERY_MS", SLOW_MS)
    tables = {name: TableSettings(path=str(folder / name)) for name in ("bad", "good")}
    settings = Settings(
        tables=tables, listen="127.0.0.1:0", poll_interval_ms=100, lease_ms=1_000, state=str(folder / "state")
    )
    metrics, activity = Metrics(), Activity(wall_ms, threading.Lock())
    port = MetricsPort(metrics, "127.0.0.1:0", activity)
    try:
        with (
            assembly.running_service(settings, metrics, activity=activity) as service,
            serve_enumerator(service, groups=service, settings=settings, observer=metrics) as running,
        ):
            service.coordinator.when_lost = running.cannot_continue
            service.on_trouble(partial(running.set_trouble, "background threads"))
            created = ev.CreateGroup(
                key=GroupKey("bad", "g"), scope=SCOPE, limits=NO_LIMITS, progress=Progress(EARLIEST)
            )
            service.coordinator.handle(created)
            yield Running(service, running.address, port.address)
    finally:
        port.close()


def calls_of(running: Running, table: str, deadline_ms: int) -> tuple[Callable[[], object], ...]:
    """Each call that reads the table's storage."""
    client = running.client(deadline_ms)
    scope = StreamScope(request=PlanRequest(table=table, query=Incremental()))
    joined = GroupSpec(scope=GroupScope(request=PlanRequest(table=table, query=Incremental())), start=StartAt(EARLIEST))
    return (
        lambda: client.describe_table(table),
        lambda: client.open_plan(PlanRequest(table=table, query=Snapshot())),
        lambda: client.next_batch(scope, client.start_stream(scope, StartAfter(EARLIEST))),
        lambda: client.join_group(f"of {table}", "r", joined, f"join {table}"),
        lambda: client.describe_group(table, "g"),
    )


def keep_calling(running: Running, ended: threading.Event) -> list[threading.Thread]:
    """Threads that call for table `bad` repeatedly and ignore the answers."""

    def repeat(number: int) -> None:
        calls = calls_of(running, "bad", 500)
        while not ended.is_set():
            with suppress(PenstockError, AssertionError):
                calls[number % len(calls)]()
            number += 1
            ended.wait(0.25)

    callers = [threading.Thread(target=repeat, args=(number,)) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    return callers


def check_neighbour_progresses(running: Running, timeout_s: float = 20.0) -> None:
    """A group, a plan and a stream of table `good` make progress."""
    client = running.client(round(timeout_s * 1000))
    spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="good", query=Incremental())), start=StartAt(EARLIEST))
    member = client.join_group("g", "r", spec, "one").member
    sequence = iter(range(1, 10_000))
    until(
        lambda: isinstance(client.request_splits(member, 10, next(sequence)), Assignments),
        "splits of the group",
        timeout_s,
    )
    assert client.open_plan(PlanRequest(table="good", query=Snapshot())).splits
    scope = StreamScope(request=PlanRequest(table="good", query=Incremental()))
    begin = client.start_stream(scope, StartAfter(EARLIEST))
    assert client.next_batch(scope, begin).point != begin


def check_reported_state(running: Running, *, hangs: bool) -> None:
    """Health, page, metrics and `DescribeServer` report the bad table and no other."""
    client = running.client()

    def errors() -> dict[str, str]:
        return {entry.summary.table: entry.error_code for entry in client.describe_server().groups if entry.error_code}

    until(lambda: set(errors()) == {"bad"}, "the bad group's error", 10.0)
    page = json.loads(running.http_get("status.json"))
    until(
        lambda: (
            {one["table"] for one in json.loads(running.http_get("status.json"))["groups"] if one["error"]} == {"bad"}
        ),
        f"the page's error: {page}",
    )
    if hangs:
        until(lambda: running.metric('penstock_table_up{table="bad"}') == 0.0, "the metric")
    else:
        until(
            lambda: ',group="g",table="bad"}' in running.http_get("metrics").partition("failures_total{code")[2],
            "count",
        )
    health = {one["table"]: one["error"] for one in json.loads(running.http_get("status.json"))["health"]}
    tables = {entry.table: entry.error_code for entry in client.describe_server().tables}
    assert tables["good"] == health["good"] == "" and running.metric('penstock_table_up{table="good"}') == 1.0
    until(
        lambda: (
            (running.metric('penstock_table_up{table="bad"}') == 0.0)
            == any(entry.error_code for entry in client.describe_server().tables)
        ),
        "metric and status agree",
    )
    assert running.health() == "SERVING"


def check_server_survives(running: Running, *, hangs: bool, shows: bool = True, timeout_s: float = 20.0) -> None:
    ended = threading.Event()
    callers = keep_calling(running, ended)
    try:
        check_neighbour_progresses(running, timeout_s)
        if shows:
            check_reported_state(running, hangs=hangs)
        client = running.client()
        until(lambda: not client.describe_group("good", "g").readers, "the end of the lease", timeout_s)
        assert not client.describe_group("good", "g").error
        assert running.health() == "SERVING"
    finally:
        ended.set()
        for caller in callers:
            caller.join()


@pytest.fixture
def tables(golden: Any, tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder of two copies of a real table, `good` and `bad`."""
    for name in ("good", "bad"):
        golden.copy(CASE, tmp_path / "of").rename(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("poison", ON_DISK, ids=lambda poison: poison.__name__)
def test_fault_34_hostile_table_blocks_no_other(
    tables: pathlib.Path, monkeypatch: pytest.MonkeyPatch, poison: Callable[[pathlib.Path], None]
) -> None:
    """A restarted server that opens the table."""
    poison(tables / "bad")
    with server(tables, monkeypatch) as running:
        check_server_survives(running, hangs=False, shows=poison not in FOR_READERS)


@pytest.mark.parametrize("kind", STORAGE)
def test_fault_34_hanging_or_failing_storage_blocks_no_other_table(
    tables: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    storage_faults = STORAGE[kind]()
    inject(monkeypatch, storage_faults)
    try:
        with server(tables, monkeypatch) as running:
            check_server_survives(running, hangs=kind == "hangs")
            storage_faults.error = None
            if storage_faults.go_on is not None:
                storage_faults.go_on.set()
            client = running.client()
            until(lambda: not any(entry.error_code for entry in client.describe_server().tables), "the table is back")
            until(lambda: running.metric('penstock_table_up{table="bad"}') == 1.0, "the metric is back")
    finally:
        if storage_faults.go_on is not None:
            storage_faults.go_on.set()


def without_isolation_of_discoveries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Former behavior: an exception of a discovery ends the scheduling thread, which is not restarted."""

    def ends(split_discovery: Any, step: Any, *arguments: Any) -> int:
        return int(step(*arguments))

    def in_this_thread(jobs: Any) -> None:
        while (job := jobs._schedule.take(jobs._clock_ms())) is not None:
            try:
                jobs._works[job[0]](job[1])
            except Exception:  # noqa: BLE001 - whatever it is
                raise SystemExit from None
            jobs._schedule.end(job)

    monkeypatch.setattr(split_discovery.SplitDiscovery, "_isolated", ends)
    monkeypatch.setattr(table_jobs.TableJobs, "start_due", in_this_thread)
    monkeypatch.setattr(discovery_threads.DiscoveryThreads, "check", lambda threads: None)


def without_turns_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Former behavior: four calls at a time over all tables."""
    monkeypatch.setattr(Turns, "_is_free", lambda turns, table: turns._running.total() < 4)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("broken", "kind"), [(without_isolation_of_discoveries, "overflow"), (without_turns_of_tables, "hangs")]
)
def test_fault_34_checks_detect_missing_isolation(
    tables: pathlib.Path, monkeypatch: pytest.MonkeyPatch, broken: Callable[[pytest.MonkeyPatch], None], kind: str
) -> None:
    """Negative control."""
    storage_faults = STORAGE[kind]()
    inject(monkeypatch, storage_faults)
    broken(monkeypatch)
    try:
        with server(tables, monkeypatch) as running, pytest.raises((AssertionError, PenstockError)):
            check_server_survives(running, hangs=kind == "hangs", timeout_s=1.0)
    finally:
        if storage_faults.go_on is not None:
            storage_faults.go_on.set()
