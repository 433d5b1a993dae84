"""Keys that inserts of Penstock repeated: its upserts and deletes change the rows that those of real Hudi change."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from tests.interop.hudi_options import hudis_options
from tests.unit.engine.write.recorded_storage import SCHEMA, Row, arrow, rows_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

COLUMNS = (("id", "c0"), ("seq", "c1"), ("city", "c2"), ("_hoodie_is_deleted", "false"))
KEYS = ("k0", "k1", "k2")
NEWER: list[Row] = [("k1", 3, "oslo"), ("k2", 1, "oslo")]
GONE: list[Row] = [("k0", 0, "oslo")]


def check(hudi: Any, path: pathlib.Path, rows: list[Row], what: str) -> None:
    assert rows_of(penstock.read(str(path)).read_all()) == rows, f"{what}: Penstock"
    assert rows_of(hudi.read(path)) == rows, f"{what}: Hudi"


@pytest.mark.parametrize(
    ("kind", "index", "operation"),
    [
        ("copy_on_write", "simple", "bulk_insert"),
        ("merge_on_read", "simple", "insert"),
        pytest.param("merge_on_read", "simple", "bulk_insert", marks=pytest.mark.exhaustive),
        ("copy_on_write", "bucket", "insert"),
    ],
)
def test_rows_of_a_key_are_those_of_hudi(
    hudi: Any, tmp_path: pathlib.Path, kind: str, index: str, operation: str
) -> None:
    """Its rows are in two base files after bulk_insert, and in one after insert.

    Where a base file that is rewritten has several, Hudi 1.1 and 1.2 change the first one only, unlike by their logs,
    and unlike releases before: a deleted key stays. Penstock changes all of them.
    """
    path, copy = tmp_path / "trip", tmp_path / "copy"
    buckets = 3 if index == "bucket" else None
    order = {"record_key": "id", "partition_by": "city", "ordering": "seq"}
    create_table(str(path), SCHEMA, table_type=kind, index=index, buckets=buckets, **order)
    for seq in (1, 2):
        write(str(path), arrow([(key, seq, "oslo") for key in KEYS]), operation)
    shutil.copytree(path, copy)
    write(str(path), arrow(NEWER))
    write(str(path), arrow(GONE), "delete")
    options = hudis_options(9, kind, index)
    hudi.write(copy, COLUMNS, NEWER, options)
    hudi.write(copy, COLUMNS, GONE, options | {"hoodie.datasource.write.operation": "delete"})
    expected = [("k1", 3, "oslo"), ("k1", 3, "oslo"), ("k2", 1, "oslo"), ("k2", 2, "oslo")]
    check(hudi, path, expected, "upsert and delete of keys that inserts repeated")
    if kind == "copy_on_write" and operation == "insert":
        expected = sorted([("k0", 2, "oslo"), ("k1", 2, "oslo"), *expected[1:]])
    assert rows_of(hudi.read(copy)) == expected


@pytest.mark.parametrize("writer", ["hudi", "penstock"])
def test_inserted_key_whose_delete_is_in_a_log_is_repeated_by_an_upsert(
    hudi: Any, tmp_path: pathlib.Path, writer: str
) -> None:
    """The simple index of both finds the key in its old base file, and in the new one: both file groups are written."""
    path, options = tmp_path / "trip", hudis_options(9, "merge_on_read", "simple")
    create_table(str(path), SCHEMA, record_key="id", partition_by="city", ordering="seq", index="simple")

    def writes(operation: str, seq: int, *keys: str) -> None:
        rows: list[Row] = [(key, seq, "oslo") for key in keys]
        if writer == "penstock":
            write(str(path), arrow(rows), operation)
        else:
            hudi.write(path, COLUMNS, rows, options | {"hoodie.datasource.write.operation": operation})

    writes("upsert", 1, "k0", "k1")
    writes("delete", 1, "k1")
    check(hudi, path, [("k0", 1, "oslo")], "delete")
    writes("bulk_insert", 2, "k1")
    check(hudi, path, [("k0", 1, "oslo"), ("k1", 2, "oslo")], "bulk_insert")
    writes("upsert", 3, "k1")
    check(hudi, path, [("k0", 1, "oslo"), ("k1", 3, "oslo"), ("k1", 3, "oslo")], "upsert")
