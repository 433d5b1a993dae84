"""Changes of a table's schema that end a stream, and changes that do not."""

from __future__ import annotations

import json
import logging

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from penstock.engine.spark.schema.changes import Clash, Gone, Widened, breaking, schema_changes
from penstock.engine.spark.schema.monitor import SchemaMonitor
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
        monitor = SchemaMonitor("t", self.fixed, None)
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
        monitor = SchemaMonitor("t", self.fixed, None)
        broken = monitor.breaking_changes(avro(id="string"))
        start, end = (Position(InstantTime(digits)) for digits in ("20260101000000", "20260102000000"))
        error = monitor.mismatch(broken, start, end)
        assert isinstance(error, SchemaMismatch)
        for text in ("table t", "from commit 20260102000000 on", "column x is gone", "new load()", "checkpoint"):
            assert text in str(error)
        assert "column id" not in str(error), "an int may become a string"

    def test_columns_of_changes_are_present(self) -> None:
        fixed = st.StructType([*self.fixed.fields, st.StructField("_change_type", st.StringType())])
        assert SchemaMonitor("t", fixed, ChangeFormat.ROWS).breaking_changes(avro(id="int", x="float")) == ()
        assert SchemaMonitor("t", fixed, None).breaking_changes(avro(id="int", x="float")) == (Gone("_change_type"),)

    def test_changes_as_text_hold_any_schema(self) -> None:
        fixed = st.StructType([st.StructField("op", st.StringType())])
        assert SchemaMonitor("t", fixed, ChangeFormat.HUDI).breaking_changes(avro(id="int")) == ()
