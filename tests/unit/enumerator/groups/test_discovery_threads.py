"""The threads of a service with blocking tables. Tests wait for conditions, never for time alone."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.enumerator.continuous.types import Advance, Following
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.groups import table_jobs
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.inotify import MOVED_IN, FolderEvent
from penstock.enumerator.tables.registry import CONFIG, TableEntry, TableRegistry
from penstock.enumerator.tables.table_watch import GAP_MS
from penstock.proto.model.groups import GroupScope, GroupSpec
from penstock.proto.model.queries import Incremental, PlanRequest
from tests.progress import PROGRESS_S
from tests.unit.enumerator.scripted_service import Clock, Script, at, spec_of


@dataclass
class Blocking(Script):
    """Reads of table `slow` block until they are released."""

    let_go: threading.Event = field(default_factory=threading.Event)
    in_slow: threading.Event = field(default_factory=threading.Event)

    def advance(self, path: str, name: str, following: Following) -> Advance:
        if name == "slow":
            self.in_slow.set()
            assert self.let_go.wait(30)
        return super().advance(path, name, following)


def until(holds: Callable[[], bool]) -> None:
    """Waits until the condition holds; fails after PROGRESS_S."""
    end_s = time.monotonic() + PROGRESS_S
    while not holds():
        assert time.monotonic() < end_s
        threading.Event().wait(0.005)


def until_expired(clock: Clock, coordinator: Coordinator, expired: Callable[[], bool]) -> None:
    """Moves the clock until the condition holds: in steps, because a larger gap between ticks counts as a standstill,
    and as many as it takes, because a slow tick sees two steps as one gap."""

    def step() -> bool:
        clock.now_ms += 400
        until(lambda: coordinator.ticked_ms == clock.now_ms)
        return expired()

    until(step)


def test_blocked_table_delays_neither_other_tables_nor_leases() -> None:
    script, clock = Blocking(newest=3), Clock()
    coordinator = Coordinator(clock_ms=clock, settings=CoordinatorSettings(lease_ms=1_000))
    service = EnumeratorService(
        {"slow": "/lake/slow", "t": "/lake/t"},
        reads=script,
        follows=script,  # type: ignore[arg-type]
        clock_ms=clock,
        coordinator=coordinator,
        poll_ms=10,
    )
    service.start()
    try:
        slow = GroupSpec(scope=GroupScope(request=PlanRequest(table="slow", query=Incremental())))
        service.join_group("g", "r", slow, "one")
        assert script.in_slow.wait(30)
        service.join_group("g", "r", spec_of(), "two")
        until(lambda: service.describe_group("t", "g").summary.planned == at(3))
        until_expired(clock, coordinator, lambda: not service.describe_group("t", "g").readers)
        assert service.describe_group("slow", "g").summary.planned != at(3)
    finally:
        script.let_go.set()
        service.stop()
    assert service.describe_group("slow", "g").summary.planned >= at(1), "the discovery under way was completed"


@dataclass
class Counting(Script):
    """Each advance waits for a permit; `begun`: their tables in order. The oldest is released first: of threads that
    wait for a semaphore, any may go on, also one that came later."""

    begun: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: queue.SimpleQueue[threading.Event] = field(default_factory=queue.SimpleQueue)
    _is_open: bool = False

    def advance(self, path: str, name: str, following: Following) -> Advance:
        permit = threading.Event()
        with self._lock:
            self.begun.append(name)
            if not self._is_open:
                self._waiting.put(permit)
            else:
                permit.set()
        assert permit.wait(30)
        return super().advance(path, name, following)

    def release(self) -> None:
        """Lets the oldest advance go on."""
        self._waiting.get(timeout=PROGRESS_S).set()

    def release_all(self) -> None:
        """Lets every advance go on, also those to come."""
        with self._lock:
            self._is_open = True
            while not self._waiting.empty():
                self._waiting.get().set()


def test_each_of_many_tables_is_discovered_although_earlier_ones_are_due_again() -> None:
    names = [f"t{number}" for number in range(table_jobs.MAX_RUNNING + 2)]
    script, clock = Counting(newest=0), Clock()
    service = EnumeratorService(
        {name: f"/lake/{name}" for name in names},
        reads=script,
        follows=script,  # type: ignore[arg-type]
        clock_ms=clock,
        coordinator=Coordinator(clock_ms=clock, settings=CoordinatorSettings()),
        poll_ms=10,
    )
    for name in names:
        scope = GroupScope(request=PlanRequest(table=name, query=Incremental()))
        service.join_group("g", "r", GroupSpec(scope=scope), name)
    service.start()
    try:
        for looks in range(table_jobs.MAX_RUNNING, 2 * len(names) + 1):
            until(lambda looks=looks: len(script.begun) == looks)  # type: ignore[misc]
            script.release()
        assert {name: script.begun[: 2 * len(names)].count(name) for name in names} == dict.fromkeys(names, 2)
    finally:
        script.release_all()
        service.stop()


@dataclass
class Folders:
    """Events of folders that the test puts. `watched` has the folders by the number of their watch."""

    events: queue.Queue[list[FolderEvent]] = field(default_factory=queue.Queue)
    watched: dict[int, str] = field(default_factory=dict)

    def add(self, folder: str, /) -> int:
        known = next((number for number, name in self.watched.items() if name == folder), None)
        number = known or 1 + max(self.watched, default=0)
        self.watched[number] = folder
        return number

    def remove(self, watch: int, /) -> None:
        del self.watched[watch]

    def read(self) -> list[FolderEvent]:
        return self.events.get()

    def close(self) -> None:
        self.events.put([])

    def completed(self, instant: int) -> None:
        """A completed instant appears in every watched folder."""
        self.events.put([FolderEvent(number, MOVED_IN, f"{instant:03}_9.commit") for number in self.watched])


def test_reported_change_is_discovered_before_the_interval_ends_and_a_removed_table_is_not_watched() -> None:
    """The clock stands still except for the gap between two looks: the interval alone never causes a second look."""
    script, clock, folders = Script(newest=1), Clock(), Folders()
    tables = TableRegistry({}, default_interval_ms=3_600_000)
    tables.put_source(CONFIG, [TableEntry("t", "/lake/t")])
    service = EnumeratorService(
        tables,
        reads=script,
        follows=script,  # type: ignore[arg-type]
        clock_ms=clock,
        coordinator=Coordinator(clock_ms=clock, settings=CoordinatorSettings(lease_ms=10**9)),
        poll_ms=10,
        folder_events=lambda: folders,
    )
    service.start()
    try:
        service.join_group("g", "r", spec_of(), "one")
        until(lambda: service.list_groups()[0].planned == at(1))
        until(lambda: folders.watched == {1: "/lake/t/.hoodie/timeline"})
        until(lambda: not service.split_discovery.due())
        for newest in (2, 3):
            script.newest = newest
            service.split_discovery.discover()
            assert service.list_groups()[0].planned == at(newest - 1), "no look is due by the interval"
            folders.completed(newest)
            clock.now_ms += GAP_MS
            until(lambda newest=newest: service.list_groups()[0].planned == at(newest))  # type: ignore[misc]
            until(lambda: not service.split_discovery.due())
        tables.put_source(CONFIG, [TableEntry("other", "/lake/t")])
        assert folders.watched, "another name of the table"
        tables.put_source(CONFIG, [])
        assert not folders.watched
    finally:
        service.stop()
