"""Records by fastavro's writer, read by kernel and fallback: both equal what was written, for any schema."""

from __future__ import annotations

import io
import json
import struct
from decimal import Context, Decimal
from itertools import product
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, InvariantViolation, SchemaMismatch
from penstock.reader.avro import decoder as avro_records
from penstock.reader.avro.decoder import AvroDecoder, record_bounds, warm_up
from penstock.reader.kernels import avro as kernel
from penstock.reader.kernels import deletes
from penstock.table.log.blocks import BlockPlace
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import (
    ArrayType,
    AvroType,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordSchema,
    RecordType,
    parse_record_schema,
)
from penstock.table.schema.avro import Decimal as DecimalType

PLACE = BlockPlace("trips", "p/.f_1.log.1_0-0-0", 77, "20260101000000000")

_INT = st.integers(-(2**31), 2**31 - 1)
_LONG = st.integers(-(2**63), 2**63 - 1)
_MILLIS = st.integers(-(2**63) // 1000 + 1, (2**63 - 1) // 1000)
_TEXT = st.text(max_size=40)

Shape = tuple[Any, st.SearchStrategy[Any]]
"""An Avro type as JSON (a named type's name is a counter to fill in), and what fastavro writes of it."""


def flat_shapes(name: str) -> st.SearchStrategy[Shape]:
    def decimal(precision: int, size: int | None) -> Shape:
        limit = min(10**precision - 1, (1 << 8 * size - 1) - 1 if size else 10**38)
        number = st.integers(-limit, limit)
        if size:
            node = {"type": "fixed", "name": name, "size": size}
            stored = number.map(lambda n: n.to_bytes(size, "big", signed=True))
        else:
            node = {"type": "bytes"}
            stored = number.map(lambda n: n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True))
        return {**node, "logicalType": "decimal", "precision": precision, "scale": precision // 3}, stored

    def logical(kind: str, type_: str, values: st.SearchStrategy[Any]) -> Shape:
        return {"type": kind, "logicalType": type_}, values

    symbols = ["A", "B_2", "c", "D"]
    return st.sampled_from(
        [
            ("boolean", st.booleans()),
            ("int", _INT),
            ("long", _LONG),
            ("long", st.integers(-100, 100)),
            ("float", st.floats(width=32, allow_nan=False)),
            ("double", st.floats(allow_nan=False)),
            ("bytes", st.binary(max_size=50)),
            ("string", _TEXT),
            ("string", st.text("ab", max_size=20)),
            logical("string", "uuid", st.uuids().map(str)),
            logical("int", "date", st.integers(-700_000, 2_900_000)),
            logical("int", "time-millis", st.integers(0, 86_399_999)),
            logical("long", "time-micros", st.integers(0, 86_399_999_999)),
            logical("long", "timestamp-micros", _LONG),
            logical("long", "timestamp-millis", _MILLIS),
            logical("long", "local-timestamp-micros", _LONG),
            logical("long", "local-timestamp-millis", _MILLIS),
            ({"type": "fixed", "name": name, "size": 5}, st.binary(min_size=5, max_size=5)),
            ({"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)),
            decimal(9, None),
            decimal(38, None),
            decimal(5, 3),
            decimal(38, 16),
            decimal(20, 21),
        ]
    )


@st.composite
def slots(draw: st.DrawFn, name: str, depth: int) -> Shape:
    """A type, in half of the cases in a union with null."""
    node, values = draw(shapes(name, depth))
    match draw(st.sampled_from(["plain", "null first", "null last", "null first"])):
        case "null first":
            return ["null", node], st.none() | values
        case "null last":
            return [node, "null"], values | st.none()
    return node, values


@st.composite
def shapes(draw: st.DrawFn, name: str, depth: int) -> Shape:
    kind = draw(st.sampled_from(["flat"] * 3 + ["array", "map", "record"])) if depth else "flat"
    if kind == "flat":
        return draw(flat_shapes(name))
    if kind == "record":
        fields = [(f"x{i}", *draw(slots(f"{name}_{i}", depth - 1))) for i in range(draw(st.integers(1, 3)))]
        node = {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t, _ in fields]}
        return node, st.fixed_dictionaries({n: values for n, _, values in fields})
    node, values = draw(slots(f"{name}_0", depth - 1))
    if kind == "array":
        return {"type": "array", "items": node}, st.lists(values, max_size=4)
    return {"type": "map", "values": node}, st.dictionaries(st.text(max_size=5), values, max_size=3)


@st.composite
def tables(draw: st.DrawFn, depth: int = 0) -> tuple[RecordSchema, list[dict[str, Any]]]:
    fields = [(f"c{i}", *draw(slots(f"t{i}", depth))) for i in range(draw(st.integers(1, 7)))]
    node = {"type": "record", "name": "row", "fields": [{"name": n, "type": t} for n, t, _ in fields]}
    rows = st.lists(st.fixed_dictionaries({n: values for n, _, values in fields}), max_size=8)
    return parse_record_schema(json.dumps(node)), draw(rows)


def written(schema: RecordSchema, rows: list[dict[str, Any]]) -> bytes:
    """The content of an Avro data block."""
    parsed, parts = fastavro.parse_schema(json.loads(schema.json_text)), []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        parts.append(struct.pack(">i", len(out.getvalue())) + out.getvalue())
    return struct.pack(">ii", 3, len(rows)) + b"".join(parts)


def meant(value: Any, type_: AvroType) -> Any:
    """A value as fastavro writes it, as pyarrow takes it."""
    match type_:
        case _ if value is None:
            return None
        case Primitive(_, logical) if logical.endswith("-millis"):
            return value * 1000
        case DecimalType(_, scale, _):
            return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, Context(prec=40))
        case ArrayType(items):
            return [meant(item, items) for item in value]
        case MapType(values):
            return [(key, meant(item, values)) for key, item in value.items()]
        case RecordType(fields):
            return {field.name: meant(value[field.name], field.type) for field in fields}
        case _:
            return value


def expected(schema: RecordSchema, rows: list[dict[str, Any]]) -> pa.Table:
    arrow = arrow_schema(schema)
    columns = [
        pa.array([meant(row[field.name], field.type) for row in rows], arrow.field(field.name).type)
        for field in schema.fields
    ]
    return pa.Table.from_arrays(columns, schema=arrow)


def read(
    data: bytes, writer: RecordSchema, columns: list[str], target: RecordSchema | None = None, *, compiled: bool = True
) -> pa.Table:
    decoder = AvroDecoder(writer, columns, target or writer, compiled=compiled)
    begin, end = record_bounds(data, PLACE, compiled=compiled)
    table = pa.Table.from_batches(list(decoder.decode(data, begin, end, PLACE)), decoder.schema)
    table.validate(full=True)
    return table


def names(schema: RecordSchema) -> list[str]:
    return [field.name for field in schema.fields]


_MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@_MANY
@given(tables(), st.randoms(use_true_random=False))
def test_flat_schemas(table: tuple[RecordSchema, list[dict[str, Any]]], chance: Any) -> None:
    schema, rows = table
    data, expected_rows = written(schema, rows), expected(schema, rows)
    assert AvroDecoder(schema, names(schema), schema).is_compiled
    assert read(data, schema, names(schema)).equals(expected_rows)
    assert read(data, schema, names(schema), compiled=False).equals(expected_rows)
    some = chance.sample(names(schema), chance.randint(1, len(schema.fields)))
    assert read(data, schema, some).equals(expected_rows.select(some))
    assert read(data, schema, some, compiled=False).equals(expected_rows.select(some))


@_MANY
@given(tables(depth=3))
def test_nested_schemas_and_their_flat_columns(table: tuple[RecordSchema, list[dict[str, Any]]]) -> None:
    schema, rows = table
    data, expected_rows = written(schema, rows), expected(schema, rows)
    assert read(data, schema, names(schema)).equals(expected_rows)
    assert read(data, schema, names(schema), compiled=False).equals(expected_rows)
    flat = [f.name for f in schema.fields if isinstance(f.type, Primitive | DecimalType | Fixed | EnumType)]
    if flat:
        assert AvroDecoder(schema, flat, schema).is_compiled
        assert read(data, schema, flat).equals(expected_rows.select(flat))


def schema_of(*fields: tuple[str, Any]) -> RecordSchema:
    node = {"type": "record", "name": "r", "fields": [{"name": name, "type": type_} for name, type_ in fields]}
    return parse_record_schema(json.dumps(node))


@pytest.mark.parametrize("nullable", list(product([False, True], repeat=4)))
def test_null_inside_records_of_one_field_is_a_null_at_its_own_depth(nullable: tuple[bool, ...]) -> None:
    type_: Any = "long"
    values: list[Any] = [7]
    for depth, is_nullable in enumerate(nullable):
        if depth:
            type_ = {"type": "record", "name": f"r{depth}", "fields": [{"name": "f", "type": type_}]}
            values = [{"f": value} for value in values]
        if is_nullable:
            type_, values = ["null", type_], [*values, None]
    schema, rows = schema_of(("c", type_)), [{"c": value} for value in values]
    data, expected_rows = written(schema, rows), expected(schema, rows)
    assert read(data, schema, ["c"], compiled=False).equals(expected_rows)
    in_lists = schema_of(("c", {"type": "array", "items": type_}))
    rows = [{"c": values[::-1]}, {"c": values}]
    assert read(written(in_lists, rows), in_lists, ["c"]).equals(expected(in_lists, rows))


@pytest.mark.parametrize("compiled", [True, False])
def test_bits_of_floats_are_kept(compiled: bool) -> None:
    schema = schema_of(("f", "float"), ("d", ["null", "double"]))
    floats, doubles = [0x7FC00001, 0xFF800000, 0x80000000], [0x7FF8000000000123, 0xFFF0000000000000, 1]
    parts = [struct.pack(">iI", 13, 0)[:4] + struct.pack("<IBQ", f, 2, d) for f, d in zip(floats, doubles, strict=True)]
    actual = read(struct.pack(">ii", 3, 3) + b"".join(parts), schema, ["f", "d"], compiled=compiled)
    assert np.asarray(actual["f"]).view(np.uint32).tolist() == floats
    assert np.asarray(actual["d"]).view(np.uint64).tolist() == doubles


@pytest.mark.parametrize("compiled", [True, False])
def test_columns_the_writer_lacks_are_null_and_ints_become_long(compiled: bool) -> None:
    writer = schema_of(("i", ["null", "int"]), ("extra", "string"), ("j", "int"))
    target = schema_of(("new", ["null", {"type": "array", "items": "int"}]), ("j", "long"), ("i", ["long", "null"]))
    data = written(writer, [{"i": -5, "extra": "x", "j": 2**31 - 1}, {"i": None, "extra": "", "j": -(2**31)}])
    actual = read(data, writer, ["i", "new", "j"], target, compiled=compiled)
    assert actual.schema.equals(arrow_schema(target).empty_table().select(["i", "new", "j"]).schema)
    assert actual.to_pydict() == {"i": [-5, None], "new": [None, None], "j": [2**31 - 1, -(2**31)]}
    assert read(data, writer, ["new"], target, compiled=compiled).num_rows == 2


@pytest.mark.parametrize("compiled", [True, False])
def test_nested_fields_are_found_by_name(compiled: bool) -> None:
    def nested(*fields: tuple[str, Any]) -> Any:
        return {"type": "record", "name": "n", "fields": [{"name": name, "type": type_} for name, type_ in fields]}

    writer = schema_of(("s", ["null", nested(("b", "string"), ("a", ["null", "int"]), ("gone", "long"))]))
    target = schema_of(("s", ["null", nested(("a", ["null", "long"]), ("new", ["null", "string"]), ("b", "string"))]))
    data = written(writer, [{"s": {"b": "x", "a": 7, "gone": 1}}, {"s": None}, {"s": {"b": "", "a": None, "gone": 0}}])
    actual = read(data, writer, ["s"], target, compiled=compiled)
    assert actual["s"].to_pylist() == [{"a": 7, "new": None, "b": "x"}, None, {"a": None, "new": None, "b": ""}]


@pytest.mark.parametrize(
    ("written_as", "expectation"),
    [
        ({"type": "long", "logicalType": "timestamp-micros"}, "long"),
        ("long", {"type": "long", "logicalType": "timestamp-micros"}),
        ("double", "float"),
        ("string", "int"),
    ],
)
def test_type_change_that_is_not_exact_is_refused(written_as: Any, expectation: Any) -> None:
    with pytest.raises(SchemaMismatch, match=r"^log\.1: type change of column c: .* -> "):
        AvroDecoder(schema_of(("c", written_as)), ["c"], schema_of(("c", expectation)), where="log.1")


def test_blocks_with_shredded_variants_whose_parts_the_table_lacks_are_refused() -> None:
    parts = [{"name": name, "type": "bytes"} for name in ("metadata", "value", "typed_value")]
    block, table = (schema_of(("c", {"type": "record", "name": "v", "fields": parts[:count]})) for count in (3, 2))
    assert AvroDecoder(block, ["c"], block)
    with pytest.raises(SchemaMismatch, match=r"^log\.1: column 'c' holds shredded variants, but .* part typed_value,"):
        AvroDecoder(block, ["c"], table, where="log.1")


def test_columns_must_be_the_tables_and_distinct() -> None:
    schema = schema_of(("c", "int"))
    for columns in (["x"], ["c", "c"]):
        with pytest.raises(InvariantViolation):
            AvroDecoder(schema, columns, schema)


def test_any_choice_of_records_in_any_order_and_from_the_middle_of_a_file() -> None:
    schema = schema_of(("k", "string"), ("v", ["null", "long"]))
    rows = [{"k": f"key-{i}" * (i % 4), "v": i if i % 3 else None} for i in range(200)]
    content = written(schema, rows)
    for data in (b"before" + content + b"after it!" * 2, b"before" + content):
        begin, end = record_bounds(memoryview(data), PLACE, 6, 6 + len(content))
        chosen = np.array([199, 0, 0, 57, 3, 198])
        for compiled in (True, False):
            decoder = AvroDecoder(schema, ["v", "k"], schema, compiled=compiled)
            for source in (data, pa.py_buffer(data), np.frombuffer(data, np.uint8), bytearray(data)):
                actual = pa.Table.from_batches(list(decoder.decode(source, begin[chosen], end[chosen], PLACE)))
                assert actual.to_pylist() == [{"v": rows[i]["v"], "k": rows[i]["k"]} for i in chosen]


def test_no_records_are_no_batches() -> None:
    schema = schema_of(("k", "string"))
    for compiled in (True, False):
        begin, end = record_bounds(struct.pack(">ii", 3, 0), PLACE, compiled=compiled)
        assert list(AvroDecoder(schema, ["k"], schema, compiled=compiled).decode(b"", begin, end, PLACE)) == []


def test_batches_are_cut_by_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(("k", "string"), ("n", "int"))
    rows = [{"k": "x" * (i % 50), "n": i} for i in range(9000)]
    data = written(schema, rows)
    begin, end = record_bounds(data, PLACE)
    for compiled in (True, False):
        decoder = AvroDecoder(schema, ["n"], schema, compiled=compiled)
        assert [batch.num_rows for batch in decoder.decode(data, begin, end, PLACE)] == [8192, 808]
        with monkeypatch.context() as patched:
            patched.setattr(avro_records, "CHUNK_BYTES", 1000)
            patched.setattr(avro_records, "FALLBACK_CHUNK_BYTES", 1000)
            batches = list(decoder.decode(data, begin, end, PLACE))
        assert len(batches) > 200
        assert pa.Table.from_batches(batches)["n"].to_pylist() == list(range(9000))


def test_many_text_columns_make_smaller_batches_and_stay_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [f"c{i}" for i in range(60)]
    schema = schema_of(*((name, "string") for name in columns))
    rows = [{name: f"{name}-{i}" for name in columns} for i in range(50)]
    data = written(schema, rows)
    begin, end = record_bounds(data, PLACE)
    decoder = AvroDecoder(schema, columns, schema)
    monkeypatch.setattr("penstock.reader.avro.compiled.MAX_TEXT_BYTES", 100_000)
    monkeypatch.setattr("penstock.reader.avro.fallback.FallbackReader.read", None)
    batches = list(decoder.decode(data, begin, end, PLACE))
    assert len(batches) > 10
    assert pa.Table.from_batches(batches).to_pylist() == rows


def test_record_too_large_for_the_text_room_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.reader.avro.compiled.MAX_TEXT_BYTES", 4096)
    schema = schema_of(("a", "string"), ("b", "string"))
    rows = [{"a": "é" * 1000, "b": "y" * 5000}, {"a": "", "b": "z"}, {"a": "q" * 900, "b": "r" * 700}]
    assert read(written(schema, rows), schema, ["a", "b"]).to_pylist() == rows


def test_each_kernel_is_compiled_once_whatever_array_it_gets() -> None:
    warm_up()
    assert len(kernel.decode_records.signatures) == 1  # type: ignore[attr-defined]
    assert len(kernel.walk_prefixed.signatures) == 1  # type: ignore[attr-defined]
    assert len(deletes.decode_delete_list.signatures) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "0 bytes"),
        (struct.pack(">i", 3), "4 bytes"),
        (struct.pack(">ii", 3, -1), "-1 records"),
        (struct.pack(">ii", 3, 1), "1 records cannot"),
        (struct.pack(">ii", 3, 2**31 - 1) + bytes(100), "2147483647 records cannot"),
        (struct.pack(">iii", 3, 1, 1), "record 0 of 1 extends beyond"),
        (struct.pack(">iii", 3, 1, -1), "record 0 of 1 extends beyond"),
        (struct.pack(">iiii", 3, 2, 0, 1), "record 1 of 2 extends beyond"),
        (struct.pack(">iii", 3, 1, 0) + b"\0", "left over"),
        (struct.pack(">ii", 3, 0) + b"\0", "left over"),
    ],
)
def test_contents_that_are_no_records(content: bytes, error: str, compiled: bool) -> None:
    with pytest.raises(CorruptBlock, match=rf"table trips: .*byte 77 of instant 20260101000000000.*{error}"):
        record_bounds(content, PLACE, compiled=compiled)


def test_unknown_content_versions_are_refused() -> None:
    with pytest.raises(CorruptBlock, match="version 4"):
        record_bounds(struct.pack(">ii", 4, 0), PLACE)


def test_bounds_outside_the_data_are_our_bug() -> None:
    schema = schema_of(("k", "int"))
    decoder = AvroDecoder(schema, ["k"], schema)
    for begin, end in (([0], [9]), ([-1], [1]), ([2], [1]), ([0, 1], [1])):
        with pytest.raises(InvariantViolation):
            list(decoder.decode(b"\2\2", np.array(begin), np.array(end), PLACE))
