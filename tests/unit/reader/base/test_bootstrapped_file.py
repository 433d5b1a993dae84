"""A skeleton and its source are joined by position, whatever their row groups and the sizes of batches are."""

from __future__ import annotations

import itertools
import pathlib
import random
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.proto.errors import CorruptFile
from penstock.proto.model.splits import FileRef, RowGroupRun, WholeFile
from penstock.reader.base.bootstrapped_file import IN_SKELETON, BootstrappedFile
from penstock.reader.base.file import BaseFile
from penstock.reader.split.emit import BatchSize
from penstock.table.predicate.bounds import UNKNOWN
from penstock.table.predicate.tree import Column
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import open_storage

KEY = "_hoodie_record_key"
COMMIT = "_hoodie_commit_time"
RECORD = parse_record_schema(
    """{"type": "record", "name": "r", "fields": [
        {"name": "_hoodie_commit_time", "type": ["null", "string"]},
        {"name": "_hoodie_record_key", "type": ["null", "string"]},
        {"name": "id", "type": ["null", "string"]},
        {"name": "n", "type": ["null", "long"]},
        {"name": "late", "type": ["null", "string"]}
    ]}"""
)
ROWS = 50
COLUMNS = ("n", KEY, "late", "id", COMMIT)
SMALL = BatchSize(7, 1 << 20)


def opened(
    folder: pathlib.Path,
    skeleton_group: int = ROWS,
    source_group: int = ROWS,
    columns: Sequence[str] = COLUMNS,
    first: int = 0,
    rows: int = ROWS,
) -> BootstrappedFile:
    """Row i of the skeleton has key `k<i>`. Row i of the source has id `k<i + first>`, and n = i + first."""
    skeleton = pa.table({COMMIT: ["1"] * ROWS, KEY: [f"k{i}" for i in range(ROWS)], "id": ["never"] * ROWS})
    source = pa.table(
        {
            "id": pa.array([f"k{i}" for i in range(first, first + rows)], pa.string()),
            "n": pa.array(range(first, first + rows), pa.int32()),
            KEY: pa.array(["never"] * rows, pa.string()),
        }
    )
    pq.write_table(skeleton, folder / "skeleton.parquet", row_group_size=skeleton_group)
    pq.write_table(source, folder / "source.parquet", row_group_size=source_group)
    storage = open_storage(str(folder))

    def part(name: str, own: list[str], key: str) -> BaseFile:
        return BaseFile(storage, FileRef(f"{name}.parquet", 1), RECORD, own, table="t", key=key)

    of_skeleton = part("skeleton", [name for name in columns if name in IN_SKELETON], KEY if KEY in columns else "")
    of_source = part("source", [name for name in columns if name not in IN_SKELETON], "")
    return BootstrappedFile(of_skeleton, of_source, columns, KEY)


def rows_of(file: BootstrappedFile, size: BatchSize = SMALL) -> pa.Table:
    return pa.Table.from_batches([b for group in file.row_groups(WholeFile(), size) for b in group.batches()])


def is_joined(rows: pa.Table) -> bool:
    """Whether each row has the columns of one position."""
    return rows["id"].to_pylist() == rows[KEY].to_pylist() == [f"k{n}" for n in rows["n"].to_pylist()]


@pytest.mark.parametrize(
    ("skeleton_group", "source_group", "batch"), [*itertools.product((1, 7, 20, 50), (1, 3, 20, 50), (1, 5, 64))]
)
def test_rows_have_the_columns_of_one_position(
    tmp_path: pathlib.Path, skeleton_group: int, source_group: int, batch: int
) -> None:
    with opened(tmp_path, skeleton_group, source_group) as file:
        rows = rows_of(file, BatchSize(batch, 1 << 20))
    assert rows.column_names == list(COLUMNS)
    assert rows["n"].to_pylist() == list(range(ROWS)) and is_joined(rows)
    assert rows["n"].type == pa.int64() and rows["late"].null_count == ROWS


def test_the_check_of_the_join_detects_a_shift(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path, first=1) as file:
        assert not is_joined(rows_of(file))


def test_row_groups_in_any_order_and_again(tmp_path: pathlib.Path) -> None:
    """A merge skips row groups, and reads keys before rows."""
    rng = random.Random(28)
    with opened(tmp_path, 8, 3) as file:
        groups = list(file.row_groups(WholeFile(), SMALL))
        assert len(groups) == file.num_row_groups == 17 and file.num_rows == ROWS
        for number in [*rng.sample(range(17), 17), *range(17), 5, 5, 0]:
            numbers = list(range(3 * number, min(3 * number + 3, ROWS)))
            keys = groups[number].keys()
            assert keys is not None and keys.to_pylist() == [f"k{n}" for n in numbers]
            rows = pa.Table.from_batches(groups[number].batches())
            assert rows["n"].to_pylist() == numbers and is_joined(rows)


def test_a_run_of_row_groups(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path, 8, 20) as file:
        parts = [batch for group in file.row_groups(RowGroupRun(1, 3), SMALL) for batch in group.batches()]
        rows = pa.Table.from_batches(parts)
        assert rows["n"].to_pylist() == list(range(20, ROWS)) and is_joined(rows)
        with pytest.raises(CorruptFile, match="it has 3"):
            list(file.row_groups(RowGroupRun(1, 4), SMALL))


@pytest.mark.parametrize("columns", [(COMMIT,), (KEY, COMMIT), ("n",), ("late",), ("late", COMMIT)])
def test_columns_of_one_file_or_of_both(tmp_path: pathlib.Path, columns: tuple[str, ...]) -> None:
    with opened(tmp_path, 20, 7, columns) as file:
        rows = rows_of(file)
    assert rows.column_names == list(columns) and rows.num_rows == ROWS
    if "n" in columns:
        assert rows["n"].to_pylist() == list(range(ROWS))
    if KEY in columns:
        assert rows[KEY].to_pylist() == [f"k{n}" for n in range(ROWS)]


@pytest.mark.parametrize("rows", [0, ROWS - 1, ROWS + 1])
def test_another_number_of_rows_names_both_files(tmp_path: pathlib.Path, rows: int) -> None:
    message = rf"skeleton\.parquet has {ROWS} rows, and its base file source\.parquet has {rows}"
    with pytest.raises(CorruptFile, match=message):
        opened(tmp_path, rows=rows)


def test_statistics_are_those_of_the_file_that_has_the_column(tmp_path: pathlib.Path) -> None:
    n, commit = Column(("n",), pa.int64()), Column((COMMIT,), pa.string())
    columns = ("n", COMMIT)
    with opened(tmp_path, ROWS, 20, columns) as file:
        assert file.row_group_bounds().known(commit, 2).high == b"1"
        assert file.row_group_bounds().known(n, 2) == UNKNOWN  # int in the file, long in the table
    with opened(tmp_path, 20, 20, columns) as file:
        assert file.row_group_bounds().known(commit, 2) == UNKNOWN
