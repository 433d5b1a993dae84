"""Sets and tests the bits of record keys in a bloom filter (Hudi `InternalBloomFilter`, `MurmurHash`).

Safety: `offsets` ascend and stay within `data` (a valid Arrow array); `start`, the rows up to `stop`, and all `places`
are below len(offsets) - 1. `may_be` is as long as `places`. Each bit is below `bits`, and `filter_bytes` has
(bits + 7) / 8 bytes. `_murmur` reads words and bytes of the key only.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.reader.kernels.compilation import compiled_lean, inlined

_LOW_32: Final = np.int64(0xFFFFFFFF)
_FACTOR: Final = np.int64(0x5BD1E995)


@inlined
def _signed(byte: Any) -> Any:
    """The byte as Java's."""
    value = np.int64(byte)
    return value - 256 if value > 127 else value


@inlined
def _murmur(data: Any, start: int, stop: int, seed: Any) -> Any:
    """Hadoop's murmur hash as an unsigned number of 32 bits. The last bytes are signed, as in Java."""
    h = (seed ^ np.int64(stop - start)) & _LOW_32
    at = start
    while stop - at >= 4:
        k = (
            np.int64(data[at])
            | np.int64(data[at + 1]) << 8
            | np.int64(data[at + 2]) << 16
            | np.int64(data[at + 3]) << 24
        )
        k = (k * _FACTOR) & _LOW_32
        k ^= k >> 24
        k = (k * _FACTOR) & _LOW_32
        h = (h * _FACTOR) & _LOW_32
        h ^= k
        at += 4
    left = stop - at
    if left > 0:
        if left >= 3:
            h ^= (_signed(data[stop - 3]) << 16) & _LOW_32
        if left >= 2:
            h ^= (_signed(data[stop - 2]) << 8) & _LOW_32
        h ^= _signed(data[stop - 1]) & _LOW_32
        h = (h * _FACTOR) & _LOW_32
    h ^= h >> 13
    h = (h * _FACTOR) & _LOW_32
    return h ^ (h >> 15)


@inlined
def _bit(hashed: Any, bits: int) -> Any:
    """The bit of a hash, as Java's abs(hash % bits)."""
    signed = hashed - (np.int64(1) << 32) if hashed >> 31 else hashed
    return abs(signed) % bits


@compiled_lean
def set_key_bits(
    data: Any, offsets: Any, start: int, stop: int, step: int, hashes: int, bits: int, filter_bytes: Any
) -> Any:
    """See `penstock.table.parquet.bloom_filter.KeyBitSetter`."""
    for row in range(start, stop, step):
        h = np.int64(0)
        for _ in range(hashes):
            h = _murmur(data, offsets[row], offsets[row + 1], h)
            bit = _bit(h, bits)
            filter_bytes[bit >> 3] |= np.uint8(1 << (bit & 7))
    return 0


@compiled_lean
def find_key_bits(data: Any, offsets: Any, places: Any, hashes: int, bits: int, filter_bytes: Any, may_be: Any) -> Any:
    """See `penstock.table.parquet.bloom_filter.KeyBitTester`."""
    for number in range(len(places)):
        if may_be[number]:
            continue
        row = places[number]
        h = np.int64(0)
        has_all = True
        for _ in range(hashes):
            h = _murmur(data, offsets[row], offsets[row + 1], h)
            bit = _bit(h, bits)
            if not filter_bytes[bit >> 3] & np.uint8(1 << (bit & 7)):
                has_all = False
                break
        may_be[number] = has_all
    return 0
