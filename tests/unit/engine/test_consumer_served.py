"""A consumer of a real table through a real server, with a real heartbeat thread and clock."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.engine.arrow import read
from penstock.engine.consumer import Consumer
from penstock.engine.group.lease import HeartbeatThread, monotonic_ms
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.proto.errors import Fenced
from penstock.proto.model.queries import Incremental, PlanRequest

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.fake_group import FakeClock, FakeGroup

CASE = "A_compaction_then_updates_v9_h120"


class RealTime:
    """The clock of the scripted group, running in real time."""

    @property
    def now(self) -> int:
        return monotonic_ms()


@pytest.fixture
def table(golden: GoldenTables) -> str:
    """A merge-on-read table with base and log files."""
    return str(golden.table(CASE))


@pytest.fixture
def real(group: FakeGroup, table: str) -> FakeGroup:
    """The scripted group, with one round over the whole table."""
    planned = EmbeddedEnumerator().plan(PlanRequest(table=table, query=Incremental()))
    group.rounds, group.scans, group.ends = {"plan-1": planned.splits}, {"plan-1": planned.scan}, True
    group.clock = RealTime()  # type: ignore[assignment]
    return group


def sorted_rows(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = pa.Table.from_batches(batches).to_pylist()
    return sorted(rows, key=repr)


@pytest.mark.golden
def test_all_rows_of_a_table_once(real: FakeGroup, table: str) -> None:
    with (
        serve_enumerator(real, "127.0.0.1:0", real) as server,
        Consumer(server.address, "trips", group="g", reader_id="r", batch_rows=3) as consumer,
    ):
        batches = []
        for consumed in consumer:
            batches.append(consumed.batch)
            consumer.commit()
        assert consumer.ended
    expected = read(table, query="incremental", after="earliest").read_all()
    assert expected.num_rows
    assert sorted_rows(batches) == sorted_rows(expected.to_batches())


@pytest.mark.golden
def test_readers_dropped_after_each_batch_neither_lose_nor_repeat_rows(real: FakeGroup, table: str) -> None:
    """Each reader commits one batch and returns another that is never committed."""
    with serve_enumerator(real, "127.0.0.1:0", real) as server:
        batches = []
        for number in itertools.count():
            assert number < 200
            with Consumer(server.address, "trips", group="g", reader_id="r", batch_rows=2) as consumer:
                first = consumer.poll()
                if first is None:
                    break
                consumer.commit(first)
                batches.append(first.batch)
                consumer.poll(0)
    expected = read(table, query="incremental", after="earliest").read_all()
    assert sorted_rows(batches) == sorted_rows(expected.to_batches())


@pytest.mark.golden
def test_lease_shorter_than_the_work_is_renewed_meanwhile(
    real: FakeGroup, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conftest = sys.modules[type(real).__module__]
    monkeypatch.setattr(conftest, "LEASE_MS", 300)
    with (
        serve_enumerator(real, "127.0.0.1:0", real) as server,
        Consumer(server.address, "trips", group="g", reader_id="r") as consumer,
    ):
        batch = consumer.poll()
        give_up = time.monotonic() + 20
        beats = len(real.calls_of("heartbeat"))
        while len(real.calls_of("heartbeat")) < beats + 5:
            assert time.monotonic() < give_up
            threading.Event().wait(0.01)
        consumer.commit(batch)
        server.stop(0)
        while consumer.lease_left_ms:
            assert time.monotonic() < give_up
            threading.Event().wait(0.01)
        with pytest.raises(Fenced, match="its lease of 300 ms is over"):
            consumer.poll()


def heartbeats() -> list[threading.Thread]:
    """The heartbeat threads that run now."""
    return [thread for thread in threading.enumerate() if thread.name == "penstock-heartbeat"]


def test_heartbeats_end_when_stopped_or_refused() -> None:
    beaten = threading.Event()
    answers: list[float | None] = [0.0, 0.0, None]

    def beat() -> float | None:
        answer = answers.pop(0)
        if not answers:
            beaten.set()
        return answer

    before = set(heartbeats())
    thread = HeartbeatThread(beat, 0.0)
    assert beaten.wait(10)
    thread.stop()
    thread.stop()
    assert set(heartbeats()) <= before
    never = HeartbeatThread(lambda: pytest.fail("a beat"), 3600.0)
    never.stop()
    assert set(heartbeats()) <= before


def test_clock_goes_forward_in_milliseconds(clock: FakeClock) -> None:
    before = monotonic_ms()
    assert 0 <= monotonic_ms() - before < 60_000
    assert abs(before - time.monotonic() * 1000) < 10 * 365 * 86_400_000


@pytest.mark.golden
@pytest.mark.parametrize(("unit", "factor"), [("s", 1_000_000), ("ms", 1_000), ("us", 1)])
def test_reports_of_a_group_hold_the_highest_event_time_of_a_column_of_numbers(
    golden: Any, unit: str, factor: int
) -> None:
    """In the unit of the option eventTimeUnit."""
    service = EnumeratorService({"t": str(golden.table("A_merge_event_long_v9_h120"))}, poll_ms=None)
    reports: list[int | None] = []
    rows: list[int] = []

    class FakeEnumerator:
        def __getattr__(self, name: str) -> Any:
            return getattr(service, name)

        def commit_splits(self, member: Any, done: Any) -> None:
            reports.extend(one.report.max_event_time_us for one in done if one.report is not None)
            service.commit_splits(member, done)

    with Consumer(
        None,
        "t",
        group="g",
        reader_id="r",
        query="incremental",
        event_time="ts",
        event_time_unit=unit,
        enumerator=FakeEnumerator(),
    ) as consumer:
        service.split_discovery.discover()
        while (batch := consumer.poll(0)) is not None:
            rows += batch.batch.column("ts").to_pylist()
            consumer.commit(batch)
    assert rows and max(event_time for event_time in reports if event_time is not None) == max(rows) * factor
