"""Writes HFiles for tests, by the format's description and not by the reader: any codec, block size, index depth."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock.table.hfile.crc32c import crc32c_of_chunks

GZ, NONE, SNAPPY, LZ4 = 1, 2, 3, 4
CHUNK_BYTES = 1000
"""Uncompressed bytes of a chunk of Hadoop's codecs. A part has three of them."""


def vint(value: int) -> bytes:
    """Hadoop's variable-length integer, of a number that is not negative."""
    if value < 128:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


def varint(value: int) -> bytes:
    """Protobuf's."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def cell_key(row: bytes, *, short: bool = False) -> bytes:
    tail = b"" if short else b"\0" + struct.pack(">q", 2**63 - 1) + b"\4"
    return struct.pack(">h", len(row)) + row + tail


def hadoop_compressed(data: bytes, codec: int) -> bytes:
    """Parts of chunks, as Hadoop's `BlockCompressorStream` writes them."""
    arrow, out = pa.Codec("snappy" if codec == SNAPPY else "lz4_raw"), b""
    for begin in range(0, len(data), 3 * CHUNK_BYTES):
        part = data[begin : begin + 3 * CHUNK_BYTES]
        out += struct.pack(">i", len(part))
        for start in range(0, len(part), CHUNK_BYTES):
            chunk = arrow.compress(part[start : start + CHUNK_BYTES], asbytes=True)
            out += struct.pack(">i", len(chunk)) + chunk
    return out


def crc32c(data: bytes) -> int:
    """The CRC-32C of the bytes."""
    return int(crc32c_of_chunks(data, len(data))[0])


def _block(magic: bytes, data: bytes, codec: int, checksum: int) -> bytes:
    payload = gzip.compress(data, 6, mtime=0) if codec == GZ else data
    if codec in (SNAPPY, LZ4):
        payload = hadoop_compressed(data, codec)
    end = 33 + len(payload)
    chunks = (end + 16383) // 16384 if checksum else 0
    head = magic + struct.pack(">iiqBii", len(payload) + 4 * chunks, len(data), -1, checksum, 16384, end)
    covered = head + payload
    sum_of = crc32c if checksum == 2 else zlib.crc32
    sums = b"".join(struct.pack(">I", sum_of(covered[i * 16384 : (i + 1) * 16384])) for i in range(chunks))
    return covered + sums


def write_hfile(
    rows: Sequence[tuple[bytes, bytes]],
    *,
    codec: int = GZ,
    block_rows: int = 100,
    levels: int = 1,
    fan_out: int = 3,
    minor: int = 0,
    checksum: int = 0,
    varint_lengths: bool = False,
    short_keys: bool = False,
    info: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """A whole file; `rows` must be sorted."""
    out = b""
    entries: list[tuple[int, int, bytes]] = []

    def put(magic: bytes, data: bytes) -> tuple[int, int]:
        nonlocal out
        block = _block(magic, data, codec, checksum)
        place = len(out), len(block)
        out += block
        return place

    for start in range(0, len(rows), block_rows):
        part = rows[start : start + block_rows]
        data = b"".join(
            struct.pack(">ii", len(key), len(value)) + key + value + b"\0"
            for key, value in ((cell_key(row, short=short_keys), value) for row, value in part)
        )
        entries.append((*put(b"DATABLK*", data), cell_key(part[0][0], short=short_keys)))
    for level in range(1, levels):
        inner: list[tuple[int, int, bytes]] = []
        for start in range(0, len(entries), fan_out):
            part_of = entries[start : start + fan_out]
            bodies = [struct.pack(">qi", offset, size) + key for offset, size, key in part_of]
            ends = [sum(map(len, bodies[:place])) for place in range(len(bodies) + 1)]
            data = struct.pack(f">i{len(ends)}i", len(bodies), *ends) + b"".join(bodies)
            inner.append((*put(b"IDXLEAF2" if level == 1 else b"IDXINTE2", data), part_of[0][2]))
        entries = inner
    length = varint if varint_lengths else vint
    root = b"".join(struct.pack(">qi", offset, size) + length(len(key)) + key for offset, size, key in entries)
    root_at, _ = put(b"IDXROOT2", root + (b"\0" * 16 if levels > 1 else b""))
    put(b"IDXROOT2", b"")
    pairs = b""
    for name, value in (info or {}).items():
        pair = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(value)) + value
        pairs += b"\x0a" + varint(len(pair)) + pair
    info_at, _ = put(b"FILEINF2", b"PBUF" + varint(len(pairs)) + pairs)
    numbers = {1: info_at, 2: root_at, 5: len(entries), 6: 0, 7: len(rows), 8: levels if rows else 1, 12: codec}
    message = b"".join(varint(field << 3) + varint(value) for field, value in numbers.items())
    trailer = b'TRABLK"$' + varint(len(message)) + message
    return out + trailer.ljust(4092, b"\0") + struct.pack(">I", minor << 24 | 3)
