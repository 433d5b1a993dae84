"""A process that is killed at any step of a write: readers see all of it or nothing, and the next write goes on."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.table.hudi_table import open_table
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
    data = [file for file in files if file.endswith(".parquet") and file[-25:-8].strip("_") not in instants]
    return [*traces, *temporary, *pending, *data]


@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_kill_at_each_step_leaves_all_or_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str, after: bool
) -> None:
    seen = set()
    for step in range(1, 1000):
        path = tmp_path / f"table{step}"
        create_table(
            str(path),
            SCHEMA,
            record_key="id",
            partition_by="city",
            ordering="seq",
            table_type=kind,
            table_version=version,
            buckets=2,
        )
        write(str(path), table_of(FIRST))
        storage = KilledStorage(path, step, after=after)
        with monkeypatch.context() as patch:
            as_other_process(patch)
            patch.setattr("penstock.engine.write.write.open_writable", lambda path, storage=storage: storage)
            try:
                write(str(path), table_of(SECOND))
            except Killed:
                pass
            else:
                assert storage.step < step
                break
        found = rows_of(path)
        assert found in (FIRST, upserted(FIRST, SECOND)), f"part of a write at step {step}"
        seen.add(found == FIRST)
        write(str(path), table_of(THIRD))
        assert rows_of(path) == upserted(found, THIRD), f"after a kill at step {step}"
        assert leftovers(path) == [], f"after a kill at step {step}"
    assert seen == {True, False} and step > 10
