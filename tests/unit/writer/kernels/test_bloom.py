"""Bits of record keys: a plain reference of Hudi's hash."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.writer.kernels.bloom import find_key_bits, set_key_bits

MASK = 0xFFFFFFFF
FACTOR = 0x5BD1E995


def signed(number: int, width: int) -> int:
    return number - (1 << width) if number >> (width - 1) else number


def murmur(data: bytes, seed: int) -> int:
    """Hadoop `MurmurHash.hash`."""
    h = (seed ^ len(data)) & MASK
    words = len(data) // 4
    for at in range(0, words * 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * FACTOR & MASK
        k = (k ^ k >> 24) * FACTOR & MASK
        h = (h * FACTOR & MASK) ^ k
    left = len(data) - words * 4
    if left:
        # Java indexes the last bytes from the end: the third, second and last byte of the key, with their signs
        for back, shift in ((3, 16), (2, 8), (1, 0)):
            if left >= back:
                h ^= (signed(data[-back], 8) << shift) & MASK
        h = h * FACTOR & MASK
    h = (h ^ h >> 13) * FACTOR & MASK
    return h ^ h >> 15


@given(
    st.lists(st.text(max_size=12), min_size=1, max_size=6), st.integers(1, 12), st.integers(1, 500), st.integers(1, 3)
)
def test_bits_are_those_of_the_reference(keys: list[str], hashes: int, bits: int, step: int) -> None:
    expected = np.zeros((bits + 7) // 8, np.uint8)
    for key in keys[::step]:
        h = 0
        for _ in range(hashes):
            h = murmur(key.encode(), h)
            bit = abs(signed(h, 32)) % bits
            expected[bit >> 3] |= 1 << (bit & 7)
    array = pa.array(keys)
    _, offsets, data = array.buffers()
    actual = np.zeros(len(expected), np.uint8)
    content = np.frombuffer(data or b"\0", np.uint8)
    set_key_bits(content, np.frombuffer(offsets, np.int32), 0, len(keys), step, hashes, bits, actual)
    assert actual.tolist() == expected.tolist()


@given(
    st.lists(st.text(max_size=12), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(1, 60),
    st.binary(max_size=8),
)
def test_key_may_be_in_filter_if_all_its_bits_are_set(keys: list[str], hashes: int, bits: int, content: bytes) -> None:
    filter_bytes = np.frombuffer(content.ljust((bits + 7) // 8, b"\xff")[: (bits + 7) // 8], np.uint8).copy()
    expected = []
    for key in keys[1:]:
        h, has_all = 0, True
        for _ in range(hashes):
            h = murmur(key.encode(), h)
            bit = abs(signed(h, 32)) % bits
            has_all &= bool(filter_bytes[bit >> 3] >> (bit & 7) & 1)
        expected.append(has_all)
    _, offsets, data = pa.array(keys).buffers()
    may_be = np.zeros(len(keys) - 1, bool)
    text, places = np.frombuffer(data or b"\0", np.uint8), np.arange(1, len(keys))
    find_key_bits(text, np.frombuffer(offsets, np.int32), places, hashes, bits, filter_bytes, may_be)
    assert may_be.tolist() == expected
    find_key_bits(text, np.frombuffer(offsets, np.int32), places, hashes, bits, filter_bytes * 0, may_be)
    assert may_be.tolist() == expected, "another row of the filter takes no key away"
