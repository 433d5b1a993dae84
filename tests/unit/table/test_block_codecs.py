"""Blocks of Snappy and LZ4 without a frame: sizes, damage, and memory that is not content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.block_codecs import lz4_decompressed, snappy_decompressed

Decompress = Callable[[bytes, int], bytes]
CODECS: list[tuple[Any, Decompress]] = [("snappy", snappy_decompressed), ("lz4_raw", lz4_decompressed)]
PIECES = st.lists(st.one_of(st.binary(max_size=40), st.integers(0, 700).map(bytes), st.just(b"row" * 90)), max_size=12)
OVERWRITTEN_END = b"\xf0\x0f" + b"a" * 30 + b"\x01\0\x50VWXYZ"
"""39 bytes, with a match that LZ4 refuses in a buffer of that size: it begins within 12 bytes of the end."""


@pytest.mark.parametrize(("name", "decompressed"), CODECS)
@given(pieces=PIECES)
def test_content_has_its_size_in_any_buffer(name: Any, decompressed: Decompress, pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    block = pa.Codec(name).compress(data, asbytes=True)
    assert decompressed(block, len(data)) == decompressed(block, 1 << 20) == data


@pytest.mark.parametrize(("name", "decompressed"), CODECS)
def test_damage_and_a_longer_content_are_errors(name: Any, decompressed: Decompress) -> None:
    block = pa.Codec(name).compress(b"abcdefgh" * 100, asbytes=True)
    with pytest.raises(pa.ArrowInvalid, match=r"800 bytes in a block of .*, at most 799"):
        decompressed(block, 799)
    for cut in range(1, len(block) - 9):  # nine bytes are a block of LZ4, of literals
        with pytest.raises(pa.ArrowInvalid, match="a block of"):
            decompressed(block[:-cut], 800)
    with pytest.raises(pa.ArrowInvalid, match="a block of"):
        decompressed(b"", 800)


def test_bytes_that_no_sequence_writes_are_never_content() -> None:
    """A buffer of 42 bytes takes the block, and its last 3 bytes would be those of the process."""
    assert len(pa.Codec("lz4_raw").decompress(OVERWRITTEN_END, decompressed_size=42, asbytes=True)) == 42
    for most in (38, 39, 42, 1000):
        with pytest.raises(pa.ArrowInvalid):
            lz4_decompressed(OVERWRITTEN_END, most)


def test_size_of_a_hostile_block_is_not_allocated() -> None:
    with pytest.raises(pa.ArrowInvalid, match="at most 100"):
        snappy_decompressed(b"\xff\xff\xff\xff\x7f" + b"a", 100)
    with pytest.raises(pa.ArrowInvalid, match="without a size"):
        snappy_decompressed(b"\xff" * 9, 100)
    with pytest.raises(pa.ArrowInvalid, match="at most 100"):
        lz4_decompressed(b"\x1f" + b"a\x01\0" + b"\xff" * 60 + b"\0" + b"\x10a", 100)
