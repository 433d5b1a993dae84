"""`read_split` as a whole: order, ordinals, resuming, filters, ranges, partition columns, errors."""

from __future__ import annotations

import contextlib
import json
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.proto.errors import (
    ConfigurationError,
    CorruptBlock,
    CorruptFile,
    InvariantViolation,
    PenstockError,
    SchemaMismatch,
    StateVersionError,
)
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import (
    FORMAT_VERSION,
    CommitTimeOrdering,
    EventTimeOrdering,
    FileRef,
    RowGroupRun,
    VisibleInstants,
)
from penstock.reader import read_split as read_split_module
from penstock.reader.base.file import BaseFile
from penstock.reader.read_split import ReadOptions, SplitTally, read_split
from tests.oracle import slice_writer
from tests.unit.reader.slices import BASE_INSTANT, SliceFolder, comparable, ordinals_of, rows_of, table_of

FIELDS: dict[str, Any] = {
    "ts": "long",
    "v": "long",
    "p": "string",
    "at": {"type": "long", "logicalType": "timestamp-micros"},
}
BOTH = pytest.mark.parametrize("compiled", [True, False])


def row(key: str, ts: int, v: int, **more: Any) -> dict[str, Any]:
    return {"_hoodie_record_key": key, "ts": ts, "v": v, "p": f"p{v % 3}", "at": v * 1_000_000, **more}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> SliceFolder:
    """Row groups of 3 and 2 rows; a log that updates, loses, deletes and inserts in the reverse order of the base."""
    created = SliceFolder(tmp_path, FIELDS, EventTimeOrdering(("ts",)))
    created.write_base([[row("a", 5, 1), row("b", 5, 2), row("c", 5, 3)], [row("d", 5, 4), row("e", 5, 5)]])
    created.write_log(
        slice_writer.data_block(created.avro, [row("z", 1, 20), row("e", 6, 21), row("c", 6, 22)], "20260102000000000"),
        slice_writer.delete_block([("b", "LongWrapper", 9), ("d", "LongWrapper", 1)], "20260102000000000"),
    )
    created.write_log(slice_writer.data_block(created.avro, [row("y", 1, 30), row("a", 7, 31)], "20260103000000000"))
    return created


ORDER = [22, 31, 4, 21, 20, 30]
"""v of the merged rows: group 1 keeps none, winners c and a; group 2 keeps d, winner e; inserts z and y."""


@BOTH
@pytest.mark.parametrize("batch_rows", [1, 2, 1000, 64_000])
def test_order_and_ordinals_do_not_depend_on_batches_or_kernels(
    folder: SliceFolder, compiled: bool, batch_rows: int
) -> None:
    result = folder.read(options=ReadOptions(batch_rows, compiled))
    assert [value for batch in result for value in batch.batch["v"].to_pylist()] == ORDER
    assert ordinals_of(result) == [0, 1, 2, 3, 4, 5]
    assert all(batch.split_id == "s1" and batch.next_ordinal - batch.first_ordinal <= batch_rows for batch in result)


@BOTH
@pytest.mark.parametrize("start", range(8))
def test_read_goes_on_where_it_was_left(folder: SliceFolder, compiled: bool, start: int) -> None:
    for where in ("", "v > 20"):
        whole = folder.read(where=where, options=ReadOptions(2, compiled))
        tail = folder.read(start=start, where=where, options=ReadOptions(2, compiled))
        expected = [pair for pair in zip(ordinals_of(whole), values(whole), strict=True) if pair[0] >= start]
        assert list(zip(ordinals_of(tail), values(tail), strict=True)) == expected


def values(result: list[Any], name: str = "v") -> list[Any]:
    return [value for batch in result for value in batch.batch[name].to_pylist()]


def test_filtered_rows_keep_their_ordinals(folder: SliceFolder) -> None:
    result = folder.read(where="v in (31, 21, 30)", columns=("v",))
    assert values(result) == [31, 21, 30]
    assert ordinals_of(result) == [1, 3, 5]
    assert result[0].kept is not None
    assert all(batch.batch.schema.names == ["v"] and batch.batch.num_rows for batch in result)
    assert folder.read(where="v > 1000") == []


def test_filter_looks_at_merged_rows_only(folder: SliceFolder) -> None:
    """The base row a (v = 1) was replaced: a filter that only it passes must not bring it back."""
    assert folder.read(where="v = 1") == []
    assert values(folder.read(where="ts = 5", columns=("v",))) == [4]


def test_range_keeps_rows_last_written_by_its_instants(folder: SliceFolder) -> None:
    result = folder.read(rows=rows_of("20260103000000000"), columns=("v",))
    assert (values(result), ordinals_of(result)) == ([31, 30], [1, 5])
    both = folder.read(rows=rows_of("20260103000000000", BASE_INSTANT), where="v < 31", columns=("v",))
    assert (values(both), ordinals_of(both)) == ([4, 30], [2, 5])
    assert folder.read(rows=rows_of("20260102500000000")) == []


FILTERS = st.sampled_from(
    [
        "v > 20",
        "v % 2 = 0",
        "p = 'p1' or v = 4",
        "at < TIMESTAMP '1970-01-01 00:00:22'",
        "not p like 'p1%'",
        "ts is null",
        "ts <= 5.5",
    ]
).filter(lambda text: "%" not in text or "like" in text)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=FILTERS, batch_rows=st.integers(1, 4), compiled=st.booleans())
def test_filter_keeps_the_same_rows_as_in_a_full_read(
    folder: SliceFolder, where: str, batch_rows: int, compiled: bool
) -> None:
    scan = folder.scan()
    whole = table_of(folder.read(), scan)
    at = pa.scalar(22_000_000, pa.timestamp("us", "UTC"))
    masks = {
        "v > 20": pc.greater(whole["v"], 20),
        "p = 'p1' or v = 4": pc.or_(pc.equal(whole["p"], "p1"), pc.equal(whole["v"], 4)),
        "at < TIMESTAMP '1970-01-01 00:00:22'": pc.less(whole["at"], at),
        "not p like 'p1%'": pc.invert(pc.starts_with(whole["p"], "p1")),
        "ts is null": pc.is_null(whole["ts"]),
        "ts <= 5.5": pc.less_equal(whole["ts"], 5),
    }
    result = folder.read(where=where, options=ReadOptions(batch_rows, compiled))
    assert table_of(result, scan).equals(whole.filter(masks[where]))


@BOTH
def test_partition_columns_take_the_path_value_in_base_and_log(folder: SliceFolder, compiled: bool) -> None:
    split = folder.split(partition="p=x%20y", partition_values=("x y",))
    options = ReadOptions(2, compiled)
    for columns in (("v", "p"), ("p",)):
        result = folder.read(split=split, columns=columns, partition_fields=("p",), options=options)
        assert values(result, "p") == ["x y"] * 6
    assert folder.read(split=split, partition_fields=("p",), where="p = 'p1'", options=options) == []
    null = folder.split(partition_values=(None,))
    assert values(folder.read(split=null, columns=("p",), partition_fields=("p",), options=options), "p") == [None] * 6


def test_partition_column_alone_of_a_slice_without_a_log(folder: SliceFolder) -> None:
    split = folder.split(logs=(), partition_values=("x",))
    assert values(folder.read(split=split, columns=("p",), partition_fields=("p",)), "p") == ["x"] * 5


@BOTH
def test_slice_of_logs_alone(folder: SliceFolder, compiled: bool) -> None:
    result = folder.read(split=folder.split(base=None, base_instant=""), options=ReadOptions(2, compiled))
    assert (values(result), ordinals_of(result)) == ([20, 21, 22, 30, 31], [0, 1, 2, 3, 4])


def test_slice_of_nothing(folder: SliceFolder) -> None:
    assert folder.read(split=folder.split(base=None, base_instant="", logs=())) == []


def test_instants_that_are_not_visible_do_not_count(folder: SliceFolder) -> None:
    visible = VisibleInstants(frozenset({InstantTime("20260103000000000")}))
    assert values(folder.read(visible=visible)) == [2, 3, 31, 4, 5, 30]
    as_of = VisibleInstants(frozenset(), "9" * 17, "20260102000000000")
    assert values(folder.read(visible=as_of)) == [1, 22, 4, 21, 20]


def test_logs_without_a_counting_block_leave_the_base_as_it_is(folder: SliceFolder) -> None:
    assert values(folder.read(visible=VisibleInstants(frozenset()))) == [1, 2, 3, 4, 5]


def test_log_free_slice_reads_only_its_columns_and_row_groups(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    request: list[Any] = []
    reading = BaseFile.read

    def watched(self: BaseFile, number: int, *value: Any) -> Any:
        batches = list(reading(self, number, *value))
        request.append((number, tuple(batches[0].schema.names)))
        return iter(batches)

    monkeypatch.setattr(BaseFile, "read", watched)
    split = folder.split(logs=(), part=RowGroupRun(1, 2))
    result = folder.read(split=split, columns=("v",))
    assert (values(result), ordinals_of(result)) == ([4, 5], [0, 1])
    assert request == [(1, ("v",))]
    request.clear()
    tail = folder.read(split=folder.split(logs=()), columns=("v",), start=4)
    assert (values(tail), ordinals_of(tail)) == ([5], [4])
    assert request == [(1, ("v",))]


@BOTH
def test_key_twice_in_the_base_merges_its_first_copy(tmp_path: pathlib.Path, compiled: bool) -> None:
    folder = SliceFolder(tmp_path, FIELDS)
    folder.write_base([[row("a", 1, 1), row("b", 1, 2), row("a", 1, 3)], [row("a", 1, 4), row("b", 1, 5)]])
    folder.write_log(
        slice_writer.data_block(folder.avro, [row("a", 1, 9)], "20260102000000000"),
        slice_writer.delete_block([("b", "IntWrapper", 0)], "20260102000000000"),
    )
    for batch_rows in (1, 2, 1000):
        assert values(folder.read(options=ReadOptions(batch_rows, compiled))) == [3, 9, 4, 5]


@BOTH
def test_with_record_positions_each_copy_merges_with_its_own_record(tmp_path: pathlib.Path, compiled: bool) -> None:
    folder = SliceFolder(tmp_path, FIELDS)
    folder.write_base([[row("a", 1, 1), row("b", 1, 2), row("a", 1, 3)], [row("a", 1, 4), row("b", 1, 5)]])
    at = "20260102000000000"
    updates = [row("a", 1, 90), row("a", 1, 91), row("a", 1, 92)]
    folder.write_log(
        slice_writer.data_block(folder.avro, updates, at, positions=(BASE_INSTANT, [0, 2, 3])),
        slice_writer.delete_block([("b", "IntWrapper", 0)], at, positions=(BASE_INSTANT, [4])),
    )
    assert values(folder.read(options=ReadOptions(2, compiled))) == [2, 90, 91, 92]
    assert comparable(folder.rows()) == comparable(folder.oracle())


@pytest.mark.parametrize(
    ("places", "message"), [([1], "a record's key is not the row's"), ([7], "row 7 of a base file with 2 rows")]
)
def test_positions_that_point_at_another_row_are_damage(
    tmp_path: pathlib.Path, places: list[int], message: str
) -> None:
    folder = SliceFolder(tmp_path, FIELDS)
    folder.write_base([[row("a", 1, 1), row("b", 1, 2)]])
    block = slice_writer.data_block(
        folder.avro, [row("a", 1, 9)], "20260102000000000", positions=(BASE_INSTANT, places)
    )
    folder.write_log(block)
    with pytest.raises(CorruptBlock, match=message):
        folder.read()


def test_read_is_counted_in_the_tally(folder: SliceFolder) -> None:
    ticks = iter(range(1_000_000))
    tally = SplitTally(clock=lambda: float(next(ticks)), event_time="at")
    result = list(read_split(folder.scan(columns=("v",), where="v != 31"), folder.split(), tally=tally))
    report = tally.report()
    assert (report.rows, values(result)) == (5, [22, 4, 21, 20, 30])
    assert report.size_bytes == folder.split().size_bytes
    assert report.max_event_time_us == 30_000_000
    assert (report.outcomes.won, report.outcomes.deleted) == (5, 1)
    assert (report.outcomes.lost_event_time, report.outcomes.duplicate) == (1, 0)
    assert all(milliseconds > 0 for _, milliseconds in report.phase_ms)
    assert result[0].batch.schema.names == ["v"]


def test_one_tally_more_of_a_log_free_slice(folder: SliceFolder) -> None:
    tally = SplitTally()
    list(read_split(folder.scan(), folder.split(logs=()), tally=tally))
    assert tally.report().rows == 5
    assert tally.report().outcomes.won == 0


@pytest.mark.parametrize("what", ["scan", "split"])
def test_unknown_format_version_is_refused_before_anything_is_read(folder: SliceFolder, what: str) -> None:
    scan = folder.scan(**({"format_version": 9} if what == "scan" else {}))
    split = folder.split(**({"format_version": 9} if what == "split" else {}))
    with pytest.raises(StateVersionError, match=rf"{what} of format version 9: this build knows 1 to {FORMAT_VERSION}"):
        read_split(scan, split)


def test_bad_requests_are_refused_before_anything_is_read(folder: SliceFolder) -> None:
    with pytest.raises(ConfigurationError, match="start -1"):
        read_split(folder.scan(), folder.split(), start=-1)
    with pytest.raises(ConfigurationError, match="batch rows 0"):
        ReadOptions(batch_rows=0)
    with pytest.raises(ConfigurationError, match="no column 'nope'"):
        read_split(folder.scan(where="nope = 1"), folder.split())
    with pytest.raises(InvariantViolation, match="logs and a part of its base file"):
        read_split(folder.scan(), folder.split(part=RowGroupRun(0, 1)))


def test_virtual_keys_are_refused_by_name(folder: SliceFolder) -> None:
    """A table whose schema has no meta columns reads if no rows have to be merged or distinguished."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": ["null", "long"]}]}
    changed = {"schema_json": json.dumps(schema), "columns": ("v",), "merge": CommitTimeOrdering()}
    with pytest.raises(SchemaMismatch, match="no column _hoodie_record_key to merge by"):
        folder.read(**changed)
    without_log = folder.split(logs=())
    assert values(folder.read(split=without_log, **changed)) == [1, 2, 3, 4, 5]
    with pytest.raises(ConfigurationError, match="without column _hoodie_commit_time"):
        folder.read(split=without_log, rows=rows_of("1"), **changed)


def test_warming_up_needs_nothing() -> None:
    read_split_module.warm_up()


def test_missing_files_are_named(folder: SliceFolder) -> None:
    removed = FileRef("gone.parquet", 5)
    with pytest.raises(CorruptFile, match=r"base file gone\.parquet"):
        folder.read(split=folder.split(base=removed))
    with pytest.raises(CorruptFile, match=r"log file gone\.parquet"):
        folder.read(split=folder.split(logs=(removed,)))


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../b", "a//b", "s3://bucket/x"])
def test_paths_that_leave_the_table_are_refused(folder: SliceFolder, path: str) -> None:
    for split in (folder.split(base=FileRef(path, 1), logs=()), folder.split(logs=(FileRef(path, 1),))):
        with pytest.raises(CorruptFile, match="refused"):
            folder.read(split=split)


def test_folder_is_no_file(folder: SliceFolder) -> None:
    (folder.folder / "below").mkdir()
    for split in (folder.split(base=FileRef("below", 1), logs=()), folder.split(logs=(FileRef("below", 1),))):
        with pytest.raises(PenstockError, match="below"):
            folder.read(split=split)


@BOTH
def test_damaged_logs_give_rows_or_one_of_our_errors(folder: SliceFolder, compiled: bool) -> None:
    """Bytes changed anywhere in the logs: never another exception, never a crash."""
    random = np.random.default_rng(7)
    for ref in folder.logs:
        path = folder.folder / ref.path
        whole = path.read_bytes()
        for _ in range(60):
            damaged = bytearray(whole)
            for at in random.integers(0, len(whole), random.integers(1, 4)).tolist():
                damaged[at] = int(random.choice([0, 1, 0x7F, 0x80, 0xFF, damaged[at] ^ 1]))
            path.write_bytes(damaged)
            with contextlib.suppress(PenstockError):
                folder.read(options=ReadOptions(2, compiled))
        path.write_bytes(whole)


def test_closing_early_closes_the_base_file(folder: SliceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    close = BaseFile.close
    monkeypatch.setattr(BaseFile, "close", lambda self: (closed.append(True), close(self))[1])
    reading = read_split(folder.scan(), folder.split(), options=ReadOptions(1))
    next(reading)
    assert not closed
    reading.close()
    assert closed == [True]
