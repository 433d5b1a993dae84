"""Columns that a write of Penstock widens: real Hudi reads the older values as they were, and goes on."""

from __future__ import annotations

import decimal
import pathlib
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from tests.interop.hudi_options import COMPACTS, hudis_options

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

WIDENED = {
    "i": (pa.int32(), pa.int64()),
    "f": (pa.float32(), pa.float64()),
    "more_bytes": (pa.decimal128(9, 2), pa.decimal128(20, 2)),
    "same_bytes": (pa.decimal128(10, 2), pa.decimal128(11, 2)),
}
"""Column -> its type before and after. Of the decimals one gets more bytes, one keeps its number of bytes."""

Row = tuple[str, int]


def arrow(rows: list[Row], after: bool) -> pa.Table:
    types = {name: pair[after] for name, pair in WIDENED.items()}
    columns: dict[str, pa.Array] = {
        "id": pa.array([key for key, _ in rows], pa.string()),
        "seq": pa.array([number for _, number in rows], pa.int64()),
        "city": pa.array(["oslo"] * len(rows), pa.string()),
    }
    for name, kind in types.items():
        columns[name] = pa.array([_value(name, number) for _, number in rows], kind)
    return pa.table(columns)


def _value(name: str, number: int) -> Any:
    if name == "i":
        return -number
    return number + 0.1 if name == "f" else decimal.Decimal(number) + decimal.Decimal("0.25")


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows. A float that becomes a double has its decimal text, for Hudi's readers and Penstock."""
    assert table.schema.field("i").type == pa.int64() and pa.types.is_float64(table.schema.field("f").type)
    names = ["id", "seq", *WIDENED]
    return sorted((*(row[name] for name in names),) for row in table.select(names).to_pylist())


@pytest.mark.parametrize(
    ("version", "kind", "index"),
    [
        (9, "merge_on_read", "bucket"),
        (9, "copy_on_write", "simple"),
        pytest.param(6, "merge_on_read", "simple", marks=pytest.mark.exhaustive),
        pytest.param(6, "copy_on_write", "bucket", marks=pytest.mark.exhaustive),
    ],
)
def test_values_before_a_column_was_widened_stay(
    hudi: Any, tmp_path: pathlib.Path, version: int, kind: str, index: str
) -> None:
    """They are in a base file that is rewritten or merged with logs, in a log, and in a base file that stays."""
    path = tmp_path / "trip"
    buckets = 1 if index == "bucket" else None
    create_table(
        str(path),
        arrow([], after=False).schema,
        record_key="id",
        partition_by="city",
        ordering="seq",
        table_type=kind,
        table_version=version,
        index=index,
        buckets=buckets,
    )
    rows = {f"k{n}": n for n in range(6)}

    def upsert(some: dict[str, int], after: bool) -> None:
        rows.update(some)
        write(str(path), arrow(list(some.items()), after))

    def check(what: str) -> None:
        expected = [(key, n, *(_value(name, n) for name in WIDENED)) for key, n in sorted(rows.items())]
        assert rows_of(penstock.read(str(path)).read_all()) == expected, f"{what}: Penstock"
        assert rows_of(hudi.read(path)) == expected, f"{what}: Hudi"

    upsert(dict(rows), after=False)
    upsert({"k1": 11}, after=False)
    upsert({"k2": 12}, after=True)
    check("widened by Penstock")
    options = hudis_options(version, kind, index) | {"hoodie.bucket.index.num.buckets": "1"}
    values = (
        ("id", "c0"),
        ("seq", "c1"),
        ("city", "'oslo'"),
        ("i", "-c1"),
        ("f", "cast(c1 as double) + 0.1D"),
        ("more_bytes", "cast(c1 + 0.25 as decimal(20, 2))"),
        ("same_bytes", "cast(c1 + 0.25 as decimal(11, 2))"),
    )
    hudi.write(path, values, [("k3", 13)], options | (COMPACTS if kind == "merge_on_read" else {}))
    rows["k3"] = 13
    check("upsert by Hudi")
