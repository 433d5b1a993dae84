"""Record positions: when they may be used, and what they are."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.proto.errors import CorruptBlock
from penstock.reader.log.block_selection import CountedBlock
from penstock.reader.log.record_positions import usable_positions
from penstock.table.log.blocks import BlockHeader, BlockKind, BlockPlace, LogBlock
from tests.oracle import log_file, slice_writer


def counted(positions: str | None, base: str = "1") -> CountedBlock:
    header = BlockHeader(instant_time="2", record_positions=positions, base_instant_of_positions=base)
    block = LogBlock(kind=BlockKind.DELETE, header=header, offset=0, content_start=0, content_end=0, end=0)
    return CountedBlock(0, block, BlockPlace("t", "f", 0, "2"))


@pytest.mark.parametrize("count", [0, 1, 5, 4096, 4097, 60_000])
def test_positions_are_read_as_written(count: int) -> None:
    places = sorted(random.Random(count).sample(range(1 << 20), count))
    (result,) = usable_positions([counted(slice_writer.roaring(places))], [count], "1") or []
    assert result.dtype == np.int64
    assert result.tolist() == places


def test_runs_and_high_halves() -> None:
    """Bytes of Java's own layout: two bitmaps, the second at 2^32, of five containers with runs."""
    import base64
    import struct

    cookie = struct.pack("<I", 12347 | (4 << 16)) + bytes([0b10101])
    heads = b"".join(struct.pack("<HH", key, size - 1) for key, size in [(0, 6), (1, 2), (2, 1), (3, 1), (9, 3)])
    run = struct.pack("<HHHHH", 2, 5, 3, 100, 1), struct.pack("<HHH", 1, 7, 0), struct.pack("<HHH", 1, 65533, 2)
    arrays = struct.pack("<HH", 8, 9), struct.pack("<H", 65535)
    body = cookie + heads + b"\0" * 20 + run[0] + arrays[0] + run[1] + arrays[1] + run[2]
    first = struct.pack("<II", 12346, 0)
    text = base64.b64encode(struct.pack("<QI", 2, 0) + first + struct.pack("<I", 1) + body).decode()
    high = 1 << 32
    expected = [5, 6, 7, 8, 100, 101, 65536 + 8, 65536 + 9, 131072 + 7, 196608 + 65535, 589824 + 65533]
    expected = [high + place for place in [*expected, 589824 + 65534, 589824 + 65535]]
    (result,) = usable_positions([counted(text)], [13], "1") or []
    assert result.tolist() == expected
    block = log_file.Block(1, {log_file.POSITIONS: text}, b"")
    assert log_file.positions(block) == expected


def test_positions_beyond_every_file_are_damage() -> None:
    """A regression test of mutated inputs: the high half is any 32 bits, and a row's number is a signed 64-bit one."""
    import base64

    data = bytearray(base64.b64decode(slice_writer.roaring([1, 2])))
    data[8:12] = b"\0\0\0\x80"
    with pytest.raises(CorruptBlock, match="a record position of"):
        usable_positions([counted(base64.b64encode(data).decode())], [2], "1")


@pytest.mark.parametrize(
    "blocks",
    [
        [counted(slice_writer.roaring([1])), counted(None)],
        [counted(slice_writer.roaring([1])), counted("")],
        [counted(slice_writer.roaring([1])), counted(slice_writer.roaring([1]), base="0")],
        [counted(slice_writer.roaring([1])), counted(slice_writer.roaring([1, 2]))],
    ],
)
def test_one_block_without_usable_positions_and_none_are_used(blocks: list[CountedBlock]) -> None:
    assert usable_positions(blocks, [1, 1], "1") is None


def test_slice_whose_base_instant_is_not_known_has_none() -> None:
    assert usable_positions([counted(slice_writer.roaring([1]), base="")], [1], "") is None


def test_positions_that_are_damaged_are_named() -> None:
    with pytest.raises(CorruptBlock, match="table t: f: block at byte 0"):
        usable_positions([counted("AAAA")], [1], "1")
