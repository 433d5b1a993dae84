"""The stream reader when the schema of the table or of the stream changes."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.sql import types as st
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxFiles,
    ReadMaxRows,
)

from penstock.engine.spark.load import Loaded
from penstock.engine.spark.stream.reader import PenstockStreamReader
from penstock.engine.stream_offsets import Offset, point_of
from penstock.proto.errors import (
    ConfigurationError,
    SchemaMismatch,
)
from penstock.proto.model.queries import RoundLimits
from penstock.proto.options.registry import EntryPoint, parse_options
from tests.unit.engine.spark.stream.scripted_stream import (
    TIMED,
    Clock,
    Script,
    at,
    avro,
    number,
    offset_for,
    reader,
    scope_of,
    through,
)


class TestSchema:
    """Schema changes while a stream runs."""

    def test_compatible_schema_change_does_not_end_the_stream(self, caplog: pytest.LogCaptureFixture) -> None:
        changed = avro(id="long", more="string")
        stream = reader(Script(schemas={3: changed}), after="earliest")
        assert [number(end) for end in through(stream)] == [3]
        assert caplog.records == []

    def test_widened_column_does_not_end_the_stream_and_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        wide = avro(id="double")
        script = Script(schemas={2: wide, 3: wide})
        with caplog.at_level(logging.WARNING, "penstock.engine.spark"):
            assert len(through(reader(script, after="earliest", maxCommitsPerTrigger="1"))) == 3
        (record,) = caplog.records
        assert "column id was widened from bigint to double" in record.getMessage()

    def test_stream_ends_at_the_last_compatible_commit_and_names_the_reason(self) -> None:
        gone = avro(name="string")
        script = Script(commits=5, schemas={3: gone, 4: gone, 5: gone})
        stream = reader(script, after="earliest")
        start, ends = stream.initialOffset(), []
        with pytest.raises(SchemaMismatch) as error:
            while True:
                start = stream.latestOffset(start, ReadAllAvailable())
                ends.append(number(point_of(start, scope_of(stream))))
        assert ends == [1, 2]
        for text in ("column id is gone", "from commit 20260101000000003 on", "up to 20260101000000002", "checkpoint"):
            assert text in str(error.value)

    def test_restart_with_the_new_schema_continues(self) -> None:
        script = Script(commits=5, schemas=dict.fromkeys((3, 4, 5), avro(name="string")))
        start = offset_for(reader(script), at(2))
        loaded = reader(script, schema=st.StructType([st.StructField("name", st.StringType())]))
        assert number(point_of(loaded.latestOffset(start, ReadAllAvailable()), scope_of(loaded))) == 5

    def test_limits_hold_before_an_incompatible_commit(self) -> None:
        script = Script(commits=5, schemas=dict.fromkeys((3, 4, 5), avro(name="string")))
        stream = reader(script, after="earliest", maxRowsPerTrigger="7")
        stream.latestOffset(stream.initialOffset(), ReadMaxRows(7))
        assert script.scopes[-1].limits == RoundLimits(max_commits=1, max_rows=7)


class TestNewColumns:
    """A column that appears in mid-stream: `onNewColumns`."""

    more = avro(id="long", ts={"type": "long", "logicalType": "timestamp-micros"}, email="string")
    now = st.StructType([*TIMED.fields[:2], st.StructField("email", st.StringType())])
    was = st.StructType(TIMED.fields[:2])

    def script(self) -> Script:
        return Script(commits=5, schemas=dict.fromkeys((3, 4, 5), self.more))

    def test_it_stops_before_the_batch_and_a_new_load_continues_from_the_checkpoint(self) -> None:
        options = {"after": "earliest", "maxCommitsPerTrigger": "1", "onNewColumns": "fail"}
        stream = reader(self.script(), schema=self.was, whole_schema=True, **options)
        offset = stream.initialOffset()
        with pytest.raises(
            SchemaMismatch, match=r"onNewColumns=fail\): email string\. Everything up to 20260101000000002"
        ):
            while True:
                offset = stream.latestOffset(offset, None)
        assert number(point_of(offset, scope_of(stream))) == 2
        again = reader(self.script(), schema=self.now, whole_schema=True, **options)
        assert number(point_of(again.latestOffset(offset, None), scope_of(again))) == 3
        onwards = reader(self.script(), schema=self.was, whole_schema=True, maxCommitsPerTrigger="1")
        assert onwards.latestOffset(offset, None) == again.latestOffset(offset, None)

    def test_it_continues_and_logs_the_column_once(self, caplog: pytest.LogCaptureFixture) -> None:
        for options in ({}, {"onNewColumns": "ignore"}):
            caplog.clear()
            with caplog.at_level(logging.WARNING, "penstock.engine.spark"):
                stream = reader(self.script(), schema=self.was, whole_schema=True, after="earliest", **options)
                through(stream, ReadMaxFiles(1))
            assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
                "table t: column email string is new"
            ]

    def test_schema_of_the_caller_has_no_new_columns(self) -> None:
        with pytest.raises(
            ConfigurationError, match=r"onNewColumns=fail needs the schema of load\(\).*got \.schema\(\)"
        ):
            reader(self.script(), schema=self.was, onNewColumns="fail")


class TestRenamedColumn:
    """A real table: its third instant renamed column b to b2, its sixth dropped c."""

    case = "A_evo_on_read_v9_h120"
    fixed = st.StructType([st.StructField(name, st.StringType()) for name in ("id", "b")])
    before = "20261120214441471"

    def stream(self, golden: Any, schema: st.StructType, **options: str) -> PenstockStreamReader:
        options_parsed = parse_options({"after": "earliest", **options}, entry_point=EntryPoint.STREAM)
        clock = Clock()
        return PenstockStreamReader(
            Loaded(str(golden.table(self.case)), options_parsed), schema, clock=clock, pause=clock.pause
        )

    def rows(self, stream: PenstockStreamReader, start: Offset, end: Offset) -> list[dict[str, Any]]:
        slots = stream.partitions(start, end)
        return [row for slot in slots for batch in stream.read(slot) for row in batch.to_pylist()]

    @pytest.mark.golden
    @pytest.mark.parametrize("options", [{}, {"query": "cdc"}, {"maxCommitsPerTrigger": "1"}], ids=str)
    def test_stream_ends_before_the_renamed_column_and_a_new_load_continues(
        self, golden: Any, options: dict[str, str]
    ) -> None:
        stream = self.stream(golden, self.fixed, **options)
        start, rows = stream.initialOffset(), []
        with pytest.raises(SchemaMismatch) as error:
            while True:
                end = stream.latestOffset(start, stream.getDefaultReadLimit())
                assert end != start
                rows += self.rows(stream, start, end)
                start = end
        for text in (
            "column b is gone",
            f"up to {self.before} was delivered",
            "continues after that from the checkpoint",
        ):
            assert text in str(error.value)
        assert start["order_key"] == self.before
        assert len({row["id"] for row in rows}) == 12
        assert all(row["b"] is not None for row in rows)
        new = st.StructType([st.StructField(name, st.StringType()) for name in ("id", "b2")])
        again = self.stream(golden, new, **options)
        more, at_commit = [], start
        while (end := again.latestOffset(at_commit, again.getDefaultReadLimit())) != at_commit:
            more += self.rows(again, at_commit, end)
            at_commit = end
        assert len(more) >= 5
        assert all(row["b2"] is not None for row in more)
