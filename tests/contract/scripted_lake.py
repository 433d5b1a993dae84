"""A service over scripted tables that come and go, embedded and served, for the contract of groups over tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.engine.consumer import Consumer
from penstock.engine.group.connect import GroupEnumerator
from penstock.engine.group.lease import Runtime
from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.continuous.types import Advance, Following, Progress, ReaderPlace
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.server.config.settings import Settings
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.registry import CONFIG, TableEntry, TableRegistry
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.groups import GroupLag, GroupScope
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import Split
from tests.contract.scripted_table import FAST
from tests.unit.engine.fake_group import FakeReading
from tests.unit.enumerator.scripted_service import Clock, Script


class Heartbeat:
    """A heartbeat that is never sent: the clock of the server stands still."""

    def stop(self) -> None:
        """Nothing was started."""


@dataclass
class Lake:
    """Scripted tables by path; see `Script`."""

    scripts: dict[str, Script] = field(default_factory=dict)

    def check(self, path: str) -> None:
        self.scripts[path].check(path)

    def probe(self, path: str) -> TableFingerprint:
        return self.scripts[path].probe(path)

    def advance(self, path: str, name: str, following: Following) -> Advance:
        return self.scripts[path].advance(path, name, following)

    def start(self, path: str, position: Position | None) -> Progress:
        return self.scripts[path].start(path, position)

    def start_snapshot(self, path: str, name: str, scope: GroupScope) -> Progress:
        return self.scripts[path].start_snapshot(path, name, scope)

    def check_rule(self, path: str, name: str, scope: GroupScope) -> None:
        """Every rule fits."""

    def earliest(self, path: str, name: str, request: PlanRequest) -> Position:
        return self.scripts[path].earliest(path, name, request)

    def newest_clean(self, path: str) -> str:
        return ""

    def missing_file(self, path: str, splits: Sequence[Split]) -> str:
        return ""

    def lags(self, path: str, readers: Sequence[ReaderPlace]) -> list[GroupLag]:
        return self.scripts[path].lags(path, readers)


@dataclass
class ManyTables:
    """The service, its tables and consumers of them. A split of a table has 10 rows."""

    lake: Lake
    registry: TableRegistry
    service: EnumeratorService
    reading: FakeReading
    server_address: str | None
    clock: Clock

    def serve(self, *tables: str) -> None:
        """Serves exactly these tables; new ones have one commit of two splits."""
        for table in tables:
            self.lake.scripts.setdefault(f"/lake/{table}", Script())
        self.registry.put_source(CONFIG, (TableEntry(table, f"/lake/{table}") for table in tables))

    def script(self, table: str) -> Script:
        """The table."""
        return self.lake.scripts[f"/lake/{table}"]

    def enumerator(self, token: str | None = None) -> GroupEnumerator:
        """The service, or a client of its server."""
        if self.server_address is None:
            return self.service
        return EnumeratorClient(self.server_address, FAST, access=ServerAccess(token=token or ""))

    def consumer(self, reader_id: str = "r", tables: str = "s.*", token: str | None = None, **options: Any) -> Consumer:
        """A consumer of group g, whose clock is the one of the service."""
        runtime = Runtime(now_ms=self.clock, wait=self._wait, start_heartbeat=lambda beat, first_s: Heartbeat())
        return Consumer(
            tables=tables, group="g", reader_id=reader_id, enumerator=self.enumerator(token), runtime=runtime, **options
        )

    def _wait(self, event: Any, seconds: float) -> object:
        self.clock.now_ms += max(1, round(seconds * 1000))
        return event.is_set()

    def discover(self) -> None:
        """Discovers until nothing is new."""
        while self.service.split_discovery.discover():
            pass


@contextmanager
def many_tables(
    monkeypatch: pytest.MonkeyPatch, *, served: bool, settings: Settings | None = None
) -> Iterator[ManyTables]:
    """Tables s.a, s.b and other, embedded or served."""
    lake, clock, reading = Lake(), Clock(), FakeReading()
    monkeypatch.setattr("penstock.engine.group.split_work.read_split", reading.read)
    registry = TableRegistry({})
    coordinator = Coordinator(clock_ms=clock, settings=CoordinatorSettings(lease_ms=10_000_000))
    service = EnumeratorService(
        registry, reads=lake, follows=lake, clock_ms=clock, coordinator=coordinator, poll_ms=None
    )  # type: ignore[arg-type]
    many = ManyTables(lake, registry, service, reading, None, clock)
    many.serve("s.a", "s.b", "other")
    if not served:
        yield many
        return
    with serve_enumerator(service, "127.0.0.1:0", service, settings=settings) as server:  # type: ignore[arg-type]
        many.server_address = server.address
        yield many
