"""Decompresses LZO1X, in which ORC's Java library can store a file. Pure.

Source: `LzoDecompressor` of ORC's C++ library, and aircompressor, its Java library's compressor. LZO's documentation
defines commands below 16 after literals otherwise than both, and aircompressor writes none: they are damage here.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_END: Final = 17
"""The command after which a stream ends, with two bytes of 0."""
_FIRST_LITERALS: Final = 17
"""What the first command of a stream adds to a number of literals."""


def lzo_decompressed(block: bytes, most: int) -> bytes:
    """The content of a block, of one or more streams. The time is in proportion to `block` and `most`.

    most: the most bytes of the content. pa.ArrowInvalid for damage and for a longer content.
    """
    content = bytearray()
    place = 0
    try:
        while place < len(block):
            place = _stream(block, place, content, most)
    except IndexError:
        raise pa.ArrowInvalid("a block of LZO that is truncated") from None
    return bytes(content)


def _stream(block: bytes, place: int, content: bytearray, most: int) -> int:
    """Appends one stream; the position after it. IndexError for a truncated command.

    Each command copies `length` bytes from `distance` bytes before the end of the content, then literals of the block.
    """
    start, literals = place, 0
    while (command := block[place]) != _END:
        place += 1
        length = distance = 0
        if place == start + 1 and command >= 16:
            literals = command - _FIRST_LITERALS
        elif command >= 64:
            length, literals = (command >> 5) + 1, command & 3
            distance = (command >> 2 & 7 | block[place] << 3) + 1
            place += 1
        elif command >= 16:
            length, place = _number(block, place, command, 31 if command >= 32 else 7)
            trailer = block[place] | block[place + 1] << 8
            place += 2
            length, literals = length + 2, trailer & 3
            distance = (trailer >> 2) + (1 if command >= 32 else 16384 << (command >> 3 & 1))
        elif literals == 0:
            literals, place = _number(block, place, command, 15)
            literals += 3
        else:
            raise pa.ArrowInvalid(f"command {command} of LZO after {literals} literals")
        end = place + literals
        if literals < 0 or distance > len(content) or len(content) + length + literals > most or end > len(block):
            raise pa.ArrowInvalid(
                f"{length} bytes from {distance} bytes before and {literals} literals in a block of LZO after "
                f"{len(content)} bytes, at most {most}"
            )
        if length:
            first = len(content) - distance
            source = content[first : first + length]
            content += (source * (length // distance + 1))[:length]
        content += block[place:end]
        place = end
    if block[place + 1 : place + 3] != b"\0\0":
        raise pa.ArrowInvalid("a stream of LZO without its end")
    return place + 3


def _number(block: bytes, place: int, command: int, mask: int) -> tuple[int, int]:
    """The masked bits of a command, and the position after them. If they are 0, a number follows: `mask`, and 255 for
    each byte of 0, and the next byte."""
    value = command & mask
    if value:
        return value, place
    zeros = place
    while block[place] == 0:
        place += 1
    return mask + 255 * (place - zeros) + block[place], place + 1
