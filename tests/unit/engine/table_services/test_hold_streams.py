"""Streams of a server hold the cleaner; readers that have ended need nothing; table names of the server."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.holding import readers
from penstock.proto.errors import ConfigurationError, UnknownGroup
from penstock.proto.model.group_status import GroupStatus, GroupSummary
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.server_status import ServerStatus, StreamState, StreamStatus
from tests.unit.engine.table_services.lake import Lake

HOLD: dict[str, Any] = {"hold_at_most": "48h", "server": "127.0.0.1:7070"}


class Server:
    """Answers for tables at the path of the lake."""

    def __init__(self, lake: Lake, position: Position, tables: tuple[str, ...] = ("trips",)) -> None:
        self.lake = lake
        self.kafka: Any = None
        summary = GroupSummary(
            table="trips", group="g", state="running", committed=position, planned=position, readers=0
        )
        stream = StreamStatus(table="trips", name="s", state=StreamState.IDLE, committed=position, planned=position)
        self.groups = [
            GroupStatus(summary=replace(summary, table=table), pending_splits=0, held_splits=0) for table in tables
        ]
        self.streams = [replace(stream, table=table) for table in tables]

    def describe_server(self, table: str = "") -> ServerStatus:
        return ServerStatus(version="0", now_ms=0, uptime_ms=0, groups=tuple(self.groups), streams=tuple(self.streams))

    def describe_table(self, table: str) -> Any:
        return SimpleNamespace(base_path=f"file://{self.lake.path}", hudi_name="trips")

    def describe_group(self, table: str, group: str) -> Any:
        return SimpleNamespace(summary=self.groups[0].summary, kafka=self.kafka, snapshot_at=None)


@pytest.fixture
def lake(tmp_path: pathlib.Path) -> Lake:
    lake = Lake(tmp_path)
    lake.write(6)
    return lake


def server_of(lake: Lake, monkeypatch: pytest.MonkeyPatch, *tables: str) -> Server:
    timeline = lake.table.timeline()
    position = Position(timeline.order_key(timeline.completed_writes[1]))
    server = Server(lake, position, tables or ("trips",))
    monkeypatch.setattr(readers, "group_enumerator_for", lambda address, access: server)
    return server


def test_stream_holds_the_cleaner(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    server_of(lake, monkeypatch)
    (hold,) = clean(str(lake.path), commits=1, hold_for=["s"], **HOLD).holds
    assert (hold.kind, hold.name, hold.state, hold.keeps_from) == ("stream", "s", "holds", lake.instants[2])
    lake.check_states(lake.instants[1])


def test_stream_and_group_of_one_name_both_hold(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_of(lake, monkeypatch)
    server.streams = [replace(server.streams[0], name="g", committed=EARLIEST)]
    holds = clean(str(lake.path), commits=1, hold_for=["g"], **HOLD).holds
    assert [(hold.kind, hold.keeps_from) for hold in holds] == [
        ("group", lake.instants[2]),
        ("stream", lake.instants[0]),
    ]
    lake.check_states(lake.instants[0])


def test_reader_that_has_ended_or_reads_the_topic_needs_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_of(lake, monkeypatch)
    newest = newest_of(lake)
    server.streams = [replace(server.streams[0], state=StreamState.ENDED, committed=newest, planned=newest)]
    server.kafka = SimpleNamespace(lake=server.groups[0].summary.committed)
    planned = clean(str(lake.path), commits=1, hold_for=["s", "g"], **HOLD, dry_run=True)
    assert [(hold.position, hold.state) for hold in planned.holds] == [("", "caught up")] * 2 and len(
        planned.files
    ) == 8
    server.kafka = None
    server.groups = [replace(server.groups[0], summary=replace(server.groups[0].summary, state="ended"))]
    assert clean(str(lake.path), commits=1, hold_for=["s", "g"], **HOLD).files == planned.files


def newest_of(lake: Lake) -> Position:
    timeline = lake.table.timeline()
    return Position(timeline.order_key(timeline.completed_writes[-1]))


def test_stream_that_reads_its_last_batch_holds(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server sets a stream to ENDED when it plans the last batch."""
    server = server_of(lake, monkeypatch)
    server.streams = [replace(server.streams[0], state=StreamState.ENDED, planned=newest_of(lake))]
    (hold,) = clean(str(lake.path), commits=1, hold_for=["s"], **HOLD).holds
    assert (hold.state, hold.keeps_from) == ("holds", lake.instants[2])
    lake.check_states(lake.instants[1])
    server.streams = [replace(server.streams[0], silent_ms=48 * 3_600_000 + 1)]
    (gone,) = clean(str(lake.path), commits=1, hold_for=["s"], **HOLD).holds
    assert gone.state == "caught up"


def test_hybrid_group_holds_until_it_has_processed_the_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_of(lake, monkeypatch)
    server.kafka = SimpleNamespace(lake=newest_of(lake))
    (hold,) = clean(str(lake.path), commits=1, hold_for=["g"], **HOLD).holds
    assert (hold.state, hold.keeps_from) == ("holds", lake.instants[2])


def test_streams_of_one_name_hold_at_the_lowest_position(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of different callers can have one name."""
    server = server_of(lake, monkeypatch)
    newest = newest_of(lake)
    server.streams = [
        replace(server.streams[0], committed=newest),
        server.streams[0],
        replace(server.streams[0], state=StreamState.ENDED, committed=newest, planned=newest),
    ]
    (hold,) = clean(str(lake.path), commits=1, hold_for=["s"], **HOLD).holds
    assert (hold.state, hold.keeps_from) == ("holds", lake.instants[2])
    server.streams.reverse()
    (hold,) = clean(str(lake.path), commits=1, hold_for=["s"], **HOLD).holds
    assert (hold.state, hold.keeps_from) == ("holds", lake.instants[2])


def test_unknown_stream_stops_the_clean_and_the_way_out_is_told(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    server_of(lake, monkeypatch)
    with pytest.raises(UnknownGroup, match=r"forgets a stream when it restarts, .*--hold-checkpoint"):
        clean(str(lake.path), commits=1, hold_for=["s", "other"], **HOLD)
    assert len(lake.files()) == 6


def test_table_of_the_server_is_named_if_several_are_at_the_path(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    server_of(lake, monkeypatch, "trips", "copy")
    with pytest.raises(ConfigurationError, match=r"\(copy, trips\) 2 are at this path: give server_table"):
        clean(str(lake.path), commits=1, hold_for=["s"], **HOLD)
    assert clean(str(lake.path), commits=1, hold_for=["s"], **HOLD, server_table="copy").holds[0].state == "holds"
