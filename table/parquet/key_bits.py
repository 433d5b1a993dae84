"""The bits of a few record keys in many bloom filters. Vectorized over the keys; nothing is compiled.

Source: Hudi `InternalBloomFilter`, `MurmurHash`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import numpy.typing as npt

_FACTOR: Final = np.uint32(0x5BD1E995)


def key_bits(keys: Collection[str], hashes: int, bits: int) -> npt.NDArray[np.int64]:
    """The bits of each key (a row, in any order) in a filter of so many hashes and bits (`BloomFilter`)."""
    by_size: dict[int, list[bytes]] = {}
    for key in keys:
        data = key.encode()
        by_size.setdefault(len(data), []).append(data)
    parts = [_bits_of(some, size, hashes) % bits for size, some in by_size.items()]
    return np.concatenate(parts) if parts else np.zeros((0, hashes), np.int64)


def _bits_of(keys: list[bytes], size: int, hashes: int) -> npt.NDArray[np.int64]:
    """The absolute values of the hashes of keys of one size in bytes. Each hash is the seed of the next."""
    data = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), size)
    words = np.ascontiguousarray(data[:, : size // 4 * 4]).view("<u4").astype(np.uint32).T * _FACTOR
    words = (words ^ words >> np.uint32(24)) * _FACTOR
    rest = np.zeros(len(keys), np.uint32)
    for from_end in range(size % 4):  # these bytes are signed, as in Java
        byte = data[:, size - 1 - from_end].astype(np.int8).astype(np.int32).view(np.uint32)
        rest ^= byte << np.uint32(8 * from_end)
    found = np.empty((len(keys), hashes), np.int64)
    seed = np.zeros(len(keys), np.uint32)
    for number in range(hashes):
        seed ^= np.uint32(size)
        for word in words:
            seed = seed * _FACTOR ^ word
        if size % 4:
            seed = (seed ^ rest) * _FACTOR
        seed = (seed ^ seed >> np.uint32(13)) * _FACTOR
        seed ^= seed >> np.uint32(15)
        found[:, number] = np.abs(seed.view(np.int32).astype(np.int64))
    return found
