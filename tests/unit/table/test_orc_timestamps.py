"""Ends of ORC files that give the parts of timestamps, of valid and hostile footers."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.table import orc_timestamps
from penstock.table.orc_tail import OrcTail, orc_tail, varint
from penstock.table.orc_timestamps import end_of_nanoseconds, end_of_seconds

LONG, TIMESTAMP, INSTANT = 4, 9, 18


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def stream(kind: int, column: int, size: int) -> bytes:
    return message(1, b"\x08" + varint(kind) + b"\x10" + varint(column) + b"\x18" + varint(size))


def file_of(
    *footers: bytes, types: Sequence[int] = (12, TIMESTAMP), codec: int = 0, begin: int = 3
) -> tuple[pa.NativeFile, OrcTail]:
    """A file with stripes that have these footers, after 100 bytes of data for all of them."""
    data, entries = bytes(103), b""
    for footer in footers:
        entries += message(
            3, b"\x08" + varint(begin) + b"\x18" + varint(len(data) - begin) + b"\x20" + varint(len(footer))
        )
        data += footer
    kinds = b"".join(message(4, bytes([8, kind])) for kind in types)
    tail = OrcTail(postscript=b"", footer_at=len(data), footer=entries + kinds, codec=codec, block_bytes=1 << 18)
    return pa.BufferReader(data + bytes(100)), tail


DATA, SECONDARY = stream(1, 1, 10), stream(5, 1, 20)


def test_streams_of_zeros_are_added_for_timestamps_only() -> None:
    source, tail = file_of(DATA + SECONDARY + stream(1, 2, 30) + b"\x1a\x03CET", types=(12, TIMESTAMP, LONG, INSTANT))
    end = end_of_nanoseconds(source, tail)
    zeros = end.repeated_bytes // 2
    gap = tail.footer_at - 3 - 60
    expected = stream(4, 1, 10) + SECONDARY + stream(1, 2, 30) + b"\x1a\x03CET" + stream(4, 0, gap)
    assert end.tail.startswith(expected + stream(1, 1, zeros) + stream(1, 3, zeros))
    assert not any(end.repeated) and zeros > 1 << 39


@pytest.mark.parametrize("size", [70, 200, 1 << 40, (1 << 64) - 1])
def test_streams_end_before_the_footer(size: int) -> None:
    source, tail = file_of(DATA + SECONDARY + stream(1, 2, size))
    if size == 70:
        assert end_of_nanoseconds(source, tail).repeated_bytes
        source, tail = file_of(DATA + SECONDARY + stream(1, 2, size), begin=60)
    with pytest.raises(pa.ArrowInvalid, match="streams of a stripe to"):
        end_of_nanoseconds(source, tail)


@pytest.mark.parametrize(("fields", "valid"), [(5, True), (4, False), (2, False), (0, False)])
def test_fields_of_all_stripes_are_bounded(monkeypatch: pytest.MonkeyPatch, fields: int, valid: bool) -> None:
    """Each stripe gets a stream for each timestamp: few bytes could ask for many."""
    monkeypatch.setattr(orc_timestamps, "_MOST_FIELDS", fields)
    source, tail = file_of(DATA, b"")
    if valid:
        assert end_of_nanoseconds(source, tail).tail
        return
    with pytest.raises(pa.ArrowInvalid, match=f"more than {fields} fields"):
        end_of_nanoseconds(source, tail)


def test_many_timestamps_in_many_stripes_are_refused_early() -> None:
    """20,000 columns and 10,000 stripes in 200 KB would be 200 million streams."""
    source, tail = file_of(*[b""] * 10_000, types=(12, *[TIMESTAMP] * 20_000))
    with pytest.raises(pa.ArrowInvalid, match="fields"):
        end_of_nanoseconds(source, tail)


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_types_are_replaced(codec: str) -> None:
    times = pa.array([1, None], pa.timestamp("us"))
    sink = io.BytesIO()
    rows = pa.table({"id": ["a", "b"], "at": times, "nested": pa.StructArray.from_arrays([times], ["at"])})
    orc.write_table(rows, sink, compression=codec)
    tail = orc_tail(pa.BufferReader(sink.getvalue()))
    end = end_of_seconds(tail)
    assert end.repeated_bytes == 0
    schema = orc.ORCFile(io.BytesIO(sink.getvalue()[: tail.footer_at] + end.tail)).schema
    assert schema.types == [pa.string(), pa.int64(), pa.struct([("at", pa.int64())])]
