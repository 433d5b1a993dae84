"""Data of another type than the table's column: stored values keep their value, or nothing is written."""

from __future__ import annotations

import datetime
import decimal
import pathlib
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.proto.errors import SchemaMismatch

VALUES: dict[pa.DataType, Any] = {
    pa.int32(): 7,
    pa.int64(): 2**53 + 1,
    pa.float32(): 0.5,
    pa.float64(): 0.1,
    pa.decimal128(9, 2): decimal.Decimal("1.25"),
    pa.decimal128(20, 2): decimal.Decimal("123456789012345678.25"),
    pa.decimal128(20, 3): decimal.Decimal("1.125"),
    pa.string(): "2020-01-05",
    pa.binary(): b"abc",
    pa.date32(): datetime.date(2020, 1, 5),
    pa.timestamp("us", "UTC"): datetime.datetime(2020, 1, 5, tzinfo=datetime.UTC),
}
INT, LONG, FLOAT, DOUBLE, NARROW, WIDE, FINE, *_ = VALUES
ACCEPTED: dict[pa.DataType, tuple[pa.DataType, ...]] = {
    INT: (INT, LONG),
    LONG: (INT, LONG),
    FLOAT: (INT, FLOAT, DOUBLE),
    DOUBLE: (INT, FLOAT, DOUBLE),
    NARROW: (NARROW, WIDE),
    WIDE: (NARROW, WIDE),
    FINE: (NARROW, FINE),
}
"""Table's type -> types of data whose value is written; of others only the same type."""
KINDS = ("merge_on_read", "copy_on_write")


def row(key: str, kind: pa.DataType) -> pa.Table:
    return pa.table({"id": [key], "c": pa.array([VALUES[kind]], kind)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own", VALUES, ids=str)
@pytest.mark.sampled(3)
def test_data_of_another_type_leaves_stored_values_as_they_are(
    tmp_path: pathlib.Path, own: pa.DataType, kind: str
) -> None:
    path = str(tmp_path / "t")
    create_table(path, row("a", own).schema, record_key="id", table_type=kind, buckets=1)
    write(path, row("a", own))
    expected = {"a": VALUES[own]}
    for number, given in enumerate(VALUES):
        key = f"k{number}"
        if given in ACCEPTED.get(own, (own,)):
            write(path, row(key, given))
            expected[key] = VALUES[given]
        else:
            with pytest.raises(SchemaMismatch, match="column 'c'"):
                write(path, row(key, given))
        rows = penstock.read(path).read_all().select(["id", "c"]).to_pylist()
        assert {one["id"]: one["c"] for one in rows} == expected, f"{given} into {own}"
