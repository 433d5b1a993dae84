"""Sinks: the newest batch of a stream by the commits of a table, batches that are written, skipped or refused."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import penstock
from penstock.engine.spark.write import sink as sink_module
from penstock.engine.spark.write.sink import Sink, sink
from penstock.engine.spark.write.written_batches import (
    QUERY,
    ArchivedBatches,
    BatchSearch,
    WrittenBatch,
)
from penstock.engine.write.planned_write import AlreadyWritten, PlannedWrite, WriteOptions, open_write
from penstock.engine.write.results import WriteResult
from penstock.engine.write.service.owners import epochs_from, owner_of_stream
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.enumerator.handover.commit_offsets import SPARK_SINK
from penstock.enumerator.server.assembly import TableFunctions
from penstock.enumerator.server.run import serve
from penstock.proto.errors import ConfigurationError, Fenced, StorageError, UnsupportedFeature
from penstock.table.hudi_table import HudiTable
from tests.unit.engine.write.recorded_storage import FIRST, Kind, Lake, Row, arrow

KIND: Kind = (9, "merge_on_read", "bucket")


def commit(lake: Lake, extra: dict[str, str], key: str = "a", city: str = "oslo") -> None:
    """A write with this metadata."""
    _run(replace(open_write(str(lake.path), WriteOptions()), extra=extra), [(key, 1, city)])


def _run(planned: PlannedWrite, rows: Sequence[Row]) -> WriteResult:
    from penstock.engine.write.incoming_rows import incoming_rows
    from penstock.engine.write.write import _ArrowRows
    from penstock.writer.rows.chunks import batches_of

    data = batches_of(arrow(rows))
    with incoming_rows(planned.preparation, planned.assigner, planned.early, data) as incoming:
        return planned.run(_ArrowRows(planned, incoming))


def newest_batch(lake: Lake, name: str) -> WrittenBatch | None:
    return BatchSearch(name).newest(lake.table())


def frame(query: str = "q") -> Any:
    """A data frame of a batch of the query, as far as a sink looks at it before it writes."""
    context = SimpleNamespace(getLocalProperty=lambda name: query if name == "sql.streaming.queryId" else None)
    return SimpleNamespace(isStreaming=False, sparkSession=SimpleNamespace(sparkContext=context))


WRITTEN = SimpleNamespace(instant="1")
"""The result of a write."""


@pytest.fixture(autouse=True)
def positions(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """The positions in the checkpoint `c`, a folder of the test, are those of the batch (`test_source_positions`)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sink_module, "source_positions", lambda checkpoint, query, batch: {checkpoint: str(batch)})


@pytest.mark.parametrize("kind", [KIND, (6, "copy_on_write", "simple")])
def test_newest_batch_is_that_of_the_newest_commit_of_the_stream(make_lake: Callable[[Kind], Lake], kind: Kind) -> None:
    lake = make_lake(kind)
    commit(lake, {SPARK_SINK: '{"q":"3"}', QUERY: "id"})
    commit(lake, {SPARK_SINK: '{"q":"4"}', QUERY: "id"})
    commit(lake, {SPARK_SINK: '{"other":"9"}'})
    lake.write([("a", 2, "oslo")])
    commit(lake, {SPARK_SINK: "no JSON"})
    assert newest_batch(lake, "q") == WrittenBatch(4, "id", "UPSERT")
    assert newest_batch(lake, "other") == WrittenBatch(9, "", "UPSERT")
    assert newest_batch(lake, "new") is None


def test_archived_batch_is_found(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "copy_on_write", "bucket"))
    commit(lake, {SPARK_SINK: '{"q":"3"}', QUERY: "id"})
    for number in range(4):
        lake.write([("a", number, "oslo")])
    penstock.clean(str(lake.path), commits=1)
    penstock.archive(str(lake.path), keep_min=2, keep_max=3)
    assert SPARK_SINK not in {key for one in _active(lake) for key in one}, "it left the active timeline"
    assert newest_batch(lake, "q") == WrittenBatch(3, "id", "UPSERT")


def _active(lake: Lake) -> list[Any]:
    table = lake.table()
    return [table.commit(instant).extra for instant in table.timeline().completed_writes]


def test_batch_is_written_unless_the_table_has_it(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, written = make_lake(KIND), []
    write = sink(str(lake.path), checkpoint="c")

    def recorded(planned: PlannedWrite, df: Any) -> Any:
        written.append(dict(planned.extra))
        commit(lake, dict(planned.extra))
        return WRITTEN

    monkeypatch.setattr(sink_module, "write_frame", recorded)
    for number in (0, 1, 1, 4, 4):
        write(frame(), number)
    assert [one[SPARK_SINK] for one in written] == ['{"q":"0"}', '{"q":"1"}', '{"q":"4"}']
    write(frame("p"), 0)
    assert written[-1] == {SPARK_SINK: '{"p":"0"}', QUERY: "p", "c": "0"}
    named = Sink(str(lake.path), WriteOptions(), "s", "c", epochs_from(1))
    named(frame("p"), 0)
    with pytest.raises(
        ConfigurationError, match=r"stream 's': the newest batch in the table, 0, is of query p, and batch 1 is"
    ):
        named(frame("r"), 1)


def test_batch_that_another_process_commits_meanwhile_is_not_written_twice(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two drivers of one query, of which one seemed dead."""
    lake, ends = make_lake(KIND), []

    def slow(planned: PlannedWrite, df: Any) -> None:
        commit(lake, dict(planned.extra), "theirs")
        try:
            _run(planned, [("ours", 1, "oslo")])
        except AlreadyWritten:
            ends.append("already written")
            raise

    monkeypatch.setattr(sink_module, "write_frame", slow)
    sink(str(lake.path), checkpoint="c")(frame(), 5)
    assert ends == ["already written"]
    assert [key for key, _, _ in lake.rows()] == ["theirs"]
    assert not lake.table().timeline().pending, "our instant was rolled back"


def test_second_driver_that_completes_a_batch_first_is_seen_under_the_lock(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch has other keys in its evaluation, so that no file group conflicts."""
    lake, ends = make_lake(KIND), []

    def other_driver(planned: PlannedWrite, df: Any) -> None:
        def commits(method: str, path: str) -> None:
            if method == "new_file":  # this write has begun, and saw no batch
                lake.storage.before = lambda method, path: None
                commit(lake, dict(planned.extra), "theirs", "bern")

        lake.storage.before = commits
        try:
            ends.append(_run(planned, [("ours", 1, "oslo")]))
        except AlreadyWritten:
            ends.append("already written")
            raise

    monkeypatch.setattr(sink_module, "write_frame", other_driver)
    sink(str(lake.path), checkpoint="c")(frame(), 5)
    assert ends == ["already written"]
    assert lake.rows() == [("theirs", 1, "bern")]
    assert not lake.table().timeline().pending and len(lake.files()) == 1, "our instant was rolled back"
    monkeypatch.setattr(sink_module, "write_frame", lambda planned, df: _run(planned, [("ours", 1, "oslo")]))
    sink(str(lake.path), checkpoint="c", identifier="another stream")(frame(), 5)
    assert lake.rows() == [("ours", 1, "oslo"), ("theirs", 1, "bern")], "the control"


@pytest.mark.parametrize("query", ["q", ""])
def test_batch_with_a_lower_number_is_refused(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """Of an older checkpoint; or of a new one after a sink that writes no ids of queries, such as Hudi's."""
    lake, written = make_lake(KIND), []
    monkeypatch.setattr(sink_module, "write_frame", lambda planned, df: written.append(dict(planned.extra)) or WRITTEN)
    commit(lake, {SPARK_SINK: '{"s":"5"}', QUERY: query})
    write = sink(str(lake.path), checkpoint="c", identifier="s")
    for number in (0, 4):
        with pytest.raises(ConfigurationError, match=f"got batch {number}, and the table has batch 5 already"):
            write(frame("q"), number)
    write(frame("q"), 5)
    assert written == [], "the batch of a crash is skipped"
    write(frame("q"), 6)
    assert len(written) == 1, "the control"


def test_two_sinks_of_one_function_need_an_identifier_each(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(KIND)
    monkeypatch.setattr(sink_module, "write_frame", lambda planned, df: commit(lake, dict(planned.extra)) or WRITTEN)
    sink(str(lake.path), "upsert", checkpoint="c")(frame(), 0)
    with pytest.raises(
        ConfigurationError, match=r"batch 0, written by operation UPSERT, and this sink's operation is DEL"
    ):
        sink(str(lake.path), "delete", checkpoint="c")(frame(), 0)
    sink(str(lake.path), "delete", checkpoint="c", identifier="deletes")(frame(), 0)
    assert newest_batch(lake, "deletes") is not None


def test_batch_without_rows_does_not_empty_the_table(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake(KIND)
    lake.write(FIRST)
    planned = open_write(str(lake.path), WriteOptions(operation="insert_overwrite_table"))
    assert _run(replace(planned, may_empty_table=False), []).instant == ""
    assert lake.rows() == sorted(FIRST)
    assert _run(planned, []).instant and lake.rows() == [], "the control"


def test_archive_is_read_again_only_after_instants_were_archived(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake((9, "copy_on_write", "bucket"))
    reads: list[str] = []
    archive = HudiTable.archive

    def counted(table: HudiTable) -> Any:
        reads.append(table.base_path)
        return archive(table)

    def shorten() -> None:
        penstock.clean(str(lake.path), commits=1)
        penstock.archive(str(lake.path), keep_min=2, keep_max=3)

    for number in range(4):
        lake.write([("a", number, "oslo")])
    shorten()
    monkeypatch.setattr(HudiTable, "archive", counted)
    known: ArchivedBatches = {}
    for _ in range(3):
        assert BatchSearch("new", known).newest(lake.table()) is None
    assert len(reads) == 1
    for number in range(4):
        commit(lake, {SPARK_SINK: '{"new":"3"}'} if number == 0 else {})
    shorten()
    for _ in range(2):
        batch = BatchSearch("new", known).newest(lake.table())
        assert batch is not None and batch.number == 3
    assert len(reads) == 2


def test_search_lists_the_timeline_again_if_an_instant_was_archived_meanwhile(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(KIND)
    commit(lake, {SPARK_SINK: '{"q":"3"}'})
    gone = StorageError("it was archived")
    gone.left_timeline = True
    read, failures = HudiTable.commit, [gone]

    def archived_once(table: HudiTable, instant: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(table, instant)

    monkeypatch.setattr(HudiTable, "commit", archived_once)
    batch = newest_batch(lake, "q")
    assert batch is not None and batch.number == 3 and not failures


def test_frames_and_names_that_no_commit_can_have_are_refused(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake(KIND)
    for name in ("line\nend", "x" * 501):
        with pytest.raises(ConfigurationError, match="identifier: got"):
            sink(str(lake.path), checkpoint="c", identifier=name)
    with pytest.raises(ConfigurationError, match="batch 0 is of no streaming query"):
        sink(str(lake.path), checkpoint="c")(frame(""), 0)
    connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(UnsupportedFeature, match="a data frame of Spark Connect cannot be written yet"):
        sink(str(lake.path), checkpoint="c")(connect, 0)
    assert not lake.files()


def test_sink_on_a_server_fences_the_drivers_before(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch has a later epoch of one owner; a driver that started earlier gets no batch in any more."""
    lake = make_lake(KIND)
    with serve({"trip": str(lake.path)}, "127.0.0.1:0", functions=TableFunctions(timelines=ServedTimeline)) as server:
        planned_writes: list[PlannedWrite] = []

        def written(planned: PlannedWrite, df: Any) -> WriteResult:
            planned_writes.append(planned)
            return _run(planned, [(f"k{len(planned_writes)}", 1, "oslo")])

        monkeypatch.setattr(sink_module, "write_frame", written)
        monkeypatch.setattr(sink_module.time, "time_ns", lambda: 1_000_000_000)
        earlier = sink("trip", checkpoint="c", server=server.address)
        monkeypatch.setattr(sink_module.time, "time_ns", lambda: 2_000_000_000)
        later = sink("trip", checkpoint="c", server=server.address)
        earlier(frame(), 0)
        later(frame(), 0)
        later(frame(), 1)
        later(frame(), 2)
        with pytest.raises(Fenced, match="of this owner has begun"):
            earlier(frame(), 3)
        owners = {planned.server.owner for planned in planned_writes if planned.server}
        epochs = [planned.server.epoch for planned in planned_writes if planned.server]
        assert owners == {owner_of_stream("q")}
        assert epochs == [1_024_000, 2_048_001, 2_048_002, 1_024_001]
        assert [row[0] for row in lake.rows()] == ["k1", "k2", "k3"], "batch 0 is written once"
