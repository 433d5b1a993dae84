"""A server in this process, with a clock of its own for leases, and readers whose steps a test takes one by one.

The calls use gRPC on loopback. Nothing runs by itself: discovery runs when the server starts, leases end when the test
advances the clock, and readers send no heartbeats.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from penstock.engine.consumer import Consumer
from penstock.engine.group.batch import ConsumedBatch
from penstock.engine.group.lease import Runtime, monotonic_ms
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.store.journal import Journal
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import Fenced, PenstockError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import GroupScope, GroupSpec, Member
from penstock.proto.model.queries import Changes, PlanRequest, RoundLimits
from tests.faults.deliveries import Deliveries
from tests.faults.served import ONCE, RETRY_DELAYS
from tests.memory_store import MemoryStore

LEASE_MS: Final = 3_600_000
"""Longer than any test: a lease ends only when the test advances the clock."""
SPEC: Final = GroupSpec(
    scope=GroupScope(request=PlanRequest(table="t", query=Changes(ChangeFormat.HUDI))),
    limits=RoundLimits(max_commits=2),
)
OPTIONS: Final[dict[str, Any]] = {
    "query": "cdc",
    "cdc_format": "hudi",
    "max_splits": 2,
    "max_commits_per_trigger": 2,
    "batch_rows": 1,
}
"""Options of a reader of the same group: one row a batch, so that splits are read in parts."""

WAIT_MS: Final = 5


@dataclass
class Clock:
    """A clock that only the test advances, unless it has a source."""

    now_ms: int = 1_000_000
    source: Callable[[], int] = lambda: 0

    def __call__(self) -> int:
        return self.source() + self.now_ms


@dataclass
class LocalServer:
    """A server of the table `t` with the group `g`."""

    service: EnumeratorService
    clock: Clock
    address: str

    def create_group(self) -> None:
        """Creates the group `g`, by a reader that leaves it."""
        self.service.leave_group(self.service.join_group("g", "first", SPEC, "x").member)

    def discover(self) -> None:
        """Plans the next rounds of the group."""
        self.service.split_discovery.discover()
        self.clock.now_ms += 1_000

    def is_finished(self) -> bool:
        """Whether every split is finished, and discovery found no later commit."""
        [group] = self.service.coordinator.read(lambda state: list(state.groups.values()))
        return group.caught_up and not group.rounds

    def end_lease_of(self, *silent: str) -> None:
        """Advances the clock until the leases of these readers are over; the others are renewed meanwhile."""
        for _ in range(5):
            self.clock.now_ms += LEASE_MS // 4
            for member in self.members():
                if member.reader_id not in silent:
                    self.service.heartbeat(member)
            self.service.coordinator.tick()

    def members(self) -> list[Member]:
        """The readers of the group, with their epochs."""
        [group] = self.service.coordinator.read(lambda state: list(state.groups.values()))
        return [Member("t", "g", reader_id, reader.epoch) for reader_id, reader in group.readers.items()]


@contextmanager
def local_server(
    table: pathlib.Path, clock: Clock | None = None, store: MemoryStore | None = None
) -> Iterator[LocalServer]:
    """A server on the table and the state, stopped at the end."""
    clock, store = clock or Clock(), store or MemoryStore()
    journal = Journal(store)
    coordinator = durable_coordinator(store, journal, clock_ms=clock, settings=CoordinatorSettings(lease_ms=LEASE_MS))
    service = EnumeratorService({"t": str(table)}, clock_ms=clock, coordinator=coordinator, poll_ms=None)
    with closing(journal), serve_enumerator(service, "127.0.0.1:0", service) as server:
        yield LocalServer(service, clock, server.address)
        server.stop(0)


class NoHeartbeat:
    """Heartbeats of a reader that sends none."""

    def __init__(self, beat: object = None, first_s: float = 0.0) -> None:
        """Starts nothing."""

    def stop(self) -> None:
        """Nothing runs."""


class DeliveringReader:
    """A reader that takes one step at a time: it writes the rows of a batch, then commits them.

    After a call that failed it waits until the server can be reached, and every other time it joins again, like a new
    process under the same id. Broken readers override `deliver`.
    """

    joins_after = 2
    """It joins again after so many failed calls."""

    def __init__(
        self, address: str, reader_id: str, deliveries: Deliveries, now_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        self.reader_id, self.deliveries, self.failures = reader_id, deliveries, 0
        self._reachable = EnumeratorClient(address, RETRY_DELAYS)
        self.consumer = Consumer(
            None, "t", group="g", reader_id=reader_id, enumerator=EnumeratorClient(address, ONCE),
            runtime=Runtime(now_ms=now_ms, start_heartbeat=NoHeartbeat), retry_timeout="1 ms", **OPTIONS,
        )  # fmt: skip
        self._pending: ConsumedBatch | None = None

    def step(self) -> bool:
        """Delivers one batch, or repeats a commit; whether there was nothing to do."""
        try:
            if self._pending is not None:
                self.commit(self._pending)
            consumed = self.consumer.poll(WAIT_MS)
            if consumed is None:
                return True
            self.deliver(consumed)
        except Fenced:
            self._pending = None
            self._join()
        except PenstockError as error:
            assert error.retryable, f"{error.code}: {error}"
            self.failures += 1
            self._reachable.list_groups()
            if self.failures % self.joins_after == 0:
                self._pending = None
                self._join()
        return False

    def deliver(self, consumed: ConsumedBatch) -> None:
        """Writes the rows, then commits them."""
        self.deliveries.write(consumed.split_id, consumed.first_ordinal, consumed.batch)
        self.commit(consumed)

    def commit(self, consumed: ConsumedBatch) -> None:
        """Commits the batch. If the answer is lost, the next step may repeat the commit."""
        self._pending = consumed
        self.consumer.commit(consumed)
        self.deliveries.committed(self.reader_id, consumed.split_id, consumed.first_ordinal, consumed.next_ordinal)
        self._pending = None

    def _join(self) -> None:
        while True:
            try:
                self.consumer.join()
                return
            except PenstockError as error:
                assert error.retryable, f"{error.code}: {error}"
                self._reachable.list_groups()
