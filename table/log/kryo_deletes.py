"""Decodes delete blocks of table versions 4 and 5: Kryo's `DeleteRecord[]` (version 2) and `HoodieKey[]` (version 1).

A table that was upgraded in place may still contain them. Source: Kryo 4 as Hudi's `SerializationUtils` uses it
(references on, classes by name), and bytes that it wrote. `deletes` gives the ordering values their meaning.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import field
from typing import Final

from penstock.proto.errors import CorruptBlock
from penstock.proto.value_classes import dataclass
from penstock.table.log.delete_list import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NULL,
    STRING,
    TIMESTAMP_MICROS,
)

_MODEL: Final = "org.apache.hudi.common.model."
_KEY_BY_NAME: Final = re.compile(rb"org\.apache\.hudi\.common\.model\.HoodieKe\xf9")
"""Up to Hudi 0.12 a key is an object of a named class; 0.13 writes only its two texts."""
_WRAPPER_SCALE: Final = 15
_DAY_MS: Final = 86_400_000
_MAX_NAMES: Final = 64
_MOST_TEXT: Final = 64
"""Most bytes of keys and ordering values for each byte of the block, in addition to 1 MiB: a reference takes three
bytes, however long its target is."""

Value = tuple[int, int, bytes]
"""An ordering value: its wrapper branch, its number, its text."""


@dataclass(slots=True)
class KryoDeletes:
    """The records of a block, in its order."""

    keys: list[str] = field(default_factory=list)
    """Record keys."""
    values: list[Value] = field(default_factory=list)
    """Ordering values."""


def decode_kryo(content: bytes, place: str, advice: str) -> KryoDeletes:
    """Decodes the content of a version 1 or 2 block.

    CorruptBlock, beginning with `place`, for other content, and for an ordering value that is not a text, number,
    boolean, decimal, date or timestamp.
    """
    if not content:
        return KryoDeletes()
    reader = _Kryo(content, place, advice, keys_by_name=bool(_KEY_BY_NAME.search(content)))
    deletes = reader.deletes()
    if reader.at != len(content):
        raise reader.damage(f"{len(content) - reader.at} bytes left over")
    return deletes


class _Kryo:
    """A cursor over Kryo's bytes. Never reads beyond them."""

    def __init__(self, content: bytes, place: str, advice: str, *, keys_by_name: bool) -> None:
        self._content, self._place, self._advice = content, place, advice
        self._keys_by_name = keys_by_name
        self.at = 0
        self._names: list[str] = []
        self._objects: list[object] = []

    def damage(self, text: str) -> CorruptBlock:
        return CorruptBlock(f"{self._place}: Kryo delete block, byte {self.at}: {text}; {self._advice}")

    def deletes(self) -> KryoDeletes:
        """The whole array."""
        name = self._class()
        if not isinstance(name, str) or name not in (f"[L{_MODEL}DeleteRecord;", f"[L{_MODEL}HoodieKey;"):
            raise self.damage(f"an array of class {str(name)[:80]!r}")
        if self._reference() is not None:
            raise self.damage("expected an array, got a reference")
        self._objects.append(None)
        deletes = KryoDeletes()
        remaining = (1 << 20) + _MOST_TEXT * len(self._content)
        for _ in range(self._count() - 1):
            key, value = self._record() if name.endswith("DeleteRecord;") else (self._key(), (NULL, 0, b""))
            remaining -= 4 * len(key) + len(value[2])
            if remaining < 0:
                raise self.damage("references repeat more text than a delete block can have")
            deletes.keys.append(key)
            deletes.values.append(value)
        return deletes

    def _record(self) -> tuple[str, Value]:
        if self._class() != f"{_MODEL}DeleteRecord" or self._reference() is not None:
            raise self.damage("expected a DeleteRecord")
        self._objects.append(None)
        key = self._key()
        return key, self._value()

    def _key(self) -> str:
        """A key's text. The key may be a reference to an earlier one."""
        if self._keys_by_name and self._class() != f"{_MODEL}HoodieKey":
            raise self.damage("expected a HoodieKey")
        known = self._reference()
        if known is not None:
            return self._text_of(self._objects[known])
        place = len(self._objects)
        self._objects.append(None)
        if self._keys_by_name:
            self._shared_text()
            key = self._shared_text()
        else:
            key = self._string()
            self._string()
        self._objects[place] = key
        return self._text_of(key)

    def _text_of(self, key: object) -> str:
        if not isinstance(key, str):
            raise self.damage("a record without key")
        return key

    def _shared_text(self) -> str | None:
        if self._peek() == 0:
            self.at += 1
            return None
        known = self._reference()
        if known is not None:
            return self._text_of(self._objects[known])
        self._objects.append(None)
        self._objects[-1] = text = self._string()
        return text

    def _value(self) -> Value:
        """An ordering value of a supported class."""
        name = self._class()
        match name:
            case None:
                return NULL, 0, b""
            case 0:
                return INT, self._signed(32), b""
            case 1:
                return STRING, 0, self._utf8(self._shared_text())
            case 2:
                return FLOAT, int.from_bytes(self._bytes(4), "big"), b""
            case 3:
                return BOOLEAN, int(self._bytes(1) != b"\0"), b""
            case 4:
                return INT, int.from_bytes(self._bytes(1), "big", signed=True), b""
            case 6:
                return INT, int.from_bytes(self._bytes(2), "big", signed=True), b""
            case 7:
                return LONG, self._signed(64), b""
            case 8:
                return DOUBLE, int.from_bytes(self._bytes(8), "big", signed=True), b""
            case 27:
                return self._object(name)
            case str():
                return self._object(name)
        raise self._no_ordering_value(f"registered class {name}")

    def _object(self, name: str | int) -> Value:
        """A value that may be a reference to an earlier one."""
        known = self._reference()
        if known is not None:
            value = self._objects[known]
            if not isinstance(value, tuple):
                raise self.damage("a reference to an object other than an ordering value")
            return value
        place = len(self._objects)
        self._objects.append(None)
        value = self._fresh(name)
        self._objects[place] = value
        return value

    def _fresh(self, name: str | int) -> Value:
        match name:
            case 27 | "org.apache.avro.util.Utf8":
                return STRING, 0, self._bytes(self._count() - 1)
            case "java.math.BigDecimal":
                return self._decimal()
            case "java.sql.Date":
                return DATE, (self._long() + _DAY_MS // 2) // _DAY_MS, b""
            case "java.sql.Timestamp" | "java.util.Date":
                return self._micros(self._long() * 1000)
            case "java.time.Instant":
                return self._micros(self._long() * 1_000_000 + self._varint(32) // 1000)
            case "java.time.LocalDate":
                year = self._varint(32)
                month, day = self._bytes(2)
                try:
                    return (
                        DATE,
                        datetime.date(year, month, day).toordinal() - datetime.date(1970, 1, 1).toordinal(),
                        b"",
                    )
                except ValueError as error:
                    raise self.damage(f"a date: {error}") from None
        raise self._no_ordering_value(f"class {str(name)[:80]!r}")

    def _no_ordering_value(self, of: str) -> CorruptBlock:
        return self.damage(
            f"an ordering value of {of}, which no column of a table has (such blocks are content of table versions "
            "4 and 5)"
        )

    def _micros(self, micros: int) -> Value:
        if not -(1 << 63) <= micros < 1 << 63:
            raise self.damage(f"a timestamp of {micros} microseconds")
        return TIMESTAMP_MICROS, micros, b""

    def _decimal(self) -> Value:
        unscaled = int.from_bytes(self._bytes(self._count() - 1), "big", signed=True)
        scale = self._signed(32)
        if not 0 <= scale <= _WRAPPER_SCALE or abs(unscaled).bit_length() > 128:
            raise self.damage(f"a decimal of scale {scale}, {abs(unscaled).bit_length()} bits")
        unscaled *= 10 ** (_WRAPPER_SCALE - scale)
        return DECIMAL, 0, unscaled.to_bytes(abs(unscaled).bit_length() // 8 + 1, "big", signed=True)

    def _class(self) -> str | int | None:
        """A class by name, or by its registration number from 0 (int, text, …); None for null."""
        number = self._varint(32)
        if number == 0:
            return None
        if number > 1:
            return number - 2
        name_id = self._varint(32)
        if name_id == len(self._names) and name_id < _MAX_NAMES:
            self._names.append(self._text_of(self._string()))
        elif name_id > len(self._names):
            raise self.damage(f"class name {name_id} of {len(self._names)}")
        return self._names[name_id]

    def _reference(self) -> int | None:
        """The number of an earlier object; None if a new object follows."""
        number = self._varint(32)
        if number == 1:
            return None
        if number == 0 or number - 2 >= len(self._objects):
            raise self.damage(f"reference {number} to one of {len(self._objects)} objects")
        return number - 2

    def _count(self) -> int:
        """A length plus one, of bytes or elements that follow: at most the number of remaining bytes plus one."""
        count = self._varint(32)
        if not 1 <= count <= len(self._content) - self.at + 1:
            raise self.damage(f"a length of {count - 1} where {len(self._content) - self.at} bytes follow")
        return count

    def _string(self) -> str | None:
        """A text: short ASCII ends with a set high bit; else a length in characters and modified UTF-8."""
        first = self._peek()
        if not first & 0x80:
            end = self.at
            while end < len(self._content) and not self._content[end] & 0x80:
                end += 1
            raw = self._bytes(end + 1 - self.at)
            return (raw[:-1] + bytes([raw[-1] & 0x7F])).decode("ascii")
        self.at += 1
        count, shift, more = first & 0x3F, 6, first & 0x40
        while more:
            if shift > 34:
                raise self.damage("a text's length does not end")
            byte = self._bytes(1)[0]
            count, shift, more = count | (byte & 0x7F) << shift, shift + 7, byte & 0x80
        return None if count == 0 else self._characters(count - 1)

    def _characters(self, count: int) -> str:
        """Decodes `count` UTF-16 units of modified UTF-8, each in one to three bytes."""
        if count > len(self._content) - self.at:
            raise self.damage(f"a text of {count} characters where {len(self._content) - self.at} bytes follow")
        units = bytearray()
        for _ in range(count):
            byte = self._bytes(1)[0]
            if byte >> 4 <= 7:
                unit = byte
            elif byte >> 5 == 0b110:
                unit = (byte & 0x1F) << 6 | self._bytes(1)[0] & 0x3F
            else:
                second, third = self._bytes(2)
                unit = (byte & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F
            units += unit.to_bytes(2, "big")
        try:
            return units.decode("utf-16-be")
        except UnicodeDecodeError as error:
            raise self.damage(f"a text: {error.reason}") from None

    def _utf8(self, text: str | None) -> bytes:
        if text is None:
            raise self.damage("a null text")
        return text.encode()

    def _signed(self, bits: int) -> int:
        number = self._varint(bits)
        return (number >> 1) ^ -(number & 1)

    def _long(self) -> int:
        """A long in Kryo's encoding for values that are mostly positive."""
        number = self._varint(64)
        return number - (number >> 63 << 64)

    def _varint(self, bits: int) -> int:
        """7 bits in each byte, low ones first; the ninth byte of a long has 8."""
        number = shift = 0
        while True:
            byte = self._bytes(1)[0]
            if shift == 56:
                return number | byte << shift
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return number if bits == 64 else number & 0xFFFFFFFF
            if bits == 32 and shift >= 35:
                raise self.damage("a number does not end")

    def _peek(self) -> int:
        if self.at >= len(self._content):
            raise self.damage("the block ends here")
        return self._content[self.at]

    def _bytes(self, count: int) -> bytes:
        if count < 0 or count > len(self._content) - self.at:
            raise self.damage(f"{count} bytes expected where {len(self._content) - self.at} follow")
        self.at += count
        return self._content[self.at - count : self.at]
