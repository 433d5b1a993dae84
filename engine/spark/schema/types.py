"""Maps Arrow types of tables to Spark types, and Spark types to the Arrow types that Spark requires. Pure.

Spark 4.2 and later reject any other Arrow type (SPARK-55583). `casting` converts the batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.types as pat
import pyspark
from pyspark.sql import types as st

from penstock.proto.errors import ConfigurationError, UnsupportedFeature

_MAX_DEPTH: Final = 64

_SIMPLE: Final[tuple[tuple[pa.DataType, st.DataType], ...]] = (
    (pa.string(), st.StringType()),
    (pa.binary(), st.BinaryType()),
    (pa.bool_(), st.BooleanType()),
    (pa.int8(), st.ByteType()),
    (pa.int32(), st.IntegerType()),
    (pa.int64(), st.LongType()),
    (pa.float32(), st.FloatType()),
    (pa.float64(), st.DoubleType()),
    (pa.date32(), st.DateType()),
    (pa.timestamp("us", tz="UTC"), st.TimestampType()),
    (pa.timestamp("us"), st.TimestampNTZType()),
    (pa.null(), st.NullType()),
)

_TIME_TYPE: Final[Callable[[int], st.DataType] | None] = getattr(st, "TimeType", None)
_TIME_DIGITS: Final = 6


def spark_schema(schema: pa.Schema) -> st.StructType:
    """The schema of a DataFrame with these columns, in their order, all nullable.

    UnsupportedFeature for a column whose type has no equivalent in this Spark.
    """
    return st.StructType([st.StructField(f.name, spark_type(f.type, f.name), True) for f in schema])


def spark_type(arrow: pa.DataType, column: str, depth: int = 0) -> st.DataType:
    """The Spark type of a table's Arrow type; `column` is its path, for error texts."""
    _check_depth(column, depth)
    for known, simple in _SIMPLE:
        if arrow == known:
            return simple
    if pat.is_decimal128(arrow):
        return st.DecimalType(arrow.precision, arrow.scale)
    if pat.is_time64(arrow):
        return _time_type(column)
    if pat.is_struct(arrow):
        fields = [arrow.field(i) for i in range(arrow.num_fields)]
        return st.StructType(
            [st.StructField(f.name, spark_type(f.type, f"{column}.{f.name}", depth + 1), True) for f in fields]
        )
    if pat.is_map(arrow):
        key = spark_type(arrow.key_type, f"{column}.key", depth + 1)
        return st.MapType(key, spark_type(arrow.item_type, f"{column}.value", depth + 1), True)
    if pat.is_list(arrow):
        return st.ArrayType(spark_type(arrow.value_type, f"{column}.element", depth + 1), True)
    raise UnsupportedFeature(f"column {column}: the type {arrow} has no Spark type; leave the column out by `columns`")


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """The exact Arrow schema that Spark requires for `schema`: timestamps us and UTC, times in ns, map entries named
    key and value, no large types; nullable but for top-level fields declared NOT NULL.

    ConfigurationError for a declared type that no table column has.
    """
    return pa.schema([pa.field(f.name, arrow_type(f.dataType, f.name), nullable=f.nullable) for f in schema.fields])


def arrow_type(spark: st.DataType, column: str, depth: int = 0) -> pa.DataType:
    """The Arrow type that Spark requires for a Spark type, with nullable nested fields."""
    _check_depth(column, depth)
    for arrow, known in _SIMPLE:
        if type(spark) is type(known):
            return arrow
    if isinstance(spark, st.DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    if type(spark).__name__ == "TimeType":
        return pa.time64("ns")
    if isinstance(spark, st.StructType):
        return pa.struct(
            [
                pa.field(f.name, _nested(f.dataType, f.nullable, f"{column}.{f.name}", depth), nullable=True)
                for f in spark.fields
            ]
        )
    if isinstance(spark, st.MapType):
        key = _nested(spark.keyType, True, f"{column}.key", depth)
        return pa.map_(key, _nested(spark.valueType, spark.valueContainsNull, f"{column}.value", depth))
    if isinstance(spark, st.ArrayType):
        element = _nested(spark.elementType, spark.containsNull, f"{column}.element", depth)
        return pa.list_(pa.field("element", element, nullable=True))
    raise ConfigurationError(
        f"column {column}: the declared type {spark.simpleString()} is not a type of a table's column;"
        " declare the type that a load() without .schema() has"
    )


def _nested(spark: st.DataType, nullable: bool, column: str, depth: int) -> pa.DataType:
    if not nullable:
        raise ConfigurationError(f"column {column}: a nested field cannot be declared NOT NULL; declare it nullable")
    return arrow_type(spark, column, depth + 1)


def _time_type(column: str) -> st.DataType:
    if _TIME_TYPE is None:
        raise UnsupportedFeature(
            f"column {column}: a time of day needs Spark's TIME type, which PySpark {pyspark.__version__} lacks;"
            " use PySpark 4.3, or leave the column out by `columns`"
        )
    return _TIME_TYPE(_TIME_DIGITS)


def _check_depth(column: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise UnsupportedFeature(f"column {column[:200]}: nested deeper than {_MAX_DEPTH} levels")
