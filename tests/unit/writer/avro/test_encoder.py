"""Encoded columns: the bytes that fastavro writes for each row, and the values that the decoder of logs returns."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, InvariantViolation
from penstock.reader.avro.decoder import AvroDecoder
from penstock.table.log.blocks import BlockPlace
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.avro_text import avro_schema_json
from penstock.writer.avro.encoder import branch_column, joined, present_columns, record_columns

PLAIN: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=70),
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.dates(datetime.date(1, 1, 1)),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(datetime.UTC)),
    pa.decimal128(9, 2): st.decimals(-9_999_999, 9_999_999, places=2),
    pa.decimal128(38, 0): st.integers(1 - 10**38, 10**38 - 1).map(Decimal),
}
TYPES = st.recursive(
    st.sampled_from(list(PLAIN)),
    lambda inner: st.one_of(
        inner.map(lambda kind: pa.list_(pa.field("element", kind))),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda kinds: pa.struct([(f"f{n}", k) for n, k in enumerate(kinds)])
        ),
    ),
    max_leaves=4,
)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values as Python objects for Arrow and fastavro; a map as a dict."""
    if pa.types.is_list(kind):
        some: st.SearchStrategy[Any] = st.lists(values(kind.value_type), max_size=3)
    elif pa.types.is_map(kind):
        some = st.dictionaries(st.text(max_size=3), values(kind.item_type), max_size=3)
    elif pa.types.is_struct(kind):
        some = st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    else:
        some = PLAIN[kind]
    return st.none() | some


def arrow_value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, arrow_value(inner, kind.item_type)) for key, inner in value.items()]
    if pa.types.is_list(kind):
        return [arrow_value(inner, kind.value_type) for inner in value]
    if pa.types.is_struct(kind):
        return {field.name: arrow_value(value[field.name], field.type) for field in kind}
    return value


def nulls_last(node: Any) -> Any:
    """The schema with the null branch of each union second."""
    if isinstance(node, list):
        return [nulls_last(part) for part in reversed(node)]
    if isinstance(node, dict):
        return {
            name: nulls_last(part) if name in ("type", "items", "values") else part for name, part in node.items()
        } | (
            {
                "fields": [
                    {key: nulls_last(p) if key == "type" else p for key, p in f.items() if key != "default"}
                    for f in node["fields"]
                ]
            }
            if "fields" in node
            else {}
        )
    return node


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, pa.Schema, list[dict[str, Any]]]:
    kinds = draw(st.lists(TYPES, min_size=1, max_size=3))
    schema = pa.schema([(f"c{n}", kind) for n, kind in enumerate(kinds)])
    text = avro_schema_json(schema, "t", meta_columns=False)
    if draw(st.booleans()):
        text = json.dumps(nulls_last(json.loads(text)))
    row = st.fixed_dictionaries({field.name: values(field.type) for field in schema})
    return text, schema, draw(st.lists(row, max_size=5))


@settings(deadline=None)
@given(tables(), st.integers(0, 2))
def test_rows_have_the_bytes_of_fastavro_and_decode_to_themselves(
    table: tuple[str, pa.Schema, list[dict[str, Any]]], left_out: int
) -> None:
    text, schema, rows = table
    record = parse_record_schema(text)
    objects = [{f.name: arrow_value(row[f.name], f.type) for f in schema} for row in rows]
    batch = pa.Table.from_pylist(objects, schema).combine_chunks().to_batches()
    part = (batch[0] if batch else pa.RecordBatch.from_pylist([], schema)).slice(left_out)
    lengths, content = joined(record_columns(record.fields, part.columns), part.num_rows)
    parsed = fastavro.parse_schema(json.loads(text))
    expected = []
    for row in rows[left_out:]:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, row)
        expected.append(sink.getvalue())
    assert content.tobytes() == b"".join(expected)
    assert lengths.tolist() == [len(one) for one in expected]
    if part.num_rows:
        ends = np.cumsum(lengths)
        decoder = AvroDecoder(record, schema.names, record)
        decoded = pa.Table.from_batches(decoder.decode(content, ends - lengths, ends, BlockPlace("t", "f", 0, "1")))
        assert decoded.to_pylist() == part.to_pylist()


def test_rows_without_a_value_take_no_bytes_but_the_branch() -> None:
    record = parse_record_schema('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}')
    present = np.array([True, False, True])
    columns = present_columns(record_columns(record.fields, [pa.array([1, 300])]), present)
    lengths, content = joined([branch_column(present, 1), *columns], 3)
    assert content.tobytes() == b"\0\2" + b"\2" + b"\0\xd8\4" and lengths.tolist() == [2, 1, 3]


def test_null_that_the_schema_does_not_allow_names_its_column() -> None:
    inner = {"type": "record", "name": "n", "fields": [{"name": "b", "type": "long"}]}
    record = parse_record_schema(
        json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", inner]}]})
    )
    with pytest.raises(CorruptFile, match=r"column a\.b: got a null, and its Avro schema has none"):
        record_columns(record.fields, [pa.array([{"b": 1}, {"b": None}, None])])


def test_type_that_no_table_of_this_writer_has() -> None:
    kind = {"type": "enum", "name": "e", "symbols": ["x"]}
    record = parse_record_schema(json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}))
    with pytest.raises(InvariantViolation, match=r"column a: Avro type EnumType.* is not encoded"):
        record_columns(record.fields, [pa.array(["x"])])
