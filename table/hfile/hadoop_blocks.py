"""Decompresses blocks of HFiles that Hadoop's SnappyCodec or Lz4Codec compressed. Pure.

A payload has parts: 4 bytes with the size of the part's content, then chunks until the part is complete. A chunk has 4
bytes with its stored size before it. Source: Hadoop `BlockCompressorStream`.
"""

from __future__ import annotations

from typing import Final, Literal

import pyarrow as pa

from penstock.table.hfile.layout import LayoutError, varint

_MOST_CHUNKS: Final = 4096
"""Hadoop's chunks have up to 256 KiB. Small ones in great number would each be searched for their size."""
_MOST_EXPANSION: Final = 255
"""Bytes of content for a byte of LZ4."""


def hadoop_decompressed(payload: bytes, size: int, name: Literal["snappy", "lz4_raw"]) -> bytes:
    """The content. LayoutError for damage, and for a content of another size than `size` bytes."""
    codec, content, place, chunks = pa.Codec(name), bytearray(), 0, 0
    while place < len(payload):
        end = len(content) + int.from_bytes(payload[place : place + 4], "big")
        place += 4
        if end > size:
            raise LayoutError(f"a part up to byte {end} of {size} uncompressed bytes")
        while len(content) < end:
            stored = int.from_bytes(payload[place : place + 4], "big")
            chunk = payload[place + 4 : place + 4 + stored]
            chunks += 1
            if not stored or len(chunk) != stored or chunks > _MOST_CHUNKS:
                raise LayoutError(f"chunk {chunks} of {len(chunk)} instead of {stored} bytes, at most {_MOST_CHUNKS}")
            place += 4 + stored
            most = end - len(content)
            content += _snappy(codec, chunk, most) if name == "snappy" else _lz4(codec, chunk, most)
    if len(content) != size:
        raise LayoutError(f"{len(content)} of {size} uncompressed bytes")
    return bytes(content)


def _snappy(codec: pa.Codec, chunk: bytes, most: int) -> bytes:
    size, _ = varint(chunk, 0)
    content = _attempt(codec, chunk, size) if 0 < size <= most else None
    if content is None:
        raise LayoutError(f"a chunk of Snappy of {size} bytes, at most {most}, that cannot be decompressed")
    return content


def _lz4(codec: pa.Codec, chunk: bytes, most: int) -> bytes:
    """The content in the smallest buffer that takes it, because the codec does not return the number of bytes. Most
    parts have one chunk, so that the buffer of `most` bytes is tried first, and then one byte less."""
    most = min(most, _MOST_EXPANSION * len(chunk))
    content = _attempt(codec, chunk, most)
    if content is None:
        raise LayoutError(f"a chunk of LZ4 that cannot be decompressed to at most {most} bytes")
    low, high, middle = 1, most, most - 1
    while low < high:
        smaller = _attempt(codec, chunk, middle)
        low, high, content = (middle + 1, high, content) if smaller is None else (low, middle, smaller)
        middle = (low + high) // 2
    return content


def _attempt(codec: pa.Codec, chunk: bytes, size: int) -> bytes | None:
    try:
        return bytes(codec.decompress(chunk, decompressed_size=size, asbytes=True))
    except (pa.ArrowException, OSError):
        return None
