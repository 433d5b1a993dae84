"""The keys of statistics and bloom filters in the metadata table: hashes of column, partition and file name. Pure.

Source: Hudi `HoodieMetadataPayload.getColumnStatsIndexKey`, `getBloomFilterIndexKey`, `ColumnIndexID`,
`PartitionIndexID`, `FileIndexID`.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import Final

_MASK: Final = 2**64 - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_SEED: Final = 0xFFFFFFFFDABADABA
"""Hudi's seed 0xdabadaba, a Java int, sign-extended to 64 bits."""

_ROOT: Final = "."


def column_stats_key(column: str, partition: str, file_name: str) -> str:
    """The key of a column's statistics in a file; `column` is a dotted path for a nested column."""
    return partition_stats_key(column, partition) + _of_file(file_name)


def bloom_filter_key(partition: str, file_name: str) -> str:
    """The key of the bloom filter of a base file's record keys."""
    return _hashed(partition or _ROOT) + _of_file(file_name)


def partition_stats_key(column: str, partition: str) -> str:
    """The key of a column's statistics in a partition; '' is the partition of a table without partitions."""
    return _hashed(column) + _hashed(partition or _ROOT)


def _of_file(name: str) -> str:
    return base64.b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest()).decode("ascii")


def _hashed(text: str) -> str:
    return base64.b64encode(xxh64(text.encode(), _SEED).to_bytes(8, "big")).decode("ascii")


def xxh64(data: bytes, seed: int = 0) -> int:
    """The 64-bit xxHash of short bytes."""
    at = 0
    if len(data) >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        for at in range(0, len(data) - 31, 32):
            words = struct.unpack_from("<4Q", data, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        at = len(data) & ~31
        value = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        value = (seed + _P5) & _MASK
    return _finished((value + len(data)) & _MASK, data[at:])


def _finished(value: int, rest: bytes) -> int:
    at = 0
    while len(rest) - at >= 8:
        value ^= _round(0, int.from_bytes(rest[at : at + 8], "little"))
        value = (_rotated(value, 27) * _P1 + _P4) & _MASK
        at += 8
    if len(rest) - at >= 4:
        value ^= (int.from_bytes(rest[at : at + 4], "little") * _P1) & _MASK
        value = (_rotated(value, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in rest[at:]:
        value ^= (byte * _P5) & _MASK
        value = (_rotated(value, 11) * _P1) & _MASK
    value = ((value ^ value >> 33) * _P2) & _MASK
    value = ((value ^ value >> 29) * _P3) & _MASK
    return value ^ value >> 32


def _round(lane: int, word: int) -> int:
    return (_rotated((lane + word * _P2) & _MASK, 31) * _P1) & _MASK


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK
