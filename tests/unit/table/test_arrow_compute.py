"""The functions of `pc` are those of `pyarrow.compute`, which the first call of another one imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest

from penstock.table.arrow_compute import pc

NUMBERS = pa.array([3, None, 1, 3, 2**40], pa.int64())
MASK = pa.array([True, True, None, False, True])
ROWS = pa.array([2, 0, None], pa.int64())
BATCH = pa.record_batch({"a": NUMBERS, "b": pa.array(["x", None, "y", "", "z"])})
CALLS: dict[str, list[Callable[[Any], Any]]] = {
    "cast": [lambda m: m.cast(NUMBERS, pa.string()), lambda m: m.cast(NUMBERS, pa.float64())],
    "dictionary_encode": [lambda m: m.dictionary_encode(NUMBERS), lambda m: m.dictionary_encode(BATCH["b"])],
    "filter": [lambda m: m.filter(NUMBERS, MASK), lambda m: m.filter(BATCH, MASK)],
    "index_in": [
        lambda m: m.index_in(NUMBERS, value_set=pa.array([3, None], pa.int64())),
        lambda m: m.index_in(BATCH["b"], value_set=pa.array(["", "z"])),
    ],
    "is_valid": [lambda m: m.is_valid(NUMBERS), lambda m: m.is_valid(pa.chunked_array([NUMBERS, NUMBERS]))],
    "take": [
        lambda m: m.take(NUMBERS, ROWS),
        lambda m: m.take(BATCH, ROWS),
        lambda m: m.take(pa.chunked_array([NUMBERS, NUMBERS]), ROWS),
    ],
}
LATE = """
import sys
import numpy as np
from penstock.table.arrow_arrays import arrow_array
from penstock.table.arrow_compute import pc
numbers = arrow_array(np.array([0, 1]))
taken, is_imported = pc.take(numbers, numbers.slice(1)), "pyarrow.compute" in sys.modules
print(len(taken), is_imported, pc.sum(numbers).as_py(), "pyarrow.compute" in sys.modules)
"""


@pytest.mark.parametrize("name", CALLS)
def test_functions_are_those_of_pyarrow(name: str) -> None:
    """With the control that other values are unequal."""
    for call in CALLS[name]:
        assert call(pc) == call(pyarrow.compute)
        assert call(pc) != NUMBERS


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.cast(NUMBERS, pa.int32()),
        lambda m: m.filter(BATCH, ROWS),
        lambda m: m.take(NUMBERS, pa.array([9])),
    ],
)
def test_errors_are_those_of_pyarrow(call: Callable[[Any], Any]) -> None:
    with pytest.raises(pa.ArrowException) as expected:
        call(pyarrow.compute)
    with pytest.raises(type(expected.value)) as error:
        call(pc)
    assert str(error.value) == str(expected.value)


def test_each_function_is_compared() -> None:
    own = {name for name, value in vars(type(pc)).items() if isinstance(value, staticmethod)}
    assert own == set(CALLS)
    assert all(name in vars(pyarrow.compute) for name in own)


def test_another_function_imports_pyarrows_module() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", LATE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False", "1", "True"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        pc.no_such_function  # noqa: B018


def test_names_that_pyarrow_moved_are_found() -> None:
    """In a process in which the private module lacks one of them."""
    moved = "import pyarrow.compute, pyarrow._compute\ndel pyarrow._compute.TakeOptions\n"
    done = subprocess.run([sys.executable, "-P", "-c", moved + LATE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "True", "1", "True"]
