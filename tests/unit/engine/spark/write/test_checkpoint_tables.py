"""The record of the tables that the streams of a query write."""

from __future__ import annotations

import json
import pathlib

import pytest

from penstock.engine.spark.write.checkpoint_tables import FILE, RecordedTable, check_table, lost_rows, recorded_now
from penstock.engine.spark.write.written_batches import Batch, WrittenBatch
from penstock.proto.errors import ConfigurationError


def batch(number: int, name: str = "s") -> Batch:
    return Batch(number=number, name=name, query="q", operation="UPSERT")


def newest(number: int) -> WrittenBatch:
    return WrittenBatch(number, "q", "UPSERT")


@pytest.mark.parametrize(
    ("tables", "number", "reason"),
    [
        ({}, 7, ""),
        ({"/t": RecordedTable(0, has_batches=False)}, 7, ""),
        ({"/t": RecordedTable(0, has_batches=True)}, 7, "it had some"),
        ({"/other": RecordedTable(7, has_batches=True)}, 7, ""),
        ({"/other": RecordedTable(6, has_batches=False)}, 7, "table /other before"),
        ({"/other": RecordedTable(0, has_batches=True), "/t": RecordedTable(3, has_batches=False)}, 7, ""),
    ],
    ids=["no-record", "only-empty-batches", "created-again", "joined-together", "another-table", "both"],
)
def test_table_without_batches_lacks_rows(tables: dict[str, RecordedTable], number: int, reason: str) -> None:
    found = lost_rows(tables, "/t", number)
    assert reason in found and bool(reason) == bool(found)


def test_record_keeps_the_first_batch_and_that_there_were_some() -> None:
    first = recorded_now({}, "/t", 3, None)
    assert first == {"/t": RecordedTable(3, has_batches=False)} == recorded_now(first, "/t", 4, None)
    later = recorded_now(first, "/t", 4, newest(3))
    assert later == {"/t": RecordedTable(3, has_batches=True)} == recorded_now(later, "/t", 5, None)


def test_record_is_in_the_checkpoint_for_each_stream(tmp_path: pathlib.Path) -> None:
    checkpoint, table, other = str(tmp_path / "c"), str(tmp_path / "t"), str(tmp_path / "o")
    (tmp_path / "c").mkdir()
    check_table(checkpoint, table, batch(0), None)
    check_table(f"file://{checkpoint}", other, batch(4, "named"), None)
    streams = json.loads((tmp_path / "c" / FILE).read_text())["streams"]
    assert {name: list(tables) for name, tables in streams.items()} == {"s": [table], "named": [other]}
    (tmp_path / "link").symlink_to(tmp_path / "t")
    check_table(checkpoint, str(tmp_path / "link"), batch(5), None)
    with pytest.raises(ConfigurationError, match=f"the stream has written table {table} before"):
        check_table(checkpoint, other, batch(5), None)
    check_table(checkpoint, other, batch(5), newest(4))
    check_table(checkpoint, other, batch(6), newest(5))
    check_table("s3://bucket/c", other, batch(5), None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"streams": 1}', '{"streams": {"s": {"/t": 1}}}', "\xff"])
def test_damaged_record_is_an_error(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "sinks").mkdir()
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigurationError, match=r"sinks/penstock.json is damaged"):
        check_table(str(tmp_path), "/t", batch(1), None)
