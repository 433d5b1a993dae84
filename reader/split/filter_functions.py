"""Values of the functions of a filter (`table.predicate.tree.Function`), for whole columns at a time."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.predicate.tree import Call, Function


def function_values(call: Call, arguments: Sequence[pa.Array]) -> pa.Array:
    """The function's value for each row, of type `call.type`."""
    match call.function:
        case Function.IS_NAN:
            return _is_nan(arguments[0])
        case Function.SIGN_BIT:
            return _sign_bit(arguments[0])


def _is_nan(numbers: pa.Array) -> pa.BooleanArray:
    if not pa.types.is_floating(numbers.type):
        return pa.repeat(pa.scalar(False), len(numbers))
    return pc.is_nan(numbers).fill_null(False)


def _sign_bit(numbers: pa.Array) -> pa.BooleanArray:
    if not pa.types.is_floating(numbers.type):
        zero = Decimal(0) if pa.types.is_decimal(numbers.type) else 0
        return pc.less(numbers, pa.scalar(zero, numbers.type))
    signs = np.signbit(numbers.fill_null(0.0).to_numpy(zero_copy_only=False))
    return pc.if_else(numbers.is_valid(), pa.array(signs), pa.scalar(None, pa.bool_()))
