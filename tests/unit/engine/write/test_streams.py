"""Streams that do not fit in memory: the same table as from a table in memory, and nothing after an error."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.engine.write import incoming_rows, large_partition
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.proto.errors import SchemaMismatch
from penstock.writer.index.new_groups import FileSizes
from tests.unit.engine.write.recorded_storage import (
    FIRST,
    KINDS,
    SCHEMA,
    SECOND,
    Kind,
    Lake,
    Row,
    arrow,
    each_kind,
    upserted,
)

GLOBAL: tuple[Kind, ...] = ((9, "merge_on_read", "global_bloom"), (6, "copy_on_write", "global_simple"))
SMALL = 800
"""Bytes that a test holds in memory: some 20 rows."""
SIZES = FileSizes(max_file_bytes=20 << 10, small_file_bytes=10 << 10)
"""Files of 20 rows, by the estimate of 1 KiB a row."""


def stream(rows: pa.Table, seed: int) -> pa.RecordBatchReader:
    """The rows in batches of odd sizes, some of them empty."""
    choose, batches, begin = random.Random(seed), [], 0
    while begin < rows.num_rows:
        size = choose.choice((0, 1, 3, 7, 40))
        batches += rows.slice(begin, size).combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], rows.schema)
        ]
        begin += size
    return pa.RecordBatchReader.from_batches(rows.schema, batches)


def random_rows(choose: random.Random, count: int) -> pa.Table:
    """Rows with repeated keys in two large partitions and a small one, of which some delete."""
    rows: list[Row] = [
        (f"k{choose.randrange(120)}", choose.randrange(20), choose.choice(["oslo", "riga"] * 9 + ["bern"]))
        for _ in range(count)
    ]
    deleted = pa.array([choose.random() < 0.1 for _ in rows])
    return arrow(rows).set_column(3, "_hoodie_is_deleted", deleted)


def result_of(written: penstock.WriteResult) -> tuple[object, ...]:
    return (written.operation, written.rows, written.inserted, written.deleted, written.partitions)


def contents(path: pathlib.Path) -> list[tuple[object, ...]]:
    rows = penstock.read(str(path)).read_all().select(["id", "seq", "city"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("kind", [*KINDS, *GLOBAL], ids=lambda kind: "-".join(map(str, kind)))
@pytest.mark.sampled(2)
def test_stream_gives_the_table_that_a_table_gives(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    version, table_type, index = kind
    for name in ("held", "streamed"):
        create_table(
            str(tmp_path / name),
            SCHEMA,
            record_key="id",
            partition_by="city",
            ordering="seq",
            table_type=table_type,
            table_version=version,
            index=index,
            buckets=2 if index == "bucket" else None,
        )
    choose = random.Random(7)
    large: list[object] = []
    by_group = large_partition.LargePartition.by_group
    monkeypatch.setattr(
        large_partition.LargePartition,
        "by_group",
        lambda *args, **more: large.append(1) or by_group(*args, **more),
    )
    inserts = [
        "insert",
        "insert_overwrite",
        "insert_overwrite_table",
    ]  # last: they repeat keys, and an upsert has a choice
    for seed, operation in enumerate(["upsert", "upsert", "delete", "delete_partition", "upsert", *inserts]):
        data = random_rows(choose, 60 if operation == "delete" else 150)
        if operation == "insert":
            data = data.append_column("more", pa.array(range(data.num_rows), pa.int64()))
        if operation == "delete_partition":
            data = data.filter(pc.not_equal(data.column("city"), "oslo"))
        monkeypatch.setattr(incoming_rows, "HELD_BYTES", 64 << 20)
        held = write(str(tmp_path / "held"), data, operation, sizes=SIZES)
        monkeypatch.setattr(incoming_rows, "HELD_BYTES", SMALL)
        streamed = write(str(tmp_path / "streamed"), stream(data, seed), operation, sizes=SIZES)
        assert contents(tmp_path / "streamed") == contents(tmp_path / "held"), operation
        assert result_of(streamed) == result_of(held), operation
    assert bool(large) == (index != "bucket")


@pytest.mark.parametrize("kind", KINDS[1:2])
def test_new_rows_of_a_large_partition_fill_small_files_and_then_new_ones(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write([("a", 1, "oslo")])
    monkeypatch.setattr(incoming_rows, "HELD_BYTES", SMALL)
    rows: list[Row] = [(f"n{n}", 1, "oslo") for n in range(60)]
    (size,) = (file.stat().st_size for file in lake.path.rglob("*.parquet"))
    sizes = FileSizes(max_file_bytes=size + (3 << 10), small_file_bytes=size + 1)
    written = lake.write([("a", 2, "oslo"), *rows], sizes=sizes)
    stats = lake.stats(written.instant)
    assert (written.rows, written.inserted, written.updated) == (61, 60, 1)
    assert [stat.num_writes for stat in stats if stat.prev_commit] == [4], "the file of `a` has room for three"
    full, left = divmod(57, sizes.rows_of_file)
    new = [stat.num_writes for stat in stats if not stat.prev_commit]
    assert sorted(new, reverse=True) == [sizes.rows_of_file] * full + [left] * (left > 0)
    assert lake.rows() == sorted([("a", 2, "oslo"), *rows])


@each_kind
@pytest.mark.sampled(1)
def test_error_at_the_end_of_a_stream_leaves_no_trace(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    before = lake.everything()
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(incoming_rows, "HELD_BYTES", SMALL)
    good = arrow([(f"n{n}", 1, "oslo") for n in range(60)])

    def broken(last: Exception | pa.Table) -> Iterator[pa.RecordBatch]:
        yield from good.to_batches(max_chunksize=7)
        if isinstance(last, Exception):
            raise last
        yield from last.to_batches()

    null_key = good.slice(0, 2).set_column(0, "id", pa.array(["x", None], pa.string()))
    with pytest.raises(SchemaMismatch, match=r"'id' is null in 1 rows, the first is row 61"):
        write(str(lake.path), pa.RecordBatchReader.from_batches(good.schema, broken(null_key)))
    with pytest.raises(OSError, match="the source is gone") as caught:
        write(str(lake.path), pa.RecordBatchReader.from_batches(good.schema, broken(OSError("the source is gone"))))
    assert str(lake.path) in caught.value.__notes__[0]
    assert lake.everything() == before and list(folder.iterdir()) == []
    write(str(lake.path), pa.RecordBatchReader.from_batches(good.schema, broken(arrow(SECOND))))
    assert lake.rows() == sorted([*upserted(FIRST, SECOND), *((f"n{n}", 1, "oslo") for n in range(60))])


@each_kind
@pytest.mark.sampled(1)
def test_schema_that_changes_while_a_stream_is_read_is_the_newer_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    rows = arrow([(f"n{n}", 1, "oslo") for n in range(60)])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches(max_chunksize=30)
        with monkeypatch.context() as patch:
            patch.setattr(incoming_rows, "HELD_BYTES", 64 << 20)
            write(str(lake.path), arrow([("w", 1, "bern")]).append_column("more", pa.array([1])))

    monkeypatch.setattr(incoming_rows, "HELD_BYTES", SMALL)
    write(str(lake.path), pa.RecordBatchReader.from_batches(rows.schema, batches()))
    stored = penstock.read(str(lake.path)).read_all().to_pylist()
    assert len(stored) == len(FIRST) + 61
    assert [row["more"] for row in stored if row["more"] is not None] == [1]


_PEAK = """
import sys
import numpy as np
import pyarrow as pa
import penstock
from penstock.engine.write import incoming_rows

path, index, operation, held = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
incoming_rows.HELD_BYTES = held
BATCH, COUNT = 8192, 160
schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("text", pa.string())])

def batches():
    for number in range(COUNT):
        ids = np.arange(number, BATCH * COUNT, COUNT)
        data = np.random.default_rng(number).integers(97, 123, BATCH * 200, dtype=np.uint8).tobytes()
        ends = np.arange(0, BATCH * 200 + 1, 200, dtype=np.int32)
        text = pa.Array.from_buffers(pa.string(), BATCH, [None, pa.py_buffer(ends), pa.py_buffer(data)])
        yield pa.record_batch([pa.array(ids).cast(pa.string()), pa.array(ids), text], schema=schema)

options = {"index": "bucket", "buckets": 32} if index == "bucket" else {"index": "simple"}
penstock.create_table(path, schema, record_key="id", ordering="ts", **options)
small = next(batches()).slice(0, 64)
penstock.write(path, pa.table(small), operation)  # loads kernels
before = pa.total_allocated_bytes()
pool = pa.default_memory_pool()
sizes = penstock.write(path, pa.RecordBatchReader.from_batches(schema, batches()), operation)
total = BATCH * COUNT * 220
print(pool.max_memory() - before, total, penstock.read(path).read_all().num_rows)
"""


def peak(tmp_path: pathlib.Path, index: str, operation: str, held: int) -> tuple[int, int, int]:
    """(the most memory that Arrow had allocated during the write, size of the data, rows of the table)"""
    path = tmp_path / f"{index}-{held}"
    command = [sys.executable, "-P", "-c", _PEAK, str(path), index, operation, str(held)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    most, total, rows = map(int, done.stdout.split())
    return most, total, rows


@pytest.mark.sampled(1, rest=0)
@pytest.mark.thorough
@pytest.mark.parametrize(("index", "operation"), [("bucket", "upsert"), ("simple", "insert")])
def test_memory_is_bounded_by_a_file_group(tmp_path: pathlib.Path, index: str, operation: str) -> None:
    """The stream has 288 MB, a group of it 9 or 27 MB. Data that is held at once, as it was, takes more than all of
    it."""
    bounded, total, rows = peak(tmp_path, index, operation, 8 << 20)
    held, _, others = peak(tmp_path, index, operation, 1 << 40)
    assert rows == others == 8192 * 160 + (64 if operation == "insert" else 0)
    assert held > total > 2 * bounded, (held, total, bounded)
