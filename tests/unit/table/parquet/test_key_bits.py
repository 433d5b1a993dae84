"""Bits of keys in a bloom filter: those that the compiled kernel sets, and no others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.parquet.bloom_filter import BloomFilter
from penstock.table.parquet.key_bits import key_bits
from penstock.writer.kernels.bloom import set_key_bits


@given(st.text(max_size=12), st.integers(1, 30), st.sampled_from([64, 997, 2_587_966]))
def test_the_bits_of_a_key_are_those_of_the_kernel(key: str, hashes: int, bits: int) -> None:
    bloom = BloomFilter(hashes, bits, [np.zeros((bits + 7) // 8, np.uint8)])
    bloom.add(pa.array([key], pa.string()), set_key_bits)
    (places,) = key_bits([key], hashes, bits)
    assert np.unique(places).tolist() == np.flatnonzero(np.unpackbits(bloom.rows[0], bitorder="little")).tolist()


def test_no_keys() -> None:
    assert key_bits([], 3, 64).shape == (0, 3)
