"""The end of an ORC file: its types, its stripes and the time zone of its writer, and how another end is stored."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.table.block_codecs import lz4_decompressed, snappy_decompressed
from penstock.table.lzo import lzo_decompressed
from penstock.table.wire_message import WireMessage, read_exactly

_NONE, _ZLIB, _SNAPPY, _LZO, _LZ4, _ZSTD, _BROTLI = range(7)
_MOST_POSTSCRIPT_BYTES: Final = 240
"""Of the 255 that its length of one byte allows, so that a field can be added."""
_MOST_FOOTER_BYTES: Final = 1 << 26
_MOST_BLOCK_BYTES: Final = 1 << 23
_MOST_LEVELS: Final = 128
"""Of types inside of types: twice as many as a schema of Avro may have."""


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The end of a file."""

    postscript: bytes
    """The postscript as stored, without its length."""
    footer_at: int
    """The position of the footer."""
    footer: bytes
    """The footer, decompressed."""
    codec: int
    """The number of the compression."""
    block_bytes: int
    """The most bytes of a compressed block after it is decompressed."""


def orc_tail(source: pa.NativeFile) -> OrcTail:
    """The end of an open file. pa.ArrowInvalid for damage; pa.ArrowNotImplementedError for BROTLI; OSError.

    Postscript: 1 bytes of the footer, 2 compression, 3 bytes of a block.
    """
    size = source.size()
    end = read_exactly(source, max(0, size - _MOST_POSTSCRIPT_BYTES - 1), min(size, _MOST_POSTSCRIPT_BYTES + 1))
    length = end[-1] if end else 0
    if not 0 < length < len(end):
        raise pa.ArrowInvalid(f"a postscript of {length} bytes")
    postscript = end[-1 - length : -1]
    numbers = {key: value for key, value in WireMessage(postscript).fields(0, length) if isinstance(value, int)}
    footer_bytes, codec = numbers.get(1, 0), numbers.get(2, _NONE)
    if codec == _BROTLI:
        raise pa.ArrowNotImplementedError("compression BROTLI")
    if codec > _BROTLI:
        raise pa.ArrowInvalid(f"compression {codec}, expected at most {_BROTLI}")
    footer_at = size - 1 - length - footer_bytes
    if footer_at < 0 or footer_bytes > _MOST_FOOTER_BYTES:
        raise pa.ArrowInvalid(f"a footer of {footer_bytes} bytes")
    block_bytes = max(1, min(numbers.get(3, 1 << 18), _MOST_BLOCK_BYTES))
    footer = decompressed(read_exactly(source, footer_at, footer_bytes), codec, block_bytes)
    return OrcTail(postscript, footer_at, footer, codec, block_bytes)


def check_types(tail: OrcTail) -> None:
    """The types are a tree of at most `_MOST_LEVELS` levels, and each is after the one that contains it. Otherwise
    pa.ArrowInvalid: the library of ORC follows them without a limit, and ends the process.

    Footer: 4 a type. Type: 2 the numbers of the types that it contains.
    """
    message = WireMessage(tail.footer)
    types = [kind for key, kind in message.fields(0, len(tail.footer)) if key == 4 and isinstance(kind, range)]
    levels = [1, *[0] * len(types)]
    for number, kind in enumerate(types):
        for key, value in message.fields(kind.start, kind.stop):
            contained = () if key != 2 else [value] if isinstance(value, int) else message.numbers(value)
            for inner in contained:
                if not number < inner < len(types) or levels[inner]:
                    raise pa.ArrowInvalid(f"type {number} of {len(types)} contains type {inner}: they are no tree")
                levels[inner] = levels[number] + 1
                if levels[inner] > _MOST_LEVELS:
                    raise pa.ArrowInvalid(f"types with more than {_MOST_LEVELS} levels")


@dataclass(frozen=True, slots=True)
class Stripe:
    """A stripe, with its footer."""

    entry: range
    """The positions of its entry in the file's footer."""
    begin: int
    """The position of the stripe, where its first stream is."""
    index_bytes: int
    """The bytes of its index."""
    footer: bytes
    """Its footer, decompressed."""


def stripes(source: pa.NativeFile, tail: OrcTail) -> Iterator[Stripe]:
    """The stripes, in order. pa.ArrowInvalid for damage; OSError.

    Footer: 3 a stripe (1 position, 2, 3 and 4 the bytes of its index, data and footer).
    """
    message, stored_bytes, footer_bytes = WireMessage(tail.footer), 0, 0
    for key, stripe in message.fields(0, len(tail.footer)):
        if key != 3 or not isinstance(stripe, range):
            continue
        numbers = {key: value for key, value in message.fields(stripe.start, stripe.stop) if isinstance(value, int)}
        begin = numbers.get(1, 0) + numbers.get(2, 0) + numbers.get(3, 0)
        stored_bytes += numbers.get(4, 0)
        if begin + numbers.get(4, 0) > tail.footer_at or stored_bytes > min(tail.footer_at, _MOST_FOOTER_BYTES):
            raise pa.ArrowInvalid(f"the footer of a stripe at {begin}, {stored_bytes} bytes of such footers")
        footer = decompressed(read_exactly(source, begin, numbers.get(4, 0)), tail.codec, tail.block_bytes)
        footer_bytes += len(footer)
        if footer_bytes > _MOST_FOOTER_BYTES:
            raise pa.ArrowInvalid(f"footers of stripes of more than {_MOST_FOOTER_BYTES} bytes")
        yield Stripe(stripe, numbers.get(1, 0), numbers.get(2, 0), footer)


def writer_zones(source: pa.NativeFile, tail: OrcTail) -> Iterator[str]:
    """The zone of each stripe, or ''. The errors are those of `stripes`. Footer of a stripe: 3 the zone."""
    for stripe in stripes(source, tail):
        footer = stripe.footer
        zone = dict(WireMessage(footer).fields(0, len(footer))).get(3)
        yield footer[zone.start : zone.stop].decode("utf-8", "replace") if isinstance(zone, range) else ""


def tail_with(footer: bytes, tail: OrcTail, fields: bytes = b"") -> bytes:
    """Another footer, and the postscript with its length and these fields."""
    stored = stored_blocks(footer, tail)
    postscript = tail.postscript + b"\x08" + varint(len(stored)) + fields  # the last value of a field counts
    return stored + postscript + bytes([len(postscript)])


def stored_blocks(data: bytes, tail: OrcTail) -> bytes:
    """The bytes as blocks that are not compressed."""
    if tail.codec == _NONE:
        return data
    size = min(tail.block_bytes, _MOST_BLOCK_BYTES - 1)  # the header has 23 bits for it
    blocks = [data[begin : begin + size] for begin in range(0, len(data), size)]
    return b"".join((len(block) << 1 | 1).to_bytes(3, "little") + block for block in blocks)


def varint(number: int) -> bytes:
    """A number as protobuf stores it."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def decompressed(stored: bytes, codec: int, block_bytes: int) -> bytes:
    """Blocks after their headers of three bytes: twice the length, and 1 more for a block that is stored as it is.
    pa.ArrowInvalid for damage, and for more than 64 MiB."""
    if codec == _NONE:
        return stored
    blocks, place, size = [], 0, 0
    while place < len(stored):
        header = int.from_bytes(stored[place : place + 3], "little")
        block = stored[place + 3 : place + 3 + (header >> 1)]
        if len(block) != header >> 1:
            raise pa.ArrowInvalid(f"a block of {len(block)} instead of {header >> 1} bytes")
        blocks.append(block if header & 1 else _block(block, codec, block_bytes))
        size += len(blocks[-1])
        if size > _MOST_FOOTER_BYTES:
            raise pa.ArrowInvalid(f"a footer of more than {_MOST_FOOTER_BYTES} bytes")
        place += 3 + len(block)
    return b"".join(blocks)


def _block(block: bytes, codec: int, most: int) -> bytes:
    if codec == _ZLIB:
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = stream.decompress(block, most)
        except zlib.error as error:
            raise pa.ArrowInvalid(str(error)) from error
        if not stream.eof:  # the library of ORC may read more of it
            raise pa.ArrowInvalid(f"a block that does not end within {most} bytes")
        return data
    if codec == _LZO:
        return lzo_decompressed(block, most)
    if codec == _ZSTD:
        data = bytes(pa.CompressedInputStream(pa.BufferReader(block), "zstd").read(most + 1))
        if len(data) > most:
            raise pa.ArrowInvalid(f"a block of more than {most} bytes")
        return data
    return snappy_decompressed(block, most) if codec == _SNAPPY else lz4_decompressed(block, most)
