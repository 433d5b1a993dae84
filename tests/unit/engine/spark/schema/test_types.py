"""Conversions between the Arrow types of a table, Spark's types, and the Arrow schema that Spark requires."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.engine.spark.schema import types
from penstock.proto.errors import ConfigurationError, UnsupportedFeature

PAIRS = [
    (pa.string(), "string"),
    (pa.binary(), "binary"),
    (pa.bool_(), "boolean"),
    (pa.int32(), "int"),
    (pa.int64(), "bigint"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.date32(), "date"),
    (pa.timestamp("us", tz="UTC"), "timestamp"),
    (pa.timestamp("us"), "timestamp_ntz"),
    (pa.time64("us"), "time(6)"),
    (pa.decimal128(38, 18), "decimal(38,18)"),
    (pa.list_(pa.int32()), "array<int>"),
    (pa.struct([pa.field("a", pa.int64()), pa.field("B", pa.string())]), "struct<a:bigint,B:string>"),
    (pa.map_(pa.string(), pa.list_(pa.time64("us"))), "map<string,array<time(6)>>"),
]


@pytest.mark.parametrize(("arrow", "spark"), PAIRS, ids=[text for _, text in PAIRS])
def test_column_of_each_type(arrow: pa.DataType, spark: str) -> None:
    schema = types.spark_schema(pa.schema([pa.field("c", arrow, nullable=False)]))
    assert schema["c"].dataType.simpleString() == spark
    assert schema["c"].nullable


@pytest.mark.parametrize(("arrow", "spark"), PAIRS, ids=[text for _, text in PAIRS])
def test_arrow_target_is_the_type_that_spark_requires(arrow: pa.DataType, spark: str) -> None:
    """The mapping agrees with PySpark's check, including the entry names of maps."""
    schema = types.spark_schema(pa.schema([pa.field("c", arrow)]))
    demanded = to_arrow_schema(schema, timezone="UTC")
    mapped = types.arrow_schema(schema)
    assert mapped.equals(demanded)
    assert str(mapped.field("c").type) == str(demanded.field("c").type)


def test_order_and_case_of_columns_stay() -> None:
    schema = types.spark_schema(pa.schema([pa.field("b", pa.int32()), pa.field("A", pa.int64())]))
    assert schema.fieldNames() == ["b", "A"]
    assert types.arrow_schema(schema).names == ["b", "A"]


def test_declared_not_null_shows_in_the_target() -> None:
    declared = st.StructType([st.StructField("id", st.LongType(), False)])
    assert not types.arrow_schema(declared).field("id").nullable


@pytest.mark.parametrize(
    "nested",
    [
        st.ArrayType(st.LongType(), containsNull=False),
        st.MapType(st.StringType(), st.LongType(), valueContainsNull=False),
        st.StructType([st.StructField("x", st.LongType(), False)]),
    ],
)
def test_nested_not_null_is_refused(nested: st.DataType) -> None:
    with pytest.raises(ConfigurationError, match=r"column c\.\w+: a nested field cannot be declared NOT NULL"):
        types.arrow_schema(st.StructType([st.StructField("c", nested)]))


@pytest.mark.parametrize("odd", [pa.uint64(), pa.float16(), pa.large_string(), pa.timestamp("ns"), pa.duration("us")])
def test_unsupported_type_is_named(odd: pa.DataType) -> None:
    with pytest.raises(UnsupportedFeature, match=r"column c\.element: the type .* has no Spark type"):
        types.spark_schema(pa.schema([pa.field("c", pa.list_(odd))]))


def test_declared_type_that_no_table_has_is_named() -> None:
    declared = st.StructType([st.StructField("c", st.DayTimeIntervalType())])
    with pytest.raises(ConfigurationError, match=r"column c: the declared type interval day to second"):
        types.arrow_schema(declared)


def test_time_of_day_without_a_time_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "_TIME_TYPE", None)
    with pytest.raises(UnsupportedFeature, match="column c: a time of day needs Spark's TIME type"):
        types.spark_schema(pa.schema([pa.field("c", pa.time64("us"))]))


def test_depth_is_bounded() -> None:
    arrow: pa.DataType = pa.int32()
    for _ in range(70):
        arrow = pa.list_(arrow)
    with pytest.raises(UnsupportedFeature, match="deeper than 64"):
        types.spark_schema(pa.schema([pa.field("c", arrow)]))


def test_numbers_of_small_vectors_are_bytes() -> None:
    spark_type = types.spark_type(pa.list_(pa.int8()), "c")
    assert spark_type.simpleString() == "array<tinyint>" and types.arrow_type(spark_type, "c") == pa.list_(
        pa.field("element", pa.int8())
    )
