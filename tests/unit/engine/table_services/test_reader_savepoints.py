"""Savepoints for readers: made for what is not read, kept, deleted when it is read; a cleaner that knows no readers."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator

import pytest

import penstock
from penstock.engine.cli.main import run
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.holding.savepoints import savepoint_readers
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import savepoint
from penstock.proto.errors import ConfigurationError, PositionExpired
from penstock.writer.table_services.cleaner_holds import HoldState
from tests.unit.engine.table_services.lake import Lake
from tests.unit.engine.table_services.test_hold_groups import VERSIONS, World, behind


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def made(version: int = 9) -> World:
        worlds.append(World(tmp_path, version))
        return worlds[-1]

    yield made
    for each in worlds:
        each.server.stop()


def savepoints(lake: Lake) -> list[str]:
    return [str(item.requested_time) for item in lake.table.timeline().savepoints]


@VERSIONS
def test_group_reads_everything_after_cleans_that_know_no_readers(world: Callable[..., World], version: int) -> None:
    here = world(version)
    expected = behind(here, 3)
    planned = savepoint_readers(here.path, **here.hold, dry_run=True)
    assert [one.instant for one in planned.made] == here.lake.instants[1:] and savepoints(here.lake) == []
    first = savepoint_readers(here.path, **here.hold)
    assert first.made == planned.made and savepoints(here.lake) == here.lake.instants[1:]
    here.lake.write(3)
    second = savepoint_readers(here.path, **here.hold)
    assert [one.instant for one in second.made] == here.lake.instants[-3:]
    assert second.kept == tuple(here.lake.instants[1:-3]) and second.deleted == ()
    clean(here.path, commits=1)
    assert here.read() == [*expected, 6, 6, 7, 7, 8, 8]
    done = savepoint_readers(here.path, **here.hold)
    assert done.deleted == tuple(here.lake.instants[1:]) and done.holds[0].state is HoldState.CAUGHT_UP
    assert savepoints(here.lake) == [] and clean(here.path, commits=1).files


def test_savepoints_of_a_reader_beyond_the_bound_are_deleted_and_others_stay(world: Callable[..., World]) -> None:
    here = world()
    behind(here, 2)
    savepoint(here.path, here.lake.instants[0], comment="mine")
    savepoint_readers(here.path, **here.hold)
    assert len(savepoints(here.lake)) == 4
    result = savepoint_readers(here.path, **{**here.hold, "hold_at_most": "1 commit"})
    assert result.holds[0].state is HoldState.EXCEEDED and len(result.deleted) == 3
    assert savepoints(here.lake) == here.lake.instants[:1]


def test_archived_writes_and_missing_readers_are_refused(world: Callable[..., World]) -> None:
    here = world()
    behind(here)
    with pytest.raises(ConfigurationError, match="give the readers"):
        savepoint_readers(here.path)
    assert archive(here.path, keep_min=2, keep_max=3).instants
    with pytest.raises(PositionExpired, match="has not read archived writes, of which no savepoint"):
        savepoint_readers(here.path, **here.hold)


def test_calls_for_different_readers_leave_the_savepoints_of_the_others(world: Callable[..., World]) -> None:
    here = world()
    behind(here, 2)
    here.read("other")
    here.lake.write(2)
    first = savepoint_readers(here.path, **here.hold)
    assert [one.instant for one in first.made] == here.lake.instants[1:]
    other = {**here.hold, "hold_for": ["other"]}
    second = savepoint_readers(here.path, **other)
    assert (second.made, second.deleted) == ((), ()) and second.kept == tuple(here.lake.instants[3:])
    here.read()
    third = savepoint_readers(here.path, **here.hold)
    assert third.deleted == tuple(here.lake.instants[1:3]), "the other reader needs the rest"
    assert savepoints(here.lake) == here.lake.instants[3:]
    here.read("other")
    assert savepoint_readers(here.path, **other).deleted == tuple(here.lake.instants[3:])
    assert savepoints(here.lake) == []


def test_readers_that_are_gone_are_released_without_a_server(
    world: Callable[..., World], capsys: pytest.CaptureFixture[str]
) -> None:
    here = world()
    behind(here, 2)
    savepoint(here.path, here.lake.instants[0], comment="mine")
    savepoint_readers(here.path, **here.hold)
    here.server.stop()
    planned = savepoint_readers(here.path, hold_for=["g"], release=True, dry_run=True)
    assert planned.deleted == tuple(here.lake.instants[1:]) and len(savepoints(here.lake)) == 4
    assert savepoint_readers(here.path, hold_for=["other"], release=True).deleted == ()
    assert run(["savepoint", here.path, "--for-group", "g", "--release"]) == 0
    assert "deleted" in capsys.readouterr().out and savepoints(here.lake) == here.lake.instants[:1]
    assert run(["savepoint", here.path, "--release"]) == 2
    assert run(["savepoint", here.path, "--for-group", "g", "--release", "--hold-at-most", "48h"]) == 2


def test_reader_whose_writes_are_archived_does_not_stop_the_others(world: Callable[..., World]) -> None:
    here = world()
    behind(here)
    here.read("other")
    here.lake.write(2)
    assert archive(here.path, keep_min=4, keep_max=5).instants
    with pytest.raises(
        PositionExpired, match=r"group g at .* archived writes.* Savepoints of 3 other writes were made"
    ):
        savepoint_readers(here.path, **{**here.hold, "hold_for": ["g", "other"]})
    assert savepoints(here.lake) == here.lake.instants[-3:]


def test_restore_does_not_choose_savepoints_for_readers(world: Callable[..., World]) -> None:
    here = world()
    behind(here, 2)
    savepoint_readers(here.path, **here.hold)
    with pytest.raises(ConfigurationError, match="has only savepoints for readers"):
        restore(here.path)
    savepoint(here.path, here.lake.instants[0], comment="mine")
    with pytest.raises(ConfigurationError, match=rf"Savepoints for readers: {', '.join(here.lake.instants[1:])}; "):
        restore(here.path)
    savepoint_readers(here.path, hold_for=["g"], release=True)
    assert restore(here.path).savepoint == here.lake.instants[0]


def test_command(world: Callable[..., World], capsys: pytest.CaptureFixture[str]) -> None:
    here = world()
    behind(here, 2)
    flags = ["--for-group", "g", "--hold-at-most", "48h", "--server", here.server.address]
    assert run(["savepoint", here.path, *flags, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[2:5]] == [["would", "make", each] for each in here.lake.instants[1:]]
    assert lines[-1].startswith("group g holds the cleaner: 2 writes not read from ")
    assert run(["savepoint", here.path, *flags, "--format", "json"]) == 0
    assert [one["instant"] for one in json.loads(capsys.readouterr().out)["made"]] == here.lake.instants[1:]
    here.read()
    assert run(["savepoint", here.path, *flags]) == 0
    assert "deleted" in capsys.readouterr().out and savepoints(here.lake) == []
    assert run(["savepoint", here.path, here.lake.instants[0], *flags]) == 2


def test_savepoint_of_a_table_with_a_metadata_table(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path, metadata_table=True)
    lake.write(3)
    saved = savepoint(str(lake.path), lake.instants[0])
    clean(str(lake.path), commits=1)
    assert saved.files == 2 and len(lake.files()) == 3
    lake.check_states(lake.instants[1])
    penstock.delete_savepoint(str(lake.path), lake.instants[0])
    assert savepoints(lake) == [] and clean(str(lake.path), commits=1).files
