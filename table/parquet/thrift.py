"""A cursor over Thrift's compact protocol, for Parquet footers and page headers. Pure.

Checks every length against the remaining bytes and every depth against MAX_DEPTH; ThriftError names the violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_DEPTH: Final = 32
_MOST_FIELDS: Final = 1 << 15

BOOL_TRUE: Final = 1
BOOL_FALSE: Final = 2
_BYTE: Final = 3
I32: Final = 5
"""The type of an i32. Arrow's reader skips a field if its type differs from the type in parquet.thrift."""
_DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
_SET: Final = 10
_MAP: Final = 11
STRUCT: Final = 12


class ThriftError(ValueError):
    """Bytes that are not a valid struct of the compact protocol."""


class ThriftReader:
    """A cursor over bytes. `fields` yields (field id, type) of a struct; the caller reads or skips each value."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self.at = data, at

    def skips(self, prefix: bytes) -> bool:
        """Skips these bytes if they are the next ones; returns whether it did."""
        if not self._data.startswith(prefix, self.at):
            return False
        self.at += len(prefix)
        return True

    def bytes_from(self, begin: int) -> bytes:
        """The bytes from this place to the cursor."""
        return self._data[begin : self.at]

    def fields(self, number: int = 0) -> Iterator[tuple[int, int]]:
        """The fields of the next struct, or the rest of its fields after the one with this number; each value must be
        read or skipped before the next field."""
        data = self._data
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
                number = self._signed()
            if not 0 < number < _MOST_FIELDS:  # Arrow's reader keeps 16 bits: the field would be another one to it
                raise ThriftError(f"a field with the number {number}")
            yield number, head & 15

    def varint(self) -> int:
        """An unsigned number of at most 64 bits."""
        try:
            value, self.at = _number(self._data, self.at)
        except IndexError:
            raise ThriftError("a number exceeds the bytes") from None
        return value

    def i32(self) -> int:
        """A signed number of 32 bits. ThriftError for a larger one, of which Arrow's reader keeps 32 bits."""
        value = self._signed()
        if not -(1 << 31) <= value < 1 << 31:
            raise ThriftError(f"a number of {value.bit_length()} bits, expected 32")
        return value

    def _signed(self) -> int:
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
        try:
            self.at = _after(self._data, self.at, kind, depth)
        except IndexError:
            raise ThriftError("a value exceeds the bytes") from None
        if self.at > len(self._data):
            raise ThriftError(f"a value exceeds the bytes by {self.at - len(self._data)}")

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise ThriftError("a value exceeds the bytes")
        self.at += 1
        return self._data[self.at - 1]


def _after(data: bytes, at: int, kind: int, depth: int) -> int:
    """The place after a value. It may lie beyond the bytes if the value does. IndexError for most such values.

    Functions over places instead of methods: footers have thousands of values, and most are skipped.
    """
    if 4 <= kind <= 6:
        return _after_number(data, at)
    if kind == BINARY:
        size, at = _number(data, at)
        return at + size
    if kind in (BOOL_TRUE, BOOL_FALSE):
        return at
    if kind == STRUCT:
        return _after_struct(data, at, depth)
    if kind in (LIST, _SET):
        return _after_list(data, at, depth)
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    if kind == _MAP:
        return _after_map(data, at, depth)
    raise ThriftError(f"a value of unknown type {kind}")


def _after_struct(data: bytes, at: int, depth: int) -> int:
    _check_depth(depth)
    while head := data[at]:
        at += 1
        if head < 16:  # the field's number follows
            at = _after_number(data, at)
        kind = head & 15
        if kind == 8:
            size = data[at]
            at += 1
            if size > 0x7F:
                size, at = _number(data, at - 1)
            at += size
        elif 4 <= kind <= 6 and data[at] <= 0x7F:
            at += 1
        elif kind > BOOL_FALSE:
            at = _after(data, at, kind, depth + 1)
        elif not kind:
            raise ThriftError("a value of unknown type 0")
    return at + 1


def _after_list(data: bytes, at: int, depth: int) -> int:
    _check_depth(depth)
    head = data[at]
    at += 1
    count, kind = head >> 4, head & 15
    if count == 15:
        count, at = _number(data, at)
    _check_count(data, at, count, "list", "items")
    for _ in range(count):
        at = _after_item(data, at, kind, depth + 1)
    return at


def _after_map(data: bytes, at: int, depth: int) -> int:
    _check_depth(depth)
    count, at = _number(data, at)
    _check_count(data, at, count, "map", "entries")
    if count:
        kinds = data[at]
        at += 1
        for _ in range(count):
            at = _after_item(data, at, kinds >> 4, depth + 1)
            at = _after_item(data, at, kinds & 15, depth + 1)
    return at


def _after_item(data: bytes, at: int, kind: int, depth: int) -> int:
    if kind in (BOOL_TRUE, BOOL_FALSE):
        return at + 1  # outside a struct's field header a boolean is a byte of its own
    return _after(data, at, kind, depth)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of at most 64 bits, and the place after it."""
    value = shift = 0
    while (byte := data[at]) > 0x7F:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ThriftError("a number longer than 10 bytes")
    return value | byte << shift, at + 1


def _after_number(data: bytes, at: int) -> int:
    last = at + 10
    while data[at] > 0x7F:
        at += 1
        if at >= last:
            raise ThriftError("a number longer than 10 bytes")
    return at + 1


def _check_count(data: bytes, at: int, count: int, what: str, entries: str) -> None:
    if count > len(data) - at:
        raise ThriftError(f"a {what} of {count} {entries} where {max(0, len(data) - at)} bytes are left")


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise ThriftError(f"values nest more than {MAX_DEPTH} levels")
