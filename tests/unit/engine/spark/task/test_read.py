"""Tasks that read their slots of a golden table, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import types as st
from pyspark.sql.datasource import InputPartition

from penstock.engine.spark import batch_reader
from penstock.engine.spark.load import Loaded, resolved
from penstock.engine.spark.planning import plan_slots, schema_of
from penstock.engine.spark.task import read, worker_cache
from penstock.engine.spark.task.input_partitions import MarkerSlot, PackedSlot, PulledSlot, Slot, SlotReading
from penstock.engine.spark.task.read import read_partition
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.errors import (
    ConfigurationError,
    InvariantViolation,
    Overloaded,
    PenstockError,
    PermissionDenied,
    SchemaMismatch,
    ServerUnavailable,
    StorageError,
    UnknownPlan,
    code_and_text,
)
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.streams import Watermark
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry
from penstock.reader.read_split import read_split

pytestmark = pytest.mark.golden

CASE = "A_fuzz_event_long_s1_v9_h120"
SERVER = "127.0.0.1:1"


@pytest.fixture
def table(golden: Any) -> str:
    return str(golden.table(CASE))


@pytest.fixture
def schema(table: str) -> st.StructType:
    return schema_of(Loaded(table, ParsedOptions()))


@pytest.fixture
def enumerator(monkeypatch: pytest.MonkeyPatch) -> EmbeddedEnumerator:
    """Replaces the server for every task."""
    embedded = EmbeddedEnumerator()
    monkeypatch.setattr(read, "enumerator_for", lambda *arguments: embedded)
    monkeypatch.setattr(worker_cache, "_scans", worker_cache.LastUsed(2))
    return embedded


def request(table: str, slots: int) -> PlanRequest:
    return PlanRequest(table=table, query=Snapshot(), slots=slots)


def reading(schema: st.StructType, limit: int | None = None, batch_rows: int = 1000) -> SlotReading:
    return SlotReading(schema, limit, batch_rows, "")


def rows(batches: list[pa.RecordBatch]) -> list[Any]:
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("partition", [None, InputPartition(None)])
def test_slot_of_an_empty_plan_is_empty(partition: InputPartition | None, schema: st.StructType) -> None:
    assert list(read_partition(partition, reading(schema))) == []


def test_slot_of_another_type_is_an_internal_error(schema: st.StructType) -> None:
    with pytest.raises(InvariantViolation, match="holds a str, expected a slot"):
        list(read_partition(InputPartition("slot"), reading(schema)))


@pytest.mark.parametrize("server", [None, SERVER])
@pytest.mark.parametrize("slots", [1, 2, 9])
def test_all_slots_together_are_the_table(
    table: str, schema: st.StructType, enumerator: EmbeddedEnumerator, golden: Any, server: str | None, slots: int
) -> None:
    planned = plan_slots(enumerator, server, request(table, slots), schema)
    assert all(isinstance(slot, PackedSlot if server is None else PulledSlot) for slot in planned)
    assert 1 <= len(planned) <= slots
    batches = [batch for slot in planned for batch in read_partition(InputPartition(slot), reading(schema))]
    assert rows(batches) == sorted(tuple(row.values()) for row in golden.expected(CASE, "snapshot").to_pylist())


def test_second_attempt_reads_the_same_rows_and_replaces_the_report(
    table: str, schema: st.StructType, enumerator: EmbeddedEnumerator
) -> None:
    slots = plan_slots(enumerator, SERVER, request(table, 2), schema)
    assert isinstance(slots[0], PulledSlot)
    attempt = read_partition(InputPartition(slots[0]), reading(schema, batch_rows=1))
    next(attempt)
    attempt.close()  # type: ignore[attr-defined]
    assert enumerator.reports(slots[0].plan_id) == {}, "a split that was not read to its end is not reported"
    first, second = (list(read_partition(InputPartition(slots[0]), reading(schema))) for _ in range(2))
    assert rows(first) == rows(second)
    assert enumerator.totals(slots[0].plan_id).rows == len(rows(first))


@pytest.mark.parametrize(("limit", "batch_rows"), [(0, 1000), (3, 1000), (3, 2), (10_000, 7)])
def test_limit_stops_each_split_and_its_report(
    table: str, schema: st.StructType, enumerator: EmbeddedEnumerator, limit: int, batch_rows: int
) -> None:
    everything = plan_slots(enumerator, SERVER, request(table, 1), schema)[0]
    assert isinstance(everything, PulledSlot)
    list(read_partition(InputPartition(everything), reading(schema)))
    of_each_split = [report.rows for report in enumerator.reports(everything.plan_id).values()]
    limited = plan_slots(enumerator, SERVER, request(table, 1), schema)[0]
    assert isinstance(limited, PulledSlot)
    result = rows(list(read_partition(InputPartition(limited), reading(schema, limit, batch_rows))))
    expected = [min(count, limit) for count in of_each_split]
    assert len(result) == sum(expected)
    assert [report.rows for report in enumerator.reports(limited.plan_id).values()] == expected


def test_expired_plan_is_an_error(schema: st.StructType, enumerator: EmbeddedEnumerator) -> None:
    with pytest.raises(UnknownPlan):
        list(read_partition(InputPartition(PulledSlot(SERVER, "gone", 0)), reading(schema)))


class UnreachableServer:
    """Replaces a server: the named calls fail with `error` until `until_ms` of the clock, which advances in waits."""

    def __init__(self, real: EmbeddedEnumerator, error: PenstockError, until_ms: float, calls: set[str]) -> None:
        self.real, self.error, self.until_ms, self.calls = real, error, until_ms, calls
        self.now_ms = 0.0
        self.failed = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.real, name)

        def counted(*arguments: Any) -> Any:
            if name in self.calls and self.now_ms < self.until_ms:
                self.failed += 1
                raise self.error
            return call(*arguments)

        return counted

    def wait(self, seconds: float) -> None:
        self.now_ms += seconds * 1000


CALLS = {"describe_plan", "next_split", "finish_split"}
FOR_EVER = float("inf")


@pytest.fixture
def away(enumerator: EmbeddedEnumerator, monkeypatch: pytest.MonkeyPatch) -> Callable[..., UnreachableServer]:
    """Replaces the server of all tasks with one that does not respond."""

    def unreachable(error: PenstockError, until_ms: float, calls: set[str] = CALLS) -> UnreachableServer:
        server = UnreachableServer(enumerator, error, until_ms, calls)
        monkeypatch.setattr(read, "enumerator_for", lambda *arguments: server)
        timed = partial(Retry, now_ms=lambda: server.now_ms, wait=server.wait)
        monkeypatch.setattr(read, "Retry", timed)
        return server

    return unreachable


def all_rows(slots: list[Slot], slot_reading: SlotReading) -> list[Any]:
    return rows([batch for slot in slots for batch in read_partition(InputPartition(slot), slot_reading)])


@pytest.mark.parametrize("call", sorted(CALLS))
@pytest.mark.parametrize("error", [ServerUnavailable("away"), Overloaded("busy"), StorageError("its state is read")])
def test_task_retries_while_a_server_restarts(
    table: str,
    schema: st.StructType,
    enumerator: EmbeddedEnumerator,
    golden: Any,
    away: Callable[..., UnreachableServer],
    call: str,
    error: PenstockError,
) -> None:
    slots = plan_slots(enumerator, SERVER, request(table, 2), schema)
    server = away(error, 9_000, {call})
    assert all_rows(slots, reading(schema)) == sorted(
        tuple(row.values()) for row in golden.expected(CASE, "snapshot").to_pylist()
    )
    assert server.failed > 3
    assert enumerator.totals(slots[0].plan_id).rows == 41  # type: ignore[union-attr]


def test_task_retries_as_long_as_the_driver(
    table: str, schema: st.StructType, enumerator: EmbeddedEnumerator, away: Callable[..., UnreachableServer]
) -> None:
    slots = plan_slots(enumerator, SERVER, request(table, 1), schema)
    options = ParsedOptions(retry_timeout_us=120_000_000)
    for options_case, waited_ms in ((ParsedOptions(), 60_000), (options, 120_000)):
        server = away(ServerUnavailable("away"), FOR_EVER)
        with pytest.raises(ServerUnavailable, match="away"):
            all_rows(slots, resolved(Loaded(table, options_case), schema)[1])
        assert server.now_ms == pytest.approx(waited_ms)


@pytest.mark.parametrize(
    "error",
    [ServerUnavailable("away"), UnknownPlan("idled out"), PermissionDenied("not you"), InvariantViolation("a bug")],
)
def test_undelivered_report_fails_no_task(
    table: str,
    schema: st.StructType,
    enumerator: EmbeddedEnumerator,
    away: Callable[..., UnreachableServer],
    error: PenstockError | InvariantViolation,
    caplog: pytest.LogCaptureFixture,
) -> None:
    slots = plan_slots(enumerator, SERVER, request(table, 1), schema)
    server = away(error, FOR_EVER, {"finish_split"})
    assert len(all_rows(slots, reading(schema))) == 41
    assert server.failed
    assert "report not delivered" in caplog.text and f"code={code_and_text(error)[0]}" in caplog.text


@pytest.mark.parametrize("error", [UnknownPlan("gone"), PermissionDenied("not you"), ConfigurationError("bad")])
def test_task_fails_at_once_on_permanent_errors(
    table: str,
    schema: st.StructType,
    enumerator: EmbeddedEnumerator,
    away: Callable[..., UnreachableServer],
    error: PenstockError,
) -> None:
    slots = plan_slots(enumerator, SERVER, request(table, 1), schema)
    server = away(error, FOR_EVER)
    with pytest.raises(type(error)):
        all_rows(slots, reading(schema))
    assert (server.now_ms, server.failed) == (0, 1)


@pytest.mark.parametrize("server", [None, SERVER])
@pytest.mark.parametrize("limit", [None, 3])
def test_storage_error_within_a_split_resumes_after_the_last_batch(
    table: str,
    schema: st.StructType,
    enumerator: EmbeddedEnumerator,
    away: Callable[..., UnreachableServer],
    monkeypatch: pytest.MonkeyPatch,
    server: str | None,
    limit: int | None,
) -> None:
    """Each read fails after its first batch."""
    slots = plan_slots(enumerator, server, request(table, 1), schema)
    away(StorageError("-"), 0)
    slot_reading = reading(schema, limit, batch_rows=2)
    expected = all_rows(slots, slot_reading)
    starts: list[int] = []

    def broken(scan: Any, split: Any, *, start: int, **more: Any) -> Iterator[Any]:
        starts.append(start)
        with closing(read_split(scan, split, start=start, **more)) as batches:
            for number, batch in enumerate(batches):
                if number == 1:
                    raise StorageError("reset")
                yield batch

    monkeypatch.setattr(read, "read_split", broken)
    assert all_rows(slots, slot_reading) == expected
    assert max(starts) > 0


def test_unsupported_type_is_refused_before_a_task_runs(table: str, enumerator: EmbeddedEnumerator) -> None:
    wrong = st.StructType([st.StructField("ts", st.StringType())])
    request = PlanRequest(table=table, query=Snapshot(), columns=("ts",))
    for server in (None, SERVER):
        with pytest.raises(ConfigurationError, match="column ts: the table's type is bigint"):
            plan_slots(enumerator, server, request, wrong)


def test_driver_and_tasks_connect_to_a_secured_server(
    table: str, schema: st.StructType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options contain only paths; each process reads the files itself."""
    enumerator, calls = EmbeddedEnumerator(), []

    def enumerator_for(*where: object) -> EmbeddedEnumerator:
        calls.append(where)
        return enumerator

    for module in (read, batch_reader):
        monkeypatch.setattr(module, "enumerator_for", enumerator_for)
    access = ServerAccess(ca="ca.pem", cert="c.pem", key="k.pem", token="env:TOKEN")
    options = ParsedOptions(
        server=SERVER, server_ca="ca.pem", server_cert="c.pem", server_key="k.pem", server_token="env:TOKEN"
    )
    reader = batch_reader.PenstockBatchReader(Loaded(table, options), schema)
    slots = [pickle.loads(pickle.dumps(partition)) for partition in reader.partitions()]
    for slot in slots:
        list(reader.read(slot))
    assert len(calls) == 1 + len(slots)
    assert set(calls) == {(SERVER, access)}
    assert "ca.pem" not in repr(slots[0].value)


EVENT_CASE = "A_merge_event_timestamp_v9_h120"


@pytest.fixture
def timed(golden: Any) -> Loaded:
    """A load of a table with a timestamp column and the option eventTime."""
    return Loaded(str(golden.table(EVENT_CASE)), ParsedOptions(event_time="ts"))


@pytest.mark.parametrize("server", [None, SERVER])
@pytest.mark.parametrize("watermark_us", [None, 1_700_000_000_000_000])
def test_every_row_of_a_slot_carries_its_watermark(
    timed: Loaded, enumerator: EmbeddedEnumerator, golden: Any, server: str | None, watermark_us: int | None
) -> None:
    load, slot_reading = resolved(timed, schema_of(timed))
    plan = PlanRequest(table=load.table, query=Snapshot(), columns=load.options.columns, slots=2)
    planned = plan_slots(enumerator, server, plan, slot_reading.schema, watermark_us=watermark_us)
    slots = [InputPartition(pickle.loads(pickle.dumps(slot))) for slot in planned]
    result = pa.Table.from_batches([batch for slot in slots for batch in read_partition(slot, slot_reading)])
    assert result.num_rows == golden.expected(EVENT_CASE, "snapshot").num_rows > 0
    assert set(result["_penstock_watermark"].cast(pa.int64()).to_pylist()) == {watermark_us}
    assert set(result["_penstock_marker"].to_pylist()) == {False}
    plain = resolved(Loaded(load.table, ParsedOptions()), slot_reading.schema)[1]
    rows_alone = pa.Table.from_batches([batch for slot in slots for batch in read_partition(slot, plain)])
    assert result.drop_columns(["_penstock_watermark", "_penstock_marker"]).equals(rows_alone)
    if server is not None:
        assert enumerator.totals(planned[0].plan_id).rows == result.num_rows  # type: ignore[union-attr]


def test_marker_is_one_row_and_only_where_its_columns_are(timed: Loaded) -> None:
    _, slot_reading = resolved(timed, schema_of(timed))
    slot = InputPartition(MarkerSlot(Watermark(7, 9)))
    (batch,) = read_partition(slot, slot_reading)
    assert (batch.num_rows, batch["_penstock_marker"].to_pylist()) == (1, [True])
    with pytest.raises(InvariantViolation, match="MarkerSlot"):
        list(read_partition(slot, reading(slot_reading.schema)))


@pytest.mark.parametrize("server", [None, SERVER])
def test_widened_columns_are_narrowed_only_in_streams(
    enumerator: EmbeddedEnumerator, golden: Any, server: str | None
) -> None:
    """A stream loaded before a..e became bigint, double and string continues as long as values fit."""
    case = "A_evo_widen_v9_h120"
    was = [("a", st.IntegerType()), ("c", st.FloatType()), ("d", st.LongType()), ("ts", st.LongType())]
    narrow = st.StructType([st.StructField(name, kind) for name, kind in was])
    request = PlanRequest(table=str(golden.table(case)), query=Snapshot(), columns=tuple(narrow.fieldNames()))
    expected = golden.expected(case, "snapshot").select(narrow.fieldNames())
    assert [str(kind) for kind in expected.schema.types] == ["int64", "double", "double", "int64"]
    slots = plan_slots(enumerator, server, request, narrow, narrows=True)
    streams = SlotReading(narrow, None, 1000, "", narrows=True)
    with pytest.raises(SchemaMismatch, match=r"column a: it was widened to int64 .* as int32"):
        [list(read_partition(InputPartition(slot), streams)) for slot in slots]
    wider = st.StructType([st.StructField("a", st.LongType()), *narrow.fields[1:]])
    request = replace(request, where="d <> 0.5")
    fitting = expected.filter(pc.not_equal(expected["d"], 0.5))
    fitting = fitting.cast(pa.schema([("a", "int64"), ("c", "float32"), ("d", "int64"), ("ts", "int64")]))
    assert 0 < fitting.num_rows < expected.num_rows
    slots = plan_slots(enumerator, server, request, wider, narrows=True)
    streams = SlotReading(wider, None, 1000, "", narrows=True)
    result = rows([batch for slot in slots for batch in read_partition(InputPartition(slot), streams)])
    assert result == sorted(tuple(row.values()) for row in fitting.to_pylist())
    with pytest.raises(ConfigurationError, match="column c"):
        plan_slots(enumerator, server, request, wider)
