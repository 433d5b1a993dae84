"""A hybrid stream with Spark's calls but without Spark: a golden table that a Hudi streamer wrote, and its topic."""

from __future__ import annotations

import json
import pathlib
import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as st

import penstock
from penstock.engine.event_time_scan import scan_event_time
from penstock.engine.spark.load import Loaded, loaded
from penstock.engine.spark.planning import schema_of
from penstock.engine.spark.source import PenstockDataSource
from penstock.engine.spark.stream.reader import PenstockStreamReader
from penstock.engine.spark.task.input_partitions import PackedSlot
from penstock.engine.stream_offsets import Offset
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import ConfigurationError, PositionExpired
from penstock.proto.model.hybrid import KafkaAccess
from penstock.proto.options.registry import EntryPoint
from tests.scripted_topic import ScriptedTopic

pytestmark = pytest.mark.golden

CASE = "C_v6_streamer"
GOLDEN = pathlib.Path(__file__).parents[3] / "golden"
SECRET = "pa55-word"
OPTIONS = {"hybrid": "changelog", "kafka.topic": "orders", "kafka.bootstrap.servers": "scripted"}


@pytest.fixture
def table(golden: Any) -> str:
    return str(golden.table(CASE))


@pytest.fixture
def offsets(golden: Any) -> Mapping[int, int]:
    """The offsets of the topic at which the table ends."""
    return {int(number): offset for number, offset in golden.case(CASE)["handover"]["offsets"].items()}


@pytest.fixture
def topic(golden: Any, monkeypatch: pytest.MonkeyPatch) -> ScriptedTopic:
    """The topic for all record readers of this process."""
    scripted = ScriptedTopic.of_golden(GOLDEN, golden.case(CASE))
    monkeypatch.setattr("penstock.kafka.factory.open_records", scripted.open_records)
    return scripted


class Query:
    """A Spark query: offsets in a checkpoint, and a new reader for each run."""

    def __init__(self, table: str, topic: ScriptedTopic, **more: str) -> None:
        self.load = loaded({"path": table} | OPTIONS | more, EntryPoint.STREAM, {})
        self.topic = topic
        self.schema = schema_of(self.load)
        self.checkpoint: list[Offset] = []
        self.batches: list[list[dict[str, Any]]] = []

    def reader(self) -> PenstockStreamReader:
        reads = OpenTables(open_topic=self.topic.open, scan_event_time=scan_event_time)
        return PenstockStreamReader(
            self.load, self.schema, enumerator=EmbeddedEnumerator(reads=reads), pause=lambda seconds: None
        )

    def run(self, *, max_batches: int = 20) -> None:
        """One run with `availableNow`, from the checkpoint to its end."""
        reader = self.reader()
        reader.prepareForTriggerAvailableNow()
        if not self.checkpoint:
            self.checkpoint.append(reader.initialOffset())
        limit = reader.getDefaultReadLimit()
        for _ in range(max_batches):
            start = self.checkpoint[-1]
            end = json.loads(json.dumps(reader.latestOffset(start, limit)))
            if end == start:
                return
            self.checkpoint.append(end)
            self.batches.append(self.batch(reader, start, end))
        raise AssertionError(f"no end within {max_batches} batches")

    def batch(self, reader: PenstockStreamReader, start: Offset, end: Offset) -> list[dict[str, Any]]:
        """The rows of a micro-batch; a copy of the reader reads each slot."""
        rows: list[dict[str, Any]] = []
        for partition in reader.partitions(start, end):
            task = pickle.loads(pickle.dumps(reader))
            batches: list[pa.RecordBatch] = list(task.read(pickle.loads(pickle.dumps(partition))))
            rows += [row for batch in batches for row in batch.to_pylist()]
        return rows

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches for row in batch]


def records_after(topic: ScriptedTopic, offsets: Mapping[int, int]) -> list[tuple[str, Any]]:
    """(id, amount) of the records that the table lacks."""
    late = [item for item in topic.records if item.offset >= offsets[item.partition]]
    values = [json.loads(item.value) for item in late if item.value is not None]
    return sorted((value["id"], value["amount"]) for value in values)


def summary(rows: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return sorted((row["id"], row["amount"]) for row in rows)


def test_changelog_is_the_table_as_inserts_and_then_the_topics_records_by_key(
    table: str, topic: ScriptedTopic, offsets: Mapping[int, int]
) -> None:
    query = Query(table, topic)
    assert query.schema.fieldNames()[-3:] == ["_change_type", "_change_instant", "_change_seq"]
    query.run()
    inserts = [row for row in query.rows if row["_change_type"] == "+I"]
    changes = [row for row in query.rows if row["_change_type"] == "+U"]
    assert summary(inserts) == summary(penstock.read(table).read_all().to_pylist())
    assert summary(changes) == records_after(topic, offsets)
    assert changes and len(inserts) + len(changes) == len(query.rows)
    seqs = [row["_change_seq"] for row in query.rows]
    assert max(row["_change_seq"] for row in inserts) < min(row["_change_seq"] for row in changes)
    assert len(set(seqs)) == len(seqs)


def test_append_is_rows_and_then_the_records_after_them(
    table: str, topic: ScriptedTopic, offsets: Mapping[int, int]
) -> None:
    query = Query(table, topic, hybrid="append")
    assert "_change_type" not in query.schema.fieldNames()
    query.run()
    lake = [row for row in query.rows if row["_hoodie_commit_time"] is not None]
    records = [row for row in query.rows if row["_hoodie_commit_time"] is None]
    assert summary(lake) == summary(penstock.read(table).read_all().to_pylist())
    assert summary(records) == records_after(topic, offsets)


def test_available_now_reads_to_the_end_of_the_topic_and_the_next_run_the_rest(
    table: str, topic: ScriptedTopic
) -> None:
    query = Query(table, topic)
    query.run()
    before = len(query.rows)
    query.run()
    assert len(query.rows) == before
    topic.append(1, "o7", {"id": "o7", "amount": 7, "ts": 99_999})
    topic.append(0, "o7", None)
    query.run()
    new = query.rows[before:]
    assert sorted((row["_change_type"], row["id"], row["amount"]) for row in new) == [
        ("+U", "o7", 7),
        ("-D", "o7", None),
    ]


def test_new_reader_for_every_batch_reads_the_same(table: str, topic: ScriptedTopic) -> None:
    whole, pieces = Query(table, topic), Query(table, topic)
    whole.run()
    reader = pieces.reader()
    pieces.checkpoint.append(reader.initialOffset())
    for _ in range(12):
        reader = pieces.reader()
        start = pieces.checkpoint[-1]
        end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
        if end != start:
            pieces.checkpoint.append(end)
            pieces.batches.append(pieces.batch(pieces.reader(), start, end))
            assert pieces.batch(pieces.reader(), start, end) == pieces.batches[-1]
    assert summary(pieces.rows) == summary(whole.rows)


def test_small_batches_end_at_the_end_of_the_topic(
    table: str, topic: ScriptedTopic, offsets: Mapping[int, int]
) -> None:
    query = Query(table, topic, maxRowsPerTrigger="1")
    query.run(max_batches=60)
    assert summary([row for row in query.rows if row["_change_type"] == "+U"]) == records_after(topic, offsets)


def test_expired_offsets_stop_the_stream_or_are_skipped(
    table: str, topic: ScriptedTopic, offsets: Mapping[int, int]
) -> None:
    query = Query(table, topic)
    query.run()
    for number in topic.ends:
        topic.append(number, "x", {"id": "x", "amount": 1, "ts": 1})
        topic.starts[number] = topic.ends[number]
    with pytest.raises(PositionExpired, match="partition"):
        query.run()
    lenient = Query(table, topic, failOnDataLoss="false")
    lenient.run()
    assert {row["_change_type"] for row in lenient.rows} == {"+I"}


def test_offsets_expired_after_planning_stop_the_stream_or_are_skipped(
    table: str, topic: ScriptedTopic, caplog: pytest.LogCaptureFixture
) -> None:
    """After a restart of any length, the last batch of the checkpoint is read again."""
    query, lenient = Query(table, topic), Query(table, topic, failOnDataLoss="false")
    query.run()
    lenient.run()
    start = query.checkpoint[-1]
    for place in range(5):
        topic.append(0, "x", {"id": f"x{place}", "amount": place, "ts": 1})
    reader = query.reader()
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    topic.starts[0] = topic.ends[0] - 2
    with pytest.raises(PositionExpired, match="retention took it"):
        query.batch(query.reader(), start, end)
    assert summary(lenient.batch(lenient.reader(), start, end)) == [("x3", 3), ("x4", 4)]
    assert "retention took 3 of the offsets below" in caplog.text
    topic.starts[0] = topic.ends[0]
    assert lenient.batch(lenient.reader(), start, end) == []


def test_watermark_continues_after_the_hand_over(table: str, topic: ScriptedTopic) -> None:
    query = Query(table, topic, eventTime="ts", eventTimeUnit="ms", maxOutOfOrderness="0s")
    query.run()
    assert query.schema.fieldNames()[-2:] == ["_penstock_watermark", "_penstock_marker"]
    marks = [row["_penstock_watermark"] for row in query.rows if row["_penstock_watermark"] is not None]
    assert marks == sorted(marks)
    assert marks


def test_columns_and_filters_hold_for_the_topic_too(
    table: str, topic: ScriptedTopic, offsets: Mapping[int, int]
) -> None:
    query = Query(table, topic, columns="amount,id,_change_type", where="amount > 100")
    query.run()
    assert query.schema.fieldNames() == ["amount", "id", "_change_type"]
    changes = [row for row in query.rows if row["_change_type"] == "+U"]
    assert summary(changes) == [batches for batches in records_after(topic, offsets) if batches[1] > 100]


def test_slots_offsets_and_readers_contain_no_secret(table: str, topic: ScriptedTopic) -> None:
    query = Query(table, topic, **{"kafka.sasl.password": SECRET, "deadLetterPath": f"/letters/{SECRET}"})
    query.run()
    reader = query.reader()
    texts = [repr(query.load), repr(reader._reading), json.dumps(query.checkpoint), repr(query.load.options)]
    for start, end in zip(query.checkpoint, query.checkpoint[1:], strict=False):
        for partition in reader.partitions(start, end):
            slot = partition.value
            assert isinstance(slot, PackedSlot)
            texts += [repr(partition), repr(slot), repr(slot.scan), repr(slot.splits)]
    assert SECRET not in "".join(texts)
    assert pickle.loads(pickle.dumps(reader)).reading.access == KafkaAccess(
        client=(("bootstrap.servers", "scripted"), ("sasl.password", SECRET)), dead_letter=f"/letters/{SECRET}"
    )


def test_reference_to_a_secret_is_pickled_unresolved(
    table: str, topic: ScriptedTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    query = Query(table, topic, **{"kafka.sasl.password": "${env:KAFKA_PASSWORD}"})
    query.run()
    assert SECRET.encode() not in pickle.dumps(query.reader())
    assert b"${env:KAFKA_PASSWORD}" in pickle.dumps(query.reader())


class TestLoad:
    """Errors of `load()` before a stream starts."""

    def test_hybrid_options_need_a_stream(self, table: str) -> None:
        source = PenstockDataSource({"path": table} | OPTIONS)
        schema = source.schema()
        assert isinstance(schema["_change_seq"].dataType, st.StringType)
        with pytest.raises(ConfigurationError, match=r"option .* does not apply here \(batch\)"):
            source.reader(schema)

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"upto": "20260101000000"}, "option upto ends a stream in the table"),
            ({"kafka.topic": "a b"}, "option kafka.topic"),
            ({"kafkaValueFormat": "avro"}, "schemaRegistryUrl"),
        ],
    )
    def test_load_refuses_options_that_exclude_each_other(self, table: str, more: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            PenstockDataSource({"path": table} | OPTIONS | more).schema()

    def test_client_settings_without_hybrid_are_refused_by_name(self, table: str) -> None:
        with pytest.raises(ConfigurationError, match=r"kafka\.\* configures the topic of a hybrid read"):
            PenstockDataSource({"path": table, "kafka.sasl.password": SECRET}).schema()

    def test_load_without_hybrid_reads_no_topic(self, table: str) -> None:
        load = Loaded(table, loaded({"path": table}, EntryPoint.STREAM, {}).options)
        assert PenstockStreamReader(load, schema_of(load))._reading.access is None


def test_error_names_the_topic_and_the_topic_of_the_commits(table: str, topic: ScriptedTopic) -> None:
    query = Query(table, topic, **{"kafka.topic": "gone"})
    with pytest.raises(
        ConfigurationError, match=r"offsets of gone \(.*; they hold offsets of orders\).*kafkaStartingOffsets"
    ):
        query.run()
    assert {row["_change_type"] for row in query.rows} == {"+I"}
