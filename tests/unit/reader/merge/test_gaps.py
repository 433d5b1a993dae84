"""Defaults of columns as values that Arrow compares: of lists and maps."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.reader.merge.gaps import _default, _nested_default
from penstock.table.schema.avro import ArrayType, AvroType, MapType, Primitive

LONGS = ArrayType(Primitive("long"))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
    ],
)
def test_list_of_numbers_or_booleans_is_a_list_of_their_type(kind: str, expected: pa.DataType) -> None:
    values = [True, False] if kind == "boolean" else [1, 0]
    default = _nested_default(ArrayType(Primitive(kind)), values)
    assert default is not None and default.type == pa.list_(expected) and default.as_py() == values


@pytest.mark.parametrize("kind", [LONGS, ArrayType(Primitive("string")), MapType(Primitive("long"))])
@pytest.mark.parametrize("default", [[], {}])
def test_empty_default_is_a_value_of_every_nested_type(kind: ArrayType | MapType, default: object) -> None:
    empty = _nested_default(kind, default)
    assert empty is not None and empty.is_valid and empty.type == pa.list_(pa.int32()) and empty.as_py() == []


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (ArrayType(Primitive("string")), ["a"]),
        (ArrayType(Primitive("bytes")), ["a"]),
        (ArrayType(Primitive("int", "date")), [1]),
        (ArrayType(LONGS), [[1]]),
        (MapType(Primitive("long")), {"a": 1}),
    ],
)
def test_text_times_and_nested_items_equal_no_default(kind: ArrayType | MapType, default: object) -> None:
    assert _nested_default(kind, default) is None


def test_longest_default_that_is_compared_has_a_thousand_elements() -> None:
    longest = _nested_default(LONGS, [7] * 1000)
    assert longest is not None and len(longest.as_py()) == 1000
    assert _nested_default(LONGS, [7] * 1001) is None


@pytest.mark.parametrize("kind", [LONGS, MapType(Primitive("long"))])
def test_nested_default_is_compared_by_value_only(kind: AvroType) -> None:
    assert _default(kind, [], by_identity=False) == pa.scalar([], pa.list_(pa.int32()))
    assert _default(kind, [], by_identity=True) is None
