"""Blocks of Hadoop's Snappy and LZ4: parts, chunks, damage."""

from __future__ import annotations

import random
import struct
from typing import Literal

import pytest

from penstock.table.hfile.hadoop_blocks import hadoop_decompressed
from penstock.table.hfile.layout import LayoutError
from tests.unit.table.metadata.hfile_writer import LZ4, SNAPPY, hadoop_compressed

Name = Literal["snappy", "lz4"]
CODECS: list[tuple[Name, int]] = [("snappy", SNAPPY), ("lz4", LZ4)]
DATA = random.Random(7).randbytes(700) + bytes(2500) + random.Random(8).randbytes(1300) + b"row" * 900


@pytest.mark.parametrize(("name", "codec"), CODECS)
@pytest.mark.parametrize("size", [0, 1, 2, 999, 1000, 1001, 2000, 2999, 3000, 3001, 6500, 7200])
def test_parts_and_chunks_of_each_size_are_read(name: Name, codec: int, size: int) -> None:
    """Zeros at the end of a chunk are distinguished from the rest of a buffer."""
    for data in (DATA[:size], bytes(size)):
        assert hadoop_decompressed(hadoop_compressed(data, codec), len(data), name) == data


@pytest.mark.parametrize(("name", "codec"), CODECS)
def test_damage_is_an_error(name: Name, codec: int) -> None:
    stored = hadoop_compressed(DATA, codec)
    for size in (len(DATA) - 1, len(DATA) + 1, 0):
        with pytest.raises(LayoutError, match="uncompressed bytes"):
            hadoop_decompressed(stored, size, name)
    for cut in range(1, 400):
        with pytest.raises(LayoutError):
            hadoop_decompressed(stored[:-cut], len(DATA), name)
    for part, chunk in ((1 << 31, 4), (5, 0), (5, 1 << 31), (5, 4)):
        with pytest.raises(LayoutError):
            hadoop_decompressed(struct.pack(">II", part, chunk) + b"\xff" * 4, 5, name)


def test_number_of_chunks_is_bounded() -> None:
    """A payload of millions of small ones would take minutes."""

    def of_chunks(count: int) -> bytes:
        return struct.pack(">I", count) + struct.pack(">IBB", 2, 0x10, ord("a")) * count

    with pytest.raises(LayoutError, match="a part from byte 0 to byte 0 of 1"):
        hadoop_decompressed(bytes(4096), 1, "snappy")
    with pytest.raises(LayoutError, match="chunk 2 up to byte 1"):
        hadoop_decompressed(struct.pack(">II", 1, 1) + b"\0", 1, "lz4")
    assert hadoop_decompressed(of_chunks(4096), 4096, "lz4") == b"a" * 4096
    with pytest.raises(LayoutError, match="chunk 4097"):
        hadoop_decompressed(of_chunks(4097), 4097, "lz4")
