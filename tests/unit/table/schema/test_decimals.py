"""Big-endian two's complement bytes as Arrow decimals."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.schema.decimals import decimals_from_bytes, decimals_to_bytes

WIDE = pa.decimal128(38, 0)
_LIMIT = 10**38 - 1


def stored(number: int | None, padding: int) -> bytes | None:
    """As Java stores it, with sign bytes in front."""
    if number is None:
        return None
    return number.to_bytes(number.bit_length() // 8 + 1 + padding, "big", signed=True)


@given(st.lists(st.tuples(st.none() | st.integers(-_LIMIT, _LIMIT) | st.integers(-300, 300), st.integers(0, 20))))
def test_equal_to_pythons_integers(numbers: list[tuple[int | None, int]]) -> None:
    content = pa.array([stored(*number) for number in numbers], pa.binary())
    assert decimals_from_bytes(content, WIDE).to_pylist() == [n if n is None else Decimal(n) for n, _ in numbers]


def test_slice_and_a_scale() -> None:
    content = pa.array([b"\x7f", b"\x00\xff", None, b"\xff\x00"], pa.binary()).slice(1)
    assert decimals_from_bytes(content, pa.decimal128(5, 2)).to_pylist() == [Decimal("2.55"), None, Decimal("-2.56")]
    assert decimals_from_bytes(pa.array([], pa.binary()), WIDE).to_pylist() == []
    assert decimals_from_bytes(pa.array([None], pa.binary()), WIDE).to_pylist() == [None]


@pytest.mark.parametrize("content", [b"", b"\x01" + bytes(16), b"\x00\x80" + bytes(15), b"\xff\x7f" + bytes(15)])
def test_invalid_decimals_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"[dD]ecimal"):
        decimals_from_bytes(pa.array([b"\1", content], pa.binary()), WIDE)


def test_more_digits_than_the_type_has() -> None:
    with pytest.raises(ValueError, match="precision"):
        decimals_from_bytes(pa.array([b"\x03\xe8"], pa.binary()), pa.decimal128(3, 0))


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), max_size=8), st.integers(0, 3))
def test_decimals_have_as_few_bytes_as_in_java(numbers: list[int], first: int) -> None:
    array = pa.array([Decimal(number) for number in [0] * first + numbers], pa.decimal128(38, 0)).slice(first)
    encoded = decimals_to_bytes(array)
    assert encoded.to_pylist() == [
        number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
        for number in numbers
    ]
    assert decimals_from_bytes(encoded, pa.decimal128(38, 0)).equals(array)
