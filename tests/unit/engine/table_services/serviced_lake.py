"""Tables that services work on."""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.write import write
from penstock.table.hudi_table import open_table
from penstock.table.timeline.commits import CommitMetadata
from tests.unit.engine.write.recorded_storage import Kind, Lake, arrow

OPENS = "penstock.engine.table_services.serviced_table.open_writable"
"""Where services open the files of a table."""

LOGS: tuple[Kind, ...] = ((9, "merge_on_read", "bucket"), (6, "merge_on_read", "bucket"))
SIMPLE: tuple[Kind, ...] = tuple(
    (version, kind, "simple") for version in (9, 6) for kind in ("merge_on_read", "copy_on_write")
)

KEY = [("_hoodie_record_key", "ascending"), ("_hoodie_partition_path", "ascending")]


def rows_of(path: pathlib.Path, **options: Any) -> pa.Table:
    """All columns of all rows by key, without the names of files."""
    return penstock.read(str(path), **options).read_all().drop_columns(["_hoodie_file_name"]).sort_by(KEY)


def with_logs(path: pathlib.Path, kind: Kind, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Lake:
    """A table with base files, logs, late rows and deletes."""
    lake = Lake(path, kind, monkeypatch, **settings)
    lake.write([(f"k{n}", 5, "oslo" if n % 2 else "riga") for n in range(12)])
    lake.write([("k1", 6, "oslo"), ("k2", 4, "riga"), ("k3", 7, "oslo"), ("k13", 1, "oslo")], deleted=["k3"])
    lake.write([("k4", 0, "riga"), ("k0", 9, "riga")], "delete")
    lake.write([("k1", 8, "oslo"), ("k14", 1, "riga")])
    return lake


def with_small_files(path: pathlib.Path, kind: Kind, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Lake:
    """A table with three small files in each of two partitions, and, if it is merge-on-read, logs."""
    lake = Lake(path, kind, monkeypatch, **settings)
    for n in range(3):
        lake.write([(f"k{9 - i}{n}", i, "oslo" if i % 2 else "riga") for i in range(8)], "bulk_insert")
    lake.write([("k90", 9, "riga"), ("k81", 9, "oslo")], deleted=["k81"])
    return lake


def commit_of(path: pathlib.Path, instant: str) -> CommitMetadata:
    """The metadata of a completed instant."""
    table = open_table(str(path))
    completed = table.timeline().completed_write(instant)
    assert completed is not None
    return table.commit(completed)


def upsert(
    path: pathlib.Path, *rows: tuple[str, int, str], operation: str = "upsert", sole_writer: bool = False
) -> penstock.WriteResult:
    """A write by another process."""
    return write(str(path), arrow(rows), operation, sole_writer=sole_writer)
