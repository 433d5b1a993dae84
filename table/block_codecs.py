"""Decompresses blocks of Snappy and LZ4 that have no frame. Pure.

pyarrow must know the size of the content: with a larger buffer it returns memory that nothing wrote.
"""

from __future__ import annotations

from typing import Final, Literal

import pyarrow as pa

_SNAPPY_SIZE_BYTES: Final = 5
"""The most bytes of the size at the begin of a block of Snappy."""


def snappy_decompressed(block: bytes, most: int) -> bytes:
    """The content, of at most `most` bytes. pa.ArrowInvalid for damage and for a longer content."""
    size = shift = 0
    for byte in block[:_SNAPPY_SIZE_BYTES]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return _of_size("snappy", block, size, most)
    raise pa.ArrowInvalid("a block of Snappy without a size")


def lz4_decompressed(block: bytes, most: int) -> bytes:
    """The content, of at most `most` bytes. pa.ArrowInvalid for damage and for a longer content."""
    return _of_size("lz4_raw", block, _lz4_size(block), most)


def _of_size(name: Literal["snappy", "lz4_raw"], block: bytes, size: int, most: int) -> bytes:
    if size > most:
        raise pa.ArrowInvalid(f"{size} bytes in a block of {name}, at most {most}")
    try:
        return bytes(pa.Codec(name).decompress(block, decompressed_size=size, asbytes=True))
    except (pa.ArrowException, OSError) as error:
        raise pa.ArrowInvalid(f"a block of {name}: {str(error)[:200]}") from None


def _lz4_size(block: bytes) -> int:
    """The bytes that the block's sequences state. The last one is literals alone (LZ4's block format)."""
    place = size = 0
    try:
        while True:
            token = block[place]
            literals, place = _length(block, place + 1, token >> 4)
            place, size = place + literals, size + literals
            if place >= len(block):
                break
            matched, place = _length(block, place + 2, token & 15)
            size += matched + 4
    except IndexError:
        raise pa.ArrowInvalid("a block of LZ4 that is truncated") from None
    if place > len(block):
        raise pa.ArrowInvalid(f"literals up to byte {place} in a block of LZ4 of {len(block)} bytes")
    return size


def _length(block: bytes, place: int, bits: int) -> tuple[int, int]:
    """A length, and the position after it. After bits of 15, bytes follow that are added, the last one below 255."""
    length = bits
    if bits == 15:
        while (more := block[place]) == 255:
            length += more
            place += 1
        length += more
        place += 1
    return length, place
