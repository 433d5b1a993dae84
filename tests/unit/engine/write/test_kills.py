"""A process that is killed at any step of a write: readers see all of it or nothing, and the next write goes on."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.table.files.names import parse_file_name
from penstock.table.hudi_table import open_table
from penstock.table.storage.local_writes import LocalStorage
from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process

SCHEMA = pa.schema([("id", pa.string()), ("seq", pa.int64()), ("city", pa.string())])
Rows = set[tuple[str, int, str]]


def table_of(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "seq": seq, "city": city} for key, seq, city in sorted(rows)], SCHEMA)


def rows_of(path: pathlib.Path) -> Rows:
    rows = penstock.read(str(path)).read_all().to_pylist()
    found = [(row["id"], row["seq"], row["city"]) for row in rows]
    assert len(found) == len(set(found))
    return set(found)


FIRST: Rows = {("a", 1, "oslo"), ("b", 1, "oslo"), ("c", 1, "riga")}
SECOND: Rows = {("a", 2, "oslo"), ("d", 1, "bern")}
THIRD: Rows = {("a", 3, "oslo"), ("c", 3, "riga"), ("e", 3, "wien")}


def upserted(rows: Rows, newer: Rows) -> Rows:
    keys = {(key, city) for key, _, city in newer}
    return {row for row in rows if (row[0], row[2]) not in keys} | newer


def leftovers(path: pathlib.Path) -> list[str]:
    """Files that belong to no completed instant, and traces of a transaction."""
    table = open_table(str(path))
    timeline = table.timeline()
    instants = {item.requested_time for item in timeline.instants if item.is_completed}
    files = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()]
    traces = [file for file in files if file.startswith((".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/lock"))]
    temporary = [file for file in files if file.endswith(".tmp")]
    pending = [item.file_name for item in timeline.instants if not item.is_completed]
    names = {file: parse_file_name(file.rpartition("/")[2]) for file in files if file.endswith((".parquet", ".cdc"))}
    data = [file for file, name in names.items() if name is None or name.instant not in instants]
    return [*traces, *temporary, *pending, *data]


def copies(
    folder: pathlib.Path, version: int, kind: str, *, index: str = "bucket", every: int = 1
) -> Iterator[tuple[int, pathlib.Path]]:
    """The numbers from 1 on, `every` so many, each with a copy of a table that has the rows FIRST. If it is
    copy-on-write, it logs changes."""
    table = folder / "table"
    create_table(
        str(table),
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="seq",
        table_type=kind,
        table_version=version,
        index=index,
        buckets=2 if index == "bucket" else None,
        change_logging="data_before_after" if kind == "copy_on_write" else None,
    )
    write(str(table), table_of(FIRST))
    for step in range(1, 1000, every):
        path = folder / f"table{step}"
        shutil.copytree(table, path)
        yield step, path
        shutil.rmtree(path)


def check_next_write(path: pathlib.Path, found: Rows, what: str, *, sole_writer: bool = False) -> None:
    """The next write completes, and nothing of the failed one is left."""
    write(str(path), table_of(THIRD), sole_writer=sole_writer)
    assert rows_of(path) == upserted(found, THIRD), what
    assert leftovers(path) == [], what


class HalfFiles(KilledStorage):
    """Killed before each call; within a data file too, which then has half of its content."""

    def __init__(self, root: pathlib.Path, kill_at: int) -> None:
        super().__init__(root, kill_at, after=False)

    @contextlib.contextmanager
    def new_file(self, path: str) -> Iterator[BinaryIO]:
        with self._stepping():
            pass
        with LocalStorage.new_file(self, path) as file:
            yield file
            if self.step + 1 == self.kill_at:
                file.truncate(file.tell() // 2)
            with self._stepping():
                pass


@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
def test_kill_at_each_step_leaves_all_or_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str
) -> None:
    halves = 0
    for step, path, found in killed_copies(monkeypatch, copies(tmp_path, version, kind), table_of(SECOND)):
        halves += sum(not is_whole(file) for file in path.glob("*/*.parquet"))
        assert found in (FIRST, upserted(FIRST, SECOND)), f"part of a write at step {step}"
        check_next_write(path, found, f"after a kill at step {step}")
    assert step > 10 and halves > 0


OPERATIONS: dict[str, tuple[int, str, str, pa.Table, Rows]] = {
    "upsert": (6, "copy_on_write", "simple", table_of(SECOND), upserted(FIRST, SECOND)),
    "insert_overwrite": (
        9,
        "copy_on_write",
        "simple",
        table_of(SECOND),
        SECOND | {row for row in FIRST if row[2] == "riga"},
    ),
    "delete": (6, "merge_on_read", "bucket", table_of({("a", 0, "oslo")}), FIRST - {("a", 1, "oslo")}),
    "delete_partition": (9, "merge_on_read", "bucket", pa.table({"city": ["oslo"]}), {("c", 1, "riga")}),
}
"""Operation -> version, type, index, data, rows afterwards."""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_kill_of_other_operations_leaves_all_or_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Every second step of each."""
    version, kind, index, data, after = OPERATIONS[operation]
    tables = copies(tmp_path, version, kind, index=index, every=2)
    for step, path, found in killed_copies(monkeypatch, tables, data, operation):
        assert found in (FIRST, after), f"part of a write at step {step}"
        check_next_write(path, found, f"after a kill at step {step}")


def killed_copies(
    monkeypatch: pytest.MonkeyPatch,
    tables: Iterator[tuple[int, pathlib.Path]],
    data: pa.Table,
    operation: str = "upsert",
) -> Iterator[tuple[int, pathlib.Path, Rows]]:
    """(step, table, its rows) of each write that was killed, until one is not. Some left FIRST, some more."""
    seen = set()
    for step, path in tables:
        storage = HalfFiles(path, step)
        with monkeypatch.context() as patch:
            as_other_process(patch)
            patch.setattr("penstock.engine.write.planned_write.open_writable", lambda path, storage=storage: storage)
            try:
                write(str(path), data, operation)
            except Killed:
                pass
            else:
                assert storage.step < step
                break
        found = rows_of(path)
        seen.add(found == FIRST)
        yield step, path, found
    assert seen == {True, False}


def is_whole(file: pathlib.Path) -> bool:
    return file.read_bytes()[-4:] == b"PAR1"
