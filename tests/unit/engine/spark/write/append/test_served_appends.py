"""Inserts of the data source through a server, without Spark: tasks that ask for one write, a commit in another
process, conflicts before files are written, and drivers that start again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock
from penstock.engine.spark.write.append import stream_writer as stream_writer_module
from penstock.engine.spark.write.append.appended_files import Append, AppendReport
from penstock.engine.spark.write.append.data_source_writer import append_writer
from penstock.engine.spark.write.append.stream_writer import AppendStreamWriter, append_stream_writer
from penstock.engine.write.service.owners import epochs_from, owner_of_stream
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.enumerator.server.assembly import TableFunctions
from penstock.enumerator.server.run import RunningServer, serve
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError, Fenced, SchemaMismatch, WriteConflict
from tests.unit.engine.spark.write.append.test_data_source_writer import FRAME, KIND, MERGE_ON_READ
from tests.unit.engine.write.recorded_storage import FIRST, SECOND, Kind, Lake, Row, arrow
from tests.unit.engine.write.test_kills import leftovers

Planned = Callable[..., Any]


@pytest.fixture
def lake(make_lake: Callable[[Kind], Lake]) -> Lake:
    return make_lake(KIND)


@pytest.fixture
def server(lake: Lake) -> Iterator[RunningServer]:
    with serve({"trip": str(lake.path)}, "127.0.0.1:0", functions=TableFunctions(timelines=ServedTimeline)) as running:
        yield running


def batch(server: RunningServer, **options: str) -> Any:
    """The writer of a data frame, as Spark's tasks get it."""
    writer = append_writer({"path": "trip", "server": server.address, **options}, FRAME, overwrite=False)
    return pickle.loads(pickle.dumps(writer))


def stream(server: RunningServer, **options: str) -> AppendStreamWriter:
    """The writer of a micro-batch."""
    return append_stream_writer({"path": "trip", "server": server.address, **options}, FRAME, overwrite=False)


def task(append: Append, rows: list[Row], partition: int = 0, attempt: int = 0, query: str = "") -> AppendReport:
    return append.write(iter(arrow(rows).to_batches()), partition, attempt, query)


def open_writes(server: RunningServer) -> list[tuple[str, int]]:
    return [(each.id.owner, each.id.epoch) for each in EnumeratorClient(server.address).list_writes()]


@pytest.mark.parametrize("kind", [KIND, MERGE_ON_READ])
def test_tasks_share_one_write_of_the_server(make_lake: Callable[[Kind], Lake], kind: Kind) -> None:
    lake = make_lake(kind)
    with serve({"trip": str(lake.path)}, "127.0.0.1:0", functions=TableFunctions(timelines=ServedTimeline)) as server:
        writer = batch(server)
        reports = [task(writer.append, FIRST, 0, 0), task(writer.append, [], 2, 2), task(writer.append, SECOND, 1, 1)]
        assert len(open_writes(server)) == 1 and lake.rows() == []
        assert reports[0].begun == reports[2].begun and reports[1].begun == b""
        again = task(writer.append, FIRST, 0, 3)
        assert len(lake.files()) == 7
        writer.commit([reports[0], reports[2], None])
        assert lake.rows() == sorted(FIRST + SECOND) and len(lake.files()) == 5, "the second attempt is removed"
        assert open_writes(server) == [] and again.write == reports[0].write
        with pytest.raises(Fenced):
            task(writer.append, FIRST, 0, 4)
        assert len(lake.files()) == 5 and not lake.table().timeline().pending and leftovers(lake.path) == []


def test_conflict_is_told_before_a_file_is_written(lake: Lake, server: RunningServer) -> None:
    first, second = batch(server), batch(server)
    report = task(first.append, [("a", 1, "oslo")])
    files = lake.files()
    with pytest.raises(WriteConflict, match="holds inserts into partition 'oslo'"):
        task(second.append, [("b", 1, "oslo")])
    assert lake.files() == files
    second.abort([None])
    other = batch(server)
    other.commit([task(other.append, [("c", 1, "riga")])])
    first.commit([report])
    assert lake.rows() == [("a", 1, "oslo"), ("c", 1, "riga")]


def test_aborted_write_is_rolled_back(lake: Lake, server: RunningServer) -> None:
    writer = batch(server)
    writer.abort([None])
    assert not lake.table().timeline().instants, "no task had begun"
    report = task(writer.append, FIRST)
    writer.abort([None])
    assert lake.files() == set() and not lake.table().timeline().pending and leftovers(lake.path) == []
    with pytest.raises(Fenced, match="it was aborted"):
        writer.commit([report])


def test_changed_columns_are_noticed_by_the_first_task(lake: Lake, server: RunningServer) -> None:
    writer = batch(server)
    rows = arrow([("x", 1, "bern")])
    penstock.write("trip", rows.append_column("added", rows["seq"]), server=server.address)
    with pytest.raises((WriteConflict, SchemaMismatch)):
        task(writer.append, FIRST)
    writer.abort([])
    assert lake.rows() == [("x", 1, "bern")] and not lake.table().timeline().pending


def test_driver_that_starts_again_fences_the_earlier_one(
    lake: Lake, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write batch 0 of one query; the second one commits it, in another process than that of its tasks."""
    times_ms = iter((1_000, 2_000, 2_001, 3_000, 3_001))
    monkeypatch.setattr(stream_writer_module.time, "time_ns", lambda: next(times_ms) * 1_000_000)
    earlier = stream(server)
    of_earlier = task(earlier.append, [("a", 1, "oslo")], query="q")
    later = stream(server)
    of_later = task(later.append, [("a", 1, "oslo")], query="q")
    assert open_writes(server) == [(owner_of_stream("q"), next(epochs_from(2_000)))]
    with pytest.raises(Fenced, match="a later epoch of its owner began"):
        earlier.commit([of_earlier], 0)
    stream(server).commit([of_later], 0)
    assert lake.rows() == [("a", 1, "oslo")] and len(lake.files()) == 1
    again = stream(server)
    repeated = task(again.append, [("a", 1, "oslo")], query="q")
    stream(server).commit([repeated], 0)
    assert lake.rows() == [("a", 1, "oslo")] and open_writes(server) == [], "the batch is recognised"


def test_streams_are_different_owners(lake: Lake, server: RunningServer) -> None:
    named = stream(server, identifier="one stream")
    report = task(named.append, [("a", 1, "oslo")], query="q")
    other = stream(server, identifier="one-stream")
    of_other = task(other.append, [("b", 1, "riga")], query="q")
    named.commit([report], 0)
    other.commit([of_other], 0)
    assert lake.rows() == [("a", 1, "oslo"), ("b", 1, "riga")]


def test_connection_without_a_server_is_refused(lake: Lake) -> None:
    with pytest.raises(ConfigurationError, match="server_options: got serverToken without a server"):
        append_writer({"path": str(lake.path), "serverToken": "file"}, FRAME, overwrite=False)
