"""Footers of Lance base files."""

from __future__ import annotations

import pathlib
import struct
from typing import Any

import pyarrow as pa
import pytest

from penstock.proto.errors import UnsupportedFeature
from penstock.table import lance, wire_message
from penstock.table.lance import LanceFooter, is_lance, lance_footer
from tests.lance_files import write_lance

TIMES = pa.array([1, 2, 3], pa.timestamp("us", "UTC"))
ROWS = pa.table({"id": ["a", "b", None], "nested": [{"id": 1, "more": [1]}] * 3, "at": TIMES})
COLUMNS_AT, TABLE_AT, BUFFERS_AT, BUFFERS, COLUMNS, MAJOR, MAGIC = -40, -32, -24, -16, -12, -8, -4


def written(path: pathlib.Path, version: str = "2.0") -> bytes:
    return write_lance(path, ROWS, version)


def footer(data: bytes) -> LanceFooter:
    return lance_footer(pa.BufferReader(data), "base file f.lance of table t")


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_footer_has_rows_and_top_level_columns(tmp_path: pathlib.Path, version: str) -> None:
    assert footer(written(tmp_path / "f.lance", version)) == LanceFooter(3, ("id", "nested", "at"))


@pytest.mark.parametrize(
    ("place", "number", "named"),
    [
        (COLUMNS_AT, struct.pack("<Q", 1 << 62), "positions in the footer"),
        (TABLE_AT, struct.pack("<Q", 1 << 62), "positions in the footer"),
        (BUFFERS_AT, struct.pack("<Q", 1 << 62), "positions in the footer"),
        (BUFFERS, struct.pack("<I", 1 << 30), "positions in the footer"),
        (BUFFERS, struct.pack("<I", 0), "positions in the footer"),
        (COLUMNS, struct.pack("<I", 1 << 31), "columns in the footer"),
        (COLUMNS, struct.pack("<I", 0), "columns in the footer"),
        (MAGIC, b"PAR1", "it ends with b'PAR1'"),
    ],
)
def test_numbers_of_a_hostile_footer_are_refused(tmp_path: pathlib.Path, place: int, number: bytes, named: str) -> None:
    data = bytearray(written(tmp_path / "f.lance"))
    end = len(data) + place + len(number)
    data[len(data) + place : end] = number
    with pytest.raises(pa.ArrowInvalid, match=named):
        footer(bytes(data))


def test_unknown_version_is_not_damage(tmp_path: pathlib.Path) -> None:
    data = bytearray(written(tmp_path / "f.lance"))
    struct.pack_into("<H", data, len(data) + MAJOR, 9)
    with pytest.raises(UnsupportedFeature, match=r"base file f\.lance of table t has version 9\.3 of the Lance format"):
        footer(bytes(data))


def of_descriptor(descriptor: bytes) -> bytes:
    """A file of a descriptor alone."""
    table_at, buffers_at = len(descriptor), len(descriptor) + 16
    end = struct.pack("<QQQIIHH4s", table_at, table_at, buffers_at, 1, 1, 2, 0, b"LANC")
    return descriptor + bytes(16) + struct.pack("<QQ", 0, len(descriptor)) + end


def message(content: bytes) -> bytes:
    """Field 1: the schema of a descriptor, or a column of a schema."""
    size = len(content)
    return b"\x0a" + bytes([*(size >> shift & 127 | 128 for shift in (0, 7, 14, 21)), size >> 28]) + content


COLUMN = b"\x12\x01a\x2a\x01s"
"""The name and the type of a nested column."""
SMALL = b"\x78\x01"
"""Field 15."""


class CountedBytes(bytes):
    """Counts the bytes that are read one by one."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.reads += isinstance(place, int)
        return super().__getitem__(place)


@pytest.mark.parametrize(
    "descriptor",
    [
        SMALL * 20_000,
        message(SMALL * 20_000),
        message(message(COLUMN + SMALL * 1000) * 20),
        message(message(COLUMN + b"\x78" + b"\xff" * 9 + b"\x01") * 3000),
        message(message(COLUMN)) * 3000,
    ],
    ids=["descriptor", "schema", "columns of many fields", "many columns", "many schemas"],
)
def test_numbers_of_all_messages_are_limited_together(descriptor: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    footer(of_descriptor(descriptor))
    monkeypatch.setattr(wire_message, "_MOST_NUMBER_BYTES", 20_000)
    with pytest.raises(pa.ArrowInvalid, match="a descriptor with more than 20000 bytes of numbers"):
        footer(of_descriptor(descriptor))


def test_work_of_a_large_hostile_descriptor_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 MB, which took 6 seconds."""
    counted: list[CountedBytes] = []

    def counting(*arguments: Any) -> bytes:
        counted.append(CountedBytes(read(*arguments)))
        return counted[-1]

    read = lance.read_exactly
    monkeypatch.setattr(lance, "read_exactly", counting)
    hostile = of_descriptor(message(message(COLUMN + SMALL * 80_000) * 100))
    assert 16_000_000 < len(hostile) < 1 << 24
    with pytest.raises(pa.ArrowInvalid, match="a descriptor with more than 1000000 bytes of numbers"):
        footer(hostile)
    assert 900_000 < sum(item.reads for item in counted) <= 1_000_010


def test_schema_of_many_columns_is_read() -> None:
    """With the parent of a top-level column, and other fields."""
    column = COLUMN + b"\x18\x05\x20" + b"\xff" * 9 + b"\x01\x30\x01\x38\x01"
    assert footer(of_descriptor(message(message(column) * 30_000) + b"\x10\x05")) == LanceFooter(5, ("a",) * 30_000)


def test_large_descriptor_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="a descriptor of 16777217 bytes"):
        footer(of_descriptor(bytes((1 << 24) + 1)))


@pytest.mark.parametrize("length", [1 << 40, 1 << 20])
def test_descriptor_stays_inside_of_the_file(tmp_path: pathlib.Path, length: int) -> None:
    data = bytearray(written(tmp_path / "f.lance"))
    (table_at,) = struct.unpack_from("<Q", data, len(data) + BUFFERS_AT)
    struct.pack_into("<Q", data, table_at + 8, length)
    with pytest.raises(pa.ArrowInvalid, match="a descriptor of"):
        footer(bytes(data))


@pytest.mark.parametrize(("name", "other"), [(b"more", b"mo\0e"), (b"int64", b"int\x006"), (b"nested", b"neste\xff")])
def test_names_and_types_at_which_the_library_ends_the_process(
    tmp_path: pathlib.Path, name: bytes, other: bytes
) -> None:
    data = written(tmp_path / "f.lance")
    assert name in data
    with pytest.raises(pa.ArrowInvalid, match="a column with name or type"):
        footer(data.replace(name, other))


def test_every_cut_of_the_descriptor_is_an_error_or_lacks_the_rows(tmp_path: pathlib.Path) -> None:
    data = written(tmp_path / "f.lance")
    (table_at,) = struct.unpack_from("<Q", data, len(data) + BUFFERS_AT)
    _, length = struct.unpack_from("<QQ", data, table_at)

    def cut(size: int) -> LanceFooter:
        shorter = bytearray(data)
        struct.pack_into("<Q", shorter, table_at + 8, size)
        return footer(bytes(shorter))

    schema_alone = length - 2
    assert cut(0) == LanceFooter(0, ()) and cut(schema_alone) == LanceFooter(0, ("id", "nested", "at"))
    for size in {*range(length)} - {0, schema_alone}:
        with pytest.raises(pa.ArrowInvalid, match="a descriptor "):
            cut(size)


def test_the_name_decides() -> None:
    assert is_lance("p=x/a_0-1-2_3.lance") and not is_lance("p=x/a_0-1-2_3.parquet")
