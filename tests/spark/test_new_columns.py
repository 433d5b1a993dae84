"""Streams over a table that gains a column and a field while they run, and restarts of them: `onNewColumns`."""

from __future__ import annotations

import pathlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
CASE = "A_evo_add_column_v9_h120"
"""Merge on read. The first commit has (id, p, ts, v, st<a, b>); later ones add columns, and fields of `st`."""


@dataclass(frozen=True)
class GrowingTable:
    """A copy of the table of which only the first commit is completed until `reveal`."""

    path: pathlib.Path
    aside: pathlib.Path

    def reveal(self) -> None:
        """Completes the other commits."""
        for file in self.aside.iterdir():
            file.rename(self.path / ".hoodie" / "timeline" / file.name)


@pytest.fixture
def table(golden: Any, tmp_path: pathlib.Path) -> GrowingTable:
    """The table before its columns appear."""
    growing = GrowingTable(golden.copy(CASE, tmp_path), tmp_path / "aside")
    growing.aside.mkdir()
    timeline = growing.path / ".hoodie" / "timeline"
    _, *later = sorted(timeline.glob("*.deltacommit"))
    assert len(later) == 3
    for file in later:
        requested = file.name.partition("_")[0]
        for part in [file, *timeline.glob(f"{requested}.deltacommit.*")]:
            part.rename(growing.aside / part.name)
    return growing


class Sink:
    """Keeps the micro-batches of all runs."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.tables.append(frame.toArrow())

    def last_of_each_key(self) -> dict[str, dict[str, Any]]:
        """The rows by key, of several the one that was delivered last."""
        return {row["id"]: row for table in self.tables for row in table.to_pylist()}


def load(spark: SparkSession, table: GrowingTable, **options: str) -> DataFrame:
    reader = spark.readStream.format("penstock").options(after="earliest", metadata="off", **options)
    return reader.load(str(table.path))


def run(frame: DataFrame, sink: Sink, checkpoint: pathlib.Path) -> None:
    """Runs what is available."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120), "the stream did not end"


def as_delivered(rows: Iterable[dict[str, Any]], columns: list[str], fields: list[str]) -> list[dict[str, Any]]:
    """Hudi's rows with these columns, and these fields of the struct, sorted by key."""
    chosen = [
        {name: row[name] if name != "st" else row[name] and {f: row[name][f] for f in fields} for name in columns}
        for row in rows
    ]
    return sorted(chosen, key=lambda row: str(row["id"]))


def shape(frame: DataFrame) -> tuple[list[str], list[str]]:
    """The columns, and the fields of the struct."""
    return frame.columns, frame.schema["st"].dataType.fieldNames()  # type: ignore[attr-defined]


def test_stream_stops_at_new_columns_and_restarts_with_them(
    spark: SparkSession, golden: Any, table: GrowingTable, tmp_path: pathlib.Path
) -> None:
    """The old query stops and names what is new. A new load() continues from its checkpoint: the rows are Hudi's, none
    is lost. A copy of the checkpoint continues without the new columns: the option is not part of it."""
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    frame = load(spark, table, onNewColumns="fail")
    run(frame, sink, checkpoint)
    assert [part.num_rows for part in sink.tables] == [10]
    table.reveal()
    with pytest.raises(StreamingQueryException) as error:
        run(frame, sink, checkpoint)
    assert "SchemaMismatch" in str(error.value)
    assert "onNewColumns=fail): st.c double, n1 string, n2 array<int>. Everything up to" in str(error.value)
    assert len(sink.tables) == 1
    other, other_sink = tmp_path / "other", Sink()
    shutil.copytree(checkpoint, other)
    other_sink.tables += sink.tables

    snapshot = golden.expected(CASE, "snapshot").to_pylist()
    later = load(spark, table, onNewColumns="fail")
    run(later, sink, checkpoint)
    columns, fields = shape(later)
    assert {"n1", "n2"} < set(columns) and fields == ["a", "b", "c"]
    assert len(sink.tables) == 2
    for row in (rows := list(sink.last_of_each_key().values())):  # those of the first run have no values of new columns
        row.update({"n1": row.get("n1"), "n2": row.get("n2"), "st": row["st"] and {"c": None, **row["st"]}})
    assert as_delivered(rows, columns[5:], fields) == as_delivered(snapshot, columns[5:], fields)

    own = spark.readStream.format("penstock").schema(frame.schema).options(after="earliest", metadata="off")
    run(own.load(str(table.path)), other_sink, other)
    columns, fields = shape(frame)
    rows = list(other_sink.last_of_each_key().values())
    assert as_delivered(rows, columns[5:], fields) == as_delivered(snapshot, columns[5:], fields)


@pytest.mark.exhaustive
def test_stream_continues_without_new_columns_by_default(
    spark: SparkSession, golden: Any, table: GrowingTable, tmp_path: pathlib.Path
) -> None:
    sink = Sink()
    frame = load(spark, table)
    run(frame, sink, tmp_path / "checkpoint")
    table.reveal()
    run(frame, sink, tmp_path / "checkpoint")
    columns, fields = shape(frame)
    expected = as_delivered(golden.expected(CASE, "snapshot").to_pylist(), columns[5:], fields)
    assert as_delivered(sink.last_of_each_key().values(), columns[5:], fields) == expected
    assert len(sink.tables) == 2


@pytest.mark.parametrize("form", ["batch", "stream", pytest.param("changes", marks=pytest.mark.exhaustive)])
def test_completion_times_reach_spark(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf, form: str
) -> None:
    """The column in Spark is that of `penstock.read`, which the golden tables prove."""
    import penstock

    path = str(golden.table("A_clustering_done_v9_h120"))
    options = {"completionTime": "true", "timelineTimezone": "UTC", "after": "earliest"}
    options["query"] = "cdc" if form == "changes" else "incremental"
    expected = penstock.read(
        path, query=options["query"], after="earliest", completion_time=True, timeline_timezone="UTC"
    )
    if form == "batch":
        frame = spark.read.format("penstock").options(**options).load(path)
        assert frame.schema[-1].simpleString() == "_completion_time:timestamp"
        assert rows_of(frame) == rows_of(expected.read_all())
        projected = spark.read.format("penstock").schema("_completion_time timestamp, id string").options(**options)
        counts = Counter(row["_completion_time"] for row in projected.load(path).toArrow().to_pylist())
        assert counts.total() == frame.count() and None not in counts
        return
    sink = Sink()
    run(spark.readStream.format("penstock").options(**options).load(path), sink, tmp_path / "checkpoint")
    assert rows_of(pa.concat_tables(sink.tables)) == rows_of(expected.read_all())
