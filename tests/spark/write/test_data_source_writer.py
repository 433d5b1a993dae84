"""`df.write.format("penstock")` and `stream.writeStream.format("penstock")`: inserts of a data frame and of a stream,
once, whatever fails; everything else is refused by name."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
import penstock.spark
from penstock.engine.spark.write.source_positions import SINK_POSITIONS
from penstock.enumerator.handover.commit_offsets import SINK_OFFSETS
from penstock.table.hudi_table import open_table
from tests.spark.write.tables import committed_files, create, data_files, frame, rows_of
from tests.spark.write.test_sink import Stream

ROWS = [(f"k{number}", number, "oslo" if number % 2 else "bern") for number in range(40)]


def append(data: DataFrame, path: str, mode: str = "append", **options: str) -> None:
    data.write.format("penstock").mode(mode).options(**options).save(path)


def pending(path: str) -> tuple[Any, ...]:
    return open_table(path).timeline().pending


@pytest.mark.parametrize(
    ("kind", "operation"), [("copy_on_write", "insert"), ("merge_on_read", "insert"), ("copy_on_write", "bulk_insert")]
)
def test_each_task_writes_its_own_file_groups_of_one_instant(
    spark: SparkSession, tmp_path: pathlib.Path, kind: str, operation: str
) -> None:
    path = create(tmp_path / "t", kind, "simple")
    append(frame(spark, ROWS), path, operation=operation)
    assert rows_of(path) == sorted(ROWS)
    assert data_files(path) == committed_files(path) and len(data_files(path)) == 4, "two tasks, two partitions"
    (commit,) = open_table(path).timeline().completed_writes
    assert open_table(path).commit(commit).operation == operation.upper()
    append(frame(spark, ROWS[:3]), path, operation=operation)
    assert rows_of(path) == sorted(ROWS + ROWS[:3]), "inserts repeat keys"
    result = penstock.spark.write(frame(spark, [("k0", 100, "bern")]), path, "upsert")
    assert result.updated == 2 and [row for row in rows_of(path) if row[0] == "k0"] == [("k0", 100, "bern")] * 2


def test_data_frame_without_rows_makes_no_commit(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    path = create(tmp_path / "t", index="simple")
    append(frame(spark, ROWS).limit(0), path)
    assert not list(pathlib.Path(path, ".hoodie/timeline").glob("*.*"))
    append(frame(spark, ROWS), path)
    assert len(open_table(path).timeline().completed_writes) == 1, "the control"


def test_meta_columns_of_a_data_frame_that_was_read_are_ignored(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    path, copy = create(tmp_path / "t", index="simple"), create(tmp_path / "copy", index="simple")
    append(frame(spark, ROWS), path)
    append(spark.read.format("penstock").load(path), copy)
    assert rows_of(copy) == sorted(ROWS)


def test_write_whose_task_fails_leaves_nothing(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """The other task has written its files."""
    path = create(tmp_path / "t", index="simple")
    append(frame(spark, ROWS[:10]), path)
    before = data_files(path)
    fails = frame(spark, ROWS).withColumn("id", F.when(F.col("seq") != 7, F.col("id")))
    with pytest.raises(PySparkException, match="key column 'id' is null in 1 rows"):
        append(fails, path)
    assert data_files(path) == before and not pending(path)
    assert rows_of(path) == sorted(ROWS[:10])
    append(frame(spark, ROWS[10:]), path)
    assert rows_of(path) == sorted(ROWS), "the next write goes on"


def test_attempt_that_fails_is_repeated_and_its_files_go(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """The session has local[2, 3]: a task has several attempts."""
    path, failed = create(tmp_path / "t", index="simple"), tmp_path / "failed"

    def once(batches: Any) -> Any:
        yield from batches
        if not failed.exists():
            failed.touch()
            raise RuntimeError("the machine of this attempt is lost")

    data = frame(spark, ROWS)
    append(data.mapInArrow(once, data.schema), path)
    assert failed.exists() and rows_of(path) == sorted(ROWS)
    assert data_files(path) == committed_files(path)


def test_what_the_format_does_not_write_is_refused_by_name(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    path, buckets = create(tmp_path / "t", index="simple"), create(tmp_path / "b")
    data = frame(spark, ROWS)
    way = r"use penstock\.spark\.write\(df, path, operation\)"
    for operation in ("upsert", "delete", "insert_overwrite", "insert_overwrite_table", "delete_partition"):
        with pytest.raises(PySparkException, match=rf"got operation '{operation}'.*{way}"):
            append(data, path, operation=operation)
    with pytest.raises(PySparkException, match=rf"got mode overwrite.*{way}"):
        append(data, path, "overwrite")
    with pytest.raises(PySparkException, match=rf"has a bucket index: two tasks .* would write one bucket.*{way}"):
        append(data, buckets)
    with pytest.raises(PySparkException, match="unknown option 'buckets' of a write, expected one of index, metadata"):
        append(data, path, buckets="3")
    with pytest.raises(PySparkException, match="operation: got 'merge', expected one of upsert"):
        append(data, path, operation="merge")
    with pytest.raises(PySparkException, match="lacks column 'city'; it has id, seq"):
        append(data.drop("city"), path)
    assert not data_files(path) and not data_files(buckets) and not pending(path)
    append(data, path, Operation="insert", timelineTimezone="UTC")
    assert rows_of(path) == sorted(ROWS), "the control"


class FormatStream(Stream):
    """A query that writes by the format."""

    def start(self, checkpoint: str = "checkpoint", name: str = "", **options: str) -> None:
        """Runs the query, with a name if there is one, until it has no more input."""
        data = self.spark.readStream.schema("id string, seq long, city string").option("maxFilesPerTrigger", 1)
        query = data.parquet(str(self.folder / "in")).writeStream.format("penstock").options(**options)
        query = query.option("checkpointLocation", str(self.folder / checkpoint)).trigger(availableNow=True)
        (query.queryName(name) if name else query).start(self.path).awaitTermination()


def test_query_may_have_a_name(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """Spark gives it to the writer as an option."""
    stream = FormatStream(spark, tmp_path, kind="copy_on_write", index="simple")
    stream.add("a", "b")
    stream.start(name="letters")
    assert [row[0] for row in rows_of(stream.path)] == ["a", "b"]
    with pytest.raises(StreamingQueryException, match="unknown option 'queryid' of a write"):
        stream.start("other", name="letters", queryId="1")


def test_stream_writes_each_batch_once(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """Spark's checkpoint loses the end of a batch that is in the table, as a crash between both does."""
    stream = FormatStream(spark, tmp_path, kind="copy_on_write", index="simple")
    stream.add("a", "b")
    stream.add()
    stream.add("c")
    stream.start()
    query = json.loads((tmp_path / "checkpoint/metadata").read_text())["id"]
    assert stream.batches() == [{query: "0"}, {query: "2"}], "a batch without rows makes no commit"
    commits = tmp_path / "checkpoint/commits"
    for file in (commits / "2", commits / ".2.crc"):
        file.unlink()
    stream.add("d")
    stream.start()
    assert [row[0] for row in rows_of(stream.path)] == ["a", "b", "c", "d"]
    assert stream.batches() == [{query: "0"}, {query: "2"}, {query: "3"}]
    assert data_files(stream.path) == committed_files(stream.path) and not pending(stream.path)

    stream.start("other")
    assert [row[0] for row in rows_of(stream.path)] == ["a", "a", "b", "b", "c", "c", "d", "d"], "the control"


def test_named_stream_keeps_its_checkpoint(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    stream = FormatStream(spark, tmp_path, kind="copy_on_write", index="simple")
    stream.add("a")
    stream.start(identifier="names")
    assert stream.batches() == [{"names": "0"}]
    stream.add("b")
    with pytest.raises(StreamingQueryException, match="which has another checkpoint: their numbers do not"):
        stream.start("new", identifier="names")
    assert [row[0] for row in rows_of(stream.path)] == ["a"] and not pending(stream.path)
    stream.start(identifier="names")
    assert stream.batches() == [{"names": "0"}, {"names": "1"}]


def test_commits_have_the_positions_of_their_sources(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """By the format and by the sink."""
    source = create(tmp_path / "source", kind="copy_on_write", index="simple")
    append(frame(spark, ROWS), source)
    columns = spark.readStream.format("penstock").load(source).select("id", "seq", "city")
    for way in ("format", "sink"):
        path, checkpoint = create(tmp_path / way, kind="copy_on_write", index="simple"), str(tmp_path / f"{way}-state")
        stream = columns.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        if way == "format":
            query = stream.format("penstock").start(path)
        else:
            query = stream.foreachBatch(penstock.spark.sink(path, "insert", checkpoint=checkpoint)).start()
        query.awaitTermination()
        assert rows_of(path) == sorted(ROWS)
        table = open_table(path)
        (instant,) = table.timeline().completed_writes
        extra = table.commit(instant).extra
        (position,) = json.loads(extra[SINK_POSITIONS])
        (written,) = open_table(source).timeline().completed_writes
        assert position["order_key"] == written.completion_time and position["source"] == 0
        assert extra[SINK_OFFSETS] == "{}"


def test_stream_that_the_format_does_not_write_is_refused_by_name(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    stream = FormatStream(spark, tmp_path)
    stream.add("a")
    with pytest.raises(StreamingQueryException, match=r"a bucket index.*foreachBatch\(penstock\.spark\.sink\(path"):
        stream.start()
    with pytest.raises(StreamingQueryException, match=r"got operation 'upsert'.*use stream\.writeStream\.foreachBatch"):
        stream.start("second", operation="upsert")
    assert not data_files(stream.path)
