"""A cursor over Thrift's compact protocol, for Parquet footers and page headers. Pure.

Checks every length against the remaining bytes and every depth against MAX_DEPTH; ThriftError names the violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_DEPTH: Final = 32

BOOL_TRUE: Final = 1
BOOL_FALSE: Final = 2
_BYTE: Final = 3
INTEGERS: Final = (4, 5, 6)
"""i16, i32, i64, all encoded as zigzag varints."""
_DOUBLE: Final = 7
BINARY: Final = 8
LISTS: Final = (9, 10)
_MAP: Final = 11
STRUCT: Final = 12


class ThriftError(ValueError):
    """Bytes that are not a valid struct of the compact protocol."""


class ThriftReader:
    """A cursor over bytes. `fields` yields (field id, type) of a struct; the caller reads or skips each value."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self.at = data, at

    def fields(self) -> Iterator[tuple[int, int]]:
        """The fields of the next struct; each value must be read or skipped before the next field."""
        data, number = self._data, 0
        while True:
            try:
                head = data[self.at]
            except IndexError:
                raise ThriftError("a struct exceeds the bytes") from None
            self.at += 1
            if head == 0:
                return
            if head >> 4:
                number += head >> 4
            else:
                number = self.integer()
            yield number, head & 15

    def varint(self) -> int:
        """An unsigned number of at most 64 bits."""
        data, at, value, shift = self._data, self.at, 0, 0
        try:
            while (byte := data[at]) > 0x7F:
                value |= (byte & 0x7F) << shift
                shift += 7
                at += 1
                if shift > 63:
                    raise ThriftError("a number longer than 10 bytes")
        except IndexError:
            raise ThriftError("a number exceeds the bytes") from None
        self.at = at + 1
        return value | byte << shift

    def integer(self) -> int:
        """A signed number."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def size_of_binary(self) -> int:
        """Skips a binary value and returns its length."""
        size = self.varint()
        self.at += size
        if self.at > len(self._data):
            raise ThriftError(f"{size} bytes where {len(self._data) - self.at + size} are left")
        return size

    def items(self) -> tuple[int, int]:
        """(number of items, their type) of the next list; the caller reads or skips the items."""
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self.varint()
        if count > len(self._data) - self.at:
            raise ThriftError(f"a list of {count} items where {len(self._data) - self.at} bytes are left")
        return count, head & 15

    def structs(self) -> Iterator[None]:
        """Yields once before each struct of a list of structs; each must be read before the next."""
        count, kind = self.items()
        if count and kind != STRUCT:
            raise ThriftError(f"a list of type {kind}, expected structs")
        for _ in range(count):
            yield

    def skip(self, kind: int, depth: int = 0) -> None:
        """Skips the value of a field."""
        if kind in INTEGERS:
            self.varint()
        elif kind == BINARY:
            self.size_of_binary()
        elif kind in (BOOL_TRUE, BOOL_FALSE):
            return
        elif kind == STRUCT:
            self._check(depth)
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in LISTS:
            self._check(depth)
            count, inner = self.items()
            for _ in range(count):
                self._skip_item(inner, depth + 1)
        elif kind in (_BYTE, _DOUBLE):
            self.at += 1 if kind == _BYTE else 8
        elif kind == _MAP:
            self._skip_map(depth)
        else:
            raise ThriftError(f"a value of unknown type {kind}")

    def _skip_item(self, kind: int, depth: int) -> None:
        if kind in (BOOL_TRUE, BOOL_FALSE):
            self.at += 1  # outside a struct's field header a boolean is a byte of its own
        else:
            self.skip(kind, depth)

    def _skip_map(self, depth: int) -> None:
        self._check(depth)
        count = self.varint()
        if count > len(self._data) - self.at:
            raise ThriftError(f"a map of {count} entries where {len(self._data) - self.at} bytes are left")
        if count:
            kinds = self._byte()
            for _ in range(count):
                self._skip_item(kinds >> 4, depth + 1)
                self._skip_item(kinds & 15, depth + 1)

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise ThriftError("a value exceeds the bytes")
        self.at += 1
        return self._data[self.at - 1]

    def _check(self, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise ThriftError(f"values nest more than {MAX_DEPTH} levels")
