"""Streams that cannot write a table: clear errors, nothing half visible, and a restart goes on."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.table.hudi_table import open_table
from penstock.writer.transaction import transaction
from penstock.writer.transaction.lock import LOCK_FILE
from tests.spark.write.tables import committed_files, create, data_files, rows_of
from tests.spark.write.test_data_source_writer import FormatStream
from tests.spark.write.test_sink import Stream, Write


def keys(path: str) -> list[str]:
    return [row[0] for row in rows_of(path)]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda df: df.drop("id"), "lacks column 'id'; it has seq, city"),
        (lambda df: df.withColumn("seq", F.lit("one")), "column 'seq'"),
        (lambda df: df.withColumn("id", F.lit(None).cast("string")), "key column 'id' is null in 1 rows"),
    ],
    ids=["no-key-column", "other-type", "null-key"],
)
def test_stream_with_other_columns_is_refused_and_goes_on(
    spark: SparkSession, tmp_path: pathlib.Path, change: Callable[[DataFrame], DataFrame], error: str
) -> None:
    stream = Stream(spark, tmp_path)
    sink = stream.sink()
    stream.add("a")
    stream.run(sink)
    before = data_files(stream.path)
    stream.add("b")
    with pytest.raises(StreamingQueryException, match=error):
        stream.run(lambda df, batch_id: sink(change(df), batch_id))
    assert keys(stream.path) == ["a"] and data_files(stream.path) == before
    assert not open_table(stream.path).timeline().pending
    stream.run(stream.sink())
    assert keys(stream.path) == ["a", "b"]


def test_stream_waits_for_the_lock_of_hudi_and_goes_on(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(spark, tmp_path)
    stream.add("a")
    stream.run(stream.sink())
    lock = pathlib.Path(stream.path, LOCK_FILE)
    stream.add("b")
    with monkeypatch.context() as patch:
        patch.setattr(transaction.WriteEnvironment, "__init__", _impatient(transaction.WriteEnvironment.__init__))
        lock.touch()
        with pytest.raises(
            StreamingQueryException, match=r"another writer has held the table's lock.*nothing was writ"
        ):
            stream.run(stream.sink())
    assert keys(stream.path) == ["a"] and data_files(stream.path) == committed_files(stream.path)
    lock.unlink()
    stream.run(stream.sink())
    assert keys(stream.path) == ["a", "b"] and not lock.exists()


def _impatient(init: Callable[..., None]) -> Callable[..., None]:
    def without_patience(*arguments: object, **more: object) -> None:
        init(*arguments, **{**more, "lock_timeout_s": 0.0})

    return without_patience


def other_table(stream: Stream) -> str:
    """Another table than that of the stream."""
    return create(stream.folder / "other", "copy_on_write", "simple")


def test_checkpoint_of_another_table_is_refused(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """Rows of the batches before would be missing."""
    stream = Stream(spark, tmp_path)
    for key in "ab":
        stream.add(key)
    stream.run(stream.sink())
    first, stream.path = stream.path, other_table(stream)
    stream.add("c")
    with pytest.raises(StreamingQueryException, match=rf"no batch of stream .*has written table {first} before"):
        stream.run(stream.sink())
    assert not data_files(stream.path) and not open_table(stream.path).timeline().pending
    stream.run(stream.sink(identifier="from here on"))
    assert keys(stream.path) == ["c"], "another identifier says that this is meant"
    stream.path = first
    stream.add("d")
    stream.run(stream.sink())
    assert keys(first) == ["a", "b", "d"], "the table of the checkpoint"


def test_format_refuses_a_checkpoint_of_another_table(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    stream = FormatStream(spark, tmp_path, kind="copy_on_write", index="simple")
    stream.add("a")
    stream.start()
    first, stream.path = stream.path, other_table(stream)
    stream.add("b")
    with pytest.raises(StreamingQueryException, match=rf"has written table {first} before"):
        stream.start()
    assert keys(stream.path) == [] and data_files(stream.path) == committed_files(stream.path)
    stream.path = first
    stream.start()
    assert keys(first) == ["a", "b"]


def test_table_that_was_created_again_is_refused(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    stream = Stream(spark, tmp_path)
    for key in "abc":
        stream.add(key)
    stream.run(stream.sink())
    shutil.rmtree(stream.path)
    create(tmp_path / "t")
    stream.add("d")
    with pytest.raises(StreamingQueryException, match=r"it had batch [0-9]+: it was created again, or restored"):
        stream.run(stream.sink())
    assert keys(stream.path) == []
    stream.run(stream.sink(checkpoint="new"), "new")
    assert keys(stream.path) == ["a", "b", "c", "d"], "a new checkpoint reads all of it"


def test_tables_that_are_legally_without_batches_are_written(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """A function with two tables, the second of which gets its first rows late; a table that was moved; and a
    checkpoint without a record."""
    stream = Stream(spark, tmp_path)
    second = other_table(stream)
    for key in "abc":
        stream.add(key)

    def both(path: str) -> Write:
        sinks = [penstock.spark.sink(table, checkpoint=str(tmp_path / "checkpoint")) for table in (path, second)]

        def write(df: DataFrame, batch_id: int) -> None:
            sinks[0](df, batch_id)
            sinks[1](df.filter("id > 'b'"), batch_id)

        return write

    stream.run(both(stream.path))
    assert keys(stream.path) == ["a", "b", "c"] and keys(second) == ["c"]
    moved = str(pathlib.Path(stream.path).rename(tmp_path / "moved"))
    stream.add("d")
    stream.run(both(moved))
    assert keys(moved) == ["a", "b", "c", "d"] and keys(second) == ["c", "d"]
    record = tmp_path / "checkpoint/sinks/penstock.json"
    assert len(next(iter(json.loads(record.read_text())["streams"].values()))) == 3
    record.unlink()
    stream.path = create(tmp_path / "third")
    stream.add("e")
    stream.run(stream.sink())
    assert keys(stream.path) == ["e"], "nothing says that the table lacks rows"
    record.write_text("{")
    stream.add("f")
    with pytest.raises(StreamingQueryException, match=r"sinks/penstock.json is damaged .*delete the file"):
        stream.run(stream.sink())
    assert keys(stream.path) == ["e"]
