"""CRC-32C by arrays: the values of RFC 3720, and those of a loop over bytes."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.hfile.crc32c import _PIECE as PIECE
from penstock.table.hfile.crc32c import crc32c_of_chunks


def by_bytes(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_values_of_the_standard(data: bytes, value: int) -> None:
    assert crc32c_of_chunks(data, len(data)).tolist() == [by_bytes(data)] == [value]
    assert crc32c_of_chunks(b"", len(data)).tolist() == []


@given(st.binary(max_size=600), st.sampled_from([1, 3, 4, 63, 64, 65, 128, 129, 500, 1 << 30]))
def test_each_chunk_has_the_value_of_a_loop_over_its_bytes(data: bytes, step: int) -> None:
    expected = [by_bytes(data[start : start + step]) for start in range(0, len(data), step)]
    assert crc32c_of_chunks(data, step).tolist() == expected


def test_bit_that_flipped_changes_the_value_of_its_chunk() -> None:
    data = random.Random(1).randbytes(1000)
    for place in (0, 3, 4, 63, 64, 299, 300, 899, 900, 999):
        other = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        differ = crc32c_of_chunks(other, 300) != crc32c_of_chunks(data, 300)
        assert differ.nonzero()[0].tolist() == [place // 300]


def test_chunks_that_are_longer_than_what_is_held() -> None:
    """The sum of a chunk is that of its two parts, joined."""
    for length in (PIECE - 1, PIECE, PIECE + 1, PIECE + 64, PIECE + 65, 2 * PIECE + 77):
        data = random.Random(length).randbytes(length)
        (whole,) = crc32c_of_chunks(data, length)
        first, second = crc32c_of_chunks(data, length // 2 + 1)
        assert whole == joined(int(first), int(second), length - length // 2 - 1)
        assert whole != joined(int(second), int(first), length // 2 + 1)


def joined(left: int, right: int, right_bytes: int) -> int:
    """The CRC of two parts, by squared matrices of a zero bit (as zlib's `crc32_combine`)."""

    def times(matrix: list[int], vector: int) -> int:
        result = 0
        for row in matrix:
            result ^= row if vector & 1 else 0
            vector >>= 1
        return result

    matrix = [0x82F63B78, *(1 << bit for bit in range(31))]
    count = 8 * right_bytes
    while count:
        if count & 1:
            left = times(matrix, left)
        matrix = [times(matrix, row) for row in matrix]
        count >>= 1
    return left ^ right


def test_memory_is_that_of_a_piece() -> None:
    """Of 16 MiB, in chunks of a byte, of 16 KiB, and as one."""
    data = bytes(16 << 20)
    for step in (1, 16384, len(data)):
        tracemalloc.start()
        sums = crc32c_of_chunks(data, step)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 24 * PIECE + 2.5 * sums.nbytes, step
