"""The columns of a write: those of the table, added and widened ones, casts without loss, and refused ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from penstock.proto.errors import SchemaMismatch
from penstock.table.schema.avro import META_COLUMNS, RecordSchema, parse_record_schema
from penstock.table.schema.avro_text import avro_schema_json
from penstock.writer.rows.write_schema import WriteSchema, check_required, write_schema

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32()), ("ts", pa.timestamp("us", "UTC")), ("must", pa.int64())])
FIELDS = json.loads(avro_schema_json(COLUMNS, "t", meta_columns=True))["fields"]


def current(fields: Sequence[Mapping[str, Any]] = (*FIELDS[:-1], {"name": "must", "type": "long"})) -> RecordSchema:
    """The schema of a table of Hudi, with required columns; those of Penstock have none."""
    return parse_record_schema(json.dumps({"type": "record", "name": "t_record", "fields": fields}))


def schema_of(fields: dict[str, pa.DataType]) -> WriteSchema:
    return write_schema(current(), pa.schema(list(fields.items())), "t", "table t")


def test_first_write_records_the_columns_of_the_data() -> None:
    schema = write_schema(
        None, pa.schema([("a", pa.large_string()), ("_hoodie_record_key", pa.string())]), "t", "table t"
    )
    assert schema.columns == pa.schema([("a", pa.string())]) and schema.evolves
    assert [field.name for field in schema.stored.fields] == [*META_COLUMNS, "a"]
    assert [field.name for field in schema.recorded.fields] == ["a"]


def test_equal_columns_in_another_order_change_nothing() -> None:
    schema = schema_of({"must": pa.int64(), "id": pa.large_string(), "n": pa.int16()})
    assert not schema.evolves and schema.columns.names == ["id", "n", "ts", "must"]
    assert json.loads(schema.stored.json_text)["fields"] == json.loads(current().json_text)["fields"]


def test_added_and_widened_columns_follow() -> None:
    schema = schema_of({"id": pa.string(), "n": pa.int64(), "must": pa.int64(), "new": pa.date32()})
    assert schema.evolves
    assert schema.columns.names == ["id", "n", "ts", "must", "new"]
    assert schema.columns.field("n").type == pa.int64() and schema.columns.field("new").nullable


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"n": pa.int64(), "ID": pa.string()}, "column 'ID' differs from column 'id' of the table only in case"),
        ({"n": pa.bool_()}, r"column 'n' is bool, and int32 in the table"),
        ({"ts": pa.int64()}, "column 'ts' is int64, and timestamp"),
        ({"a": pa.int32(), "A": pa.int32()}, "names that differ in more than case"),
    ],
)
def test_columns_that_do_not_fit_are_refused(fields: dict[str, pa.DataType], words: str) -> None:
    with pytest.raises(SchemaMismatch, match=words):
        schema_of(fields)


KINDS = {
    "bool": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(9, 2)": pa.decimal128(9, 2),
    "decimal(10, 2)": pa.decimal128(10, 2),
    "decimal(12, 2)": pa.decimal128(12, 2),
    "decimal(12, 3)": pa.decimal128(12, 3),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "local timestamp": pa.timestamp("us"),
    "list<int>": pa.list_(pa.field("element", pa.int32())),
    "list<long>": pa.list_(pa.field("element", pa.int64())),
    "map<float>": pa.map_(pa.string(), pa.float32()),
    "map<double>": pa.map_(pa.string(), pa.float64()),
    "struct<int>": pa.struct([("x", pa.int32())]),
    "struct<double>": pa.struct([("x", pa.float64())]),
    "struct<int, int>": pa.struct([("x", pa.int32()), ("y", pa.int32())]),
}
FITS = {  # table: data that is cast without loss
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "decimal(10, 2)": ("decimal(9, 2)",),
    "decimal(12, 2)": ("decimal(9, 2)", "decimal(10, 2)"),
    "decimal(12, 3)": ("decimal(9, 2)", "decimal(10, 2)"),
    "list<long>": ("list<int>",),
    "map<double>": ("map<float>",),
    "struct<double>": ("struct<int>",),
}
WIDENS = {  # table: data whose type the table takes
    "int": ("long",),
    "float": ("double",),
    "decimal(9, 2)": ("decimal(10, 2)", "decimal(12, 2)"),
    "decimal(10, 2)": ("decimal(12, 2)",),
}


@pytest.mark.parametrize("table", KINDS)
def test_data_of_each_type_fits_or_widens_a_column_without_loss_or_is_refused(table: str) -> None:
    own = parse_record_schema(avro_schema_json(pa.schema([("c", KINDS[table])]), "t", meta_columns=True))
    for data, given in KINDS.items():
        columns = pa.schema([("c", given)])
        if data == table or data in FITS.get(table, ()):
            schema = write_schema(own, columns, "t", "table t")
            assert (schema.columns.field("c").type, schema.evolves) == (KINDS[table], False), data
        elif data in WIDENS.get(table, ()):
            schema = write_schema(own, columns, "t", "table t")
            assert (schema.columns.field("c").type, schema.evolves) == (given, True), data
        else:
            with pytest.raises(SchemaMismatch, match=r"column 'c' is .*, and .* in the table: .* cast the column"):
                raise AssertionError(f"{data} into {table}: {write_schema(own, columns, 't', 'table t')}")


@pytest.mark.parametrize(
    ("own", "given", "exact", "other"),
    [
        (pa.float64(), pa.int64(), 2**53, 2**53 + 1),
        (pa.float32(), pa.int32(), 2**24, 2**24 + 1),
        (pa.list_(pa.float64()), pa.list_(pa.int64()), [2**53], [2**53 + 1]),
        (pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.int32()), [("a", 2**24)], [("a", 2**24 + 1)]),
        (pa.struct([("x", pa.float64())]), pa.struct([("x", pa.int64())]), {"x": 2**53}, {"x": 2**53 + 1}),
    ],
)
def test_whole_numbers_fit_into_fractions_if_they_keep_their_value(
    own: pa.DataType, given: pa.DataType, exact: Any, other: Any
) -> None:
    table = parse_record_schema(avro_schema_json(pa.schema([("c", own)]), "t", meta_columns=True))
    columns = pa.schema([("c", given)])
    schema = write_schema(table, columns, "t", "table t")
    assert schema.conformed(pa.table({"c": [exact]}, columns), "table t").to_pylist() == [{"c": exact}]
    with pytest.raises(SchemaMismatch, match="a value of column 'c' does not fit"):
        schema.conformed(pa.table({"c": [other]}, columns), "table t")


def test_rows_are_cast_and_filled() -> None:
    schema = schema_of({"n": pa.int8(), "must": pa.int64()})
    rows = schema.conformed(pa.table({"must": [1, 2], "n": pa.array([3, None], pa.int8()), "_hoodie_x": [0, 0]}), "t")
    assert rows.to_pydict() == {"id": [None, None], "n": [3, None], "ts": [None, None], "must": [1, 2]}
    assert rows.schema == schema.columns


@pytest.mark.parametrize(("column", "value"), [("ts", 1001), ("must", None)])
def test_values_that_do_not_fit_are_refused(column: str, value: int | None) -> None:
    good = {"ts": pa.array([1000], pa.timestamp("ns", "UTC")), "must": pa.array([1])}
    schema = schema_of({name: values.type for name, values in good.items()})
    assert schema.conformed(pa.table(good), "table t").num_rows == 1
    with pytest.raises(SchemaMismatch, match=f"column '{column}'"):
        schema.conformed(pa.table(good | {column: pa.array([value], good[column].type)}), "table t")


def test_columns_whose_values_always_fit() -> None:
    """Of the same type, and nullable at any depth; text inside of others is validated."""
    nested = {"l": pa.list_(pa.struct([("x", pa.list_(pa.int32()))])), "m": pa.map_(pa.string(), pa.int32())}
    given = {"id": pa.string(), "n": pa.int16(), "ts": pa.timestamp("us", "UTC"), "must": pa.int64(), **nested}
    schema = schema_of(given)
    fitting = {name for name, kind in given.items() if schema.always_fits(pa.field(name, kind))}
    assert fitting == {"id", "ts", "l"}
    assert not schema.always_fits(pa.field("another", pa.int32()))


def test_rows_that_are_not_stored_may_lack_required_columns() -> None:
    schema = schema_of({"id": pa.string()})
    rows = pa.table({"id": ["a"]})
    assert schema.conformed(rows, "table t", stored=False).to_pylist() == [
        {"id": "a", "n": None, "ts": None, "must": None}
    ]
    with pytest.raises(SchemaMismatch, match="'must' may not be null"):
        schema.conformed(rows, "table t")


LIST = {"name": "l", "type": ["null", {"type": "array", "items": "int"}], "default": None}
STRUCT = {
    "name": "s",
    "type": ["null", {"type": "record", "name": "s", "fields": [{"name": "x", "type": "int"}]}],
    "default": None,
}
MAP = {"name": "m", "type": ["null", {"type": "map", "values": "int"}], "default": None}


@pytest.mark.parametrize(
    ("column", "bad", "place"),
    [("l", [1, None], "l.item"), ("s", {"x": None}, "s.x"), ("m", [("a", 1), ("b", None)], "m.value")],
)
def test_nulls_inside_are_refused_where_the_table_has_none(column: str, bad: Any, place: str) -> None:
    given = pa.schema(
        [
            ("l", pa.list_(pa.int32())),
            ("s", pa.struct([("x", pa.int32())])),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    schema = write_schema(current([*FIELDS[:5], LIST, STRUCT, MAP]), given, "t", "table t")
    assert not schema.always_fits(given.field(column))
    rows = {"l": [None, [1], []], "s": [None, {"x": 1}, {"x": 2}], "m": [None, [("a", 1)], []]}
    assert schema.conformed(pa.table(rows, given), "table t").num_rows == 3
    with pytest.raises(SchemaMismatch, match=f"column '{place}' may not be null"):
        schema.conformed(pa.table({**rows, column: [None, bad, None]}, given), "table t")


def test_required_columns_are_present_and_have_no_null() -> None:
    check_required(pa.table({"a": [1]}), ["a"], "ordering column", "table t")
    with pytest.raises(SchemaMismatch, match="the data lacks ordering column 'b'; it has a"):
        check_required(pa.table({"a": [1]}), ["b"], "ordering column", "table t")
    with pytest.raises(SchemaMismatch, match=r"'a' is null in 2 rows, the first is row 1"):
        check_required(pa.table({"a": [1, None, None]}), ["a"], "ordering column", "table t")
