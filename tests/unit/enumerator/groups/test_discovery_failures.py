"""Discovery of one table fails with each class of exception: rounds of the other table and all leases continue, and the
failure is reported, counted and retried. A background thread that ends is reported and restarted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.continuous.types import Advance, Following, ReaderPlace
from penstock.enumerator.coordinator.coordinator import Coordinator, durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.groups import discovery_threads
from penstock.enumerator.observer import DiscoveryFailed, Observation, ThreadFailed
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.store.journal import Journal, Ticket
from penstock.enumerator.store.protocol import PlanPieces, StoredRecord
from penstock.proto.errors import (
    ConfigurationError,
    CorruptFile,
    InvariantViolation,
    OutOfMemory,
    Overloaded,
    StorageError,
)
from penstock.proto.model.groups import GroupLag, GroupScope, GroupSpec, StartAt
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import Incremental, PlanRequest
from tests.memory_store import DirectJournal, MemoryStore
from tests.unit.enumerator.groups.test_discovery_threads import until, until_expired
from tests.unit.enumerator.scripted_service import LAG, Clock, Script, at

FAILURES = (
    Overloaded("too much"),
    ConfigurationError("cannot be encoded"),
    OverflowError("Python integer 27670116110564327421 out of bounds for uint64"),
    MemoryError(),
    OutOfMemory("no memory now"),
    ValueError("bug"),
    InvariantViolation("bug"),
    RecursionError("too deep"),
    SystemExit("not an Exception"),
)
STOPPING = (ConfigurationError,)
"""Errors of planning that stop a group, because a retry cannot succeed."""


@dataclass
class Counted:
    """Counts failed discoveries."""

    failures: list[tuple[str, str, str]] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)

    def observe(self, event: Observation) -> None:
        match event:
            case DiscoveryFailed(table, group, code):
                self.failures.append((table, group, code))
            case ThreadFailed(thread):
                self.threads.append(thread)
            case _:
                pass


@dataclass
class Hostile(Script):
    """Reads of table `bad` raise `error` at `step` while it is set."""

    error: BaseException | None = None
    step: str = "advance"
    raised: int = 0

    def _fail(self, step: str, path: str) -> None:
        if self.error is not None and step == self.step and path == "/lake/bad":
            self.raised += 1
            raise self.error

    def probe(self, path: str) -> TableFingerprint:
        self._fail("glance", path)
        return super().probe(path)

    def advance(self, path: str, name: str, following: Following) -> Advance:
        self._fail("advance", path)
        return super().advance(path, name, following)

    def lags(self, path: str, readers: Sequence[ReaderPlace]) -> list[GroupLag]:
        self._fail("lag", path)
        return super().lags(path, readers)


@dataclass
class World:
    """A service that follows tables `bad` and `good`, each with group `g` and reader `r`, from their beginning."""

    script: Hostile
    coordinator: Coordinator
    clock: Clock
    service: EnumeratorService
    counted: Counted
    reasons: list[str] = field(default_factory=list)

    def join(self, table: str) -> None:
        scope = GroupScope(request=PlanRequest(table=table, query=Incremental()))
        self.service.join_group("g", "r", GroupSpec(scope=scope, start=StartAt(EARLIEST)), table)

    def planned(self, table: str) -> Position:
        return self.service.describe_group(table, "g").summary.planned

    def until_no_readers(self) -> None:
        """Moves the clock until the leases have expired."""

        def expired() -> bool:
            return not any(self.service.describe_group(table, "g").readers for table in ("bad", "good"))

        until_expired(self.clock, self.coordinator, expired)


@contextmanager
def running(
    script: Hostile, keeper_of: Callable[[Clock, CoordinatorSettings], Coordinator] | None = None
) -> Iterator[World]:
    clock, settings = Clock(), CoordinatorSettings(lease_ms=1_000)
    coordinator = keeper_of(clock, settings) if keeper_of else Coordinator(clock_ms=clock, settings=settings)
    counted = Counted()
    coordinator.observer = counted
    service = EnumeratorService(
        {"bad": "/lake/bad", "good": "/lake/good"},
        reads=script,
        follows=script,
        clock_ms=clock,
        coordinator=coordinator,
        poll_ms=5,
    )
    world = World(script, coordinator, clock, service, counted)
    service.on_trouble(world.reasons.append)
    service.start()
    try:
        yield world
    finally:
        service.stop()


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("step", ["glance", "advance"])
def test_failed_discovery_affects_only_its_group(error: BaseException, step: str) -> None:
    script = Hostile(newest=3, error=error, step=step)
    stops = isinstance(error, STOPPING)
    with running(script) as world:
        world.join("bad")
        until(lambda: bool(world.service.describe_group("bad", "g").error))
        description = world.service.describe_group("bad", "g")
        assert description.error_code and str(error) in description.error
        assert description.summary.state == ("stopped" if stops else "running")
        until(lambda: world.counted.failures == [("bad", "g", description.error_code)])
        listed = {each.summary.table: each.error_code for each in world.service.describe_server().groups}
        assert listed == {"bad": description.error_code}
        world.join("good")
        until(lambda: world.planned("good") == at(3))
        world.until_no_readers()
        if not stops:
            until(lambda: len(world.counted.failures) >= 2)  # retried after delays, and the next delay has begun
            script.error = None
            world.clock.now_ms += 60_000
            until(lambda: world.planned("bad") == at(3) and not world.service.describe_group("bad", "g").error)
        assert world.reasons == []


def test_failed_lag_of_one_table_does_not_affect_another() -> None:
    with running(Hostile(newest=3, error=OverflowError("sum"), step="lag")) as world:
        world.join("bad")
        world.join("good")
        until(lambda: world.planned("good") == at(3))
        assert world.service.describe_group("good", "g").lag == LAG
        description = world.service.describe_group("bad", "g")
        assert (
            description.lag is None
            and description.error_code == "INVARIANT_VIOLATION"
            and "OverflowError: sum" in description.error
        )


class RefusingJournal(DirectJournal):
    """Refuses the next `refuse` appends with content, like a journal with a slow disk."""

    refuse = 0

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> Ticket:
        if records and self.refuse:
            self.refuse -= 1
            raise Overloaded("the state's disk is slow")
        return super().append(records, plans, dropped)


def test_slow_disk_ends_neither_discovery_nor_leases() -> None:
    store = MemoryStore()
    journal = RefusingJournal(store)

    def keeper_of(clock: Clock, settings: CoordinatorSettings) -> Coordinator:
        return durable_coordinator(store, journal, clock_ms=clock, settings=settings)

    script = Hostile(newest=1)
    with running(script, keeper_of) as world:
        world.join("bad")
        until(lambda: world.planned("bad") == at(1))
        journal.refuse = 2
        script.newest = 2
        until(lambda: len(world.counted.failures) == 1)
        world.clock.now_ms += 500
        until(lambda: len(world.counted.failures) == 2)
        assert set(world.counted.failures) == {("bad", "g", "OVERLOADED")}
        world.clock.now_ms += 500
        assert world.planned("bad") == at(1), "the second pause is longer"
        world.join("good")
        until(lambda: world.planned("good") == at(2))
        world.clock.now_ms += 500
        until(lambda: world.planned("bad") == at(2))
        journal.refuse = 2  # now records of expired leases are refused
        world.until_no_readers()
        assert journal.refuse == 0 and "time" in world.counted.threads
        assert world.reasons == []


def test_bug_of_the_store_is_reported() -> None:
    lost: list[str] = []
    store = MemoryStore()
    journal = Journal(store)
    coordinator = durable_coordinator(store, journal, clock_ms=Clock(), settings=CoordinatorSettings())
    coordinator.when_lost = lambda error: lost.append(str(error))
    journal._write = None  # type: ignore[method-assign, assignment] # its thread ends by a TypeError
    for _ in range(2):
        with pytest.raises(StorageError, match="the state cannot be kept: TypeError"):
            coordinator.tick()
    assert "TypeError" in lost[0]
    journal.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("thread", ["time", "discovery"])
def test_ended_thread_is_reported_and_restarted(thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Hostile(newest=3)) as world:
        world.join("bad")
        until(lambda: world.planned("bad") == at(3))
        name = {"time": "tick", "discovery": "peek"}[thread]
        real = getattr(Coordinator, name)

        def ends(coordinator: Coordinator, *given: object) -> object:
            """SystemExit ends a thread without a message."""
            if coordinator is world.coordinator and threading.current_thread().name == f"penstock-{thread}":
                monkeypatch.setattr(Coordinator, name, real)
                raise SystemExit
            return real(coordinator, *given)

        monkeypatch.setattr(Coordinator, name, ends)
        until(lambda: len(world.reasons) >= 2)
        assert world.reasons[0].startswith(f"thread {thread} ended") and world.reasons[1] == ""
        until(lambda: world.counted.threads == [thread])
        world.join("good")
        until(lambda: world.planned("good") == at(3))
        world.until_no_readers()


def test_blocked_thread_is_reported_until_it_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped as a whole is not reported."""
    with running(Hostile(newest=3)) as world:
        world.join("good")
        world.clock.now_ms += discovery_threads.STALLED_MS * 10
        until(lambda: world.coordinator.ticked_ms == world.clock.now_ms)
        assert world.reasons == []
        standing, go_on = threading.Event(), threading.Event()
        tick = Coordinator.tick

        def stands(coordinator: Coordinator) -> None:
            if coordinator is world.coordinator:
                standing.set()
                assert go_on.wait(30)
            tick(coordinator)

        monkeypatch.setattr(Coordinator, "tick", stands)
        assert standing.wait(30)
        for _ in range(4):
            world.clock.now_ms += discovery_threads.STALLED_MS // 3
            until(lambda: world.service._threads._checked_ms == world.clock.now_ms)  # type: ignore[union-attr]
        until(lambda: len(world.reasons) >= 1)
        assert world.reasons[0].startswith("thread time has completed no round for 30 s")
        go_on.set()
        until(lambda: world.reasons[-1] == "")


def test_damaged_table_stops_its_group_and_is_counted() -> None:
    with running(Hostile(newest=3, error=CorruptFile("t: 20260101.commit: bad"))) as world:
        world.join("bad")
        until(lambda: world.service.describe_group("bad", "g").summary.state == "stopped")
        until(lambda: world.counted.failures == [("bad", "g", "CORRUPT_FILE")])
