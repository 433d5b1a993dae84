"""Columns without nulls are required in files, unless the file that is replaced has them optional."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema, parse_record_schema
from penstock.writer.files.required_columns import file_schema, with_schema

STRICT: list[dict[str, object]] = [
    {"name": "id", "type": "string"},
    {"name": "note", "type": ["null", "string"]},
    {
        "name": "spot",
        "type": [
            "null",
            {
                "type": "record",
                "name": "spot",
                "fields": [
                    {"name": "x", "type": "int"},
                    {"name": "ys", "type": {"type": "array", "items": "long"}},
                    {"name": "z", "type": ["null", "string"]},
                    {"name": "m", "type": {"type": "map", "values": "long"}},
                ],
            },
        ],
    },
]
ROWS = [
    {"id": "a", "note": None, "spot": None},
    {"id": "b", "note": "n", "spot": {"x": 1, "ys": [1, 2], "z": None, "m": [("k", 1)]}},
    {"id": "c", "note": None, "spot": {"x": 2, "ys": [], "z": "z", "m": []}},
]


def record(fields: list[dict[str, object]]) -> RecordSchema:
    return parse_record_schema(json.dumps({"type": "record", "name": "r", "fields": fields}))


def test_file_has_required_columns_at_each_depth() -> None:
    strict = record(STRICT)
    rows = pa.RecordBatch.from_pylist(ROWS, arrow_schema(strict))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([with_schema(rows, file_schema(strict))]), sink, store_schema=False)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    columns = [file.schema.column(place) for place in range(len(file.schema))]
    assert {column.path: column.max_definition_level for column in columns} == {
        "id": 0,
        "note": 1,
        "spot.x": 1,
        "spot.ys.list.element": 2,
        "spot.z": 2,
        "spot.m.key_value.key": 2,
        "spot.m.key_value.value": 2,
    }
    assert file.read().to_pylist() == ROWS


def hidden_nulls(kind: pa.DataType, value: object, number: int) -> pa.Array:
    """The value `number` times, then as many nulls, whose fields are null at each depth, then the value again."""
    shown = pa.array([value] * number, kind)
    return pa.concat_arrays([shown, pa.nulls(number, kind), shown])


SPOT = pa.struct(
    [
        pa.field("x", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("ys", pa.list_(pa.int64()), nullable=False),
        pa.field("in", pa.struct([pa.field("y", pa.bool_(), nullable=False)]), nullable=False),
        pa.field("m", pa.map_(pa.string(), pa.int64()), nullable=False),
    ]
)
IN_SPOT = {"x": 1, "name": "n", "ys": [1], "in": {"y": True}, "m": [("k", 1)]}


@pytest.mark.parametrize("number", [1, 9])
@pytest.mark.parametrize("cut", [0, 1])
def test_null_structs_with_required_fields_are_written(number: int, cut: int) -> None:
    """Also if the fields of a null struct are null themselves, as PyArrow reads and makes them."""
    spots = hidden_nulls(SPOT, IN_SPOT, number)
    offsets = pa.array([*range(len(spots)), len(spots)], pa.int32())
    keys = pa.array([f"k{n}" for n in range(len(spots))])
    columns = {
        "spot": spots,
        "spots": pa.ListArray.from_arrays(offsets, spots),
        "by_key": pa.MapArray.from_arrays(offsets, keys, spots),
        "within": pa.StructArray.from_arrays([spots], fields=[pa.field("spot", SPOT)]),
    }
    rows = pa.RecordBatch.from_pydict(columns).slice(cut)
    written = with_schema(rows, rows.schema)
    written.validate(full=True)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([written]), sink)
    assert pq.read_table(pa.BufferReader(sink.getvalue())).to_pylist() == rows.to_pylist() == written.to_pylist()


def test_field_of_a_struct_in_a_null_struct_is_written() -> None:
    inner = pa.struct([pa.field("y", pa.int32(), nullable=False)])
    fields = [pa.StructArray.from_arrays([pa.array([1, None], pa.int32())], fields=list(inner))]
    mask = pa.array([False, True])
    spots = pa.StructArray.from_arrays(fields, fields=[pa.field("in", inner, nullable=False)], mask=mask)
    rows = pa.RecordBatch.from_pydict({"spot": spots})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([with_schema(rows, rows.schema)]), sink)
    assert pq.read_table(pa.BufferReader(sink.getvalue())).to_pylist() == [{"spot": {"in": {"y": 1}}}, {"spot": None}]


@pytest.mark.parametrize("spots", [[{"x": None}, None], [None, {"x": None}, {"x": 1}]])
def test_null_in_required_field_of_a_struct_is_refused(spots: list[object]) -> None:
    loose, strict = pa.struct([("x", pa.int32())]), pa.struct([pa.field("x", pa.int32(), nullable=False)])
    rows = with_schema(pa.RecordBatch.from_pydict({"spot": pa.array(spots, loose)}), pa.schema([("spot", strict)]))
    assert rows.to_pylist() == [{"spot": spot} for spot in spots]
    with pytest.raises(pa.ArrowException, match="non-nullable"):
        pq.write_table(pa.Table.from_batches([rows]), pa.BufferOutputStream())


def test_columns_that_replaced_file_has_optional_stay_optional() -> None:
    strict, loose = file_schema(record(STRICT)), arrow_schema(record(STRICT))
    assert strict != loose
    assert file_schema(record(STRICT), strict) == strict
    assert file_schema(record(STRICT), loose) == loose
    assert file_schema(record(STRICT), pa.schema([])) == loose
    spot = strict.field("spot").type
    part = pa.struct([spot.field("x"), pa.field("ys", pa.list_(pa.field("array", pa.int64(), nullable=False)))])
    found = file_schema(record(STRICT), pa.schema([loose.field("id"), ("spot", part)])).field("spot").type
    assert not found.field("x").nullable and found.field("ys").nullable and found.field("m").nullable
    assert not found.field("ys").type.value_field.nullable


def test_null_in_required_column_is_refused() -> None:
    rows = pa.RecordBatch.from_pydict({"n": [1, 2]})
    assert with_schema(rows, rows.schema).equals(rows)
    required = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    assert with_schema(rows, required).schema == required
    with pytest.raises(pa.ArrowException):
        pq.write_table(
            pa.Table.from_batches([with_schema(pa.RecordBatch.from_pydict({"n": [1, None]}), required)]),
            pa.BufferOutputStream(),
        )
