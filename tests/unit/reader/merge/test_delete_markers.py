"""The text of values as Java gives it, against what Hudi 1.2.0 took for a delete (runs over each type)."""

from __future__ import annotations

import datetime
import decimal
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.splits import DeleteMarker
from penstock.reader.merge.delete_markers import delete_markers, has_text, java_text, matches_marker
from penstock.table.schema.avro import (
    ArrayType,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    Primitive,
    RecordSchema,
    parse_record_schema,
)

TIMESTAMP = Primitive("long", "timestamp-micros")
DAY = datetime.date(2020, 1, 1)
MOMENT = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "marks", "others"),
    [
        (Primitive("string"), pa.string(), "D", ["D"], ["d", ""]),
        (Primitive("boolean"), pa.bool_(), True, ["true"], ["True", "1", "false"]),
        (Primitive("int"), pa.int32(), -5, ["-5"], ["-05", "+5", "5", "-5.0"]),
        (Primitive("long"), pa.int64(), 2**40, ["1099511627776"], ["1099511627776L"]),
        (Primitive("double"), pa.float64(), 1.5, ["1.5"], ["1.50", "15e-1"]),
        (Primitive("double"), pa.float64(), 1e10, ["1.0E10"], ["10000000000", "1e10"]),
        (Primitive("double"), pa.float64(), 1e-4, ["1.0E-4"], ["0.0001"]),
        (Primitive("double"), pa.float64(), -0.0, ["-0.0"], ["0.0", "0"]),
        (Primitive("double"), pa.float64(), float("nan"), ["NaN"], ["nan"]),
        (Primitive("double"), pa.float64(), float("-inf"), ["-Infinity"], ["Infinity"]),
        (Primitive("float"), pa.float32(), 0.1, ["0.1"], ["0.10000000149011612"]),
        (Decimal(20, 10), pa.decimal128(20, 10), "1.5000000000", ["1.5000000000"], ["1.5"]),
        (Decimal(20, 10), pa.decimal128(20, 10), "1E-10", ["1E-10"], ["0.0000000001"]),
        (Decimal(20, 10), pa.decimal128(20, 10), "0", ["0E-10"], ["0", "0.0000000000"]),
        (Decimal(10, 2), pa.decimal128(10, 2), "0", ["0.00"], ["0", "-0.00"]),
        (Decimal(10, 2), pa.decimal128(10, 2), "-12.34", ["-12.34"], ["12.34"]),
        (Decimal(10, 0), pa.decimal128(10, 0), "7", ["7"], ["7.0"]),
        (Primitive("int", "date"), pa.date32(), DAY, ["18262"], ["2020-01-01"]),
        (TIMESTAMP, pa.timestamp("us", "UTC"), MOMENT, ["1577836800000000"], ["1577836800000", "2020-01-01 00:00:00"]),
        (Primitive("int", "time-millis"), pa.time64("us"), datetime.time(0, 0, 1), ["1000"], ["1000000"]),
        (Primitive("long", "time-micros"), pa.time64("us"), datetime.time(0, 0, 1), ["1000000"], ["1000"]),
        (EnumType(("D", "I")), pa.string(), "D", ["D"], ["I"]),
        (Primitive("bytes"), pa.binary(), b"D", [], ["D", "[B@1"]),
    ],
)
def test_value_is_a_mark_by_its_java_text(
    kind: AvroType, arrow: pa.DataType, value: Any, marks: list[str], others: list[str]
) -> None:
    if pa.types.is_decimal(arrow):
        value = decimal.Decimal(value)
    column = pa.array([None, value], arrow)
    for mark in marks:
        assert matches_marker(column, kind, mark).to_pylist()[1] is True
        assert not matches_marker(column, kind, mark).to_pylist()[0]
    for mark in others:
        assert not matches_marker(column, kind, mark).to_pylist()[1]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_is_its_text(value: float) -> None:
    text = java_text(np.float64(value))
    assert float(text) == value
    assert matches_marker(pa.array([value]), Primitive("double"), text).to_pylist() == [True]


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**9), max_value=10**9))
def test_decimal_has_one_text(value: decimal.Decimal) -> None:
    column = pa.array([value], pa.decimal128(20, 9))
    texts = {f"{value:.9f}", f"{value:f}", str(column[0].as_py()), f"{value:E}"}
    assert sum(matches_marker(column, Decimal(20, 9), text).to_pylist()[0] for text in texts) <= 1


@given(st.text(max_size=20))
def test_any_text_is_a_mark_or_none(mark: str) -> None:
    for kind, column in (
        (Primitive("int"), pa.array([1], pa.int32())),
        (Primitive("double"), pa.array([1.0])),
        (Decimal(10, 2), pa.array([decimal.Decimal("1.00")], pa.decimal128(10, 2))),
        (Primitive("int", "date"), pa.array([DAY])),
    ):
        assert matches_marker(column, kind, mark).to_pylist() == [
            mark
            == {"int": "1", "double": "1.0"}.get(
                kind.kind if isinstance(kind, Primitive) and not kind.logical else "",
                "1.00" if isinstance(kind, Decimal) else "18262",
            )
        ]


def test_nested_values_have_no_text() -> None:
    assert not has_text(ArrayType(Primitive("int")))
    assert has_text(Fixed(3)) and has_text(Decimal(3, 1))


def record_of(**types: Any) -> RecordSchema:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return parse_record_schema(json.dumps({"type": "record", "name": "r", "fields": fields}))


def scan_of(marker: DeleteMarker | None = None) -> Any:
    return SimpleNamespace(table="t", delete_marker=marker)


def test_markers_are_columns_of_their_types() -> None:
    record = record_of(id="string", _hoodie_is_deleted="boolean", _hoodie_operation="string", state="int")
    markers = delete_markers(scan_of(DeleteMarker("state", "7")), record)
    assert markers.columns == ("_hoodie_is_deleted", "_hoodie_operation", "state")
    batch = pa.RecordBatch.from_pydict(
        {
            "_hoodie_is_deleted": [True, False, None, False, False],
            "_hoodie_operation": ["I", "D", "I", "-U", "I"],
            "state": pa.array([0, 0, 7, 0, 0], pa.int32()),
        }
    )
    marked = markers.marked(batch)
    assert marked is not None and marked.tolist() == [True, True, True, True, False]
    assert markers.marked(batch.slice(4)) is None
    others = record_of(id="string", _hoodie_is_deleted="string", _hoodie_operation="int")
    assert delete_markers(scan_of(DeleteMarker("state", "7")), others).columns == ()


def test_nested_marker_is_refused() -> None:
    record = record_of(state={"type": "array", "items": "int"})
    with pytest.raises(ConfigurationError, match=r"table t: column 'state' marks deletes and is .*name a column"):
        delete_markers(scan_of(DeleteMarker("state", "7")), record)
