"""Writes of the data source without Spark: tasks that begin one instant, a commit in another process, and what dies
between."""

from __future__ import annotations

import datetime
import os
import pathlib
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import penstock
from penstock.engine.spark.write.append import appended_files
from penstock.engine.spark.write.append.appended_files import Append, AppendReport
from penstock.engine.spark.write.append.data_source_writer import (
    AppendWriter,
    append_writer,
    commit_append,
    refuse_stream_of_old_spark,
    roll_back_append,
)
from penstock.engine.spark.write.append.stream_writer import AppendStreamWriter, append_stream_writer
from penstock.enumerator.handover.commit_offsets import SPARK_SINK
from penstock.proto.errors import ConfigurationError, UnsupportedFeature, WriteConflict
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.failed_writes import roll_back_failed
from penstock.writer.transaction.heartbeat import heartbeat_path
from penstock.writer.transaction.task_write import FOLDER, KEPT, BegunWrite, begin_once, begun_write
from penstock.writer.transaction.transaction import WriteEnvironment
from tests.unit.engine.write.recorded_storage import FIRST, SECOND, Kind, Lake, Row, arrow
from tests.unit.engine.write.test_kills import leftovers

KIND: Kind = (9, "copy_on_write", "simple")
MERGE_ON_READ: Kind = (6, "merge_on_read", "simple")
FRAME = StructType()
for _name, _type in (("id", "string"), ("seq", "long"), ("city", "string"), ("_hoodie_is_deleted", "boolean")):
    FRAME.add(_name, _type)


def planned(lake: Lake, **options: str) -> AppendWriter:
    """The writer that Spark makes, and pickles."""
    writer = append_writer({"path": str(lake.path), **options}, FRAME, overwrite=False)
    copied: AppendWriter = pickle.loads(pickle.dumps(writer))
    return copied


def stream_writer(lake: Lake) -> AppendStreamWriter:
    return append_stream_writer({"path": str(lake.path)}, FRAME, overwrite=False)


def task(append: Append, rows: list[Row], partition: int = 0, attempt: int = 0, query: str = "") -> AppendReport:
    """An attempt at a task, with one row a batch."""
    batches = [arrow([row]).to_batches()[0] for row in rows]
    return append.write(iter(batches), partition, attempt, query)


@pytest.mark.parametrize("kind", [KIND, MERGE_ON_READ])
def test_tasks_write_one_instant_that_another_process_commits(make_lake: Callable[[Kind], Lake], kind: Kind) -> None:
    lake = make_lake(kind)
    writer = planned(lake)
    reports = [task(writer.append, FIRST, 0, 0), task(writer.append, SECOND, 1, 1), task(writer.append, [], 2, 2)]
    assert len({report.begun for report in reports}) == 2 and reports[2].begun == b"", "a task without rows begins none"
    assert lake.rows() == [], "nothing is visible yet"
    writer.commit([*reports, None])
    assert lake.rows() == sorted(FIRST + SECOND)
    (done,) = lake.table().timeline().completed_writes
    stats = lake.stats(done.requested_time)
    assert {stat.path for stat in stats} == lake.files() and len(stats) == 5
    rows = penstock.read(str(lake.path)).read_all()
    assert len(set(rows["_hoodie_commit_seqno"].to_pylist())) == rows.num_rows
    assert not lake.table().timeline().pending and leftovers(lake.path) == []


def test_rows_beyond_the_limit_are_written_before_the_end(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(KIND)
    monkeypatch.setattr(appended_files, "HELD_BYTES", 1)
    writer = planned(lake)
    report = task(writer.append, [("a", 1, "oslo"), ("b", 2, "oslo"), ("c", 3, "bern")])
    assert len(report.stats) == 3 == len(lake.files()) and report.rows == 3
    writer.commit([report])
    assert lake.rows() == [("a", 1, "oslo"), ("b", 2, "oslo"), ("c", 3, "bern")]


def test_files_of_other_attempts_are_removed_and_none_is_added_later(make_lake: Callable[[Kind], Lake]) -> None:
    """Speculation: both attempts at a task write its rows, and one goes on after the commit."""
    lake = make_lake(KIND)
    writer = planned(lake)
    first = task(writer.append, FIRST, attempt=1)
    task(writer.append, FIRST, attempt=2)
    assert len(lake.files()) == 4
    writer.commit([first])
    assert lake.rows() == sorted(FIRST) and len(lake.files()) == 2
    with pytest.raises(WriteConflict, match="has completed"):
        task(writer.append, FIRST, attempt=3)
    assert len(lake.files()) == 2 and not lake.table().timeline().pending, "it began no other instant"


def test_failed_job_is_rolled_back(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake(KIND)
    writer = planned(lake)
    writer.abort([])
    assert not lake.table().timeline().instants, "no task had begun"
    task(writer.append, FIRST)
    writer.abort([None])
    assert lake.files() == set() and not lake.table().timeline().pending and leftovers(lake.path) == []
    stream = stream_writer(lake)
    report = task(stream.append, FIRST, query="q")
    stream_writer(lake).abort([report, None], 0)
    assert lake.files() == set() and not lake.table().timeline().pending


def test_write_of_a_killed_driver_is_rolled_back_when_its_heartbeat_has_expired(
    make_lake: Callable[[Kind], Lake],
) -> None:
    """Tasks of this machine have ended, and others may run: its heartbeat names no process."""
    lake = make_lake(KIND)
    writer = planned(lake)
    report = task(writer.append, FIRST)
    storage = LocalStorage(str(lake.path))

    def roll_back_after(seconds: int) -> tuple[str, ...]:
        now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
        environment = WriteEnvironment(zone=datetime.UTC, now=lambda: now)
        return roll_back_failed(lake.table(), storage, environment, sole_writer=False)

    assert roll_back_after(100) == ()
    assert roll_back_after(121) == (BegunWrite.parse(report.begun).instant,)
    assert lake.files() == set() and leftovers(lake.path) == []
    with pytest.raises(WriteConflict, match="another writer rolled back instant"):
        writer.commit([report])
    assert lake.rows() == [] and not lake.table().timeline().pending


def test_heartbeat_that_hudis_rollback_left_is_removed_when_it_has_expired(make_lake: Callable[[Kind], Lake]) -> None:
    """With the files that a task created after that."""
    lake = make_lake(KIND)
    report = task(planned(lake).append, FIRST)
    instant = BegunWrite.parse(report.begun).instant
    for file in lake.timeline_folder.glob(f"{instant}*"):
        file.unlink()
    lake.write([("a", 1, "bern")])
    beat = lake.path / heartbeat_path(instant)
    assert beat.exists() and len(lake.files()) == 3, "its tasks may run"
    os.utime(beat, (0, 0))
    lake.write([("b", 1, "bern")])
    assert not beat.exists() and lake.rows() == [("a", 1, "bern"), ("b", 1, "bern")]
    assert {file.split("/")[0] for file in lake.files()} == {"bern"} and leftovers(lake.path) == []


def test_columns_that_another_process_added_after_the_plan_end_the_write(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake(KIND)
    lake.write(FIRST)
    writer, other = planned(lake), planned(lake)
    task(other.append, SECOND)
    lake.write([("x", 1, "bern")])
    writer.commit([task(writer.append, [("y", 1, "riga")])])
    late = planned(lake)
    more = arrow([("z", 1, "lima")]).append_column("more", pa.array([1]))
    penstock.write(str(lake.path), more)
    with pytest.raises(WriteConflict, match="changed its columns or properties after this write was planned"):
        task(late.append, SECOND)
    assert len(lake.table().timeline().pending) == 1, "only the other one's"


def test_batch_of_a_stream_is_committed_once(make_lake: Callable[[Kind], Lake]) -> None:
    """Spark makes another writer for the commit. Two drivers of one query: the second one finds the batch."""
    lake = make_lake(KIND)
    ours, theirs = (
        task(stream_writer(lake).append, rows, query="q") for rows in ([("a", 1, "oslo")], [("b", 1, "bern")])
    )
    stream_writer(lake).commit([theirs], 3)
    stream_writer(lake).commit([ours, None], 3)
    assert lake.rows() == [("b", 1, "bern")] and len(lake.files()) == 1
    assert not lake.table().timeline().pending and leftovers(lake.path) == []
    (done,) = lake.table().timeline().completed_writes
    assert lake.table().commit(done).extra[SPARK_SINK] == '{"q":"3"}'
    stream_writer(lake).commit([task(stream_writer(lake).append, [], query="q")], 4)
    assert len(lake.table().timeline().completed_writes) == 1, "a batch without rows makes no commit"
    with pytest.raises(ConfigurationError, match="got batch 2, and the table has batch 3 already"):
        stream_writer(lake).commit([task(stream_writer(lake).append, [("c", 1, "oslo")], query="q")], 2)
    assert not lake.table().timeline().pending and len(lake.files()) == 1
    stream_writer(lake).commit([task(stream_writer(lake).append, [("c", 1, "oslo")], query="q")], 4)
    assert lake.rows() == [("b", 1, "bern"), ("c", 1, "oslo")], "the control"


def test_stream_is_refused_by_spark_without_its_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_stream_of_old_spark()  # the control
    monkeypatch.delattr("pyspark.sql.datasource.DataSourceStreamArrowWriter")
    with pytest.raises(UnsupportedFeature, match=r"in Spark 4\.1 or newer: use stream\.writeStream\.foreachBatch"):
        refuse_stream_of_old_spark()


def test_commit_conflicts_with_inserts_into_the_same_partition(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake(KIND)
    writer = planned(lake)
    report = task(writer.append, [("a", 1, "oslo")])
    lake.write([("a", 2, "oslo")])
    with pytest.raises(WriteConflict, match="inserts into partition 'oslo'"):
        writer.commit([report])
    assert lake.rows() == [("a", 2, "oslo")] and not lake.table().timeline().pending
    roll_back_append(writer.append, begun_write(lake.storage, writer.append.write_id))
    assert lake.rows() == [("a", 2, "oslo")], "a rollback of an ended instant changes nothing"
    commit_append(writer.append, [], {}, lambda table: True)


def test_write_begins_once_and_its_file_stays_a_day(make_lake: Callable[[Kind], Lake], tmp_path: pathlib.Path) -> None:
    lake = make_lake(KIND)
    checks: list[HudiTable] = []

    def begin(write_id: str, after: datetime.timedelta = datetime.timedelta()) -> BegunWrite:
        now = datetime.datetime.now(datetime.UTC) + after
        environment = WriteEnvironment(zone=datetime.UTC, now=lambda: now)
        return begin_once(lake.table(), lake.storage, environment, Action.COMMIT, write_id, checks.append)

    first = begin("one")
    assert begin("one") == first and len(checks) == 1
    assert BegunWrite.parse(first.encode()) == first
    second = begin("two")
    assert second.instant > first.instant and second.start.pending == {first.instant}
    append = replace(planned(lake).append, write_id="one")
    roll_back_append(append, first)
    begin("three", KEPT - datetime.timedelta(minutes=1))
    assert begun_write(lake.storage, "one") == first
    begin("four", KEPT + datetime.timedelta(minutes=1))
    left = {info.name for info in lake.storage.list_dir(FOLDER)}
    assert left == {"two", "three", "four"}, "the pending ones, however old"
    assert lake.storage.read_bytes(heartbeat_path(second.instant), 10) == b""


def test_nothing_begins_if_the_check_fails(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake(KIND)

    def fails(table: HudiTable) -> Any:
        raise WriteConflict("it was changed")

    environment = WriteEnvironment(zone=datetime.UTC)
    with pytest.raises(WriteConflict, match="it was changed"):
        begin_once(lake.table(), lake.storage, environment, Action.COMMIT, "one", fails)
    assert not lake.table().timeline().instants and begun_write(lake.storage, "one") is None
    assert begin_once(lake.table(), lake.storage, environment, Action.COMMIT, "one", lambda table: None).instant
