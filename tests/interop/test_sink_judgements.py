"""The judgements of `sink_judgements` report each wrong row, commit and file."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence

import pyarrow as pa
import pytest

import penstock
from tests.hybrid.penstock_sink import SCHEMA
from tests.hybrid.topic_records import Record, Row
from tests.interop.sink_cluster import create_tables
from tests.interop.sink_judgements import (
    CommittedBatch,
    batches_of,
    commit_problems,
    missing_files,
    offset_problems,
    parts,
    row_problems,
    rows_of,
    stray_files,
    won_after,
)

ENDS = {0: {0: 2, 1: 0, 2: 1}, 1: {0: 3, 1: 0, 2: 1}, 2: {0: 3, 1: 2, 2: 1}}
"""The offsets at the ends of three micro-batches."""
BATCHES = [CommittedBatch(f"r{number}", f"c{number}", number, ENDS[number]) for number in ENDS]


def record(partition: int, offset: int, n: int, *, deletes: bool = False) -> Record:
    fields = {"id": f"k{partition}", "region": "eu", "ts": n, "n": n, "at": f"2026-01-01T00:00:{n:02}+00:00"}
    if deletes:
        fields = {"id": f"k{partition}", "_hoodie_is_deleted": True}
    return Record(partition, offset, f"k{partition}", json.dumps({"amount": 0.5, "note": None, **fields}).encode())


RECORDS = [
    record(0, 0, 1),
    record(0, 1, 2),
    record(0, 2, 3),
    record(1, 0, 4),
    record(1, 1, 5, deletes=True),
    record(2, 0, 6),
]


def rows(records: Sequence[Record]) -> list[Row]:
    return [row for one in records if (row := one.row()) is not None]


def inserted(by_batch: dict[int, list[Record]]) -> pa.Table:
    """The table of inserts, with the commit of each row."""
    found = [(f"r{number}", row) for number, records in by_batch.items() for row in rows(records)]
    names = ("id", "region", "ts", "n", "at", "amount", "note")
    columns = {name: [row[place] for _, row in found] for place, name in enumerate(names)}
    return pa.table({"_hoodie_commit_time": [commit for commit, _ in found], **columns})


def test_records_belong_to_the_micro_batch_that_read_them() -> None:
    by_batch = parts(RECORDS, ENDS)
    assert {number: rows(of_batch) for number, of_batch in by_batch.items()} == {
        0: rows([RECORDS[0], RECORDS[1], RECORDS[5]]),
        1: rows([RECORDS[2]]),
        2: rows([RECORDS[3]]),
    }
    assert won_after(RECORDS, ENDS[0]) == rows([RECORDS[2]]), "the key of partition 1 is deleted"
    assert sorted(won_after(RECORDS, {})) == sorted(rows([RECORDS[2], RECORDS[5]]))


def test_each_wrong_row_is_reported() -> None:
    right = rows(RECORDS)
    assert not list(row_problems("t", reversed(right), right))
    for wrong in (right[1:], [*right, right[0]], [(*right[0][:3], 99, *right[0][4:]), *right[1:]]):
        assert list(row_problems("t", wrong, right))


def test_row_of_another_commit_is_reported() -> None:
    by_batch = parts(RECORDS, ENDS)
    table = inserted(by_batch)
    assert not list(commit_problems("t", table, BATCHES, by_batch))
    repeated = pa.concat_tables([table, table.slice(0, 1)])
    moved = inserted({**by_batch, 0: by_batch[0][1:], 1: [by_batch[0][0], *by_batch[1]]})
    of_nobody = inserted({**by_batch, 7: by_batch[0]})
    for wrong in (table.slice(1), repeated, moved, of_nobody):
        assert list(commit_problems("t", wrong, BATCHES, by_batch))


def test_commits_with_a_gap_or_a_repetition_are_reported() -> None:
    assert not list(offset_problems("t", BATCHES, ENDS, [0, 1, 2]))
    assert not list(offset_problems("t", [BATCHES[0], BATCHES[2]], ENDS, [0, 2])), "a micro-batch without rows"
    other = dataclasses.replace(BATCHES[1], ends={0: 2, 1: 0, 2: 1})
    for wrong in (BATCHES[1:], [BATCHES[0], *BATCHES], [BATCHES[0], BATCHES[2]], [BATCHES[0], other, BATCHES[2]]):
        assert list(offset_problems("t", wrong, ENDS, [0, 1, 2]))
    assert list(offset_problems("t", [BATCHES[1], BATCHES[0], BATCHES[2]], ENDS, [0, 1, 2]))


def test_stray_and_missing_files_are_reported(tmp_path: pathlib.Path) -> None:
    create_tables(tmp_path)
    path = tmp_path / "upserts"
    data = [{"id": "k0", "region": "eu", "ts": 1, "n": 1, "_hoodie_is_deleted": False}]
    penstock.write(str(path), pa.Table.from_pylist(data, SCHEMA))
    assert stray_files(path) == missing_files(path) == [] and batches_of(path, "t") == []
    assert len(rows_of(penstock.read(str(path)).read_all())) == 1
    (file,) = (path / "eu").glob("*.parquet")
    for name in (
        "eu/other.parquet",
        ".hoodie/.temp/20260101000000000/x.marker",
        ".hoodie/.heartbeat/20260101000000000",
    ):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).touch()
        assert stray_files(path) == [name]
        (path / name).unlink()
    file.unlink()
    assert missing_files(path) == [f"eu/{file.name}"]
    with pytest.raises(penstock.errors.PenstockError):
        penstock.read(str(path)).read_all()
