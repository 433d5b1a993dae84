"""Changes of a table's schema that end a stream, and changes that do not."""

from __future__ import annotations

import json
import logging

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from penstock.engine.spark.schema.changes import Added, Clash, Gone, Widened, breaking, new_columns, schema_changes
from penstock.engine.spark.schema.monitor import FixedSchema, SchemaMonitor
from penstock.engine.spark.schema.types import spark_schema
from penstock.proto.errors import SchemaMismatch
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import InstantTime, Position

DECIMAL = pa.decimal128(10, 2)
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])


def changes(was: pa.DataType, now: pa.DataType) -> tuple[object, ...]:
    return schema_changes(spark_schema(pa.schema([("c", was)])), pa.schema([("more", pa.string()), ("c", now)]))


def test_added_or_moved_columns_are_no_change() -> None:
    fixed = spark_schema(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    assert schema_changes(fixed, pa.schema([("b", pa.string()), ("new", pa.int32()), ("a", pa.int64())])) == ()


def test_types_with_the_same_spark_type_are_equal() -> None:
    assert changes(pa.time64("us"), pa.time64("us")) == ()
    assert (
        changes(pa.map_(pa.string(), pa.int64()), pa.map_(pa.field("k", pa.string(), nullable=False), pa.int64())) == ()
    )


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (pa.int32(), pa.int64()),
        (pa.int32(), pa.float32()),
        (pa.int64(), pa.float64()),
        (pa.int64(), pa.string()),
        (pa.int32(), DECIMAL),
        (pa.float32(), pa.float64()),
        (pa.float64(), pa.string()),
        (DECIMAL, pa.decimal128(12, 2)),
        (DECIMAL, pa.decimal128(12, 4)),
        (DECIMAL, pa.string()),
        (pa.date32(), pa.string()),
        (pa.string(), pa.date32()),
        (pa.binary(), pa.string()),
        (pa.string(), pa.binary()),
        (STRUCT, pa.struct([("new", pa.int32()), ("b", pa.string()), ("a", pa.int64())])),
    ],
)
def test_promotions_do_not_end_the_stream(was: pa.DataType, now: pa.DataType) -> None:
    (change,) = changes(was, now)
    assert isinstance(change, Widened)
    assert breaking((change,)) == ()


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (pa.int64(), pa.int32()),
        (pa.float64(), pa.float32()),
        (pa.float32(), pa.int64()),
        (pa.string(), pa.int32()),
        (pa.bool_(), pa.string()),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.timestamp("us", "UTC"), pa.int64()),
        (DECIMAL, pa.decimal128(9, 2)),
        (DECIMAL, pa.decimal128(12, 5)),
        (pa.date32(), pa.timestamp("us")),
        (STRUCT, pa.struct([("a", pa.int32())])),
        (STRUCT, pa.struct([("a", pa.bool_()), ("b", pa.string())])),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
    ],
)
def test_other_type_changes_end_the_stream(was: pa.DataType, now: pa.DataType) -> None:
    (change,) = changes(was, now)
    assert isinstance(change, Clash)
    assert breaking((change,)) == (change,)


def test_missing_or_ambiguous_column_ends_the_stream() -> None:
    fixed = spark_schema(pa.schema([("a", pa.int64())]))
    assert schema_changes(fixed, pa.schema([("b", pa.int64())])) == (Gone("a"),)
    assert schema_changes(fixed, pa.schema([("A", pa.int64())])) == (), "letter case does not matter"


def test_change_is_described_in_text() -> None:
    assert str(changes(pa.int32(), pa.int64())[0]) == "column c was widened from int to bigint"
    assert str(changes(pa.int64(), pa.bool_())[0]) == "column c was bigint, and is boolean now"
    assert str(Gone("c")) == "column c is gone (dropped, or renamed)"


def avro(**columns: str) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in columns.items()]})


class TestWatch:
    """The reaction of a stream to each schema of its commits."""

    fixed = st.StructType([st.StructField("id", st.IntegerType()), st.StructField("x", st.FloatType())])

    def test_each_change_is_logged_once_and_counted(self, caplog: pytest.LogCaptureFixture) -> None:
        monitor = SchemaMonitor("t", FixedSchema(columns=self.fixed))
        with caplog.at_level(logging.WARNING, "penstock.engine.spark"):
            for schema in ("", avro(id="int", x="float"), *[avro(id="long", x="float", more="int")] * 3):
                assert monitor.breaking_changes(schema) == ()
            assert monitor.breaking_changes(avro(id="long", x="double")) == ()
        assert [record.getMessage().split(";")[0] for record in caplog.records] == [
            "table t: column id was widened from int to bigint",
            "table t: column x was widened from float to double",
        ]
        assert list(monitor.counts.values()) == [4, 1]

    def test_incompatible_change_names_its_commit_and_the_fix(self) -> None:
        monitor = SchemaMonitor("t", FixedSchema(columns=self.fixed))
        broken = monitor.breaking_changes(avro(id="string"))
        start, end = (Position(InstantTime(digits)) for digits in ("20260101000000", "20260102000000"))
        error = monitor.mismatch(broken, start, end)
        assert isinstance(error, SchemaMismatch)
        for text in ("table t", "from commit 20260102000000 on", "column x is gone", "new load()", "checkpoint"):
            assert text in str(error)
        assert "column id" not in str(error), "an int may become a string"

    def test_columns_of_changes_are_present(self) -> None:
        fixed = st.StructType([*self.fixed.fields, st.StructField("_change_type", st.StringType())])
        assert (
            SchemaMonitor("t", FixedSchema(columns=fixed, changes=ChangeFormat.ROWS)).breaking_changes(
                avro(id="int", x="float")
            )
            == ()
        )
        assert SchemaMonitor("t", FixedSchema(columns=fixed)).breaking_changes(avro(id="int", x="float")) == (
            Gone("_change_type"),
        )

    def test_changes_as_text_hold_any_schema(self) -> None:
        fixed = st.StructType([st.StructField("op", st.StringType())])
        assert (
            SchemaMonitor("t", FixedSchema(columns=fixed, changes=ChangeFormat.HUDI)).breaking_changes(avro(id="int"))
            == ()
        )

    def test_completion_time_is_a_column_only_with_its_option(self) -> None:
        fixed = st.StructType([*self.fixed.fields, st.StructField("_completion_time", st.TimestampType())])
        schema = avro(id="int", x="float")
        with_it = FixedSchema(columns=fixed, completion_time=True, is_whole=True, fails_on_new=True)
        monitor = SchemaMonitor("t", with_it)
        assert monitor.breaking_changes(schema) == ()
        monitor.check_new_columns(schema, START)
        without = SchemaMonitor("t", FixedSchema(columns=fixed))
        assert without.breaking_changes(schema) == (Gone("_completion_time"),)


START = Position(InstantTime("20260101000000"))


class TestNewColumns:
    """Columns and fields that a stream's schema lacks."""

    table = pa.schema(
        [("id", pa.int64()), ("at", pa.struct([("city", pa.string()), ("geo", pa.struct([("x", pa.int32())]))]))]
    )
    more = json.dumps({"type": "record", "name": "r", "fields": [
        {"name": "email", "type": "string"},
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "record", "name": "at", "fields": [
            {"name": "city", "type": "string"},
            {"name": "zip", "type": "int"},
            {"name": "geo", "type": {"type": "record", "name": "geo", "fields": [
                {"name": "x", "type": "int"}, {"name": "y", "type": "double"},
            ]}},
        ]}},
    ]})  # fmt: skip

    def monitor(self, **flags: bool) -> SchemaMonitor:
        return SchemaMonitor("t", FixedSchema(columns=spark_schema(self.table), **flags))

    def test_columns_and_fields_at_every_depth_are_found(self) -> None:
        now = pa.schema(
            [
                ("ID", pa.int64()),
                ("email", pa.string()),
                ("at", pa.struct([("geo", pa.struct([("y", pa.float64()), ("x", pa.int32())])), ("zip", pa.int32())])),
            ]
        )
        fixed = spark_schema(self.table)
        added = (Added("email", "string"), Added("at.geo.y", "double"), Added("at.zip", "int"))
        assert new_columns(fixed, now) == added
        assert new_columns(fixed, self.table) == ()

    def test_stream_stops_and_names_them(self) -> None:
        monitor = self.monitor(is_whole=True, fails_on_new=True)
        monitor.check_new_columns("", START)
        for _ in range(2):
            with pytest.raises(SchemaMismatch) as error:
                monitor.check_new_columns(self.more, START)
            for text in (
                "table t",
                "email string, at.zip int, at.geo.y double",
                f"Everything up to {START}",
                "new load()",
            ):
                assert text in str(error.value)

    def test_stream_continues_and_logs_each_once(self, caplog: pytest.LogCaptureFixture) -> None:
        monitor = self.monitor(is_whole=True)
        with caplog.at_level(logging.WARNING, "penstock.engine.spark"):
            for _ in range(3):
                assert monitor.breaking_changes(self.more) == ()
                monitor.check_new_columns(self.more, START)
        assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
            "table t: column at was widened from struct<city:string,geo:struct<x:int>> to "
            "struct<city:string,zip:int,geo:struct<x:int,y:double>>",
            "table t: column email string is new",
        ]
        assert set(monitor.counts.values()) == {3}

    def test_columns_that_were_not_asked_for_are_not_new(self, caplog: pytest.LogCaptureFixture) -> None:
        self.monitor().check_new_columns(self.more, START)
        assert not caplog.records

    def test_columns_of_changes_are_not_new(self) -> None:
        own = [st.StructField(name, st.StringType()) for name in ("_change_type", "_change_instant", "_change_seq")]
        columns = st.StructType([*spark_schema(self.table).fields, *own])
        fixed = FixedSchema(columns=columns, changes=ChangeFormat.ROWS, is_whole=True, fails_on_new=True)
        same = json.dumps({**json.loads(self.more), "fields": json.loads(self.more)["fields"][1:2]})
        SchemaMonitor("t", fixed).check_new_columns(same, START)
        with pytest.raises(SchemaMismatch, match="email string"):
            SchemaMonitor("t", fixed).check_new_columns(self.more, START)
