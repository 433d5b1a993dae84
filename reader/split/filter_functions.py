"""Values of the functions of a filter (`table.predicate.tree.Function`), for whole columns at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.arrow_arrays import arrow_array, numpy_array
from penstock.table.predicate.tree import Call, Function


def function_values(call: Call, arguments: Sequence[pa.Array]) -> pa.Array:
    """The function's value for each row, of type `call.type`."""
    return _FUNCTIONS[call.function](call, *arguments).cast(call.type)


def _is_nan(_: Call, numbers: pa.Array) -> pa.BooleanArray:
    if not pa.types.is_floating(numbers.type):
        return pa.repeat(pa.scalar(False), len(numbers))
    return pc.is_nan(numbers).fill_null(False)


def _sign_bit(_: Call, numbers: pa.Array) -> pa.BooleanArray:
    if not pa.types.is_floating(numbers.type):
        zero = Decimal(0) if pa.types.is_decimal(numbers.type) else 0
        return pc.less(numbers, pa.scalar(zero, numbers.type))
    signs = np.signbit(numpy_array(numbers.fill_null(0.0)))
    return pc.if_else(numbers.is_valid(), arrow_array(signs), pa.scalar(None, pa.bool_()))


def _abs(_: Call, numbers: pa.Array) -> pa.Array:
    if not pa.types.is_integer(numbers.type):
        return pc.abs(numbers)
    return pc.abs(numbers.cast(pa.int64())).view(pa.uint64())  # the lowest int64 stays as it is: 2^63 unsigned


def _cased(simple: Callable[[pa.Array], pa.Array], full: Callable[[str], str]) -> Callable[[Call, pa.Array], pa.Array]:
    """`simple` for ASCII texts. Others have mappings to several characters, which Arrow does not have: each distinct
    text is mapped once."""

    def cased(_: Call, texts: pa.Array) -> pa.Array:
        is_ascii = pc.equal(pc.utf8_length(texts), pc.binary_length(texts))
        if pc.all(is_ascii).as_py() is not False:
            return simple(texts)
        encoded = pc.dictionary_encode(pc.if_else(is_ascii, pa.scalar(None, texts.type), texts))
        mapped = arrow_array([full(text) for text in encoded.dictionary.to_pylist()], texts.type)
        return pc.if_else(is_ascii, simple(texts), mapped.take(encoded.indices))

    return cased


def _length(_: Call, values: pa.Array) -> pa.Array:
    is_binary = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    return pc.binary_length(values) if is_binary else pc.utf8_length(values)


def _substring(call: Call, texts: pa.Array, *_: pa.Array) -> pa.Array:
    position, *length = (argument.scalar.as_py() for argument in call.arguments[1:])  # type: ignore[union-attr]
    start = position - 1 if position > 0 else position
    if not length:
        return pc.utf8_slice_codeunits(texts, start=start)
    stop = start + max(length[0], 0)
    if start < 0 <= stop:  # at or beyond the end
        return pc.utf8_slice_codeunits(texts, start=start)
    return pc.utf8_slice_codeunits(texts, start=start, stop=stop)


def _concat(_: Call, *texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*texts, "")


def _calendar(field: Callable[[pa.Array], pa.Array]) -> Callable[[Call, pa.Array], pa.Array]:
    return lambda _, values: field(_utc(values))


def _utc(values: pa.Array) -> pa.Array:
    """Dates, and times without a zone; instants as their time in UTC."""
    return values if pa.types.is_date(values.type) else values.cast(pa.timestamp(values.type.unit))


def _cast(call: Call, values: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(values.type):
        return pc.floor_temporal(_utc(values), unit="day").cast(pa.date32())
    if pa.types.is_decimal(values.type) and pa.types.is_floating(call.type):
        return values.cast(pa.string()).cast(call.type)  # Arrow's own cast does not round to the nearest
    return values.cast(call.type, safe=False) if pa.types.is_floating(call.type) else values.cast(call.type)


_FUNCTIONS: Final[Mapping[Function, Callable[..., pa.Array]]] = {
    Function.IS_NAN: _is_nan,
    Function.SIGN_BIT: _sign_bit,
    Function.ABS: _abs,
    Function.UPPER: _cased(pc.ascii_upper, str.upper),
    Function.LOWER: _cased(pc.ascii_lower, str.lower),
    Function.LENGTH: _length,
    Function.TRIM: lambda _, texts: pc.utf8_trim(texts, characters=" "),
    Function.LTRIM: lambda _, texts: pc.utf8_ltrim(texts, characters=" "),
    Function.RTRIM: lambda _, texts: pc.utf8_rtrim(texts, characters=" "),
    Function.SUBSTRING: _substring,
    Function.CONCAT: _concat,
    Function.COALESCE: lambda _, *values: pc.coalesce(*values),
    Function.YEAR: _calendar(pc.year),
    Function.MONTH: _calendar(pc.month),
    Function.DAY: _calendar(pc.day),
    Function.CAST: _cast,
}
