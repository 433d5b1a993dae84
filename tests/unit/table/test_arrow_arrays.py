"""Arrays that are made without pandas are those of Arrow's own functions, and make no import of pandas."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.arrow_arrays import arrow_array, arrow_scalar, numpy_array, true_rows

KINDS = {
    pa.string(): st.text(),
    pa.binary(): st.binary(),
    pa.binary(4): st.binary(min_size=3, max_size=5),
    pa.binary(0): st.binary(max_size=1),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-130, 130),
    pa.int64(): st.integers(-(2**63) - 1, 2**63),
    pa.float32(): st.floats(),
    pa.float64(): st.floats(),
    pa.date32(): st.dates(),
    pa.list_(pa.int64()): st.lists(st.integers(0, 9)),
}


def outcome(make: object, *arguments: object) -> object:
    """What a function returns, or the type and text of its error."""
    try:
        return make(*arguments)  # type: ignore[operator]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return type(error), str(error)


def is_same(left: object, right: object) -> bool:
    """NaN is equal to itself."""
    if isinstance(left, pa.Array) and isinstance(right, pa.Array):
        left.validate(full=True)
        return bool(
            left.type == right.type and (left.equals(right) or repr(left.to_pylist()) == repr(right.to_pylist()))
        )
    return left == right or repr(left) == repr(right)


@given(st.data())
def test_values_of_python(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(KINDS)))
    others = st.sampled_from([None, "x", b"x", 1, 1.5, True, "\ud800", 2**70])
    values = data.draw(st.lists(st.one_of(st.none(), KINDS[kind], KINDS[kind], others)))
    assert is_same(outcome(arrow_array, values, kind), outcome(pa.array, values, kind))
    for value in values[:3]:
        assert is_same(outcome(arrow_scalar, value, kind), outcome(pa.scalar, value, kind))


@given(
    st.sampled_from(["bool", "i1", "u2", "i4", "i8", "f4", "f8", ">i4"]),
    st.lists(st.integers(0, 100)),
    st.sampled_from([None, pa.int64(), pa.int8(), pa.string()]),
    st.integers(1, 3),
    st.booleans(),
)
def test_numbers_of_numpy(dtype: str, numbers: list[int], kind: pa.DataType | None, step: int, masked: bool) -> None:
    values = np.array(numbers, dtype)[::step]
    mask = np.arange(len(values)) % 3 == 0 if masked else None
    if kind == pa.string():
        kind = None
    made = outcome(lambda: arrow_array(values, kind, mask=mask))
    assert is_same(made, outcome(lambda: pa.array(values, kind, mask=mask)))


@given(
    st.sampled_from([pa.bool_(), pa.int8(), pa.uint64(), pa.int32(), pa.float32(), pa.float64(), pa.date32()]),
    st.lists(st.one_of(st.none(), st.integers(0, 1)), max_size=40),
    st.integers(0, 20),
    st.booleans(),
)
def test_numpy_of_slices(kind: pa.DataType, numbers: list[int | None], begin: int, has_nulls: bool) -> None:
    values = pa.array([number if has_nulls else number or 0 for number in numbers], pa.int32()).cast(kind).slice(begin)
    expected = values.to_numpy(zero_copy_only=False)
    made = numpy_array(values)
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made, expected)
    chunked = numpy_array(pa.chunked_array([values, values]))
    np.testing.assert_array_equal(chunked, np.concatenate([expected, expected]))


def test_numbers_are_shared_and_read_only() -> None:
    numbers = np.arange(3)
    made = numpy_array(arrow_array(numbers))
    assert np.shares_memory(made, numbers)
    assert not made.flags.writeable


def test_a_buffer_may_be_longer_than_its_numbers() -> None:
    values = pa.Array.from_buffers(pa.int32(), 2, [None, pa.py_buffer(bytes(range(11)))])
    for array in (values, values[1:], values[2:]):
        np.testing.assert_array_equal(numpy_array(array), array.to_numpy())


def test_null_is_not_true() -> None:
    assert true_rows(pa.array([True, None, False])).tolist() == [True, False, False]
    assert true_rows(pa.array([], pa.bool_())).tolist() == []


PROGRAM = """
import sys, numpy as np, pyarrow as pa
from penstock.table.arrow_arrays import arrow_array, arrow_scalar, numpy_array, true_rows
arrow_array(["x", None], pa.string()), arrow_scalar(1, pa.int32()), arrow_array([1.5], pa.float64())
flags = arrow_array(np.array([True, False]), mask=np.array([True, False]))
true_rows(flags), numpy_array(arrow_array(np.arange(3)))
{more}
sys.exit(int("pandas" in sys.modules))
"""


@pytest.mark.parametrize(("more", "imports"), [("", 0), ("pa.array([1])", 1), ("flags.to_numpy(False)", 1)])
def test_pandas_is_not_imported(more: str, imports: int) -> None:
    """The second and third cases are the controls: Arrow's own functions import it."""
    assert subprocess.run([sys.executable, "-P", "-c", PROGRAM.format(more=more)]).returncode == imports
