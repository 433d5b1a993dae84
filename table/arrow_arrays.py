"""Makes Arrow arrays of numpy numbers and of Python values, without an import of pandas."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

_PLAIN: Final = "biuf"
"""The kinds of numpy types whose memory Arrow uses as it is; booleans are packed."""
_NUMBERS: Final[Mapping[type, Callable[[pa.DataType], bool]]] = {
    bool: pa.types.is_boolean,
    int: pa.types.is_integer,
    float: pa.types.is_floating,
}
"""The Arrow types to which numpy converts a Python number as Arrow does, or with an OverflowError."""


def arrow_array(
    values: Sequence[Any] | np.ndarray, kind: pa.DataType | None = None, *, mask: np.ndarray | None = None
) -> pa.Array:
    """The array that `pa.array` returns; `mask` is true where a number is null.

    `pa.array` and `pa.scalar` import pandas, where it is installed, to ask whether their argument is a series. The
    import takes as long as a small read. Numpy numbers (which are not copied), text and bytes are made without it,
    others by `pa.array`. Errors: those of `pa.array`.
    """
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in _PLAIN or not values.dtype.isnative:
            return pa.array(values, kind, mask=mask)
        array = _numbers(values, mask)
        return array if kind is None or array.type == kind else array.cast(kind)
    array = None if kind is None or mask is not None else _of_python(values, kind)
    return pa.array(values, kind, mask=mask) if array is None else array


def _numbers(values: np.ndarray, mask: np.ndarray | None) -> pa.Array:
    validity = None if mask is None else _bits(~mask)
    if values.dtype.kind == "b":
        return pa.Array.from_buffers(pa.bool_(), len(values), [validity, _bits(values)])
    content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [validity, content])


def _of_python(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _texts(values, kind)
    return _python_numbers(values, kind)


def _python_numbers(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """None for values that are not all numbers of that type."""
    expected = next((number for number, is_kind in _NUMBERS.items() if is_kind(kind)), None)
    present = np.array([value is not None for value in values], bool)
    if expected is None or not all(value is None or type(value) is expected for value in values):
        return None
    try:
        with np.errstate(over="ignore"):  # a float32 beyond its range is infinite, as in Arrow
            numbers = np.array([expected() if value is None else value for value in values], kind.to_pandas_dtype())
    except OverflowError:
        return None
    return _numbers(numbers, None if present.all() else ~present)


def _texts(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """None for values that are not all text, or not all bytes, or too large for one array."""
    expected = str if pa.types.is_string(kind) else bytes
    if not all(value is None or type(value) is expected for value in values):
        return None
    is_fixed = pa.types.is_fixed_size_binary(kind)
    width = kind.byte_width if is_fixed else 0
    try:
        parts = [bytes(width) if value is None else value.encode() if expected is str else value for value in values]
    except UnicodeEncodeError:
        return None
    validity = _bits(np.array([value is not None for value in values], bool)) if None in values else None
    if is_fixed:
        is_whole = all(len(part) == width for part in parts)
        return pa.Array.from_buffers(kind, len(parts), [validity, pa.py_buffer(b"".join(parts))]) if is_whole else None
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        return None
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(kind, len(parts), buffers)


def _bits(flags: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def arrow_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """The scalar that `pa.scalar` returns, with its errors; see `arrow_array`."""
    if value is None:
        return pa.nulls(1, kind)[0]
    if type(value) is str and pa.types.is_string(kind) and value.isascii():
        bounds = pa.py_buffer(struct.pack("=ii", 0, len(value)))
        return pa.Array.from_buffers(kind, 1, [None, bounds, pa.py_buffer(value.encode())])[0]
    return arrow_array([value], kind)[0]


def numpy_array(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The values as `to_numpy(zero_copy_only=False)` returns them, which imports pandas too.

    Numbers and booleans without nulls are taken without it; numbers are not copied, and read-only.
    """
    kind = values.type
    result: np.ndarray
    if isinstance(values, pa.ChunkedArray):
        result = values.to_numpy()
        return result
    is_boolean = pa.types.is_boolean(kind)
    if values.null_count or not (is_boolean or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        result = values.to_numpy(zero_copy_only=False)
        return result
    dtype = np.dtype(kind.to_pandas_dtype())
    content = values.buffers()[1]
    if content is None or not len(values):
        return np.zeros(0, dtype)
    if is_boolean:
        skipped = values.offset % 8
        packed = np.frombuffer(content, np.uint8)[values.offset // 8 :]
        return np.unpackbits(packed, count=skipped + len(values), bitorder="little")[skipped:].view(bool)
    # with a count, as the buffer may end with bytes that are no whole number
    numbers = np.frombuffer(content, dtype, len(values), values.offset * dtype.itemsize)
    numbers.flags.writeable = False
    return numbers


def true_rows(answers: pa.BooleanArray) -> np.ndarray:
    """Whether each answer is true; null is false."""
    return numpy_array(answers.fill_null(arrow_scalar(False, pa.bool_())) if answers.null_count else answers)
