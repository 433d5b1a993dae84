"""Readers that hold the cleaner: a held group reads everything, another one loses its range; bounds and refusals."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.engine.cli.main import run
from penstock.engine.consumer import Consumer
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.maintain import maintain
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.proto.errors import ConfigurationError, PositionExpired, StorageError, UnknownGroup
from penstock.proto.model.groups import StartAt
from penstock.proto.model.positions import EARLIEST, Position
from penstock.writer.table_services.cleaner_holds import HoldState
from tests.unit.engine.table_services.lake import CITIES, Lake

VERSIONS = pytest.mark.parametrize("version", [9, 6])
BOUND = "48h"


class World:
    """A table that a server serves as `trips`, with consumer groups that read its changes."""

    def __init__(self, folder: pathlib.Path, version: int) -> None:
        self.lake = Lake(folder, version, change_logging="data_before_after")
        self.service = EnumeratorService({"trips": str(self.lake.path)}, poll_ms=None)
        self.server = serve_enumerator(self.service, "127.0.0.1:0", self.service)
        self.path = str(self.lake.path)
        self.hold: dict[str, Any] = {"hold_for": ["g"], "hold_at_most": "48h", "server": self.server.address}

    def read(self, group: str = "g") -> list[int]:
        """The `seq` of the changes that the group reads next, until it has read all."""
        seqs: list[int] = []
        options: dict[str, Any] = {"query": "cdc", "cdc_format": "hudi", "max_commits_per_trigger": 1}
        with Consumer(None, "trips", group=group, reader_id="r", enumerator=self.service, **options) as reader:
            while True:
                self.service.split_discovery.discover()
                consumed = reader.poll(0)
                if consumed is not None:
                    seqs += [json.loads(after)["seq"] for after in consumed.batch["after"].to_pylist()]
                    reader.commit(consumed)
                elif not self._is_behind(group):
                    return seqs

    def _is_behind(self, group: str) -> bool:
        timeline = self.lake.table.timeline()
        committed = self.service.describe_group("trips", group).summary.committed
        return any(Position(timeline.order_key(item)) > committed for item in timeline.completed_writes)


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def made(version: int = 9) -> World:
        worlds.append(World(tmp_path, version))
        return worlds[-1]

    yield made
    for each in worlds:
        each.server.stop()


def written(world: World, times: int) -> list[int]:
    """Writes; the `seq` of the rows."""
    first = world.lake.writes + 1
    world.lake.write(times)
    return [seq for seq in range(first, world.lake.writes + 1) for _ in CITIES]


def behind(world: World, times: int = 6) -> list[int]:
    """The group has read two writes, and not so many others; the `seq` of the changes that it has not read."""
    expected = written(world, 2)
    assert world.read() == expected
    return written(world, times)


@VERSIONS
def test_held_group_reads_everything_after_cleans(world: Callable[..., World], version: int) -> None:
    here = world(version)
    expected = behind(here)
    held = clean(here.path, commits=1, **here.hold)
    (hold,) = held.holds
    assert (hold.kind, hold.name, hold.state) == ("group", "g", HoldState.HOLDS)
    assert hold.keeps_from == here.lake.instants[2] and hold.unread_commits == 6
    assert held.earliest_to_retain in ("", hold.keeps_from)
    assert here.read() == expected
    after = clean(here.path, commits=1, **here.hold)
    assert after.holds[0].state is HoldState.CAUGHT_UP and after.files


@VERSIONS
def test_group_without_a_hold_loses_its_range(world: Callable[..., World], version: int) -> None:
    here = world(version)
    behind(here)
    assert clean(here.path, commits=1).holds == ()
    with pytest.raises(PositionExpired):
        here.read()


@VERSIONS
def test_group_beyond_the_bound_is_warned_of_and_loses_its_range(
    world: Callable[..., World], version: int, caplog: pytest.LogCaptureFixture
) -> None:
    here = world(version)
    behind(here)
    bound = {**here.hold, "hold_at_most": "6 commits"}
    assert clean(here.path, commits=1, **bound, dry_run=True).holds[0].state is HoldState.HOLDS
    here.lake.write()
    with caplog.at_level(logging.WARNING):
        result = clean(here.path, commits=1, **bound)
    assert result.holds[0].state is HoldState.EXCEEDED and result.files
    assert f"table {here.path}: group g will lose its range: 7 writes not read from " in caplog.text
    with pytest.raises(PositionExpired):
        here.read()


@VERSIONS
def test_maintenance_neither_cleans_nor_archives_what_a_held_group_has_not_read(
    world: Callable[..., World], version: int
) -> None:
    here = world(version)
    expected = behind(here, 8)
    few: dict[str, Any] = {"commits": 1, "keep_min": 2, "keep_max": 3}
    result = maintain(here.path, **few, **here.hold)
    assert result.holds[0].state is HoldState.HOLDS
    again = maintain(here.path, **few, **here.hold)
    assert again.reasons["clean"] == "no file can be deleted: files that only older states need are held for g"
    active = {item.requested_time for item in here.lake.table.timeline().completed_writes}
    assert {*here.lake.instants[2:]} <= active
    assert here.read() == expected
    done = maintain(here.path, **few, **here.hold)
    assert done.clean is not None and done.archive is not None


@VERSIONS
def test_nothing_is_cleaned_while_a_held_reader_has_not_read_an_archived_write(
    world: Callable[..., World], version: int
) -> None:
    here = world(version)
    expected = behind(here)
    assert archive(here.path, keep_min=2, keep_max=3).instants
    assert clean(here.path, commits=1, **here.hold).files == ()
    assert here.read() == expected
    assert clean(here.path, commits=1, **here.hold).files


@VERSIONS
def test_bound_counts_archived_writes_that_are_not_read(world: Callable[..., World], version: int) -> None:
    here = world(version)
    behind(here)
    assert archive(here.path, keep_min=2, keep_max=3).instants
    (hold,) = clean(here.path, commits=1, **{**here.hold, "hold_at_most": "6 commits"}).holds
    assert (hold.state, hold.unread_commits, hold.keeps_from) == ("holds", 6, here.lake.instants[2])
    result = clean(here.path, commits=1, **{**here.hold, "hold_at_most": "5 commits"})
    assert result.holds[0].state is HoldState.EXCEEDED and result.files


@VERSIONS
def test_group_of_rows_from_earliest_holds_the_state_that_its_first_round_reads(
    world: Callable[..., World], version: int
) -> None:
    """The rows of a range from `earliest` are a state of the table: the writes before are not needed."""
    here = world(version)
    at = here.lake.write(3)
    order_key = here.lake.table.timeline().order_key(here.lake.table.timeline().completed_writes[-1])
    options: dict[str, Any] = {"query": "incremental", "after": "earliest"}
    with Consumer(None, "trips", group="g", reader_id="r", enumerator=here.service, **options) as reader:
        here.service.split_discovery.discover()
        assert reader.poll(0) is not None
        first = here.lake.write()
        here.lake.write(3)
        (hold,) = clean(here.path, commits=1, **{**here.hold, "hold_at_most": "4 commits"}).holds
        assert (hold.state, hold.position, hold.keeps_from, hold.unread_commits) == ("holds", order_key, first, 4)
        here.lake.check_states(at)
        lag = here.service.describe_group("trips", "g").lag
        assert lag is not None and (lag.commits, lag.loss_commits, lag.holds_cleaner) == (7, 1, True)
        (late,) = clean(here.path, commits=1, **{**here.hold, "hold_at_most": "3 commits"}, dry_run=True).holds
        assert late.state is HoldState.EXCEEDED


@VERSIONS
@pytest.mark.parametrize("is_archived", [False, True])
def test_bound_holds_for_a_group_of_changes_that_has_not_committed(
    world: Callable[..., World], version: int, is_archived: bool
) -> None:
    """It needs every write, also the archived ones: within the bound none is lost, beyond it the cleaner goes on."""
    here = world(version)
    expected = written(here, 4)
    options: dict[str, Any] = {"query": "cdc", "cdc_format": "hudi", "max_commits_per_trigger": 1}
    with Consumer(None, "trips", group="g", reader_id="r", enumerator=here.service, **options) as reader:
        here.service.split_discovery.discover()
        assert reader.poll(0) is not None
    if is_archived:
        assert archive(here.path, keep_min=2, keep_max=3).instants
    files = here.lake.files()
    within = clean(here.path, commits=1, **{**here.hold, "hold_at_most": "4 commits"})
    assert (within.holds[0].state, within.holds[0].unread_commits) == ("holds", 4) and here.lake.files() == files
    assert here.read() == expected
    here.service.reset_group("trips", "g", StartAt(EARLIEST), dry_run=False)
    beyond = clean(here.path, commits=1, **{**here.hold, "hold_at_most": "3 commits"})
    assert beyond.holds[0].state is HoldState.EXCEEDED and beyond.files
    with pytest.raises(PositionExpired):
        here.read()


@VERSIONS
def test_bound_holds_for_a_group_in_its_first_snapshot(world: Callable[..., World], version: int) -> None:
    """It needs the state at the position of the snapshot, not the writes before it."""
    here = world(version)
    bound = {**here.hold, "hold_at_most": "4 commits"}
    at = here.lake.write(2)
    order_key = here.lake.table.timeline().order_key(here.lake.table.timeline().completed_writes[-1])
    options: dict[str, Any] = {"query": "incremental", "after": "snapshot", "max_files_per_trigger": 1}
    with Consumer(None, "trips", group="g", reader_id="r", enumerator=here.service, **options) as reader:
        for committed in (False, True):
            here.service.split_discovery.discover()
            consumed = reader.poll(0)
            assert consumed is not None
            (hold,) = clean(here.path, commits=1, **bound).holds
            assert (hold.state, hold.position) == ("caught up", order_key), "no write is later than the snapshot"
            if not committed:
                reader.commit(consumed)
        first = here.lake.write()
        here.lake.write(3)
        (hold,) = clean(here.path, commits=1, **bound).holds
        assert (hold.state, hold.keeps_from, hold.unread_commits) == ("holds", first, 4)
        here.lake.check_states(at)
        lag = here.service.describe_group("trips", "g").lag
        assert lag is not None and (lag.commits, lag.loss_commits, lag.holds_cleaner) == (6, 1, True)
        (late,) = clean(here.path, commits=1, **{**here.hold, "hold_at_most": "3 commits"}, dry_run=True).holds
        assert late.state is HoldState.EXCEEDED


def test_lag_of_a_group_tells_that_it_holds_the_cleaner(world: Callable[..., World]) -> None:
    here = world()
    behind(here, 3)
    here.read("other")
    here.lake.write(2)
    clean(here.path, commits=1, **{**here.hold, "hold_at_most": "9 commits"})
    lag = here.service.describe_group("trips", "g").lag
    assert lag is not None and (lag.commits, lag.loss_commits, lag.holds_cleaner) == (5, 5, True)
    other = here.service.describe_group("trips", "other").lag
    assert other is not None and (other.commits, other.holds_cleaner) == (2, False)
    here.lake.write()
    assert clean(here.path, commits=1).files
    lag = here.service.describe_group("trips", "g").lag
    assert lag is not None and not lag.holds_cleaner, "the newest clean did not keep files for the group"


def test_server_that_does_not_answer_or_lacks_the_reader_stops_the_clean(world: Callable[..., World]) -> None:
    here = world()
    behind(here)
    files = here.lake.files()
    with pytest.raises(UnknownGroup, match=r"neither a consumer group nor a stream 'other' on table trips"):
        clean(here.path, commits=1, **{**here.hold, "hold_for": ["g", "other"]})
    with pytest.raises(ConfigurationError, match="give server_table"):
        clean(here.path, commits=1, **{**here.hold, "hold_for": ["other"]})
    here.server.stop()
    with pytest.raises(StorageError):
        clean(here.path, commits=1, **here.hold)
    with pytest.raises(StorageError, match=r"clean failed \(\w+\): .*archive failed \(\w+\): .*Done: nothing"):
        maintain(here.path, commits=1, keep_min=2, keep_max=3, **here.hold)
    assert here.lake.files() == files


def test_position_of_another_table_is_refused(world: Callable[..., World], tmp_path: pathlib.Path) -> None:
    here = world()
    behind(here)
    other = Lake(tmp_path, name="other")
    other.write(3)
    with pytest.raises(ConfigurationError, match="0 are at this path"):
        clean(str(other.path), commits=1, **here.hold)
    with pytest.raises(ConfigurationError, match=r"is table 'trips', this one is 'other'"):
        clean(str(other.path), commits=1, **here.hold, server_table="trips")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hold_for": ["g"], "server": "127.0.0.1:1"}, "hold_at_most is not given"),
        ({"hold_for": ["g"], "hold_at_most": "48h"}, "without a server"),
        ({"hold_at_most": "48h"}, "hold_at_most without a reader"),
        ({"hold_checkpoints": ["/none"], "hold_at_most": "48"}, "a number without a unit"),
        ({"hold_checkpoints": ["/none"], "hold_at_most": "0 commits"}, "expected a duration such as 48h"),
        ({"hold_for": "g", "hold_at_most": "48h"}, "expected a list"),
        ({"hold_checkpoints": [str(n) for n in range(101)], "hold_at_most": "1h"}, "at most 100"),
    ],
)
def test_options_are_checked_before_the_clean(tmp_path: pathlib.Path, options: dict[str, object], message: str) -> None:
    lake = Lake(tmp_path)
    lake.write(3)
    with pytest.raises(ConfigurationError, match=message):
        clean(str(lake.path), commits=1, **options)  # type: ignore[arg-type]
    assert len(lake.files()) == 3


def test_commands_print_what_holds_the_cleaner(world: Callable[..., World], capsys: pytest.CaptureFixture[str]) -> None:
    here = world()
    behind(here)
    flags = ["--commits", "1", "--hold-for", "g", "--hold-at-most", "2 days", "--server", here.server.address]
    assert run(["clean", here.path, *flags, "--dry-run"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("group g holds the cleaner: 6 writes not read from ") and line.endswith("at most 172800s")
    assert run(["maintain", here.path, *flags, "--format", "json"]) == 0
    (hold,) = json.loads(capsys.readouterr().out)["holds"]
    assert (hold["name"], hold["state"], hold["unread_commits"]) == ("g", "holds", 6)
    assert run(["clean", here.path, "--hold-for", "g", "--server", here.server.address]) == 2
    assert "hold_at_most is not given" in capsys.readouterr().err
