"""What happens to a write from Spark when something fails: tasks, rows, other writers."""

from __future__ import annotations

import datetime as dt
import pathlib
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.engine.spark.write import rows as spark_rows
from penstock.engine.spark.write.file_groups import GroupWriter
from penstock.engine.spark.write.rows import remove_unreported_files
from penstock.engine.spark.write.task_table import TaskTable
from penstock.proto.errors import ConfigurationError, SchemaMismatch, StorageError, UnsupportedFeature, WriteConflict
from penstock.table.timeline.commits import WriteStat
from penstock.writer.kernels.bucket import bucket_numbers
from tests.spark.write.tables import committed_files, create, data_files, frame, rows_of

ROWS = [(f"k{number}", number, "oslo" if number % 2 else "bern") for number in range(40)]


class FailsOnce(GroupWriter):
    """A writer whose first attempt at each group fails after its file is in the table."""

    __slots__ = ()

    def write(self, number: int, data: pa.Table, attempt: int) -> WriteStat | None:
        stat = GroupWriter.write(self, number, data, attempt)
        failed = pathlib.Path(self.table.path).with_name(f"failed-{number}")
        if not failed.exists():
            failed.touch()
            raise RuntimeError("the machine of this attempt is lost")
        return stat


@pytest.mark.parametrize("index", ["bucket", "simple"])
def test_files_of_failed_attempts_are_removed_at_the_commit(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    path = create(tmp_path / "t", index=index)
    monkeypatch.setattr(spark_rows, "GroupWriter", FailsOnce)
    removed: list[int] = []
    seen: list[set[str]] = []

    def counting(*arguments: Any) -> int:
        seen.append(data_files(path))
        removed.append(remove_unreported_files(*arguments))
        return removed[-1]

    monkeypatch.setattr(spark_rows, "remove_unreported_files", counting)
    result = penstock.spark.write(frame(spark, ROWS), path)
    assert len(list(tmp_path.glob("failed-*"))) == removed[0] == result.files, "each group failed once"
    assert len(seen[0]) == 2 * result.files, "both attempts had written their files"
    assert data_files(path) == committed_files(path), "only reported files are left"
    assert rows_of(path) == sorted(ROWS)


class AlwaysFails(GroupWriter):
    """A writer that fails after its file is in the table."""

    __slots__ = ()

    def write(self, number: int, data: pa.Table, attempt: int) -> WriteStat | None:
        GroupWriter.write(self, number, data, attempt)
        raise WriteConflict(f"group {number} was taken")


@pytest.mark.long
def test_write_whose_tasks_fail_leaves_nothing(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = create(tmp_path / "t")
    penstock.spark.write(frame(spark, ROWS[:10]), path)
    before = data_files(path)
    with monkeypatch.context() as patch:
        patch.setattr(spark_rows, "GroupWriter", AlwaysFails)
        with pytest.raises(WriteConflict, match=r"^group . was taken$"):
            penstock.spark.write(frame(spark, ROWS), path)
    assert data_files(path) == before
    assert rows_of(path) == sorted(ROWS[:10])
    penstock.spark.write(frame(spark, ROWS), path)
    assert rows_of(path) == sorted(ROWS), "the next write goes on"


def test_random_data_frame_is_evaluated_once(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """Its keys are other ones in each evaluation."""
    path = create(tmp_path / "t", index="simple")
    penstock.spark.write(frame(spark, ROWS), path)
    evaluated = spark.sparkContext.accumulator(0)
    key = F.udf(lambda number: evaluated.add(1) or f"{number}")
    random = F.concat(F.lit("r"), key((F.rand() * 1_000_000_000).cast("long"))).alias("id")
    data = spark.range(0, 500, 1, 4).select(random, F.col("id").alias("seq"), F.lit("oslo").alias("city"))
    result = penstock.spark.write(data, path)
    assert evaluated.value == result.rows == 500
    written = [row for row in rows_of(path) if row[0].startswith("r")]
    assert sorted(seq for _, seq, _ in written) == list(range(500)), "each row once"
    assert data.select("id").collect() and evaluated.value == 1000, "the control: another action evaluates it again"


def test_random_keys_are_in_their_buckets(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    path = create(tmp_path / "t", buckets=5)
    key = F.concat(F.lit("r"), (F.rand() * 1_000_000_000).cast("long").cast("string")).alias("id")
    data = spark.range(0, 300, 1, 3).select(key, F.col("id").alias("seq"), F.lit("oslo").alias("city"))
    assert penstock.spark.write(data, path, "insert").files == 5
    table = penstock.read(path).read_all()
    files = [name[:8] for name in table["_hoodie_file_name"].to_pylist()]
    keys = table["_hoodie_record_key"].combine_chunks()
    assert [int(name) for name in files] == bucket_numbers(keys, 5, ("id",)).tolist()
    assert [int(name) for name in files] != bucket_numbers(keys, 4, ("id",)).tolist(), "the control"


def test_bad_rows_are_refused_before_the_timeline_changes(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    path = create(tmp_path / "t")
    no_key = frame(spark, ROWS).withColumn("id", F.when(F.col("seq") != 7, F.col("id")))
    with pytest.raises(SchemaMismatch, match=r"key column 'id' is null in 1 rows.*nothing was written$"):
        penstock.spark.write(no_key, path)
    with pytest.raises(SchemaMismatch, match=r"lacks column 'city'; it has id, seq"):
        penstock.spark.write(frame(spark, ROWS).drop("city"), path)
    with pytest.raises(SchemaMismatch, match=r"a type that no table has"):
        penstock.spark.write(frame(spark, ROWS).withColumn("v", F.expr("interval 1 month")), path)
    assert not list(pathlib.Path(path, ".hoodie/timeline").glob("*.*"))


def test_rows_are_kept_by_spark_only_during_the_write(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = create(tmp_path / "t", index="simple")
    context: Any = spark.sparkContext._jsc
    kept = set(context.getPersistentRDDs())
    during: list[int] = []

    def counting(*arguments: Any) -> int:
        during.append(len(set(context.getPersistentRDDs()) - kept))
        return remove_unreported_files(*arguments)

    monkeypatch.setattr(spark_rows, "remove_unreported_files", counting)
    penstock.spark.write(frame(spark, ROWS), path)
    assert during == [1] and set(context.getPersistentRDDs()) <= kept


def test_error_of_freeing_rows_after_the_commit_is_logged(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A caller would take it for that of the write, and write again."""
    path = create(tmp_path / "t", index="simple")
    released, freed = spark_rows.released, []

    def fails(release: Any, where: str) -> Any:
        def freeing() -> None:
            freed.append(release())
            raise RuntimeError("the session has stopped")

        return released(freeing, where)

    monkeypatch.setattr(spark_rows, "released", fails)
    with caplog.at_level("WARNING", "penstock.engine.spark"):
        assert penstock.spark.write(frame(spark, ROWS), path).rows == len(ROWS)
    assert rows_of(path) == sorted(ROWS)
    assert [record.message.endswith("the session has stopped") for record in caplog.records] == [True] * len(freed)
    with pytest.raises(ZeroDivisionError), released(lambda: None, "t"):
        1 / 0  # noqa: B018 - the control: errors of the block are raised


def test_rows_are_freed_if_their_count_fails(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = create(tmp_path / "t")
    context: Any = spark.sparkContext._jsc
    kept, during = set(context.getPersistentRDDs()), []

    def counting(tagged: Any) -> Any:
        during.append(len(set(context.getPersistentRDDs()) - kept))
        raise WriteConflict("no count")

    monkeypatch.setattr(spark_rows, "counted_rows", counting)
    with pytest.raises(WriteConflict):
        penstock.spark.write(frame(spark, ROWS), path)
    assert during == [1] and set(context.getPersistentRDDs()) <= kept


def test_random_data_frame_is_refused_with_speculation(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may keep the rows of both attempts at a task, and read the one here, the other there."""
    path = create(tmp_path / "t")
    random = frame(spark, ROWS).withColumn("seq", (F.rand() * 100).cast("long"))
    conf: Any = spark.sparkContext.getConf()
    conf.set("spark.speculation", "true")
    with monkeypatch.context() as patch:
        patch.setattr(spark.sparkContext, "getConf", lambda: conf)
        with pytest.raises(ConfigurationError, match=r"spark.speculation is on, and the data frame has other rows"):
            penstock.spark.write(random, path)
        assert not data_files(path)
        assert penstock.spark.write(frame(spark, ROWS[:5]), path).rows == 5, "rows that are the same are written"
    assert penstock.spark.write(random, path).rows == len(ROWS), "the control: without speculation"


def test_executors_without_the_table_say_so_before_the_timeline_changes(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their path is another folder than the driver's."""
    path = create(tmp_path / "t")
    made = spark_rows.task_table

    def elsewhere(*arguments: Any, **more: Any) -> TaskTable:
        return replace(made(*arguments, **more), path=str(tmp_path / "elsewhere"))

    monkeypatch.setattr(spark_rows, "task_table", elsewhere)
    with pytest.raises(StorageError, match=r"no such table: .* a file system that all executors share"):
        penstock.spark.write(frame(spark, ROWS), path)
    assert not list(pathlib.Path(path, ".hoodie/timeline").glob("*.*"))


def test_what_spark_cannot_do_is_refused_by_name(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    path = create(tmp_path / "t")
    data = frame(spark, ROWS)
    with pytest.raises(ConfigurationError, match=r"foreachBatch\(penstock.spark.sink\(path, checkpoint=…\)\)"):
        penstock.spark.write(spark.readStream.format("rate").load(), path)
    in_table = create(tmp_path / "g", "copy_on_write", "global_simple")
    penstock.spark.write(data, in_table, "insert")
    with pytest.raises(UnsupportedFeature, match="upsert with a global index is not carried out in Spark yet"):
        penstock.spark.write(data, in_table)
    assert rows_of(in_table) == sorted(ROWS) and not data_files(path)
    assert penstock.spark.write(data.limit(0), path).instant == "", "no rows, no instant"


def test_times_and_texts_are_written_alike_by_all_sessions(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    schema = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32())])
    moment = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)
    rows = [{"id": f"k{number}", "at": moment, "day": moment.date()} for number in range(3)]
    settings = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.execution.arrow.useLargeVarTypes": "true"}
    before = {name: spark.conf.get(name) for name in settings}
    data = spark.createDataFrame(pa.Table.from_pylist(rows, schema))
    for number, index in enumerate(("bucket", "simple")):
        path = str(tmp_path / f"t{number}")
        buckets = 1 if index == "bucket" else None
        penstock.create_table(path, schema, record_key="id", partition_by="day", index=index, buckets=buckets)
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            for _ in range(2):
                penstock.spark.write(data, path)
        finally:
            for name, value in before.items():
                spark.conf.set(name, value)
        assert penstock.read(path).read_all().select(schema.names).sort_by("id").to_pylist() == rows
        assert (tmp_path / f"t{number}" / "2026-03-29").is_dir()


@pytest.mark.parametrize("index", ["bucket", "simple"])
def test_write_of_another_process_after_the_rows_were_tagged_is_seen(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    """It adds keys of this write, so that rows located before would be there twice."""
    path = create(tmp_path / "t", "copy_on_write", index)
    penstock.spark.write(frame(spark, ROWS[:5]), path)
    older = [(key, -1, city) for key, _, city in ROWS[:20]]
    count = spark_rows.counted_rows

    def other(data: Any) -> Any:
        counted = count(data)
        if spark_rows.counted_rows is other:
            monkeypatch.setattr(spark_rows, "counted_rows", count)
            columns = [[row[place] for row in older] for place in range(3)]
            assert penstock.write(path, pa.table(columns, names=["id", "seq", "city"])).inserted == 15
        return counted

    monkeypatch.setattr(spark_rows, "counted_rows", other)
    result = penstock.spark.write(frame(spark, ROWS), path)
    assert (result.inserted, result.updated) == (20, 20)
    assert rows_of(path) == sorted(ROWS)
