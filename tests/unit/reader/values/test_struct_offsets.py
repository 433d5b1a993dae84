"""Structs of structs without offsets: the values stay, and what has no such struct or no offset is not copied."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.reader.values.struct_offsets import without_struct_offsets

POINT = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
NESTED = pa.struct([("n", pa.int64()), ("point", POINT)])
ROW = {"n": 1, "point": {"x": 2, "tags": ["a"]}}
OTHER = {"n": None, "point": {"x": None, "tags": None}}


def batch(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array, pa.array(range(len(array)))], names=["v", "n"])


def inside(array: pa.Array) -> pa.ListArray:
    """A list for each value: an offset that the list itself does not have."""
    return pa.ListArray.from_arrays(list(range(len(array) + 1)), array)


SLICES = {
    "struct": pa.array([None, ROW, OTHER, None], NESTED).slice(1, 2),
    "list": pa.array([None, [ROW, None], [], [OTHER]], pa.list_(NESTED)).slice(1, 2),
    "map": pa.array([None, [("a", {"x": 1, "tags": []})], [("b", None)]], pa.map_(pa.string(), POINT)).slice(1, 2),
    "inside a list": inside(pa.array([None, ROW, OTHER], NESTED).slice(1, 2)),
    "list of a fixed size": pa.array([None, [ROW], [OTHER]], pa.list_(NESTED, 1)).slice(1, 2),
}


def offsets(array: pa.Array) -> list[int]:
    """Of the array and all that is in it."""
    if pa.types.is_struct(array.type):
        children = [array.field(place) for place in range(array.type.num_fields)]
    else:
        children = [array.values] if array.type.num_fields else []
    return [array.offset, *(offset for child in children for offset in offsets(child))]


@pytest.mark.parametrize("name", SLICES)
def test_slices_are_copied(name: str) -> None:
    given = batch(SLICES[name])
    assert any(offsets(given.column("v")))
    result = without_struct_offsets(given)
    assert result.equals(given) and result.schema == given.schema
    assert not any(offsets(result.column("v")))
    result.validate(full=True)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([ROW, OTHER], NESTED),
        pa.array([ROW, OTHER], NESTED).slice(0, 1),
        pa.array([None, {"x": 1}], POINT).slice(1),
        pa.array([None, [{"x": 1}]], pa.list_(POINT)).slice(1),
        pa.array(["a", "b"]).slice(1),
    ],
    ids=["no offset", "first rows", "struct", "list", "text"],
)
def test_other_columns_are_not_copied(array: pa.Array) -> None:
    result = without_struct_offsets(batch(array)).column("v")
    assert result.equals(array)
    assert [one.address for one in buffers(result)] == [one.address for one in buffers(array)]


def buffers(array: pa.Array) -> list[pa.Buffer]:
    return [buffer for buffer in array.buffers() if buffer is not None]
