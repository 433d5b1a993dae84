"""Base files read: types conformed, batches bounded by rows and bytes, failures named."""

from __future__ import annotations

import datetime
import pathlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.proto.errors import CorruptFile, PenstockError, SchemaMismatch, StorageError
from penstock.proto.model.splits import FileRef, RowGroupRun, WholeFile
from penstock.reader.base.file import BaseFile
from penstock.reader.split.emit import BatchSize
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import open_storage

RECORD = parse_record_schema(
    """{"type": "record", "name": "r", "fields": [
        {"name": "key", "type": ["null", "string"]},
        {"name": "n", "type": ["null", "long"]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "gone", "type": ["null", "double"]},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "long"]}]}
    ]}"""
)
SIZE = BatchSize(1000, 1 << 20)


def write(folder: pathlib.Path, table: pa.Table, **options: Any) -> FileRef:
    path = folder / "base.parquet"
    pq.write_table(table, path, **options)
    return FileRef("base.parquet", path.stat().st_size)


def opened(folder: pathlib.Path, ref: FileRef, expected: list[str], key: str = "") -> BaseFile:
    return BaseFile(open_storage(str(folder)), ref, RECORD, expected, table="orders", key=key)


def read(
    folder: pathlib.Path, ref: FileRef, expected: list[str], size: BatchSize = SIZE, part: Any = None, key: str = ""
):
    with opened(folder, ref, expected, key) as base:
        return [batch for group in base.row_groups(part or WholeFile(), size) for batch in group.batches()]


def test_columns_have_the_tables_types_and_the_requested_order(tmp_path: pathlib.Path) -> None:
    moment = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "n": pa.array([1, None], pa.int32()),
            "key": ["a", "b"],
            "at": pa.array([moment, None], pa.timestamp("ms", "UTC")),
            "tags": pa.array([[1, None], None], pa.list_(pa.int32())),
        }
    )
    (batch,) = read(tmp_path, write(tmp_path, table), ["tags", "gone", "at", "n"])
    assert batch.schema == pa.schema(
        [
            ("tags", pa.list_(pa.field("element", pa.int64()))),
            ("gone", pa.float64()),
            ("at", pa.timestamp("us", "UTC")),
            ("n", pa.int64()),
        ]
    )
    assert batch.to_pylist() == [
        {"tags": [1, None], "gone": None, "at": moment, "n": 1},
        {"tags": None, "gone": None, "at": None, "n": None},
    ]


def test_int96_is_the_instant_it_was(tmp_path: pathlib.Path) -> None:
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC)
    table = pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))})
    ref = write(tmp_path, table, use_deprecated_int96_timestamps=True, store_schema=False)
    (batch,) = read(tmp_path, ref, ["at"])
    assert batch["at"].to_pylist() == [moment]


def test_nanoseconds_that_micros_cannot_hold_are_refused(tmp_path: pathlib.Path) -> None:
    ref = write(tmp_path, pa.table({"at": pa.array([1001], pa.timestamp("ns", "UTC"))}))
    with pytest.raises(SchemaMismatch, match=r"base file base\.parquet: column 'at'"):
        read(tmp_path, ref, ["at"])


def test_columns_the_file_lacks_alone_still_have_rows(tmp_path: pathlib.Path) -> None:
    ref = write(tmp_path, pa.table({"n": range(10)}), row_group_size=4)
    assert [batch.num_rows for batch in read(tmp_path, ref, ["gone"], BatchSize(3, 1 << 20))] == [3, 1, 3, 1, 2]


def test_batches_never_cross_row_groups_nor_the_size_asked_for(tmp_path: pathlib.Path) -> None:
    ref = write(tmp_path, pa.table({"n": range(10)}), row_group_size=4)
    assert [batch["n"].to_pylist() for batch in read(tmp_path, ref, ["n"], BatchSize(3, 1 << 20))] == [
        [0, 1, 2], [3], [4, 5, 6], [7], [8, 9]
    ]  # fmt: skip
    part = read(tmp_path, ref, ["n"], part=RowGroupRun(1, 3))
    assert [batch["n"].to_pylist() for batch in part] == [[4, 5, 6, 7], [8, 9]]


def test_wide_rows_make_small_batches(tmp_path: pathlib.Path) -> None:
    ref = write(tmp_path, pa.table({"key": [f"{number:01000d}" for number in range(100)]}), use_dictionary=False)
    sizes = [batch.num_rows for batch in read(tmp_path, ref, ["key"], BatchSize(1000, 10_000))]
    assert sum(sizes) == 100
    assert max(sizes) <= 10
    repeated = write(tmp_path, pa.table({"key": ["x" * 1000] * 100}))  # small in the file, wide when decoded
    sizes = [batch.num_rows for batch in read(tmp_path, repeated, ["key"], BatchSize(1000, 10_000))]
    assert sum(sizes) == 100
    assert max(sizes) <= 10


def test_keys_of_a_row_group_at_once(tmp_path: pathlib.Path) -> None:
    ref = write(tmp_path, pa.table({"key": ["a", "b", "c"]}), row_group_size=2)
    with opened(tmp_path, ref, ["key"], "key") as base:
        assert [group.keys().to_pylist() for group in base.row_groups(WholeFile(), SIZE)] == [["a", "b"], ["c"]]
        assert base.num_rows == 3


@pytest.mark.parametrize("whole", [True, False])
def test_row_without_a_key_is_damage(tmp_path: pathlib.Path, whole: bool) -> None:
    ref = write(tmp_path, pa.table({"key": ["a", None]}))
    with opened(tmp_path, ref, ["key"], "key") as base, pytest.raises(CorruptFile, match="a row without key"):
        for group in base.row_groups(WholeFile(), SIZE):
            assert group.keys() if whole else list(group.batches())


def test_file_without_keys_cannot_meet_a_log(tmp_path: pathlib.Path) -> None:
    ref = write(tmp_path, pa.table({"n": [1]}))
    with pytest.raises(SchemaMismatch, match="no column key to merge by"):
        opened(tmp_path, ref, ["n", "key"], "key")


def test_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CorruptFile, match=r"table orders: base file base\.parquet is in the plan but is gone"):
        opened(tmp_path, FileRef("base.parquet", 10), ["n"])


@pytest.mark.parametrize("remaining", [0, 3, 100, 0.5, 0.9])
def test_cut_file_is_named(tmp_path: pathlib.Path, remaining: float) -> None:
    ref = write(tmp_path, pa.table({"n": list(range(5000))}))
    path = tmp_path / ref.path
    path.write_bytes(
        path.read_bytes()[: int(remaining if remaining >= 1 or not remaining else remaining * ref.size_bytes)]
    )
    with pytest.raises(
        CorruptFile, match=rf"base file base\.parquet cannot be read \(truncated: .*says {ref.size_bytes}"
    ):
        opened(tmp_path, ref, ["n"])


def test_damaged_pages_are_named(tmp_path: pathlib.Path) -> None:
    ref = write(tmp_path, pa.table({"key": [f"key {number}" for number in range(5000)]}), use_dictionary=False)
    path = tmp_path / ref.path
    data = bytearray(path.read_bytes())
    data[4:2000] = b"\xff" * 1996
    path.write_bytes(data)
    with pytest.raises(CorruptFile, match=r"base file base\.parquet cannot be read"):
        read(tmp_path, ref, ["key"])


def test_row_groups_that_are_not_there_are_named(tmp_path: pathlib.Path) -> None:
    ref = write(tmp_path, pa.table({"n": [1]}))
    with pytest.raises(CorruptFile, match="row groups 0 to 1 were planned, it has 1"):
        read(tmp_path, ref, ["n"], part=RowGroupRun(0, 2))


def test_storage_that_fails_may_be_asked_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = write(tmp_path, pa.table({"n": list(range(5000))}), row_group_size=100)
    with opened(tmp_path, ref, ["n"]) as base:
        group = next(base.row_groups(WholeFile(), SIZE))

        def fail(*_arguments: object, **_options: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(base._parquet._file, "iter_batches", fail)
        with pytest.raises(StorageError, match=r"base file base\.parquet: reading failed: .*a retry may succeed"):
            list(group.batches())


def test_damaged_bytes_never_escape_as_another_error(tmp_path: pathlib.Path) -> None:
    """Any byte of the footer changed: rows or one of our errors."""
    ref = write(tmp_path, pa.table({"key": ["a"] * 50, "n": range(50)}))
    path = tmp_path / ref.path
    whole = path.read_bytes()
    for at in range(len(whole) - 600, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            read(tmp_path, ref, ["key", "n"])
        except PenstockError as error:
            assert "base.parquet" in str(error)
