"""Conditions of Polars: literals reach the scan exactly."""

from __future__ import annotations

import decimal

import polars as pl
import pyarrow as pa
import pytest

from penstock.engine.adapters.polars_conditions import condition_of


@pytest.mark.parametrize("value", ["1234567890123456789012345678.9012345678", "-0.0000000001", "0"])
def test_decimal_is_exact_in_any_context(value: str) -> None:
    number = decimal.Decimal(value)
    rows = pa.table({"d": pa.array([number], pa.decimal128(38, 10))})
    with decimal.localcontext(prec=5):
        condition = condition_of(pl.col("d") == pl.lit(number, dtype=pl.Decimal(38, 10)), rows.schema)
    assert condition is not None
    assert rows.filter(condition).num_rows == 1
