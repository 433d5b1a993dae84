"""Damage in a log: leftovers of failed appends are passed over and counted, what may be a loss is an error."""

from __future__ import annotations

import logging
import pathlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, CorruptFile
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.reports import SplitReport
from penstock.proto.model.splits import CommitTimeOrdering, LogWrite, VisibleInstants
from penstock.reader.read_split import SplitTally, read_split
from tests.oracle import slice_writer
from tests.oracle.log_file import CDC_DATA, DamagedInside
from tests.unit.reader.slices import SliceFolder, comparable

FIELDS: dict[str, Any] = {"v": "string"}
VISIBLE = VisibleInstants(frozenset(InstantTime(text) for text in ("001", "002", "003")))


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> SliceFolder:
    return SliceFolder(tmp_path, FIELDS, CommitTimeOrdering())


def data(folder: SliceFolder, instant: str, *keys: str, **more: Any) -> bytes:
    rows = [{"_hoodie_record_key": key, "v": instant} for key in keys]
    return slice_writer.data_block(folder.avro, rows, instant, **more)


def parquet(folder: SliceFolder, instant: str, *keys: str) -> bytes:
    rows = [{"_hoodie_record_key": key, "v": instant} for key in keys]
    return slice_writer.parquet_block(folder.arrow, rows, instant)


def deletes(instant: str, *keys: str) -> bytes:
    return slice_writer.delete_block([(key, "IntWrapper", 0) for key in keys], instant)


def write(folder: SliceFolder, *parts: bytes, writes: tuple[tuple[str, int, int], ...] | None) -> None:
    folder.write_log(*parts)
    known = None if writes is None else tuple(LogWrite(InstantTime(i), rows, removed) for i, rows, removed in writes)
    folder.logs[-1] = replace(folder.logs[-1], writes=known)


def read(folder: SliceFolder, **changed: Any) -> tuple[list[str], SplitReport]:
    """Keys, each with the instant whose row it shows."""
    tally = SplitTally()
    scan = folder.scan(**{"visible": VISIBLE, **changed})
    batches = list(read_split(scan, folder.split(), tally=tally))
    rows = [row for result in batches for row in result.batch.to_pylist()]
    return [row["_hoodie_record_key"] + row["v"] for row in rows], tally.report()


def half(block: bytes) -> bytes:
    return block[: len(block) * 6 // 10]


GARBAGE = b"#HUDI#" + (1 << 40).to_bytes(8, "big") + b"\0" * 50


@pytest.mark.parametrize("gap", ["half", "short", "garbage", "zeros"])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_leftover_anywhere_is_passed_over_and_counted(
    folder: SliceFolder, caplog: pytest.LogCaptureFixture, gap: str, place: int
) -> None:
    blocks = [data(folder, "001", "a", "b"), parquet(folder, "002", "b", "c"), deletes("003", "a")]
    left = {"half": half(blocks[1]), "short": blocks[0][:20], "garbage": GARBAGE, "zeros": bytes(30)}[gap]
    blocks.insert(place, left)
    write(folder, *blocks, writes=(("001", 2, 0), ("002", 2, 0), ("003", 0, 1)))
    if gap == "zeros" and place:  # what follows a block must be one, or Hudi takes the block for damaged too
        with pytest.raises(CorruptBlock, match="neither a block nor the end of the file follows"):
            read(folder)
        return
    rows, report = read(folder)
    assert rows == ["b002", "c002"]
    assert (report.skipped_gaps, report.skipped_bytes) == (1, len(left))
    (message,) = [record for record in caplog.records if record.name == "penstock.reader"]
    assert message.levelno == logging.WARNING
    assert folder.logs[0].path in message.getMessage()
    assert comparable(folder.rows(visible=VISIBLE)) == comparable(folder.oracle())


@pytest.mark.parametrize(
    ("writes", "named"),
    [
        (None, "is not known"),
        ((("001", 3, 0), ("002", 1, 1)), "of completed instant 001 2 rows and 0 deletes are there, expected 3 and 0"),
        ((("001", 1, 0), ("002", 1, 1)), "of completed instant 001 2 rows and 0 deletes are there, expected 1 and 0"),
        ((("001", 2, 0), ("002", 1, 2)), "of completed instant 002 1 rows and 1 deletes are there, expected 1 and 2"),
        ((("001", 2, 0), ("002", 1, 1), ("003", 1, 0)), "of completed instant 003 0 rows and 0 deletes are there"),
    ],
)
def test_possible_loss_is_an_error_unless_corrupt_data_is_skipped(
    folder: SliceFolder, writes: tuple[tuple[str, int, int], ...] | None, named: str
) -> None:
    blocks = [data(folder, "001", "a", "b"), half(data(folder, "003", "z")), data(folder, "002", "c")]
    write(folder, *blocks, deletes("002", "b"), writes=writes)
    where = rf"table orders: log file \.group_.*log\.1_0-1-1: bytes {len(blocks[0])} to {len(blocks[0] + blocks[1])} "
    with pytest.raises(CorruptBlock, match=rf"{where}are no whole log block .*{named}.*onCorrupt=skip"):
        read(folder)
    rows, report = read(folder, skip_corrupt=True)
    assert rows == ["a001", "c002"]
    assert (report.skipped_gaps, report.skipped_bytes) == (1, len(blocks[1]))
    assert comparable(folder.rows(visible=VISIBLE, skip_corrupt=True)) == comparable(folder.oracle())


def test_only_instants_that_the_scan_shows_must_be_whole(folder: SliceFolder) -> None:
    write(folder, data(folder, "001", "a"), half(data(folder, "002", "a")), writes=(("001", 1, 0), ("002", 1, 0)))
    assert read(folder, visible=replace(VISIBLE, not_after="001"))[0] == ["a001"]
    with pytest.raises(CorruptBlock, match="completed instant 002"):
        read(folder)


def test_file_cut_between_blocks_lacks_written_records(folder: SliceFolder) -> None:
    write(folder, data(folder, "001", "a"), writes=None)  # not known: taken as it is
    write(folder, data(folder, "002", "b", "c"), writes=(("002", 1, 0),))  # more than was said: a task tried twice
    assert read(folder)[0] == ["a001", "b002", "c002"]
    write(folder, data(folder, "002", "d"), writes=(("002", 2, 0),))
    with pytest.raises(CorruptBlock, match="ends early: of completed instant 002 1 rows are there, expected 2"):
        read(folder)
    assert read(folder, skip_corrupt=True)[0] == ["a001", "b002", "c002", "d002"]
    folder.logs.pop()
    write(folder, data(folder, "002", "d"), writes=(("002", 1, 1),))
    with pytest.raises(CorruptBlock, match="ends early: of completed instant 002 the 1 deletes are missing"):
        read(folder)
    folder.logs.pop()
    write(folder, data(folder, "002", "d", "e"), writes=(("002", 1, 1),))  # a delete that is a row of a changelog
    assert read(folder)[0] == ["a001", "b002", "c002", "d002", "e002"]


def test_each_file_is_judged_by_itself(folder: SliceFolder) -> None:
    write(folder, data(folder, "001", "a"), GARBAGE, writes=(("001", 1, 0),))
    write(folder, half(data(folder, "002", "b")), GARBAGE, writes=(("002", 1, 0),))
    with pytest.raises(CorruptBlock, match=r"log\.2_0-1-1: bytes .* and 1 more damaged parts; of completed instant"):
        read(folder)
    write(folder, data(folder, "002", "b"), writes=None)
    folder.logs[1] = replace(folder.logs[1], writes=())
    rows, report = read(folder)
    assert rows == ["a001", "b002"]
    assert report.skipped_gaps == 3


def test_file_without_bytes(folder: SliceFolder) -> None:
    write(folder, writes=())
    assert read(folder)[1].skipped_gaps == 0
    for writes in (None, (("001", 1, 0),)):
        folder.logs.clear()
        write(folder, writes=writes)
        with pytest.raises(CorruptBlock, match="the file is empty"):
            read(folder)
        assert read(folder, skip_corrupt=True)[1].skipped_gaps == 1


def test_whole_block_with_damaged_content_is_never_passed_over(folder: SliceFolder) -> None:
    """Hudi fails on it as well: only what is no block is skipped."""
    block = bytearray(data(folder, "001", "some key"))
    at = block.index(b"some key")
    block[at - 1] = 0x7F
    write(folder, bytes(block), GARBAGE, writes=(("001", 1, 0),))
    for skip in (False, True):
        with pytest.raises(CorruptBlock, match="instant 001: record 0"):
            read(folder, skip_corrupt=skip)


def test_blocks_that_count_for_nothing(folder: SliceFolder) -> None:
    """A rollback and change data are no records of an instant."""
    rollback = slice_writer.rollback_block("009", "002")
    change = data(folder, "001", "x", kind=CDC_DATA)
    write(folder, data(folder, "001", "a"), change, rollback, GARBAGE, writes=(("001", 1, 0), ("002", 0, 0)))
    assert read(folder)[0] == ["a001"]


FULL: dict[str, list[str]] = {"001": ["a", "b"], "002": ["b", "c"], "003": ["d"]}
BEGINNINGS = st.lists(st.tuples(st.sampled_from(list(FULL)), st.integers(6, 600), st.integers(0, 4)), max_size=2)
STRETCHES = st.tuples(st.integers(0, 3000), st.integers(1, 60))


@settings(max_examples=60, deadline=None)
@given(beginnings=BEGINNINGS, lost=st.none() | STRETCHES)
@example(beginnings=[("001", 34, 0), ("001", 6, 0)], lost=(74, 34))  # a whole frame around half a schema
def test_cut_anywhere_a_file_gives_all_its_rows_or_an_error(
    tmp_path_factory: pytest.TempPathFactory,
    beginnings: list[tuple[str, int, int]],
    lost: tuple[int, int] | None,
) -> None:
    """Whole blocks, among them beginnings of blocks (instant, bytes, where), one stretch of bytes lost (place, length):
    never fewer rows than were written; with onCorrupt=skip the oracle's."""
    folder = SliceFolder(tmp_path_factory.mktemp("t"), FIELDS, CommitTimeOrdering())
    whole = {instant: data(folder, instant, *keys) for instant, keys in FULL.items()}
    parts = list(whole.values())
    for instant, length, where in beginnings:
        parts.insert(where, whole[instant][:length])
    content = bytearray(b"".join(parts))
    if lost:
        place = lost[0] % len(content)
        content[place : place + lost[1]] = b""
    write(folder, bytes(content), writes=tuple((instant, len(keys), 0) for instant, keys in FULL.items()))
    try:
        result, _ = read(folder)
    except (CorruptBlock, CorruptFile):
        pass
    else:
        assert sorted(result) == ["a001", "b002", "c002", "d003"]
    try:
        skipped, report = read(folder, skip_corrupt=True)
    except (CorruptBlock, CorruptFile):
        return  # a block that is whole by its frame and damaged inside
    try:
        expected = folder.oracle()
    except DamagedInside:
        assert report.skipped_gaps  # Hudi and the oracle fail there, onCorrupt=skip passes over it and says so
    else:
        assert skipped == [row["_hoodie_record_key"] + row["v"] for row in expected]
