"""Hostile ends of ORC files: lengths, and sums of lengths."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.table.orc_tail import OrcTail, orc_tail, stored_blocks, tail_with, writer_zones

ZONE = b"\x1a\x03CET"
FILE = ZONE + bytes(95)


def tail_of(*stripes: tuple[int, int]) -> OrcTail:
    """The end of a file of 100 bytes with stripes of (position, bytes of the footer)."""
    messages = [bytes([8, begin, 32, size]) for begin, size in stripes]
    footer = b"".join(bytes([26, len(message)]) + message for message in messages)
    return OrcTail(postscript=b"", footer_at=100, footer=footer, codec=0, block_bytes=1 << 18)


@pytest.mark.parametrize(
    ("stripes", "zones"),
    [
        ([(0, 5)], ["CET"]),
        ([(0, 5)] * 20, ["CET"] * 20),
        ([(0, 5)] * 21, None),
        ([(96, 5)], None),
        ([(0, 101)], None),
    ],
)
def test_footers_of_stripes_are_not_longer_than_the_file(
    stripes: list[tuple[int, int]], zones: list[str] | None
) -> None:
    """Many stripes that name one footer would be read as often."""
    source = pa.PythonFile(pa.BufferReader(FILE), mode="r")
    if zones is not None:
        assert list(writer_zones(source, tail_of(*stripes))) == zones
        return
    with pytest.raises(pa.ArrowInvalid, match="the footer of a stripe at"):
        list(writer_zones(source, tail_of(*stripes)))


@pytest.mark.parametrize(("length", "valid"), [(2, True), (240, True), (241, False), (255, False), (0, False)])
def test_a_postscript_has_room_for_a_field(length: int, valid: bool) -> None:
    """A field is added to it, and its length is one byte."""
    number = b"\x10\x00"  # field 2: no compression
    postscript = number * (length // 2) if length % 2 == 0 else number * (length // 2) + b"\x10"
    source = pa.PythonFile(pa.BufferReader(bytes(300) + postscript + bytes([length])))
    if not valid:
        with pytest.raises(pa.ArrowInvalid, match=f"a postscript of {length} bytes"):
            orc_tail(source)
        return
    assert tail_with(b"", orc_tail(source))[-1] == length + 2
    assert tail_with(b"x" * 300, orc_tail(source), b"\x28\x00")[-1] == length + 5


def test_a_stored_block_has_at_most_23_bits() -> None:
    """It was an OverflowError for a file that states larger blocks."""
    tail = OrcTail(postscript=b"", footer_at=0, footer=b"", codec=1, block_bytes=1 << 23)
    stored = stored_blocks(bytes(1 << 23), tail)
    assert stored[:3] == b"\xff\xff\xff" and stored[-4:] == b"\x03\x00\x00\x00"
