"""Streams that write through `penstock.spark.sink`: each batch is in the table once, whatever dies between."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.enumerator.handover.commit_offsets import SPARK_SINK
from penstock.table.hudi_table import open_table
from tests.spark.write.tables import SCHEMA, create, rows_of

Write = Callable[[DataFrame, int], None]


class Stream:
    """A query from a folder of Parquet files into a table, one file a batch."""

    def __init__(self, spark: SparkSession, folder: pathlib.Path, **table: Any) -> None:
        self.spark, self.folder = spark, folder
        self.path = create(folder / "t", **table)
        (folder / "in").mkdir()
        self.files = 0

    def add(self, *keys: str) -> None:
        """A batch of these keys, with the number of the batch."""
        columns = [list(keys), [self.files] * len(keys), ["oslo"] * len(keys)]
        file = self.folder / f"in/{self.files}.parquet"
        pq.write_table(pa.table(columns, schema=pa.schema(list(SCHEMA)[:3])), file)
        os.utime(file, (self.files, self.files))  # Spark takes files in the order of their times
        self.files += 1

    def sink(self, *operation: str, checkpoint: str = "checkpoint", **options: Any) -> Write:
        """The sink of a query with this checkpoint."""
        folder = str(self.folder / checkpoint)
        return penstock.spark.sink(self.path, *operation, checkpoint=folder, **options)

    def run(self, write: Write, checkpoint: str = "checkpoint") -> None:
        """Runs the query until it has no more input."""
        data = self.spark.readStream.schema("id string, seq long, city string").option("maxFilesPerTrigger", 1)
        query = data.parquet(str(self.folder / "in")).writeStream.foreachBatch(write)
        query = query.option("checkpointLocation", str(self.folder / checkpoint)).trigger(availableNow=True)
        query.start().awaitTermination()

    def batches(self) -> list[dict[str, str]]:
        """What the commits say about the batches, the oldest first."""
        table = open_table(self.path)
        return [json.loads(table.commit(one).extra[SPARK_SINK]) for one in table.timeline().completed_writes]


def crashing(write: Write, crash_at: int) -> Write:
    """The driver ends after the commit of a batch, before Spark's checkpoint has it."""

    def crash(df: DataFrame, batch_id: int) -> None:
        write(df, batch_id)
        if batch_id == crash_at:
            raise RuntimeError("the driver was killed")

    return crash


def test_batch_of_a_crash_between_commit_and_checkpoint_is_written_once(
    spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    """An insert would repeat its rows."""
    stream = Stream(spark, tmp_path, kind="copy_on_write", index="simple")
    sink = stream.sink("insert")
    stream.add("a", "b")
    stream.add("c")
    stream.add("d", "e")
    with pytest.raises(StreamingQueryException):
        stream.run(crashing(sink, 1))
    assert [row[0] for row in rows_of(stream.path)] == ["a", "b", "c"]
    stream.run(stream.sink("insert"))
    assert [row[0] for row in rows_of(stream.path)] == ["a", "b", "c", "d", "e"]
    query = json.loads((tmp_path / "checkpoint/metadata").read_text())["id"]
    assert stream.batches() == [{query: str(number)} for number in range(3)]

    stream.add("f")
    with pytest.raises(StreamingQueryException):
        stream.run(crashing(lambda df, batch_id: penstock.spark.write(df, stream.path, "insert") and None, 3))
    stream.run(lambda df, batch_id: penstock.spark.write(df, stream.path, "insert") and None)
    assert [row[0] for row in rows_of(stream.path)][-2:] == ["f", "f"], "the control: it is there twice"


def test_two_queries_write_one_table_and_a_named_stream_keeps_its_checkpoint(
    spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    stream = Stream(spark, tmp_path, kind="copy_on_write", index="simple")
    stream.add("a")
    stream.run(stream.sink(identifier="names"))
    stream.run(stream.sink(checkpoint="other"), "other")
    first, second = stream.batches()
    assert first == {"names": "0"} and list(second.values()) == ["0"], "no batch was skipped for the other's"
    stream.add("b")
    with pytest.raises(StreamingQueryException, match="which has another checkpoint: their numbers do not"):
        stream.run(stream.sink(checkpoint="new", identifier="names"), "new")
    shutil.rmtree(tmp_path / "new")
    stream.run(stream.sink(identifier="names"))
    assert stream.batches()[2] == {"names": "1"}
    assert [row[0] for row in rows_of(stream.path)] == ["a", "b"]


def test_batch_without_rows_makes_no_commit(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """Not even of an overwrite of the table, which would empty it."""
    stream = Stream(spark, tmp_path, kind="copy_on_write", index="simple")
    sink = stream.sink("insert_overwrite_table")
    stream.add("a", "b")
    stream.add()
    stream.run(lambda df, batch_id: sink(df.filter("id <> 'x'"), batch_id))
    assert [list(batch.values()) for batch in stream.batches()] == [["0"]]
    assert [row[0] for row in rows_of(stream.path)] == ["a", "b"]
    stream.add("c")
    stream.run(sink)
    assert [list(batch.values()) for batch in stream.batches()] == [["0"], ["2"]]
    assert [row[0] for row in rows_of(stream.path)] == ["c"], "the control"
