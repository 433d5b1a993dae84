"""Avro's whole numbers, and values at their places: plain references."""

from __future__ import annotations

import io

import fastavro
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.writer.kernels.avro_values import MAX_LONG_BYTES, encode_longs, place_values

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)


@given(st.lists(LONGS, max_size=8))
def test_longs_are_those_of_avro(numbers: list[int]) -> None:
    lengths = np.zeros(len(numbers), np.int64)
    content = np.zeros(len(numbers) * MAX_LONG_BYTES, np.uint8)
    size = encode_longs(np.array(numbers, np.int64), lengths, content)
    expected = []
    for number in numbers:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, "long", number)
        expected.append(sink.getvalue())
    assert content[:size].tobytes() == b"".join(expected)
    assert lengths.tolist() == [len(one) for one in expected]


@given(st.lists(st.lists(st.binary(max_size=5), min_size=3, max_size=3), max_size=4))
def test_values_of_a_row_follow_each_other(rows: list[list[bytes]]) -> None:
    sizes = np.array([sum(map(len, row)) for row in rows], np.int64)
    output = np.zeros(int(sizes.sum()), np.uint8)
    at = np.cumsum(sizes) - sizes
    for column in range(3):
        values = [row[column] for row in rows]
        lengths = np.array([len(value) for value in values], np.int64)
        place_values(at, lengths, np.frombuffer(b"".join(values), np.uint8), output)
    assert output.tobytes() == b"".join(map(b"".join, rows))
    assert at.tolist() == np.cumsum(sizes).tolist()
