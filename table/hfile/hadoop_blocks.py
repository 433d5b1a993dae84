"""Decompresses blocks of HFiles that Hadoop's SnappyCodec or Lz4Codec compressed. Pure.

A payload has parts: 4 bytes with the size of the part's content, then chunks until the part is complete. A chunk has 4
bytes with its stored size before it. Source: Hadoop `BlockCompressorStream`.
"""

from __future__ import annotations

from typing import Final, Literal

import pyarrow as pa

from penstock.table.block_codecs import lz4_decompressed, snappy_decompressed
from penstock.table.hfile.layout import LayoutError

_MOST_CHUNKS: Final = 4096
"""Hadoop's chunks have up to 256 KiB. Millions of small ones would take minutes."""


def hadoop_decompressed(payload: bytes, size: int, name: Literal["snappy", "lz4"]) -> bytes:
    """The content. LayoutError for damage, and for a content of another size than `size` bytes."""
    decompressed = snappy_decompressed if name == "snappy" else lz4_decompressed
    content, place, chunks = bytearray(), 0, 0
    while place < len(payload):
        end = len(content) + int.from_bytes(payload[place : place + 4], "big")
        place += 4
        if place > len(payload) or end > size or (end == len(content) and size):
            raise LayoutError(f"a part from byte {len(content)} to byte {end} of {size} uncompressed bytes")
        while len(content) < end:
            stored = int.from_bytes(payload[place : place + 4], "big")
            chunk = payload[place + 4 : place + 4 + stored]
            chunks += 1
            if len(chunk) != stored or chunks > _MOST_CHUNKS:
                raise LayoutError(f"chunk {chunks} of {len(chunk)} instead of {stored} bytes, at most {_MOST_CHUNKS}")
            place += 4 + stored
            try:
                content += decompressed(chunk, end - len(content))
            except pa.ArrowInvalid as error:
                raise LayoutError(f"chunk {chunks} up to byte {end} of {size} uncompressed bytes: {error}") from None
    if len(content) != size:
        raise LayoutError(f"{len(content)} of {size} uncompressed bytes")
    return bytes(content)
