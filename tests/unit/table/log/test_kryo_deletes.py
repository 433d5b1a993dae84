"""Kryo's delete blocks: bytes that Hudi's own `SerializationUtils` wrote, the other form by hand, and hostile ones."""

from __future__ import annotations

import base64
import struct
import tracemalloc
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, PenstockError
from penstock.table.log.blocks import BlockPlace
from penstock.table.log.deletes import DeleteRecords, decode_deletes
from penstock.table.log.kryo_deletes import decode_kryo

PLACE = BlockPlace("t", "f", 0, "1")

WRITTEN = {
    "v2:int0": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwECAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7ECAA=="
    ),
    "v2:ints": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEDAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7ECDgEBAQECAQFw"
        "PfgBa7IC1wQ="
    ),
    "v2:longs": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEEAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7ECDgEBAQECAQFw"
        "PfgBa7IJ//////8/AQEBAQIBAYEBa7MJgICAgICAgICA"
    ),
    "v2:strings": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEHAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7EDAWFi4wEBAQEC"
        "AQFwPfgBa7IDAYEBAQEBAgEBcD34AWuzAwGCegEBAQECAQGEcD3DvAGEazTDqQMBisO8bsOvY29kZe2gve24gAEBAQECAQFwPfgB"
        "a7UDAeUBeHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
        "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eAEBAQECAQFwPfgBa7YDAanDqcOpw6nDqcOpw6nDqcOpw6nDqcOpw6nDqcOp"
        "w6nDqcOpw6nDqcOpw6nDqcOpw6nDqcOpw6nDqcOpw6nDqcOpw6nDqcOpw6nDqcOpw6nDqQ=="
    ),
    "v2:doubles": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEDAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7EKP/gAAAAAAAAB"
        "AQEBAgEBcD34AWuyCoAAAAAAAAAA"
    ),
    "v2:dec": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEDAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7EBA2phdmEubWF0"
        "aC5CaWdEZWNpbWHsAQUAvGFOBgEBAQECAQFwPfgBa7IBAwEC/wQ="
    ),
    "v2:bools": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEDAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7EFAQEBAQECAQFw"
        "PfgBa7IFAA=="
    ),
    "v2:nulls": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEDAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7EAAQEBAQIBAXA9"
        "+AFrsQA="
    ),
    "v2:mixed": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEEAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7ECAAEBAQECAQFw"
        "PfgBa7ICCgEBAQECAQFwPfgBa7ECBg=="
    ),
    "v2:dates": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEDAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7EBA2phdmEuc3Fs"
        "LkRhdOUBgIi1nPYtAQEBAQIBAXA9+AFrsgEDAYCYk4PsLg=="
    ),
    "v2:stamps": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwECAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7EBA2phdmEuc3Fs"
        "LlRpbWVzdGFt8AH70Jvz9S0="
    ),
    "v2:localdate": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwECAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQFwPfgBa7EBA2phdmEudGlt"
        "ZS5Mb2NhbERhdOUB5A8BAg=="
    ),
    "v1:keys": (
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2V5uwEEAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1vZGVs"
        "Lkhvb2RpZUtl+QEBcD34AWuxAQEBAXA9+AFrsgEBAQGBAWuz"
    ),
}


def content(name: str) -> bytes:
    return base64.b64decode(WRITTEN[name])


def block(raw: bytes, version: int = 2) -> DeleteRecords:
    return decode_deletes(struct.pack(">ii", version, len(raw)) + raw, PLACE)


@pytest.mark.parametrize(
    ("name", "column", "values", "default"),
    [
        ("v2:int0", pa.int64(), [None], [True]),
        ("v2:ints", pa.int32(), [7, -300], [False, False]),
        ("v2:longs", pa.int64(), [None, -(1 << 40), 1 << 62], [True, False, False]),
        ("v2:doubles", pa.float64(), [1.5, -0.0], [False, False]),
        ("v2:dec", pa.decimal128(20, 3), [Decimal("12345.678"), Decimal("-0.010")], [False, False]),
        ("v2:bools", pa.bool_(), [True, False], [False, False]),
        ("v2:nulls", pa.int64(), [None, None], [True, True]),
        ("v2:mixed", pa.int32(), [None, 5, 3], [True, False, False]),
        ("v2:dates", pa.date32(), [18263, 18629], [False, False]),
        ("v2:localdate", pa.date32(), [18263], [False]),
        ("v2:stamps", pa.timestamp("us", "UTC"), [1577836800123000], [False]),
        ("v1:keys", pa.int64(), [None, None, None], [True, True, True]),
    ],
)
def test_blocks_of_hudi_are_read(name: str, column: pa.DataType, values: list[object], default: list[bool]) -> None:
    result = block(content(name), int(name[1]))
    array, is_default = result.ordering_as(column)
    if pa.types.is_temporal(column):
        array = array.view(pa.int32() if column == pa.date32() else pa.int64())
    assert array.to_pylist() == values and is_default.tolist() == default
    assert result.keys.to_pylist()[0] == "k1" and len(result.keys) == len(values)


def test_texts_of_every_length_and_script() -> None:
    result = block(content("v2:strings"))
    assert result.keys.to_pylist() == ["k1", "k2", "k3", "k4é", "k5", "k6"]
    values, default = result.ordering_as(pa.string())
    assert values.to_pylist() == ["abc", "", "z", "ünïcode\U0001f600", "x" * 100, "é" * 40] and not default.any()


NAME_2 = b"\1\0[Lorg.apache.hudi.common.model.DeleteRecord\xbb\1"
RECORD = b"\1\1org.apache.hudi.common.model.DeleteRecor\xe4\1"


def test_keys_of_0_13_are_two_texts_without_a_class() -> None:
    second = b"\1\1\1" + b"\1" + b"k\xb2" + b"p=\xf8" + b"\x1d\1\4abc"
    raw = NAME_2 + b"\3" + RECORD + b"\1" + b"k\xb1" + b"p=\xf8" + b"\2\x0e" + second
    result = block(raw)
    assert result.keys.to_pylist() == ["k1", "k2"]
    assert result.kinds.tolist() == [2, 7] and result.numbers.tolist() == [7, 0]
    assert result.texts.to_pylist()[1] == b"abc"


def test_text_or_key_that_was_there_before() -> None:
    raw = content("v2:mixed")
    shared = raw.replace(b"\1\1p=\xf8\1k\xb2", b"\1\5\1k\xb2")  # object 3 is the first partition path
    assert block(shared).keys.to_pylist() == ["k1", "k2", "k1"]
    again = NAME_2 + b"\3" + RECORD + b"\1k\xb1p=\xf8\0" + b"\1\1\1" + b"\4" + b"\0"
    assert block(again).keys.to_pylist() == ["k1", "k1"]


@pytest.mark.parametrize(
    ("raw", "error", "says"),
    [
        (b"\1\0[Lorg.apache.hudi.common.model.Other\xbb\1\1", CorruptBlock, "an array of class"),
        (NAME_2 + b"\xff\xff\xff\xff\x0f", CorruptBlock, "a length of"),
        (NAME_2 + b"\3" + RECORD, CorruptBlock, "byte"),
        (NAME_2 + b"\2" + RECORD + b"\x7f", CorruptBlock, "reference 127"),
        (content("v2:int0") + b"\0", CorruptBlock, "left over"),
        (
            content("v2:stamps").replace(b"java.sql.Timestam\xf0", b"java.time.Yea\xf2"),
            CorruptBlock,
            "java.time.Year.*table versions 4 and 5",
        ),
        (content("v2:int0")[:-2] + b"\x13\0", CorruptBlock, "registered class 17"),
    ],
)
def test_other_bytes_are_refused(raw: bytes, error: type[PenstockError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        block(raw)
    assert str(caught.value).startswith(str(PLACE))


def varint(number: int) -> bytes:
    """As Kryo's `writeLong(number, true)`: 7 bits a byte, the ninth byte has 8."""
    number &= (1 << 64) - 1
    out = bytearray()
    while len(out) < 8 and number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


@pytest.mark.parametrize(
    ("java_class", "stored", "column", "value"),
    [
        (b"java.sql.Dat\xe5", varint(-86_400_000), pa.date32(), -1),
        (b"java.sql.Timestam\xf0", varint(-1), pa.timestamp("us", "UTC"), -1000),
        (b"java.time.Instan\xf4", varint(-1) + varint(999_999_000), pa.timestamp("us", "UTC"), -1),
        (
            b"java.time.Instan\xf4",
            varint(1_577_836_800) + varint(123_456_789),
            pa.timestamp("us", "UTC"),
            1577836800123456,
        ),
    ],
)
def test_moments_before_and_after_1970(java_class: bytes, stored: bytes, column: pa.DataType, value: int) -> None:
    name = b"\1\2" + java_class + b"\1"
    raw = NAME_2 + b"\2" + RECORD + b"\1k\xb1p=\xf8" + name + stored
    array, _ = block(raw).ordering_as(column)
    assert array.view(pa.int32() if column == pa.date32() else pa.int64()).to_pylist() == [value]


def test_moment_beyond_64_bits_of_microseconds_is_damage() -> None:
    raw = NAME_2 + b"\2" + RECORD + b"\1k\xb1p=\xf8" + b"\1\2java.sql.Timestam\xf0\1" + varint(1 << 62)
    with pytest.raises(CorruptBlock, match="microseconds"):
        block(raw)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(WRITTEN)), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4))
@example("v2:ints", [(44, 255), (45, 255), (46, 255), (47, 255)])
def test_any_bytes_are_records_or_a_named_error(name: str, changes: list[tuple[int, int]]) -> None:
    raw = bytearray(content(name))
    for at, value in changes:
        raw[at % len(raw)] = value
    tracemalloc.start()
    try:
        result = decode_kryo(bytes(raw), "w", "advice")
        assert len(result.keys) == len(result.values) <= len(raw)
    except PenstockError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 << 20
