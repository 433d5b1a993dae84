"""Avro containers of the timeline: bounded, whole, one record; hostile schemas never reach the decoder."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, UnsupportedFeature
from penstock.table.timeline.avro_container import MAGIC, is_container, single_record

SCHEMA = {
    "type": "record",
    "name": "ns.Outer",
    "fields": [
        {"name": "text", "type": ["null", "string"]},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {
            "name": "inner",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]},
            },
        },
        {"name": "again", "type": ["null", "ns.Inner"]},
    ],
}
RECORD = {"text": "tëxt", "counts": {"a": 1, "b": -(2**40)}, "inner": [{"n": 1}, {"n": 2}], "again": {"n": 3}}


def _container(schema: object, records: list[object], codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec, sync_marker=b"s" * 16)
    return out.getvalue()


def _header_only(schema: object) -> bytes:
    """A container with this schema, unchecked, and one block of one record of 64 zero bytes."""

    def number(value: int) -> bytes:
        value, out = value << 1, b""
        while value >= 0x80:
            out += bytes([value & 0x7F | 0x80])
            value >>= 7
        return out + bytes([value])

    def text(value: bytes) -> bytes:
        return number(len(value)) + value

    header = number(1) + text(b"avro.schema") + text(json.dumps(schema).encode()) + number(0)
    return MAGIC + header + b"s" * 16 + number(1) + text(b"\0" * 64) + b"s" * 16


def test_single_record() -> None:
    data = _container(SCHEMA, [RECORD])
    assert is_container(data) and not is_container(b"{}")
    assert single_record(data, "here") == RECORD


def test_record_in_one_block_is_that_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _container(SCHEMA, [RECORD])
    monkeypatch.setattr(fastavro, "reader", None)
    assert single_record(data, "here") == RECORD


def test_block_with_another_sync_marker_is_corrupt() -> None:
    data = _container(SCHEMA, [RECORD])
    with pytest.raises(CorruptFile, match="here"):
        single_record(data[:-1] + b"t", "here")


def test_every_truncation_is_corrupt() -> None:
    data = _container(SCHEMA, [RECORD])
    for end in range(len(data)):
        with pytest.raises(CorruptFile, match="here is damaged or truncated"):
            single_record(data[:end], "here")


def test_none_several_and_trailing_bytes_are_corrupt() -> None:
    for data in (_container(SCHEMA, []), _container(SCHEMA, [RECORD] * 3), _container(SCHEMA, [RECORD]) + b"x"):
        with pytest.raises(CorruptFile, match="here"):
            single_record(data, "here")


def test_compression_is_refused_by_name() -> None:
    with pytest.raises(CorruptFile, match="codec 'deflate'"):
        single_record(_container(SCHEMA, [RECORD], "deflate"), "here")


def _wide(levels: int) -> object:
    """Each record holds the one before it ten times: 10**levels nulls in 0 bytes."""
    inner: object = "null"
    for level in range(levels):
        first = {"name": "f0", "type": inner}
        more = [{"name": f"f{n}", "type": f"R{level - 1}" if level else "null"} for n in range(1, 10)]
        inner = {"type": "record", "name": f"R{level}", "fields": [first, *more]}
    return inner


def _deep(levels: int) -> object:
    schema: object = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def _record(*types: object, name: str = "R") -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": t} for i, t in enumerate(types)]}


@pytest.mark.parametrize(
    ("schema", "match"),
    [
        (_record({"type": "array", "items": "null"}), "repeats 1 values"),
        (_record({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), "repeats"),
        (_record({"type": "array", "items": _record(name="E")}), "repeats"),
        (_record({"type": "array", "items": _record(*["null"] * 100, "int", name="E")}), "repeats 102 values"),
        (_record({"type": "map", "values": _record(*["null"] * 100, name="E")}), "repeats 101 values"),
        (_record(["null", "R"]), "inside itself"),
        (_record(["null", "ns.R"]), "inside itself"),
        (_record({"type": "enum", "name": "x.R", "symbols": ["A"]}), "twice"),
        (_wide(5), "values, at most"),
        (_record(_deep(40)), "deeper than"),
        (_record("Missing"), "unknown type"),
        ({"type": "record", "name": "R", "fields": 7}, "without a list of fields"),
        ({"type": "record", "name": "R"}, "fields"),
        (_record({"type": "array"}), "items"),
        (7, "schema node"),
    ],
)
def test_hostile_schema_is_refused_before_decoding(schema: object, match: str) -> None:
    with pytest.raises(CorruptFile, match=match):
        single_record(_header_only(schema), "here")


def test_schema_of_plain_json_depth_bomb() -> None:
    data = _header_only(7).replace(b"\x027", b"\xc0\x9a\x0c" + b"[" * 100_000)
    with pytest.raises(CorruptFile, match="here"):
        single_record(data, "here")


@given(st.data())
def test_damage_gives_corrupt_file_or_a_record(data: st.DataObject) -> None:
    damaged = bytearray(_container(SCHEMA, [RECORD]))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(single_record(bytes(damaged), "here"), dict)
    except (CorruptFile, UnsupportedFeature) as error:
        assert "here" in str(error)
