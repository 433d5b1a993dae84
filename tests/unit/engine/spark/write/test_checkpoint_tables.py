"""The record of the tables that the streams of a query write."""

from __future__ import annotations

import json
import pathlib
import threading

import pytest

from penstock.engine.spark.write.checkpoint_tables import (
    FILE,
    NONE,
    RecordedTable,
    check_table,
    lost_rows,
    record_batch,
    recorded_now,
)
from penstock.engine.spark.write.written_batches import Batch, WrittenBatch
from penstock.proto.errors import ConfigurationError


def batch(number: int, name: str = "s") -> Batch:
    return Batch(number=number, name=name, query="q", operation="UPSERT")


def newest(number: int) -> WrittenBatch:
    return WrittenBatch(number, "q", "UPSERT")


@pytest.mark.parametrize(
    ("tables", "number", "newest", "reason"),
    [
        ({}, 7, NONE, ""),
        ({"/t": RecordedTable(0)}, 7, NONE, ""),
        ({"/t": RecordedTable(0, 0)}, 1, NONE, "it had batch 0: it was created again"),
        ({"/t": RecordedTable(0, 5)}, 6, 3, "it had batch 5: it was created again, or restored"),
        ({"/t": RecordedTable(0, 5)}, 6, 5, ""),
        ({"/t": RecordedTable(0, 4)}, 6, 5, ""),
        ({"/other": RecordedTable(7, 7)}, 7, NONE, ""),
        ({"/other": RecordedTable(6)}, 7, NONE, ""),
        ({"/other": RecordedTable(6, 6)}, 7, NONE, "table /other before"),
        ({"/other": RecordedTable(6, 6)}, 7, 6, ""),
        ({"/other": RecordedTable(0, 1), "/t": RecordedTable(3)}, 7, NONE, ""),
    ],
    ids=[
        "no-record",
        "only-empty-batches",
        "created-again",
        "restored",
        "as-recorded",
        "killed-before-the-record",
        "joined-together",
        "another-table-without-batches",
        "another-table",
        "moved",
        "both",
    ],
)
def test_table_without_batches_lacks_rows(
    tables: dict[str, RecordedTable], number: int, newest: int, reason: str
) -> None:
    found = lost_rows(tables, "/t", number, newest)
    assert reason in found and bool(reason) == bool(found)


def test_record_keeps_the_first_batch_and_the_newest() -> None:
    first = recorded_now({}, "/t", 3, NONE)
    assert first == {"/t": RecordedTable(3)} == recorded_now(first, "/t", 4, NONE)
    later = recorded_now(first, "/t", 4, 3)
    assert later == {"/t": RecordedTable(3, 3)} == recorded_now(later, "/t", 5, NONE)


def test_one_batch_is_enough_to_notice_a_table_that_was_created_again(tmp_path: pathlib.Path) -> None:
    check_table(str(tmp_path), "/t", batch(0), None)
    record_batch(str(tmp_path), "/t", batch(0))
    with pytest.raises(ConfigurationError, match="it had batch 0"):
        check_table(str(tmp_path), "/t", batch(1), None)
    check_table(str(tmp_path), "/t", batch(1), newest(0))


def test_sinks_of_several_threads_keep_each_others_record(tmp_path: pathlib.Path) -> None:
    threads = [
        threading.Thread(target=check_table, args=(str(tmp_path), f"/{number}", batch(0), None)) for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (tables,) = json.loads((tmp_path / FILE).read_text())["streams"].values()
    assert len(tables) == 20


def test_record_is_in_the_checkpoint_for_each_stream(tmp_path: pathlib.Path) -> None:
    checkpoint, table, other = str(tmp_path / "c"), str(tmp_path / "t"), str(tmp_path / "o")
    (tmp_path / "c").mkdir()
    check_table(checkpoint, table, batch(0), None)
    record_batch(checkpoint, table, batch(0))
    check_table(f"file://{checkpoint}", other, batch(4, "named"), None)
    streams = json.loads((tmp_path / "c" / FILE).read_text())["streams"]
    assert {name: list(tables) for name, tables in streams.items()} == {"s": [table], "named": [other]}
    (tmp_path / "link").symlink_to(tmp_path / "t")
    check_table(checkpoint, str(tmp_path / "link"), batch(5), newest(0))
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
