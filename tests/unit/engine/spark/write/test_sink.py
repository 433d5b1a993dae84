"""The newest batch of a stream, by the commits of a table; sinks that are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import penstock
from penstock.engine.spark.write import sink as sink_module
from penstock.engine.spark.write.sink import QUERY, Sink, WrittenBatch, newest_batch, sink
from penstock.engine.write.planned_write import AlreadyWritten, PlannedWrite, WriteOptions, open_write
from penstock.enumerator.handover.commit_offsets import SPARK_SINK
from penstock.proto.errors import ConfigurationError, UnsupportedFeature
from tests.unit.engine.write.recorded_storage import Kind, Lake, arrow

KIND: Kind = (9, "merge_on_read", "bucket")


def commit(lake: Lake, extra: dict[str, str], key: str = "a") -> None:
    """A write with this metadata."""
    _run(replace(open_write(str(lake.path), WriteOptions()), extra=extra), key)


def _run(planned: PlannedWrite, key: str) -> None:
    from penstock.engine.write.incoming_rows import incoming_rows
    from penstock.engine.write.write import _ArrowRows
    from penstock.writer.rows.chunks import batches_of

    data = batches_of(arrow([(key, 1, "oslo")]))
    with incoming_rows(planned.preparation, planned.assigner, planned.early, data) as rows:
        planned.run(_ArrowRows(planned, rows))


def frame(query: str = "q") -> Any:
    """A data frame of a batch of the query, as far as a sink looks at it before it writes."""
    context = SimpleNamespace(getLocalProperty=lambda name: query if name == "sql.streaming.queryId" else None)
    return SimpleNamespace(isStreaming=False, sparkSession=SimpleNamespace(sparkContext=context))


@pytest.mark.parametrize("kind", [KIND, (6, "copy_on_write", "simple")])
def test_newest_batch_is_that_of_the_newest_commit_of_the_stream(make_lake: Callable[[Kind], Lake], kind: Kind) -> None:
    lake = make_lake(kind)
    commit(lake, {SPARK_SINK: '{"q":"3"}', QUERY: "id"})
    commit(lake, {SPARK_SINK: '{"q":"4"}', QUERY: "id"})
    commit(lake, {SPARK_SINK: '{"other":"9"}'})
    lake.write([("a", 2, "oslo")])
    commit(lake, {SPARK_SINK: "no JSON"})
    assert newest_batch(lake.table(), "q") == WrittenBatch(4, "id")
    assert newest_batch(lake.table(), "other") == WrittenBatch(9, "")
    assert newest_batch(lake.table(), "new") is None


def test_archived_batch_is_found(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "copy_on_write", "bucket"))
    commit(lake, {SPARK_SINK: '{"q":"3"}', QUERY: "id"})
    for number in range(4):
        lake.write([("a", number, "oslo")])
    penstock.clean(str(lake.path), commits=1)
    penstock.archive(str(lake.path), keep_min=2, keep_max=3)
    assert SPARK_SINK not in {key for one in _active(lake) for key in one}, "it left the active timeline"
    assert newest_batch(lake.table(), "q") == WrittenBatch(3, "id")


def _active(lake: Lake) -> list[Any]:
    table = lake.table()
    return [table.commit(instant).extra for instant in table.timeline().completed_writes]


def test_batch_is_written_unless_the_table_has_it(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, written = make_lake(KIND), []
    write = sink(str(lake.path))

    def recorded(planned: PlannedWrite, df: Any) -> None:
        written.append(dict(planned.extra))
        commit(lake, dict(planned.extra))

    monkeypatch.setattr(sink_module, "write_frame", recorded)
    for number in (0, 1, 1, 0, 2):
        write(frame(), number)
    assert [one[SPARK_SINK] for one in written] == ['{"q":"0"}', '{"q":"1"}', '{"q":"2"}']
    write(frame("p"), 0)
    assert written[-1] == {SPARK_SINK: '{"p":"0"}', QUERY: "p"}
    named = Sink(str(lake.path), WriteOptions(), "s")
    named(frame("p"), 0)
    with pytest.raises(ConfigurationError, match=r"batch 0 of the stream 's' is of query p, and this is query r"):
        named(frame("r"), 1)


def test_batch_that_another_process_commits_meanwhile_is_not_written_twice(
    make_lake: Callable[[Kind], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two drivers of one query, of which one seemed dead."""
    lake, ends = make_lake(KIND), []

    def slow(planned: PlannedWrite, df: Any) -> None:
        commit(lake, dict(planned.extra), "theirs")
        try:
            _run(planned, "ours")
        except AlreadyWritten:
            ends.append("already written")
            raise

    monkeypatch.setattr(sink_module, "write_frame", slow)
    sink(str(lake.path))(frame(), 5)
    assert ends == ["already written"]
    assert [key for key, _, _ in lake.rows()] == ["theirs"]
    assert not lake.table().timeline().pending, "our instant was rolled back"


def test_frames_and_names_that_no_commit_can_have_are_refused(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake(KIND)
    for name in ("line\nend", "x" * 501):
        with pytest.raises(ConfigurationError, match="identifier: got"):
            sink(str(lake.path), identifier=name)
    with pytest.raises(ConfigurationError, match="batch 0 is of no streaming query"):
        sink(str(lake.path))(frame(""), 0)
    connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(UnsupportedFeature, match="a data frame of Spark Connect cannot be written yet"):
        sink(str(lake.path))(connect, 0)
    assert not lake.files()
