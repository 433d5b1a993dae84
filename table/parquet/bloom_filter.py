"""The bloom filter of record keys in a base file's footer.

Source: Hudi `BloomFilterFactory`, `InternalBloomFilter`, `InternalDynamicBloomFilter`, `HoodieBloomFilterWriteSupport`.
Writers with a bloom index fail on a file without it, and would insert a key again that it lacks.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptFile, InvariantViolation

FILTER_KEY: Final = "org.apache.hudi.bloomfilter"
"""Footer key of the filter."""
TYPE_KEY: Final = "hoodie_bloom_filter_type_code"
"""Footer key of the filter's type; SIMPLE without it."""
MIN_KEY: Final = "hoodie_min_record_key"
"""Footer key of the lowest record key, by UTF-16 units."""
MAX_KEY: Final = "hoodie_max_record_key"
"""Footer key of the highest record key."""

SIMPLE: Final = "SIMPLE"
DYNAMIC: Final = "DYNAMIC_V0"
FALSE_POSITIVES: Final = 1e-9
"""Hudi's default rate of false positives."""
MAX_ENTRIES: Final = 100_000
"""Hudi's default limit of the keys for which a filter has room."""

_MIN_ENTRIES: Final = 64
_HEAD: Final = struct.Struct(">iibi")
_DYNAMIC_HEAD: Final = struct.Struct(">iii")
_VERSION: Final = -1
_MURMUR: Final = 1
_MAX_BITS: Final = 1 << 31
_MAX_HASHES: Final = 1000

KeyBitSetter = Callable[[np.ndarray, np.ndarray, int, int, int, int, int, np.ndarray], int]
"""set_bits(data, offsets, start, stop, step, hashes, bits, filter_bytes): sets the bits of each `step`-th key from row
`start` to `stop`. `data` (uint8) and `offsets` (int32) are the keys in Arrow's layout. The hash number i of a key is
Hadoop's murmur hash of its UTF-8 bytes, with hash i - 1 as the seed (0 first); the bit is its absolute value modulo
`bits`, in byte bit / 8, the lowest bit first."""

KeyBitTester = Callable[[np.ndarray, np.ndarray, np.ndarray, int, int, np.ndarray, np.ndarray], int]
"""find_bits(data, offsets, places, hashes, bits, filter_bytes, may_be): sets may_be[i] (bool) if all bits of the key in
row places[i] (int64) are set; else it stays. The other arguments are those of `KeyBitSetter`."""


@dataclass(slots=True, eq=False)
class BloomFilter:
    """A bloom filter of record keys. `add` changes it."""

    hashes: int
    """Number of bits of a key."""
    bits: int
    """Number of bits of a row."""
    rows: list[np.ndarray]
    """The bits of each row, uint8; several in a filter that grows."""
    entries: int = 0
    """Keys for which a row of a growing filter has room; 0 for one that does not grow (SIMPLE)."""
    keys_in_last_row: int = 0
    """Keys that were added since the last row began, in a filter that grows."""
    max_entries: int = MAX_ENTRIES
    """Keys up to which a filter grows; after that its rows take turns. The footer does not record it."""
    turn: int = 0
    """Keys that were added in turns."""
    at_most: bool = False
    """Whether the rows take turns."""

    @classmethod
    def for_keys(cls, keys: int) -> BloomFilter:
        """A filter with room for so many keys at FALSE_POSITIVES, and never larger than for MAX_ENTRIES keys.

        For more keys its rate of false positives grows; it has as many hashes as are best then.
        """
        room = max(_MIN_ENTRIES, keys)
        bits = bits_for(min(room, MAX_ENTRIES), FALSE_POSITIVES)
        return cls(max(1, math.ceil(math.log(2) * bits / room)), bits, [_empty(bits)])

    @classmethod
    def growing(cls, entries: int = 60_000, max_entries: int = MAX_ENTRIES) -> BloomFilter:
        """Hudi's default filter: rows for `entries` keys, up to `max_entries` keys."""
        bits = bits_for(entries, FALSE_POSITIVES)
        hashes = math.ceil(math.log(2) * bits / entries)
        return cls(hashes, bits, [_empty(bits)], entries=entries, max_entries=max_entries)

    @property
    def type_code(self) -> str:
        """SIMPLE or DYNAMIC_V0."""
        return DYNAMIC if self.entries else SIMPLE

    def add(self, keys: pa.StringArray, set_bits: KeyBitSetter) -> None:
        """Adds keys without nulls. `writer.kernels.bloom.set_key_bits` is the compiled setter."""
        rows = len(keys)
        data, bounds = _layout(keys)
        if not rows:
            return

        def put(row: np.ndarray, start: int, stop: int, step: int = 1) -> None:
            set_bits(data, bounds, start, stop, step, self.hashes, self.bits, row)

        if not self.entries:
            put(self.rows[0], 0, rows)
            return
        at = 0
        while at < rows and not self.at_most:
            room = self.entries - self.keys_in_last_row
            if room > 0:
                stop = min(rows, at + room)
                put(self.rows[-1], at, stop)
                self.keys_in_last_row += stop - at
                at = stop
            elif len(self.rows) * self.entries < self.max_entries:
                self.rows.append(_empty(self.bits))
                self.keys_in_last_row = 0
            else:  # this key goes to the first row, and then each row has its turn
                self.at_most = True
                put(self.rows[0], at, at + 1)
                self.keys_in_last_row += 1
                at += 1
        for place in range(min(len(self.rows), rows - at)):
            put(self.rows[(self.turn + place) % len(self.rows)], at + place, rows, len(self.rows))
        self.turn += rows - at
        self.keys_in_last_row += rows - at

    def may_contain(self, keys: pa.StringArray, places: np.ndarray, find_bits: KeyBitTester) -> np.ndarray:
        """For each of `places` (int64), whether the key in this row may have been added; a key that was added always
        may. `keys` have no nulls. `writer.kernels.bloom.find_key_bits` is the compiled tester."""
        data, bounds = _layout(keys)
        may_be = np.zeros(len(places), bool)
        for row in self.rows if len(places) else ():
            find_bits(data, bounds, places, self.hashes, self.bits, row, may_be)
        return may_be

    def encoded(self) -> str:
        """The filter as the text of the footer: the inverse of `parse_bloom_filter`."""
        head = _HEAD.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        parts = [head + row.tobytes() for row in self.rows]
        if self.entries:
            parts = [head, _DYNAMIC_HEAD.pack(self.entries, self.keys_in_last_row, len(self.rows)), *parts]
        return base64.b64encode(b"".join(parts)).decode("ascii")

    def footer(self) -> Mapping[str, str]:
        """The entries of the footer with the filter and its type."""
        return {FILTER_KEY: self.encoded(), TYPE_KEY: self.type_code}


def bits_for(entries: int, false_positives: float) -> int:
    """Number of bits of a filter with so many keys (Hudi `BloomFilterUtils.getBitSize`)."""
    return math.ceil(entries * (-math.log(false_positives) / (math.log(2) * math.log(2))))


def parse_bloom_filter(text: str, type_code: str, where: str) -> BloomFilter:
    """Decodes the filter of a footer. `where` names the file in errors.

    CorruptFile for text that is not a whole filter of this type, SIMPLE or DYNAMIC_V0. Nothing is allocated beyond the
    text's own size.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _damaged(where, f"it is not base64 ({error})") from None
    layout = bloom_filter_layout(len(data), lambda start, count: data[start : start + count], type_code, where)
    size = (layout.bits + 7) // 8
    rows = [np.frombuffer(data, np.uint8, size, start).copy() for start in layout.starts]
    return BloomFilter(
        layout.hashes, layout.bits, rows, entries=layout.entries, keys_in_last_row=layout.keys_in_last_row
    )


@dataclass(frozen=True, slots=True)
class BloomFilterLayout:
    """The numbers in the bytes of a filter, as in `BloomFilter`, and the places of its rows."""

    hashes: int
    """Number of bits of a key."""
    bits: int
    """Number of bits of a row."""
    starts: tuple[int, ...]
    """The first byte of the bits of each row."""
    entries: int = 0
    """Keys for which a row has room; 0 for a filter that does not grow."""
    keys_in_last_row: int = 0
    """Keys that were added since the last row began."""


def bloom_filter_layout(size: int, read: Callable[[int, int], bytes], type_code: str, where: str) -> BloomFilterLayout:
    """The layout of a filter of `size` bytes; read(start, count) returns some of them. CorruptFile unless they are a
    whole filter of this type. `where` names the file in errors."""

    def head(at: int) -> tuple[int, int]:
        if size - at < _HEAD.size:
            raise _damaged(where, f"it ends after {size} bytes")
        version, hashes, kind, bits = _HEAD.unpack(read(at, _HEAD.size))
        if version != _VERSION or kind != _MURMUR or not 0 < hashes <= _MAX_HASHES or not 0 < bits < _MAX_BITS:
            raise _damaged(where, f"version {version}, {hashes} hashes of kind {kind}, {bits} bits")
        return hashes, bits

    if type_code not in (SIMPLE, DYNAMIC):
        raise _damaged(where, f"its type is {type_code[:40]!r}, expected {SIMPLE} or {DYNAMIC}")
    hashes, bits = head(0)
    entries, in_last_row, count, begin = 0, 0, 1, 0
    if type_code == DYNAMIC:
        begin = _HEAD.size + _DYNAMIC_HEAD.size
        if size < begin:
            raise _damaged(where, f"it ends after {size} bytes")
        entries, in_last_row, count = _DYNAMIC_HEAD.unpack(read(_HEAD.size, _DYNAMIC_HEAD.size))
        if entries < 1 or in_last_row < 0 or count < 0:
            raise _damaged(where, f"{count} rows for {entries} keys with {in_last_row} in the last one")
    row_size = _HEAD.size + (bits + 7) // 8
    if size - begin != count * row_size:
        raise _damaged(where, f"{size - begin} bytes for {count} rows of {bits} bits")
    rows = range(begin, size, row_size)
    if any(head(at) != (hashes, bits) for at in rows):
        raise _damaged(where, "its rows differ in size")
    return BloomFilterLayout(hashes, bits, tuple(at + _HEAD.size for at in rows), entries, in_last_row)


def _damaged(where: str, what: str) -> CorruptFile:
    return CorruptFile(f"{where}: bloom filter: {what}; the file is damaged, or Hudi did not write it")


def _layout(keys: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """(bytes, offsets) of keys, of which none may be null."""
    if keys.null_count:
        raise InvariantViolation(f"bloom filter: got {keys.null_count} keys that are null")
    if not len(keys):
        return np.zeros(1, np.uint8), np.zeros(1, np.int32)
    _, offsets, content = keys.buffers()
    data = np.frombuffer(content or b"\0", np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data.flags.writeable = bounds.flags.writeable = False  # else kernels are compiled again for arrays that are not
    return data, bounds


def _empty(bits: int) -> np.ndarray:
    return np.zeros((bits + 7) // 8, np.uint8)
