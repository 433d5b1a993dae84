"""The reader of Thrift structs: fields are read, and hostile bytes are ThriftError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.parquet.thrift import STRUCT, ThriftError, ThriftReader


def test_fields_are_read_and_skipped() -> None:
    # 1: i32 -1; 2: binary "ab"; 3: list<i32> [1, 2]; 4: true; 20: i64 5
    data = bytes([0x15, 1, 0x18, 2, 0x61, 0x62, 0x19, 0x25, 2, 4, 0x11, 0x06, 40, 10, 0])
    reader, result = ThriftReader(data), []
    for number, kind in reader.fields():
        result.append(number)
        reader.skip(kind)
    assert result == [1, 2, 3, 4, 20] and reader.at == len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",
        b"\x15" + b"\xff" * 11,
        b"\x18\xff\xff\xff\xff\x0f" + b"ab",
        b"\x19\xf5\xff\xff\xff\xff\x0f",
        b"\x1b\xff\xff\xff\xff\x0f\x55",
        b"\x1c" * 40 + b"\0" * 41,
        b"\x1d\0",
        b"\x17\0",
    ],
    ids=[
        "nothing",
        "no number",
        "long number",
        "long bytes",
        "long list",
        "long map",
        "deep",
        "unknown",
        "short double",
    ],
)
def test_hostile_lengths_and_depths_are_refused(data: bytes) -> None:
    with pytest.raises(ThriftError):
        _walk(data)


@given(st.binary(max_size=200))
def test_any_bytes_end(data: bytes) -> None:
    try:
        _walk(data)
    except ThriftError:
        return


def _walk(data: bytes) -> None:
    reader = ThriftReader(data)
    reader.skip(STRUCT)
    if reader.at > len(data):
        raise ThriftError("a value leaves the bytes")
