"""The footer of a Lance base file: rows and names of columns (messages FileDescriptor and Schema of Lance).

Read here and not by the library of Lance, so that planning needs no extra, and so that hostile offsets are refused
before the library opens the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from penstock.proto.errors import UnsupportedFeature
from penstock.proto.value_classes import dataclass
from penstock.table.wire_message import WireMessage, read_exactly

NEEDS_EXTRA: Final = "base files in Lance need the extra `lance`: pip install 'penstock[lance]'"
"""The text of the error if the library of Lance is missing."""

_FOOTER: Final = struct.Struct("<QQQIIHH4s")
"""Positions of the columns' metadata, of the table of these, and of the table of global buffers; the number of global
buffers and of columns; major and minor version; the magic number."""
_BUFFER: Final = struct.Struct("<QQ")
"""Position and size of a global buffer. The first buffer is the file's descriptor."""
_MAGIC: Final = b"LANC"
_VERSIONS: Final = {(0, 3): "2.0", (2, 0): "2.0", (2, 1): "2.1", (2, 2): "2.2"}
"""Versions in footers, and their names."""
_MOST_DESCRIPTOR_BYTES: Final = 1 << 24
_MOST_ROWS: Final = 1 << 40
_MOST_COLUMNS: Final = 100_000
_TOP: Final = (1 << 64) - 1
"""The parent of a top-level column, -1 as an unsigned number."""


@dataclass(frozen=True, slots=True)
class LanceFooter:
    """The footer of a Lance file."""

    rows: int
    """The number of rows."""
    names: tuple[str, ...]
    """The top-level columns, in file order."""


def is_lance(path: str) -> bool:
    """Whether the name is that of a Lance file."""
    return path.endswith(".lance")


def lance_footer(source: pa.NativeFile, where: str) -> LanceFooter:
    """The footer of an open file. pa.ArrowInvalid if it has no readable one; UnsupportedFeature for an unknown version
    of the format, with `where`, the file and the table; OSError."""
    size = source.size()
    if size < _FOOTER.size:
        raise pa.ArrowInvalid(f"{size} bytes, expected at least {_FOOTER.size}")
    columns_at, table_at, buffers_at, buffers, columns, major, minor, magic = _FOOTER.unpack(
        read_exactly(source, size - _FOOTER.size, _FOOTER.size)
    )
    if magic != _MAGIC:
        raise pa.ArrowInvalid(f"it ends with {magic!r}, expected {_MAGIC!r}")
    if (major, minor) not in _VERSIONS:
        known = ", ".join(sorted(set(_VERSIONS.values())))
        raise UnsupportedFeature(
            f"{where} has version {major}.{minor} of the Lance format, expected {known}: write it again with Hudi 1.2, "
            "or read it with a newer release of Penstock"
        )
    end = size - _FOOTER.size
    if not columns_at <= table_at <= buffers_at <= end - buffers * _BUFFER.size or not buffers:
        raise pa.ArrowInvalid("positions in the footer are outside of the file or out of order")
    if not 0 < columns <= _MOST_COLUMNS or columns * _BUFFER.size > buffers_at - table_at:
        raise pa.ArrowInvalid(f"{columns} columns in the footer, and another number in their table")
    position, length = _BUFFER.unpack(read_exactly(source, buffers_at, _BUFFER.size))
    if length > _MOST_DESCRIPTOR_BYTES or position + length > end:
        raise pa.ArrowInvalid(f"a descriptor of {length} bytes at {position}")
    return _descriptor(read_exactly(source, position, length))


def _descriptor(data: bytes) -> LanceFooter:
    """A FileDescriptor: 1 the schema, whose 1 are the columns (2 name, 4 parent, 5 type), 2 the number of rows."""
    message, rows, names = WireMessage(data), 0, list[str]()
    for number, value in message.fields(0, len(data)):
        if number == 2 and isinstance(value, int):
            rows = value
        if number == 1 and isinstance(value, range):
            names = [name for name, parent in _columns(message, value) if parent == _TOP]
    if rows > _MOST_ROWS:
        raise pa.ArrowInvalid(f"a footer of {rows} rows, expected at most {_MOST_ROWS}")
    return LanceFooter(rows, tuple(names))


def _columns(message: WireMessage, schema: range) -> Iterator[tuple[str, int | range]]:
    """Names and parents of the columns, nested ones too."""
    for key, item in message.fields(schema.start, schema.stop):
        if key == 1 and isinstance(item, range):
            column = dict(message.fields(item.start, item.stop))
            _text(message, column.get(5))
            yield _text(message, column.get(2)), column.get(4, 0)


def _text(message: WireMessage, value: int | range | None) -> str:
    """A name or a type. The library ends its process if a name contains NUL."""
    text = message.data[value.start : value.stop].decode("utf-8", "replace") if isinstance(value, range) else ""
    if not text or "\0" in text or "\ufffd" in text:
        raise pa.ArrowInvalid(f"a column with name or type {text[:100]!r}")
    return text
