"""The two passes over a log: files read, released, decoded once or twice with the same rows; damage named."""

from __future__ import annotations

import gc
import pathlib
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import CorruptBlock, CorruptFile, SchemaMismatch, StorageError
from penstock.proto.model.splits import EventTimeOrdering, FileRef, Scan
from penstock.reader.log import file_bytes, scanner
from penstock.reader.log.file_bytes import LogFiles
from penstock.reader.log.scanner import read_log
from penstock.reader.merge.fold import RecordKind
from penstock.reader.merge.stream import LogWinners
from penstock.reader.split.context import SplitContext
from penstock.reader.split.read_schema import read_schema_of
from penstock.reader.split.report import SplitTally
from penstock.table.storage.filesystem import FileInfo, Storage, open_storage
from tests.oracle import slice_writer
from tests.oracle.log_file import CDC_DATA, HFILE_DATA
from tests.unit.reader.slices import SliceFolder, comparable

FIELDS: dict[str, Any] = {"ts": "long", "v": "string", "_hoodie_is_deleted": "boolean"}


def row(key: str, ts: int | None, v: str = "", deleted: bool | None = None) -> dict[str, Any]:
    return {"_hoodie_record_key": key, "ts": ts, "v": v, "_hoodie_is_deleted": deleted}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> SliceFolder:
    return SliceFolder(tmp_path, FIELDS, EventTimeOrdering(("ts",)))


def data(folder: SliceFolder, instant: str, *rows: dict[str, Any], **more: Any) -> bytes:
    return slice_writer.data_block(folder.avro, rows, instant, **more)


def winners(folder: SliceFolder, **changed: Any) -> LogWinners | None:
    scan = folder.scan(**changed)
    return read_log(context_of(folder, scan, open_storage(scan.base_path)))


def context_of(folder: SliceFolder, scan: Scan, storage: Storage) -> SplitContext:
    schema = read_schema_of(scan)
    return SplitContext(scan=scan, split=folder.split(), schema=schema, storage=storage, tally=SplitTally())


class CountingStorage:
    """Counts files opened, and keeps weak hold of what was handed out."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.base_path = storage.base_path
        self.opened: list[str] = []
        self.buffers: list[weakref.ref[Any]] = []

    def open_input(self, path: str) -> Any:
        self.opened.append(path)
        outer, source = self, self._storage.open_input(path)

        class Source:
            def __enter__(self) -> Source:
                return self

            def __exit__(self, *_error: object) -> None:
                source.close()

            def size(self) -> int:
                return int(source.size())

            def seek(self, place: int) -> int:
                return int(source.seek(place))

            def readinto(self, room: memoryview) -> int:
                outer.buffers.append(weakref.ref(room.obj))
                return int(source.readinto(room))

        return Source()

    def list_dir(self, path: str) -> list[FileInfo]:
        return self._storage.list_dir(path)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        return self._storage.read_bytes(path, limit_bytes)

    def file_info(self, path: str) -> FileInfo | None:
        return self._storage.file_info(path)


@pytest.mark.parametrize("one_pass_bytes", [0, 1 << 20])
@pytest.mark.parametrize(("needed", "rows"), [("ac", ["a", "c"]), ("b", ["b"]), ("", []), ("abc", ["a", "b", "c"])])
def test_rows_of_needed_keys_alone(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch, one_pass_bytes: int, needed: str, rows: list[str]
) -> None:
    """The other keys count as deleted; a key that is deleted remains so."""
    monkeypatch.setattr(scanner, "ONE_PASS_BYTES", one_pass_bytes)
    folder.write_log(
        data(folder, "1", row("a", 1, "a"), row("b", 1, "old"), row("c", 1, "c"), row("d", 2, deleted=True))
    )
    folder.write_log(data(folder, "2", row("b", 2, "b")))
    scan = folder.scan()
    context = context_of(folder, scan, open_storage(scan.base_path))
    result = read_log(context, needed=lambda table: np.array([key in needed for key in table.keys.to_pylist()]))
    assert result is not None
    taken = [text for batch in result.rows.batches() for text in batch["v"].to_pylist()]
    assert sorted(taken) == rows
    for key, kind, place in zip(result.table.keys.to_pylist(), result.kinds, result.row_of, strict=True):
        assert bool(kind == RecordKind.DATA) is (key in rows)
        assert (taken[place] if place >= 0 else None) == (key if key in rows else None)


@pytest.mark.parametrize(("held_bytes", "opened"), [(1 << 20, 2), (0, 5)])
def test_raw_bytes_are_read_once_if_few_and_never_outlive_the_log(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch, held_bytes: int, opened: int
) -> None:
    monkeypatch.setattr(scanner, "ONE_PASS_BYTES", 0)
    for number in range(2):
        folder.write_log(data(folder, f"{number}", row(f"k{number}", 1, "x" * 1000)))
    scan = folder.scan()
    storage = CountingStorage(open_storage(scan.base_path))
    result = read_log(context_of(folder, scan, storage), held_bytes=held_bytes)
    gc.collect()
    assert result is not None
    assert len(result.rows) == 2
    assert len(storage.opened) == opened
    assert len(storage.buffers) == opened
    assert all(buffer() is None for buffer in storage.buffers)


@pytest.mark.parametrize("compiled", [True, False])
def test_one_pass_and_two_give_the_same_rows(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    folder.write_base([[row("a", 5, "base"), row("b", 5, "base"), row("c", 5, "base")]])
    folder.write_log(
        data(folder, "1", row("a", 6, "1"), row("n", 1, "1"), row("b", 9, "", True), row("m", None, "1")),
        slice_writer.delete_block([("n", "LongWrapper", 1), ("x", "IntWrapper", 0)], "1"),
    )
    folder.write_log(data(folder, "2", row("n", 1, "2"), row("a", 4, "2"), row("b", 8, "2"), row("x", 0, "2")))
    expected = comparable(folder.oracle("long"))
    from penstock.reader.read_split import ReadOptions

    for one_pass_bytes in (0, 1 << 20):
        monkeypatch.setattr(scanner, "ONE_PASS_BYTES", one_pass_bytes)
        assert comparable(folder.rows(options=ReadOptions(compiled=compiled))) == expected
        for columns in (("v",), ("_hoodie_record_key", "ts"), ("_hoodie_is_deleted",)):
            result = folder.rows(columns=columns, options=ReadOptions(compiled=compiled))
            assert comparable(result) == comparable({name: r[name] for name in columns} for r in folder.oracle("long"))


def test_log_that_says_nothing_is_no_log(folder: SliceFolder) -> None:
    folder.write_log()
    folder.logs[0] = replace(folder.logs[0], writes=())
    folder.write_log(data(folder, "1"), slice_writer.delete_block([], "1"))
    folder.write_log(data(folder, "2", row("a", 1)), slice_writer.rollback_block("2", "3"))
    folder.write_log(data(folder, "4", row("a", 1), kind=CDC_DATA))
    assert winners(folder) is None


def test_losers_are_never_decoded_in_full(folder: SliceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "ONE_PASS_BYTES", 0)
    folder.write_log(*(data(folder, f"{n}", *(row(f"k{k}", n, f"v{n}") for k in range(3))) for n in range(5)))
    result = winners(folder)
    assert result is not None
    assert len(result.rows) == 3


def test_missing_log_is_named(folder: SliceFolder) -> None:
    folder.write_log(data(folder, "1", row("a", 1)))
    (folder.folder / folder.logs[0].path).unlink()
    with pytest.raises(
        CorruptFile, match=r"table orders: log file \.group_.*\.log\.1_0-1-1 is in the plan but is gone"
    ):
        winners(folder)


def test_log_cut_after_a_whole_block_is_named(folder: SliceFolder) -> None:
    """No block is damaged: only the planned size shows that rows are lost."""
    first = data(folder, "1", row("a", 1))
    folder.write_log(first, data(folder, "2", row("b", 1)))
    (folder.folder / folder.logs[0].path).write_bytes(first)
    with pytest.raises(
        CorruptFile, match=rf"is truncated: got {len(first)} bytes, expected {folder.logs[0].size_bytes}"
    ):
        winners(folder)


def test_log_that_grew_is_read_to_its_end(folder: SliceFolder) -> None:
    """Table version 6 appends: visible instants decide what counts, not the size at planning."""
    folder.write_log(data(folder, "1", row("a", 1)))
    path = folder.folder / folder.logs[0].path
    path.write_bytes(path.read_bytes() + data(folder, "2", row("b", 1)))
    result = winners(folder)
    assert result is not None
    assert len(result.rows) == 2


def test_log_that_changes_between_two_passes_is_named(folder: SliceFolder) -> None:
    for number in range(2):
        folder.write_log(data(folder, "1", row(f"k{number}", 1)))
    files = LogFiles(open_storage(str(folder.folder)), folder.logs, "orders", held_bytes=0)
    files.data(0)
    files.data(1)
    path = folder.folder / folder.logs[0].path
    path.write_bytes(path.read_bytes() + data(folder, "2", row("b", 1)))
    with pytest.raises(CorruptFile, match="changed while it was read"):
        files.data(0)


def test_released_local_log_is_read_in_parts(folder: SliceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_bytes, "_RETURN_BYTES", 0)
    folder.write_log(*(data(folder, f"{number}", row(f"k{number}", 1)) for number in range(3)))
    path = folder.folder / folder.logs[0].path
    whole = path.read_bytes()
    files = LogFiles(open_storage(str(folder.folder)), folder.logs, "orders")
    held, begin = files.part(0, 5, 9) if files.data(0) else (b"", -1)
    assert (bytes(held), begin) == (whole, 0)
    files.release_local()
    part, begin = files.part(0, 5, 9)
    assert (bytes(part), begin) == (whole[5:9], 5)
    part, begin = files.part(0, len(whole) - 3, len(whole) + 100)
    assert (bytes(part), begin) == (whole[-3:], len(whole) - 3)
    path.write_bytes(whole + b"more")
    assert bytes(files.part(0, 5, 9)[0]) == whole[5:9]
    path.write_bytes(whole[:-1])
    with pytest.raises(CorruptFile, match="truncated"):
        files.part(0, 5, 9)


def test_remote_log_is_read_once(folder: SliceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_bytes, "_RETURN_BYTES", 0)
    monkeypatch.setattr(file_bytes, "is_local", lambda storage: False)
    folder.write_log(data(folder, "1", row("a", 1)))
    storage = CountingStorage(open_storage(str(folder.folder)))
    files = LogFiles(storage, folder.logs, "orders")
    whole = bytes(files.data(0))
    files.release_local()
    part, begin = files.part(0, 5, 9)
    assert (bytes(part), begin) == (whole, 0)
    assert len(storage.opened) == 1


def test_storage_that_fails_may_be_asked_again(folder: SliceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_log(data(folder, "1", row("a", 1)))
    storage = open_storage(str(folder.folder))

    def fail(_path: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(storage, "open_input", fail)
    with pytest.raises(StorageError, match=r"log file .*: reading failed"):
        LogFiles(storage, folder.logs, "orders").data(0)


@pytest.mark.parametrize("cut", [1, 5, 20, 60])
def test_cut_block_is_named_with_file_and_place(folder: SliceFolder, cut: int) -> None:
    whole = data(folder, "1", row("a", 1))
    folder.write_log(whole, data(folder, "2", row("b", 1)))
    ref = folder.logs[0]
    path = folder.folder / ref.path
    path.write_bytes(path.read_bytes()[:-cut])
    folder.logs[0] = FileRef(ref.path, path.stat().st_size)
    with pytest.raises(CorruptBlock, match=rf"table orders: log file \.group_.*: bytes {len(whole)} to "):
        winners(folder)


def test_damaged_records_are_named_with_table_file_instant_and_record(folder: SliceFolder) -> None:
    block = bytearray(data(folder, "7", row("a", 1, "some text"), row("b", 1, "more text")))
    at = block.index(b"more text")
    block[at - 1] = 0x7F
    folder.write_log(bytes(block))
    with pytest.raises(CorruptBlock, match=r"table orders: .*log\.1_0-1-1: block at byte 0 of instant 7: record 1"):
        winners(folder)


def test_record_without_a_key_is_damage(folder: SliceFolder) -> None:
    folder.write_log(data(folder, "1", {"ts": 1, "v": "x"}))
    with pytest.raises(CorruptBlock, match="a record without _hoodie_record_key"):
        winners(folder)


def test_an_hfile_block_that_is_no_hfile_names_the_file(folder: SliceFolder) -> None:
    folder.write_log(data(folder, "1", row("a", 1), kind=HFILE_DATA))
    with pytest.raises(CorruptBlock, match=r"table orders: \.group_.*log\.1_0-1-1: block at byte 0.*its HFile"):
        winners(folder)


def test_type_change_in_the_log_names_column_and_file(folder: SliceFolder) -> None:
    narrow = slice_writer.table_schema({**FIELDS, "v": "boolean"})
    folder.write_log(slice_writer.data_block(narrow, [{"_hoodie_record_key": "a", "ts": 1, "v": True}], "1"))
    with pytest.raises(SchemaMismatch, match=r"table orders: \.group_.*type change of column v"):
        winners(folder)
    assert winners(folder, columns=("ts",)) is not None


def test_older_block_lacks_columns_and_has_ints_for_longs(folder: SliceFolder) -> None:
    older = slice_writer.table_schema({"ts": "int"})
    folder.write_base([[row("a", 5, "base")]])
    folder.write_log(slice_writer.data_block(older, [{"_hoodie_record_key": "a", "ts": 6}], "1"))
    (result,) = folder.rows()
    assert (result["ts"], result["v"], result["_hoodie_is_deleted"]) == (6, None, None)


@pytest.mark.parametrize("wrapper", ["TimestampMicrosWrapper", "LongWrapper"])
def test_deletes_ordered_by_a_timestamp(tmp_path: pathlib.Path, wrapper: str) -> None:
    """Writers hand a timestamp over as a plain long: it has the column's unit."""
    for unit, short, scale in (("micros", "us", 1), ("millis", "ms", 1000)):
        below = tmp_path / unit
        below.mkdir()
        kind = {"type": "long", "logicalType": f"timestamp-{unit}"}
        folder = SliceFolder(below, {"ts": kind, "v": "string"}, EventTimeOrdering(("ts",)))
        place = folder.arrow.get_field_index("ts")
        schema = folder.arrow.set(place, pa.field("ts", pa.timestamp(short, "UTC")))
        folder.write_base([[{"_hoodie_record_key": key, "ts": 5000 // scale} for key in ("a", "b")]], schema)
        written = scale if wrapper == "LongWrapper" else 1
        entries = [("a", wrapper, (5000 - scale) // written), ("b", wrapper, 5000 // written)]
        folder.write_log(slice_writer.delete_block(entries, "1"))
        assert [result["_hoodie_record_key"] for result in folder.rows()] == ["a"]
        if wrapper == "LongWrapper" and unit == "millis":
            folder.write_log(slice_writer.delete_block([("a", wrapper, 1 << 60)], "2"))
            with pytest.raises(CorruptBlock, match="beyond any timestamp"):
                folder.rows()


def test_deletes_ordered_by_a_moment_among_several_columns(tmp_path: pathlib.Path) -> None:
    """Each value of a tuple has its own column's unit."""
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    fields = {"seq": "long", "ts": millis, "v": "string"}
    folder = SliceFolder(tmp_path, fields, EventTimeOrdering(("seq", "ts")))
    rows = [{"_hoodie_record_key": key, "seq": 7, "ts": 5, "v": "x"} for key in "ab"]
    folder.write_log(slice_writer.data_block(folder.avro, rows, "1"))
    entries = [
        ("a", "ArrayWrapper", [("LongWrapper", 7), ("LongWrapper", 4)]),
        ("b", "ArrayWrapper", [("LongWrapper", 7), ("LongWrapper", 6)]),
    ]
    folder.write_log(slice_writer.delete_block(entries, "2"))
    assert [result["_hoodie_record_key"] for result in folder.rows()] == ["a"]


@pytest.mark.parametrize(("logical", "kind", "wrapper"), [("millis", "int", "Int"), ("micros", "long", "Long")])
def test_deletes_ordered_by_a_time_of_day(tmp_path: pathlib.Path, logical: str, kind: str, wrapper: str) -> None:
    """Spark sees the file's number, and so does a delete."""
    time = {"type": kind, "logicalType": f"time-{logical}"}
    folder = SliceFolder(tmp_path, {"ts": time, "v": "string"}, EventTimeOrdering(("ts",)))
    rows = [{"_hoodie_record_key": key, "ts": 5000, "v": "x"} for key in "abc"]
    folder.write_log(slice_writer.data_block(folder.avro, rows, "1"))
    entries = [(key, f"{wrapper}Wrapper", ts) for key, ts in (("a", 4999), ("b", 5000))]
    folder.write_log(slice_writer.delete_block([*entries, ("c", "IntWrapper", 0)], "2"))
    assert [result["_hoodie_record_key"] for result in folder.rows()] == ["a"]
