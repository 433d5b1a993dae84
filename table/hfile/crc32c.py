"""CRC-32C (Castagnoli) of each chunk of a block, by arrays, in memory of a few MiB.

A CRC is linear over XOR. So equal pieces of many chunks advance together, byte by byte, and the registers of neighbours
are joined in pairs: that of the left one after as many zeros as the right one has bytes, XOR that of the right one.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL: Final = 0x82F63B78
_STRIDE: Final = 64
"""Bytes that a register covers before it is joined with others."""
_LEVELS: Final = 14
"""How often registers of a piece are joined in pairs."""
_PIECE: Final = _STRIDE << _LEVELS
"""Bytes of a chunk that are held at once."""

_Registers = NDArray[np.uint32]
_Bytes = NDArray[np.uint8]


def crc32c_of_chunks(data: bytes, step: int) -> _Registers:
    """The CRC-32C of each `step` bytes (at least 1); the last chunk may be shorter."""
    whole, content = len(data) // step, np.frombuffer(data, np.uint8)
    chunks = content[: whole * step].reshape(whole, step)
    at_once = max(1, _PIECE // step)
    sums = [_sums(chunks[first : first + at_once]) for first in range(0, whole, at_once)]
    if len(data) > whole * step:
        sums.append(_sums(content[whole * step :].reshape(1, -1)))
    return np.concatenate([np.empty(0, np.uint32), *sums])


def _sums(chunks: _Bytes) -> _Registers:
    """The CRC-32C of each row."""
    count, length = chunks.shape
    if length <= _STRIDE:
        return ~_advanced(np.full(count, 0xFFFFFFFF, np.uint32), chunks)
    begin = (length - 1) % _PIECE + 1
    if begin <= _STRIDE:
        registers = _advanced(np.full(count, 0xFFFFFFFF, np.uint32), chunks[:, :begin])
    else:
        first = chunks[:, :begin].copy()
        first[:, :4] ^= 0xFF  # a register that begins with ones
        registers = _joined(first)
    for place in range(begin, length, _PIECE):
        registers = _after_zeros(registers, _LEVELS) ^ _joined(chunks[:, place : place + _PIECE])
    return ~registers


def _joined(chunks: _Bytes) -> _Registers:
    """The register of each row, from 0 on, which zeros before a row leave as it is."""
    count, length = chunks.shape
    strides = 1 << (-(-length // _STRIDE) - 1).bit_length()
    padded = np.zeros((count, strides * _STRIDE), np.uint8)
    padded[:, padded.shape[1] - length :] = chunks
    rows = padded.reshape(count * strides, _STRIDE)
    registers = _advanced(np.zeros(len(rows), np.uint32), rows).reshape(count, strides)
    level = 0
    while registers.shape[1] > 1:
        registers = _after_zeros(registers[:, ::2], level) ^ registers[:, 1::2]
        level += 1
    return registers[:, 0]


def _advanced(registers: _Registers, rows: _Bytes) -> _Registers:
    """Each register after the bytes of its row."""
    table = _table()
    for column in np.ascontiguousarray(rows.T):
        registers = table[(registers ^ column) & 0xFF] ^ (registers >> 8)
    return registers


def _after_zeros(registers: _Registers, level: int) -> _Registers:
    """Each register after `_STRIDE << level` zeros."""
    low, second, third, high = _zeros(level)
    joined: _Registers = low[registers & 0xFF] ^ second[registers >> 8 & 0xFF]
    joined ^= third[registers >> 16 & 0xFF]
    joined ^= high[registers >> 24]
    return joined


@functools.cache
def _table() -> _Registers:
    table: _Registers = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


@functools.cache
def _zeros(level: int) -> _Registers:
    """Registers of one byte in each of the four places, after `_STRIDE << level` zeros."""
    if level:
        half = _zeros(level - 1)
        return np.stack([_after_zeros(place, level - 1) for place in half])
    bytes_of_places = np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32)
    flat = bytes_of_places.reshape(-1)
    return _advanced(flat, np.zeros((len(flat), _STRIDE), np.uint8)).reshape(4, 256)
