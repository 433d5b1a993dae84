"""The columns that tasks of Spark check have the keys, partitions, kinds and errors of all columns."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.planned_write import PlannedWrite, WriteOptions, open_write
from penstock.proto.errors import SchemaMismatch

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("seq", pa.int64()),
        ("city", pa.string()),
        ("amount", pa.float64()),
        ("note", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
GIVEN = SCHEMA.set(3, pa.field("amount", pa.int64()))
LARGEST = 1 << 53
"""Each whole number up to this one is exact as a double."""


def opened(folder: pathlib.Path, operation: str = "upsert") -> PlannedWrite:
    """A write of a table with a row."""
    path = str(folder / "t")
    if not pathlib.Path(path).exists():
        penstock.create_table(path, SCHEMA, record_key="id", partition_by="city", ordering="seq", buckets=2)
        penstock.write(path, data(1.0).cast(SCHEMA))
    return open_write(path, WriteOptions(operation=operation))


def data(amount: float) -> pa.Table:
    rows = [["a", "b", "c"], [1, 2, 3], ["oslo", "rom", "oslo"], [0, int(amount), 0], ["x", None, "z"]]
    return pa.table([*rows, [False, True, None]], schema=GIVEN)


def test_keys_partitions_order_deletes_and_cast_columns_are_checked(tmp_path: pathlib.Path) -> None:
    planned = opened(tmp_path)
    names = planned.preparation.checked_columns(planned.early, GIVEN.append(pa.field("new", pa.date32())))
    assert names == ("id", "seq", "city", "amount", "_hoodie_is_deleted")
    deletes = opened(tmp_path, "delete")
    assert deletes.preparation.checked_columns(deletes.early, GIVEN) == ("id", "city")


def test_checked_columns_have_the_same_keys_partitions_and_kinds(tmp_path: pathlib.Path) -> None:
    planned = opened(tmp_path)
    names = planned.preparation.checked_columns(planned.early, GIVEN)
    _, every = planned.preparation.rows(planned.early, data(LARGEST))
    _, some = planned.preparation.rows(planned.early, data(LARGEST).select(names))
    assert some.keys.equals(every.keys) and some.ordering == every.ordering
    assert some.partitions.paths == every.partitions.paths
    assert (some.partitions.numbers == every.partitions.numbers).all() and (some.kinds == every.kinds).all()
    assert len(set(every.kinds)) > 1 and len(every.partitions.paths) > 1


def test_value_that_does_not_fit_is_the_same_error(tmp_path: pathlib.Path) -> None:
    planned = opened(tmp_path)
    names = planned.preparation.checked_columns(planned.early, GIVEN)
    for columns in (GIVEN.names, names):
        with pytest.raises(SchemaMismatch, match="a value of column 'amount' does not fit its type double"):
            planned.preparation.rows(planned.early, data(LARGEST + 1).select(columns))
