"""Fault 30: the wall clocks of the server and of a reader are stepped by an hour, each by itself, forward and back,
between all deliveries and over a restart of the server. No lease ends or grows, and every row of commits that arrive
meanwhile is delivered once."""

from __future__ import annotations

import itertools
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from penstock.engine.group import lease
from penstock.enumerator import clocks
from penstock.enumerator.streams.plan_cache import MISSING_MS
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import StartAfter, StreamScope
from tests.faults.checks import fail
from tests.faults.deliveries import Deliveries
from tests.faults.local_server import LEASE_MS, Clock, DeliveringReader, LocalServer, local_server
from tests.faults.served import CASE
from tests.faults.test_fault_19_stale_listings import newest_log
from tests.memory_store import MemoryStore

pytestmark = pytest.mark.golden
HOUR_MS: Final = 3_600_000
MOST_STEPS = 400
STEPS: Final = ((HOUR_MS, 0), (HOUR_MS, -HOUR_MS), (-HOUR_MS, HOUR_MS), (0, HOUR_MS), (-HOUR_MS, -HOUR_MS), (0, 0))
"""Offsets of the wall clocks of the server and of the reader."""


class SteppedTime:
    """The module `time` with another wall clock. gRPC keeps its own: it compares that with the clock of its C library,
    which a test cannot step."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def time(self) -> float:
        """Seconds since 1970."""
        return time.time() + self.offset_ms / 1000

    def time_ns(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns() + self.offset_ms * 1_000_000

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@dataclass
class WallClocks:
    """The wall clocks of the server's modules, and of those of readers."""

    server: SteppedTime = field(default_factory=SteppedTime)
    reader: SteppedTime = field(default_factory=SteppedTime)

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replaces the module `time` of Penstock's modules."""
        replaced = 0
        for name, module in list(sys.modules.items()):
            if name.startswith("penstock.") and getattr(module, "time", None) is time:
                clock = self.server if name.startswith("penstock.enumerator.") else self.reader
                monkeypatch.setattr(module, "time", clock)
                replaced += 1
        assert replaced >= 4 and clocks.time is self.server and lease.time is self.reader  # type: ignore[attr-defined]


def growing(table: pathlib.Path, apart: pathlib.Path) -> Iterator[None]:
    """Moves the last instants of a table away; each step completes the next one."""
    timeline = table / ".hoodie" / "timeline"
    files = sorted(path for path in timeline.iterdir() if path.is_file() and path.suffix != ".crc")
    instants = sorted({path.name.partition(".")[0].partition("_")[0] for path in files})[-5:]
    apart.mkdir()
    for instant in instants:
        for path in files:
            if path.name.startswith(instant):
                path.rename(apart / path.name)
    yield
    for instant in instants:
        order = {".requested": 0, ".inflight": 1}
        for path in sorted(apart.glob(f"{instant}*"), key=lambda path: order.get(path.suffix, 2)):
            path.rename(timeline / path.name)
        yield


def under_stepped_clocks(
    golden: Any,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    server_clock: Callable[[], int] = clocks.monotonic_ms,
    reader_clock: Callable[[], int] = lease.monotonic_ms,
) -> None:
    """A reader delivers a growing table while both wall clocks are stepped; CheckFailed. The clocks of the leases are
    those of the product, or of a broken server or reader."""
    walls, deliveries, store = WallClocks(), Deliveries(golden), MemoryStore()
    walls.put_in(monkeypatch)
    table = golden.copy(CASE, folder)
    arrivals = growing(table, folder / "apart")
    next(arrivals)
    steps = itertools.cycle(STEPS)
    for first in (True, False):
        with local_server(table, Clock(source=server_clock), store if first else store.reopened()) as server:
            if first:
                server.create_group()
            reader = DeliveringReader(server.address, "r", deliveries, reader_clock)
            for step in range(MOST_STEPS):
                server.discover()
                is_idle = reader.step()
                walls.server.offset_ms, walls.reader.offset_ms = next(steps)
                check_leases(server, reader)
                if is_idle and server.is_finished() and next(arrivals, "all") == "all":
                    break
                if first and step == 10:
                    break
            else:
                pytest.fail(f"not finished after {MOST_STEPS} steps: {len(deliveries.rows)} rows")
    deliveries.check()


def wall_of_server() -> int:
    """Negative control: the wall clock of the server, in milliseconds."""
    return clocks.wall_ms()


def wall_of_reader() -> int:
    """Negative control: the wall clock of the reader, in milliseconds."""
    return int(lease.time.time() * 1000)  # type: ignore[attr-defined]


def check_leases(server: LocalServer, reader: DeliveringReader) -> None:
    """The lease has most of its time left, at the server and at the reader."""
    server.service.coordinator.tick()
    at_server = {one.reader_id: one.lease_left_ms for one in server.service.describe_group("t", "g").readers}
    lefts = {"the server": at_server.get("r", 0), "the reader": reader.consumer.lease_left_ms}
    for where, left_ms in lefts.items():
        if not LEASE_MS / 2 < left_ms <= LEASE_MS:
            fail("lease under a stepped clock", f"at {where}, {left_ms} of {LEASE_MS} ms are left")


def test_fault_30_wall_clocks_stepped_by_an_hour_lose_and_double_no_row(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_stepped_clocks(golden, tmp_path, monkeypatch)


@pytest.mark.parametrize("step_ms", [HOUR_MS, 60_000, -HOUR_MS])
def test_fault_30_stepped_wall_clock_changes_no_wait_for_a_missing_file(
    golden: Any, tmp_path: pathlib.Path, step_ms: int
) -> None:
    table = golden.copy("A_merge_event_long_v9_h120", tmp_path)
    wall, clock = Clock(now_ms=10 * HOUR_MS), Clock()
    reads = OpenTables(wall_ms=wall, clock_ms=clock)
    scope = StreamScope(request=PlanRequest(table="t", query=Incremental()))
    point = reads.start_stream(str(table), "t", scope, StartAfter(EARLIEST))
    newest_log(table).unlink()
    with pytest.raises(StorageError, match="it is waited for"):
        reads.next_batch(str(table), "t", scope, point)
    wall.now_ms += step_ms
    clock.now_ms += MISSING_MS - 1
    with pytest.raises(StorageError, match="it is waited for"):
        reads.next_batch(str(table), "t", scope, point)
    clock.now_ms += 1
    with pytest.raises(CorruptFile, match="is missing"):
        reads.next_batch(str(table), "t", scope, point)
