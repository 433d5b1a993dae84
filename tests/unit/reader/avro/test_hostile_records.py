"""Damaged records: an error of ours or an answer, never a crash, and the same with and without the kernels."""

from __future__ import annotations

import io
import json
import random
import struct
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import CorruptBlock, PenstockError
from penstock.reader.avro.decoder import AvroDecoder, record_bounds
from penstock.table.log.blocks import BlockPlace
from penstock.table.schema.avro import RecordSchema, parse_record_schema

PLACE = BlockPlace("trips", "p/.f_1.log.1_0-0-0", 77, "20260101000000000")

FLAT: dict[str, tuple[Any, Any]] = {
    "key": (["null", "string"], "id:0123456789abcdefghij"),
    "b": ("boolean", True),
    "i": (["int", "null"], -70_000),
    "l": (["null", "long"], 2**50),
    "f": ("float", 1.5),
    "d": (["null", "double"], -2.5),
    "raw": ("bytes", b"\x00\xff"),
    "text": ("string", "zoë"),
    "day": ({"type": "int", "logicalType": "date"}, 20_000),
    "ms": (["null", {"type": "long", "logicalType": "timestamp-millis"}], 1_700_000_000_000),
    "noon": ({"type": "int", "logicalType": "time-millis"}, 43_200_000),
    "price": (["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}], b"\x01\x02\x03"),
    "wide": ({"type": "fixed", "name": "w", "size": 16, "logicalType": "decimal", "precision": 30}, b"\xff" * 16),
    "tag": (["null", {"type": "fixed", "name": "t", "size": 5}], b"abcde"),
    "kind": ({"type": "enum", "name": "e", "symbols": ["A", "B", "C"]}, "B"),
}
_ITEM = {
    "type": "record",
    "name": "item",
    "fields": [{"name": "n", "type": ["null", "long"]}, {"name": "s", "type": "string"}],
}
NESTED: dict[str, tuple[Any, Any]] = {
    "list": (["null", {"type": "array", "items": ["null", _ITEM]}], [None, {"n": 3, "s": "x"}, {"n": None, "s": ""}]),
    "map": ({"type": "map", "values": {"type": "array", "items": "int"}}, {"a": [1, 2], "": []}),
    "tail": (["null", "string"], "the end"),
}


def parsed(columns: dict[str, tuple[Any, Any]]) -> tuple[RecordSchema, bytes]:
    """The schema, and the body of one record of it."""
    node = {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, (t, _) in columns.items()]}
    out = io.BytesIO()
    physical = json.loads(json.dumps(node))
    fastavro.schemaless_writer(out, fastavro.parse_schema(physical), {n: v for n, (_, v) in columns.items()})
    return parse_record_schema(json.dumps(node)), out.getvalue()


def content(bodies: list[bytes]) -> bytes:
    return struct.pack(">ii", 3, len(bodies)) + b"".join(struct.pack(">i", len(b)) + b for b in bodies)


def outcome(decoder: AvroDecoder, data: bytes) -> pa.Table | None:
    """The rows, fit to be used; None for an error of ours."""
    try:
        begin, end = record_bounds(data, PLACE)
        table = pa.Table.from_batches(list(decoder.decode(data, begin, end, PLACE)), decoder.schema)
    except PenstockError as error:
        assert "trips" in str(error) and "byte 77" in str(error)
        return None
    table.validate(full=True)
    return table


def damaged(chance: random.Random, good: bytes) -> bytes:
    raw = bytearray(good)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw))
        match chance.randrange(4):
            case 0:
                raw[at] = chance.randrange(256)
            case 1:
                raw[at] ^= 1 << chance.randrange(8)
            case 2:
                raw[at : at + chance.randint(1, 10)] = b"\xff" * chance.randint(1, 11)
            case _:
                del raw[at : at + chance.randint(1, 8)]
        if not raw:
            return b"\0"
    return bytes(raw)


@pytest.mark.parametrize(("columns", "runs"), [(FLAT, 1200), (FLAT | NESTED, 800)], ids=["flat", "nested"])
def test_damaged_records(columns: dict[str, tuple[Any, Any]], runs: int) -> None:
    schema, body = parsed(columns)
    fast = AvroDecoder(schema, list(columns), schema)
    slow = AvroDecoder(schema, list(columns), schema, compiled=False)
    narrow = AvroDecoder(schema, ["price", "key"], schema)
    last = AvroDecoder(schema, [list(columns)[-1]], schema)
    assert last.is_compiled and narrow.is_compiled
    chance, answers = random.Random(3), 0
    for run in range(runs):
        data = content([body, damaged(chance, body), body]) if run % 4 else damaged(chance, content([body, body]))
        first, second = outcome(fast, data), outcome(slow, data)
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            answers += 1
            assert first.equals(second)
            for part in (narrow, last):
                some = outcome(part, data)
                assert some is not None and some.equals(first.select(part.schema.names))
        else:
            outcome(narrow, data)
            outcome(last, data)
    assert runs // 50 < answers < runs * 0.9


def test_records_cut_short_at_every_byte() -> None:
    for columns in (FLAT, FLAT | NESTED):
        schema, body = parsed(columns)
        decoders = [AvroDecoder(schema, list(columns), schema, compiled=compiled) for compiled in (True, False)]
        for size in range(len(body)):
            for decoder in decoders:
                assert outcome(decoder, content([body[:size]])) is None
                assert outcome(decoder, content([body + b"\0"])) is None
        for decoder in decoders:
            whole = outcome(decoder, content([body]))
            assert whole is not None and whole.num_rows == 1


def test_bytes_after_the_data_are_never_part_of_a_result() -> None:
    schema, body = parsed({"a": ("long", 1), "b": ("string", "xyz"), "c": ("double", 1.0)})
    decoder = AvroDecoder(schema, ["a"], schema)  # stops after the first field
    data = content([body[:1]])
    begin, end = record_bounds(data, PLACE)
    assert [batch.to_pydict() for batch in decoder.decode(data, begin, end, PLACE)] == [{"a": [1]}]
    with pytest.raises(CorruptBlock, match="record 0 of 1"):
        list(decoder.decode(data + b"\2\2\2\2", begin, begin, PLACE))


def varint(number: int) -> bytes:
    out, left = b"", (number << 1) ^ (number >> 63)
    while left > 127:
        out, left = out + bytes([left & 127 | 128]), left >> 7
    return out + bytes([left])


BAD_VALUES: list[tuple[Any, bytes, str]] = [
    ("boolean", b"\x02", "fit its schema|boolean"),
    ("int", varint(2**31), "fit its schema|32 bits"),
    ("string", b"\x02\xff", "UTF8"),
    ("string", b"\x06\xed\xa0\x80", "UTF8"),
    ("string", b"\x01", "fit its schema"),
    ({"type": "int", "logicalType": "time-millis"}, varint(86_400_000), "outside its day"),
    ({"type": "long", "logicalType": "time-micros"}, varint(-1), "outside its day"),
    ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe" + b"\xff" * 8 + b"\x01", "fit as micros"),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, b"\x04", "fit its schema|enum"),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, b"\x01", "fit its schema|enum"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64", "precision"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x00", "fit its schema|without bytes"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38}, b"\x22\x01" + bytes(16), "fit its schema|128 bits"),
    (["null", "int"], b"\x04", "fit its schema"),
]


@pytest.mark.parametrize(("type_", "body", "error"), BAD_VALUES)
@pytest.mark.parametrize("compiled", [True, False])
def test_values_their_type_does_not_allow(type_: Any, body: bytes, error: str, compiled: bool) -> None:
    node = {"type": "record", "name": "r", "fields": [{"name": "col", "type": type_}]}
    schema = parse_record_schema(json.dumps(node))
    with pytest.raises(CorruptBlock, match=f"byte 77.*({error})"):
        data = content([body])
        begin, end = record_bounds(data, PLACE)
        list(AvroDecoder(schema, ["col"], schema, compiled=compiled).decode(data, begin, end, PLACE))


def test_kernel_takes_no_varint_beyond_ten_bytes() -> None:
    schema, _ = parsed({"a": ("long", 1), "b": ("long", 1)})
    for columns in (["a", "b"], ["b"]):
        decoder = AvroDecoder(schema, columns, schema)
        assert outcome(decoder, content([b"\xff" * 9 + b"\x01" + b"\x02"])) is not None
        assert outcome(decoder, content([b"\xff" * 10 + b"\x01" + b"\x02"])) is None


def test_blocks_of_items_with_their_size_are_read_and_skipped() -> None:
    schema = parse_record_schema(
        json.dumps(
            {
                "type": "record",
                "name": "r",
                "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}, {"name": "z", "type": "int"}],
            }
        )
    )
    body = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00" + b"\x0e"  # two items in 2 bytes, one item, the end; z = 7
    data = content([body])
    begin, end = record_bounds(data, PLACE)
    for columns in (["z"], ["a", "z"]):
        for compiled in (True, False):
            decoder = AvroDecoder(schema, columns, schema, compiled=compiled)
            (batch,) = decoder.decode(data, begin, end, PLACE)
            assert batch.select(columns).to_pylist() == [{"a": [1, 2, 3], "z": 7} if "a" in columns else {"z": 7}]


def test_endless_lists_end_with_their_record() -> None:
    schema = parse_record_schema(
        json.dumps(
            {
                "type": "record",
                "name": "r",
                "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}, {"name": "z", "type": "int"}],
            }
        )
    )
    huge = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2^63 - 1 items
    least = b"\xff" * 9 + b"\x01"  # -2^63 items
    for start in (huge, least + huge, least + least, b"\x01\x00" * 20, least + b"\x00"):
        data = content([start + b"\x02" * 30])
        begin, end = record_bounds(data, PLACE)
        for columns, compiled in ((["z"], True), (["a", "z"], True), (["a", "z"], False)):
            with pytest.raises(CorruptBlock):
                list(AvroDecoder(schema, columns, schema, compiled=compiled).decode(data, begin, end, PLACE))


def test_error_counts_records_across_chunks() -> None:
    schema, body = parsed({"a": ("string", "x")})
    data = content([body] * 9000 + [b"\x09"] + [body])
    begin, end = record_bounds(data, PLACE)
    assert len(begin) == 9002
    for compiled in (True, False):
        decoder = AvroDecoder(schema, ["a"], schema, compiled=compiled)
        with pytest.raises(CorruptBlock, match=rf"record 9000 of 9002 \(bytes {begin[9000]} to {end[9000]}\)"):
            list(decoder.decode(data, begin, end, PLACE))
        chosen = np.array([9001, 3])
        assert sum(len(batch) for batch in decoder.decode(data, begin[chosen], end[chosen], PLACE)) == 2


SHORT: dict[str, tuple[Any, Any]] = {
    "a": (["long", "null"], 5),
    "b": (["null", "int"], None),
    "c": (["null", {"type": "enum", "name": "e", "symbols": ["X", "Y"]}], "Y"),
}


BRANCHES = (b"\0", b"\0", b"\2", b"\2", b"\1", b"\3", b"\4", b"\x80\0")
"""0, 1, -1, -2 and 2, and 0 in two bytes."""


@pytest.mark.parametrize("columns", [("a", "b", "c"), ("b",), ("a",)], ids=str)
@pytest.mark.parametrize("extra", [{}, {"list": NESTED["list"]}], ids=["flat", "nested"])
def test_random_bytes_have_one_meaning(columns: tuple[str, ...], extra: dict[str, tuple[Any, Any]]) -> None:
    """fastavro alone takes a union's branch -1 for the last one: Python's index."""
    schema, _ = parsed(SHORT | extra)
    fast, slow = (AvroDecoder(schema, [*columns, *extra], schema, compiled=compiled) for compiled in (True, False))
    chance, answers, refused = random.Random(5), 0, 0
    for _ in range(4000):
        fields = [chance.choice(BRANCHES) + chance.choice((b"", b"", b"\2", b"\x0a")) for _ in range(len(SHORT))]
        body = b"".join(fields) + (chance.choice((b"\0", b"\2\0", b"\2\2\0\0", b"\1")) if extra else b"")
        first, second = outcome(fast, content([body])), outcome(slow, content([body]))
        assert (first is None) == (second is None), body
        if first is not None and second is not None:
            answers += 1
            assert first.equals(second), body
        refused += first is None
    assert min(answers, refused) > 50
