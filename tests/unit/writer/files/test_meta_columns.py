"""Meta columns: unique sequence numbers, and rows that move to another file."""

from __future__ import annotations

import pyarrow as pa

from penstock.table.schema.avro import META_COLUMNS
from penstock.writer.files.meta_columns import RowStamp, in_file


def test_rows_are_stamped_and_numbered_through() -> None:
    stamp = RowStamp("20261123000000000", 3, "p=1", "file.parquet")
    rows = pa.RecordBatch.from_pydict({"n": [1, 2]})
    first, second = (stamp.stamped(rows, pa.array(keys, pa.large_string())) for keys in (["a", "b"], ["c", "d"]))
    assert first.schema.names == [*META_COLUMNS, "n"]
    assert [first.schema.field(name).type for name in META_COLUMNS] == [pa.string()] * 5
    assert first.to_pylist()[1] == {
        "_hoodie_commit_time": "20261123000000000",
        "_hoodie_commit_seqno": "20261123000000000_3_1",
        "_hoodie_record_key": "b",
        "_hoodie_partition_path": "p=1",
        "_hoodie_file_name": "file.parquet",
        "n": 2,
    }
    numbers = [*first.column(1).to_pylist(), *second.column(1).to_pylist()]
    assert numbers == [f"20261123000000000_3_{number}" for number in range(4)]


def test_moved_rows_change_only_their_file() -> None:
    rows = RowStamp("1", 1, "p", "old").stamped(pa.RecordBatch.from_pydict({"n": [1, 2]}), pa.array(["a", "b"]))
    moved = in_file(rows, "new")
    assert moved.column("_hoodie_file_name").to_pylist() == ["new", "new"]
    assert moved.drop_columns(["_hoodie_file_name"]) == rows.drop_columns(["_hoodie_file_name"])
