"""Operations of rows: what is checked, and which remove a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import SchemaMismatch
from penstock.table.schema.avro import OPERATION
from penstock.writer.rows.row_operations import counted, has_operations, removes_row, with_operations


def rows(*operations: str | None) -> pa.Table:
    numbers = pa.array(range(len(operations)), pa.int64())
    return pa.table({OPERATION: pa.array(operations, pa.string()), "n": numbers})


def checked(table: pa.Table, marked: list[bool] | None = None, *, default: str = "", required: bool = True) -> pa.Table:
    marks = np.array(marked or [False] * len(table), bool)
    return with_operations(table, marks, "table t", 10, default=default, required=required)


def test_operations_of_rows() -> None:
    table = rows("I", "-U", "U", "D", "I")
    assert checked(table).equals(table)
    assert removes_row(table).tolist() == [False, True, False, True, False]
    assert counted(table) == {"I": 2, "-U": 1, "U": 1, "D": 1}
    assert has_operations(table) and not has_operations(table.slice(0, 0)) and not has_operations(rows("I", None))
    plain = table.select(["n"])
    assert not has_operations(plain) and not removes_row(plain).any()


def test_row_without_operation() -> None:
    assert checked(rows("U", None), default="I")[OPERATION].to_pylist() == ["U", "I"]
    assert checked(rows("U", None), required=False)[OPERATION].to_pylist() == ["U", None]
    with pytest.raises(SchemaMismatch, match=r"^table t: row 11 has _hoodie_operation None, expected one of I, -U"):
        checked(rows("U", None))


def test_unknown_operation() -> None:
    for required in (True, False):
        with pytest.raises(SchemaMismatch, match=r"row 12 has _hoodie_operation '\+I', expected one of"):
            checked(rows("I", "D", "+I"), required=required)


def test_marked_row_needs_an_operation_that_removes_it() -> None:
    assert len(checked(rows("D", "-U", None), [True] * 3, required=False)) == 3
    with pytest.raises(SchemaMismatch, match="row 11 has a delete marker and _hoodie_operation 'U', expected -U or D"):
        checked(rows("U", "U"), [False, True])
