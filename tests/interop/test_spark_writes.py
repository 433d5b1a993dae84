"""Tables that Penstock writes from Spark: after each operation the rows of real Hudi, of Penstock and of a slow model
are equal, and Hudi goes on with the table."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.spark.write.append.data_source_writer import append_writer
from penstock.engine.spark.write.file_groups import stat_of
from penstock.engine.write.create import create_table
from penstock.proto.errors import WriteConflict
from penstock.writer.transaction.heartbeat import heartbeat_path
from penstock.writer.transaction.markers import ATTEMPTS, attempt_folder
from penstock.writer.transaction.task_write import BegunWrite
from tests.interop.hudi_options import hudis_options
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, check, table_of
from tests.unit.engine.write.killed_storage import Killed

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # py4j's sockets, when they are collected
]

CITIES = ("oslo", "bern", "rom")
FIRST: list[Row] = [(f"k{number}", number, number, CITIES[number % 3]) for number in range(60)]
LATE: list[Row] = [(f"k{number}", number - 1, 900 + number, CITIES[number % 3]) for number in range(9)]
NEWER: list[Row] = [(f"k{number}", 100 + number, 100 + number, CITIES[number % 3]) for number in range(6, 40)]
NEW: list[Row] = [(f"n{number}", 5, number, "lima" if number % 2 else "oslo") for number in range(8)]


class Lake:
    """A table that Spark writes through Penstock, with its model."""

    def __init__(self, spark: Any, hudi: Any, path: pathlib.Path, kind: str, index: str, version: int = 9) -> None:
        self.spark, self.hudi, self.path, self.model = spark, hudi, path, Model()
        self.options = hudis_options(version, kind, index)
        create_table(
            str(path),
            SCHEMA,
            record_key="id",
            partition_by="city",
            ordering="seq",
            table_type=kind,
            table_version=version,
            index=index,
            buckets=3 if index == "bucket" else None,
        )

    def write(self, rows: list[Row], operation: str, deleted: Sequence[str] = ()) -> penstock.WriteResult:
        """One write from Spark, and the same in the model; then the rows of all three are compared."""
        data = table_of(rows, frozenset(deleted))
        frame = self.spark.createDataFrame(data).repartition(2)
        if operation == "delete":
            frame = frame.select("id", "city")
            self.model.delete(rows)
        elif operation == "delete_partition":
            frame = frame.select("city")
            self.model.delete_partitions({row[3] for row in rows})
        elif operation == "insert_overwrite":
            self.model.overwrite(rows)
        else:
            self.model.upsert(rows, frozenset(deleted))
        result = penstock.spark.write(frame, str(self.path), operation)
        check(self.hudi, self.path, self.model, f"{operation} of {len(rows)} rows")
        return result

    def hudi_writes(self, rows: list[Row]) -> None:
        """One upsert by Hudi's writer."""
        self.hudi.write(self.path, HUDIS_COLUMNS, rows, self.options)
        self.model.upsert(rows)
        check(self.hudi, self.path, self.model, "upsert by Hudi")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
@pytest.mark.parametrize("index", ["bucket", "simple"])
def test_operations_read_as_written_and_hudi_goes_on(
    spark: Any, hudi: Any, tmp_path: pathlib.Path, kind: str, index: str
) -> None:
    lake = Lake(spark, hudi, tmp_path / "trip", kind, index)
    assert lake.write(FIRST, "bulk_insert").inserted == len(FIRST)
    assert lake.write(NEWER + LATE + NEW, "upsert", deleted=["k7", "k8", "n0"]).partitions == (
        "bern",
        "lima",
        "oslo",
        "rom",
    )
    lake.write([("i1", 1, 1, "oslo"), ("i2", 1, 2, "kiel")], "insert")
    lake.write([*FIRST[40:50], ("unknown", 0, 0, "oslo")], "delete")
    lake.hudi_writes(
        [("k1", 500, 501, "bern"), ("k41", 500, 502, "rom"), ("h1", 1, 503, "oslo"), ("n2", 9, 504, "oslo")]
    )
    lake.write(
        [("k1", 600, 601, "bern"), ("h1", 600, 602, "oslo"), ("k3", 600, 603, "oslo"), ("z", 1, 604, "kiel")], "upsert"
    )
    lake.write([("o1", 1, 1, "oslo"), ("o2", 1, 2, "oslo")], "insert_overwrite")
    lake.write([("", 0, 0, "kiel"), ("", 0, 0, "bern")], "delete_partition")
    lake.hudi_writes([("k2", 700, 701, "rom"), ("h3", 1, 702, "kiel")])
    lake.model.upsert([("o1", 2, 9, "oslo")])
    with pytest.raises(AssertionError, match="Penstock"):
        check(hudi, lake.path, lake.model, "the control: a row that nobody wrote")


@pytest.mark.exhaustive
def test_table_of_version_6_reads_as_written(spark: Any, hudi: Any, tmp_path: pathlib.Path) -> None:
    lake = Lake(spark, hudi, tmp_path / "trip", "merge_on_read", "bucket", 6)
    lake.write(FIRST, "insert")
    lake.write(NEWER + LATE, "upsert", deleted=["k7"])
    lake.hudi_writes([("k1", 500, 501, "bern"), ("h1", 1, 503, "oslo")])


@pytest.mark.exhaustive
def test_key_that_inserts_repeated_is_updated_in_all_its_files(spark: Any, hudi: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trip"
    lake = Lake(spark, hudi, path, "copy_on_write", "simple")
    for _ in range(2):
        penstock.spark.write(spark.createDataFrame(table_of(FIRST[:9])), str(path), "bulk_insert")
    penstock.spark.write(spark.createDataFrame(table_of(NEWER[:2])), str(path), "upsert")
    for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
        updated = rows.filter(pa.compute.equal(rows["id"], "k6"))
        assert updated["qty"].to_pylist() == [106, 106] and rows.num_rows == 18
    assert lake.options["hoodie.index.type"] == "SIMPLE"


def test_hudi_rolls_back_the_write_of_a_killed_driver(
    spark: Any, hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tasks have written their files, and an attempt that was superfluous has begun another one."""
    lake = Lake(spark, hudi, tmp_path / "trip", "merge_on_read", "bucket")
    lake.write(FIRST, "insert")
    before = {file for file in lake.path.rglob("*") if ".hoodie/" not in file.as_posix()}

    def kill(storage: Any, instant: str, reported: Any) -> int:
        lake.path.joinpath(attempt_folder(instant)).mkdir(parents=True)
        lake.path.joinpath(attempt_folder(instant), "half.tmp").write_bytes(b"half")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("penstock.engine.spark.write.rows.remove_unreported_files", kill)
        patch.setattr("penstock.engine.write.planned_write.rolled_back_on_error", contextlib.nullcontext)
        with pytest.raises(Killed):
            penstock.spark.write(spark.createDataFrame(table_of(NEWER + NEW)), str(lake.path))
    left = {file for file in lake.path.rglob("*") if file.is_file() and ".hoodie/" not in file.as_posix()} - before
    assert len(left) > 3, "files of the killed write"
    check(hudi, lake.path, lake.model, "none of them is visible")
    lake.hudi_writes([("k1", 500, 501, "bern"), ("h1", 1, 503, "oslo")])
    assert [file.name for file in sorted(left) if file.exists() and file.name != ".hoodie_partition_metadata"] == []
    assert not list(lake.path.joinpath(".hoodie/.temp").iterdir())
    lake.write(NEWER + NEW, "upsert")
    assert not list(lake.path.joinpath(ATTEMPTS).iterdir())


def test_hudi_reads_a_stream_and_the_batches_of_its_commits(spark: Any, hudi: Any, tmp_path: pathlib.Path) -> None:
    lake = Lake(spark, hudi, tmp_path / "trip", "copy_on_write", "simple")
    folder = tmp_path / "in"
    for number, rows in enumerate((FIRST, NEWER, NEW)):
        spark.createDataFrame(table_of(rows)).coalesce(1).write.parquet(str(folder / f"batch={number}"))
        lake.model.upsert(rows)
    stream = spark.readStream.schema(spark.createDataFrame(table_of(FIRST)).schema).option("maxFilesPerTrigger", 1)
    query = (
        stream.parquet(f"{folder}/batch=*")
        .writeStream.foreachBatch(
            penstock.spark.sink(str(lake.path), checkpoint=str(tmp_path / "checkpoint"), identifier="trips")
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    check(hudi, lake.path, lake.model, "a stream")
    key = "_hudi_streaming_sink_checkpoint"
    hudi.call(f"CREATE TABLE spark_trips USING hudi LOCATION '{lake.path}'")
    shown = hudi.call(f"CALL show_commit_extra_metadata(table => 'spark_trips', metadata_key => '{key}')")
    hudi.call("DROP TABLE spark_trips")
    assert [row["metadata_value"] for row in shown] == ['{"trips":"2"}']
    lake.hudi_writes([("k1", 500, 501, "bern"), ("h1", 1, 503, "oslo")])
    lake.write([("k1", 600, 601, "bern")], "upsert")


def test_hudi_reads_what_the_format_appends_and_goes_on(spark: Any, hudi: Any, tmp_path: pathlib.Path) -> None:
    """A data frame, a stream that repeats a batch, and a killed driver, whose write Hudi rolls back."""
    lake = Lake(spark, hudi, tmp_path / "trip", "copy_on_write", "simple")
    spark.createDataFrame(table_of(FIRST)).repartition(2).write.format("penstock").mode("append").save(str(lake.path))
    lake.model.upsert(FIRST)
    check(hudi, lake.path, lake.model, "a data frame")

    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    spark.createDataFrame(table_of(NEW)).coalesce(1).write.parquet(str(folder))
    lake.model.upsert(NEW)
    for _ in range(2):
        stream = spark.readStream.schema(spark.createDataFrame(table_of(FIRST)).schema).parquet(str(folder))
        query = stream.writeStream.format("penstock").option("checkpointLocation", str(checkpoint))
        query.option("identifier", "trips").trigger(availableNow=True).start(str(lake.path)).awaitTermination()
        check(hudi, lake.path, lake.model, "a stream")
        for file in checkpoint.glob("commits/*0*"):  # as a crash between the commit and the checkpoint leaves it
            file.unlink()
        for file in checkpoint.glob("commits/.0*"):
            file.unlink()
    key = "_hudi_streaming_sink_checkpoint"
    hudi.call(f"CREATE TABLE appended_trips USING hudi LOCATION '{lake.path}'")
    shown = hudi.call(f"CALL show_commit_extra_metadata(table => 'appended_trips', metadata_key => '{key}')")
    hudi.call("DROP TABLE appended_trips")
    assert [row["metadata_value"] for row in shown] == ['{"trips":"0"}']

    killed = append_writer({"path": str(lake.path)}, spark.createDataFrame(table_of(FIRST)).schema, overwrite=False)
    report = killed.append.write(iter(table_of([("dead", 1, 1, "oslo")]).to_batches()), 0, 0, "")
    (stat,) = (stat_of(text) for text in report.stats)
    assert stat is not None and (lake.path / stat.path).exists()
    check(hudi, lake.path, lake.model, "the write of the killed driver is not visible")
    beat = lake.path / heartbeat_path(BegunWrite.parse(report.begun).instant)
    os.utime(beat, (0, 0))
    lake.hudi_writes([("k1", 500, 501, "bern"), ("h1", 1, 503, "oslo")])
    lake.write([("k1", 600, 601, "bern"), ("n1", 600, 602, "lima")], "upsert")
    assert not (lake.path / stat.path).exists() and not beat.exists()
    with pytest.raises(WriteConflict):
        killed.commit([report])
    check(hudi, lake.path, lake.model, "a commit after the rollback")
