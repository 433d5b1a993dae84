"""Conditions of Polars: literals reach the scan exactly."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest


@pytest.mark.parametrize("value", ["1234567890123456789012345678.9012345678", "-0.0000000001", "0"])
def test_decimal_is_exact_in_any_context(value: str) -> None:
    import polars as pl  # late, as every engine: each process of a run collects all tests

    from penstock.engine.adapters.polars_conditions import condition_of

    number = decimal.Decimal(value)
    rows = pa.table({"d": pa.array([number], pa.decimal128(38, 10))})
    with decimal.localcontext(prec=5):
        condition = condition_of(pl.col("d") == pl.lit(number, dtype=pl.Decimal(38, 10)), rows.schema)
    assert condition is not None
    assert rows.filter(condition).num_rows == 1
