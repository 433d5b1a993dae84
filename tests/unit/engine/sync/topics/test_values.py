"""Base64 and unscaled decimals in bulk are equal to Python's, value by value."""

from __future__ import annotations

import base64
import decimal
import random

import pyarrow as pa
import pytest

from penstock.engine.sync.topics.values import decimals, decoded_base64


@pytest.mark.parametrize("count", [0, 1, 7, 400])
def test_base64_of_random_bytes(count: int) -> None:
    rng = random.Random(count)
    values = [None if rng.random() < 0.2 else rng.randbytes(rng.randrange(9)) for _ in range(count)]
    texts = pa.array([None if one is None else base64.b64encode(one).decode() for one in values], pa.string())
    assert decoded_base64(texts).to_pylist() == values
    sliced = pa.concat_arrays([pa.array(["QQ=="]), texts]).slice(1)
    assert decoded_base64(sliced).to_pylist() == values


@pytest.mark.parametrize("text", ["A", "AA=A", "AA==AA==", "A===", "====", "AAA*", "12.3", "éé", "AAAA ", "AA"])
def test_text_that_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not Base64"):
        decoded_base64(pa.array(["QUJD", text, None]))


@pytest.mark.parametrize("count", [0, 1, 300])
def test_decimals_of_every_length(count: int) -> None:
    rng = random.Random(count)
    most = 10**38
    numbers = [
        None if rng.random() < 0.2 else rng.randrange(1 - most, most) // 10 ** rng.randrange(38) for _ in range(count)
    ]
    values = [None if one is None else one.to_bytes(one.bit_length() // 8 + 1, "big", signed=True) for one in numbers]
    with decimal.localcontext(prec=60):
        expected = [None if one is None else decimal.Decimal(one).scaleb(-3) for one in numbers]
    assert decimals(pa.array(values, pa.binary()), pa.decimal128(38, 3)).to_pylist() == expected


@pytest.mark.parametrize("value", [b"", b"\x7f\xff", b"\x01" * 17])
def test_decimal_beyond_its_column_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError):
        decimals(pa.array([b"\x01", value, None]), pa.decimal128(3, 1))
