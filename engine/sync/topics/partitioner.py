"""Checks that each event is in the partition that its key selects, so that a key's events are in one partition. Pure.

Connect writes with the Java client, whose default partitioner is the hash murmur2 of the key's bytes modulo the number
of partitions. A record elsewhere was written by another rule, or when the topic had fewer partitions: the order of its
key's events is then not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)

_Words = npt.NDArray[np.uint32]


def misplaced(keys: Sequence[bytes | None], partition: int, partitions: int) -> int | None:
    """The first record whose key selects another partition; None: there is none. Records without a key count not."""
    if partitions == 1:
        return None
    present = np.array([key is not None for key in keys], bool)
    wrong = np.flatnonzero((partitions_of(keys, partitions) != partition) & present)
    return int(wrong[0]) if len(wrong) else None


def partitions_of(keys: Sequence[bytes | None], partitions: int) -> npt.NDArray[np.int64]:
    """The partition of each key."""
    return (_murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def _murmur2(keys: Sequence[bytes | None]) -> _Words:
    """Java's `Utils.murmur2` of each key; None as the empty key."""
    joined = pa.array([key or b"" for key in keys], pa.binary())
    _, offsets, content = joined.buffers()
    data = np.frombuffer(content or b"", np.uint8)
    bounds = np.frombuffer(offsets, np.int32, len(keys) + 1).astype(np.int64)
    lengths = np.diff(bounds)
    hashes = np.zeros(len(keys), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _of_length(data[bounds[rows][:, None] + np.arange(length)])
    return hashes


def _of_length(octets: npt.NDArray[np.uint8]) -> _Words:
    count, length = octets.shape
    hashes = np.full(count, _SEED ^ np.uint32(length), np.uint32)
    whole = length // 4 * 4
    words = np.ascontiguousarray(octets[:, :whole]).view("<u4")
    for place in range(whole // 4):
        word = words[:, place] * _M
        word ^= word >> np.uint32(24)
        hashes = (hashes * _M) ^ (word * _M)
    rest = octets[:, whole:].astype(np.uint32)
    for place in reversed(range(length - whole)):
        hashes ^= rest[:, place] << np.uint32(8 * place)
    if length > whole:
        hashes = hashes * _M
    hashes ^= hashes >> np.uint32(13)
    hashes = hashes * _M
    return hashes ^ (hashes >> np.uint32(15))
