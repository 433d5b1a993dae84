"""Casts of batches to the exact schema that Spark declared."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from penstock.engine.spark.schema import casting as module
from penstock.engine.spark.schema.casting import casting
from penstock.engine.spark.schema.types import arrow_schema, spark_schema
from penstock.proto.errors import ConfigurationError, InvariantViolation


def _declared(name: str, declared: st.DataType, nullable: bool = True) -> st.StructType:
    return st.StructType([st.StructField(name, declared, nullable)])


def test_columns_that_spark_would_refuse_are_cast() -> None:
    entries = pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.time64("us")))
    source = pa.schema([pa.field("t", pa.time64("us")), pa.field("m", entries), pa.field("n", pa.int64())])
    batch = pa.record_batch(
        [
            pa.array([1_000_001, None], pa.time64("us")),
            pa.array([[("a", 5)], None], entries),
            pa.array([7, 8], pa.int64()),
        ],
        schema=source,
    )
    shape = casting(source, spark_schema(source))
    (out,) = shape.batches(batch)
    assert out.schema == shape.target
    assert out.schema.field("t").type == pa.time64("ns")
    assert out.schema.field("m").type.key_field.name == "key"
    assert out.to_pylist() == [
        {"t": dt.time(0, 0, 1, 1), "m": [("a", dt.time(0, 0, 0, 5))], "n": 7},
        {"t": None, "m": None, "n": 8},
    ]
    assert out.column("n").buffers()[1].address == batch.column("n").buffers()[1].address  # untouched, not copied


def test_columns_match_by_position_and_get_the_declared_name() -> None:
    source = pa.schema([pa.field("id", pa.int64())])
    shape = casting(source, _declared("ID", st.LongType()))
    (out,) = shape.batches(pa.record_batch([pa.array([1])], schema=source))
    assert out.schema.names == ["ID"]


@pytest.mark.parametrize(
    ("table", "declared", "message"),
    [
        (pa.int32(), st.LongType(), "int"),
        (pa.int64(), st.IntegerType(), "bigint"),
        (pa.string(), st.BinaryType(), "string"),
        (pa.timestamp("us", tz="UTC"), st.TimestampNTZType(), "timestamp"),
        (pa.decimal128(10, 2), st.DecimalType(12, 2), r"decimal\(10,2\)"),
        (pa.struct([pa.field("a", pa.int32())]), _declared("A", st.IntegerType()), "struct<a:int>"),
    ],
)
def test_nothing_is_converted_silently(table: pa.DataType, declared: st.DataType, message: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"column c: the table's type is {message}, but the DataFrame's is"):
        casting(pa.schema([pa.field("c", table)]), _declared("c", declared))


def test_another_number_of_columns_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the DataFrame has 2 columns, the plan 1"):
        casting(pa.schema([pa.field("a", pa.int32())]), _declared("a", st.IntegerType()).add("b", st.IntegerType()))


def test_null_in_a_declared_not_null_column() -> None:
    source = pa.schema([pa.field("id", pa.int64())])
    shape = casting(source, _declared("id", st.LongType(), False))
    (out,) = shape.batches(pa.record_batch([pa.array([1])], schema=source))
    assert not out.schema.field("id").nullable
    with pytest.raises(ConfigurationError, match="column id is declared NOT NULL but holds nulls"):
        list(shape.batches(pa.record_batch([pa.array([1, None])], schema=source)))


def test_large_batches_are_cut_and_empty_ones_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 8000)
    source = pa.schema([pa.field("n", pa.int64())])
    shape = casting(source, spark_schema(source))
    batch = pa.record_batch([pa.array(range(10_001), pa.int64())], schema=source)
    pieces = list(shape.batches(batch))
    assert [p.num_rows for p in pieces] == [910] * 10 + [901]
    assert pa.Table.from_batches(pieces)["n"].to_pylist() == list(range(10_001))
    assert list(shape.batches(batch.slice(0, 0))) == []


def test_rows_larger_than_the_bound_go_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 10)
    source = pa.schema([pa.field("s", pa.string())])
    pieces = list(casting(source, spark_schema(source)).batches(pa.record_batch([["x" * 50, "y" * 50]], schema=source)))
    assert [p.num_rows for p in pieces] == [1, 1]


def test_batch_with_another_number_of_columns_is_an_internal_error() -> None:
    source = pa.schema([pa.field("a", pa.int32())])
    shape = casting(source, spark_schema(source))
    assert shape.target == arrow_schema(spark_schema(source))
    with pytest.raises(InvariantViolation, match="2 columns, expected 1"):
        list(shape.batches(pa.record_batch([[1], [2]], names=["a", "b"])))
