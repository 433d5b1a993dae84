"""Which commits are walked, in which order, and when the archive is read."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.enumerator.handover.commit_offsets import STREAMER_V1
from penstock.enumerator.handover.offset_search import OffsetsFound, WriterHints, find_offsets
from penstock.enumerator.handover.table_commits import commits_before
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import InstantTime
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.timeline.archive import Archive
from tests.scripted_timeline import ScriptedTimeline

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden

ARCHIVED = ("B_v6_arch_mor", "B_v8_arch_mor", "B_v9_arch_mor", "B_v9_arch_cow")


class Keyed(HudiTable):
    """A table whose archived commit `at` carries a key."""

    at = ""
    reads = 0

    def archive(self) -> Archive:
        archive = super().archive()
        type(self).reads += 1
        commits: Mapping[str, object] = archive.commits
        assert not self.at or self.at in commits
        keyed = {
            time: replace(commit, extra={**commit.extra, STREAMER_V1: "t,0:5"}) if time == self.at else commit
            for time, commit in archive.commits.items()
        }
        return replace(archive, commits=keyed)


def keyed(path: pathlib.Path, at: str = "") -> Keyed:
    opened = open_table(str(path))
    table = type("KeyedOnce", (Keyed,), {"at": at, "reads": 0})(opened.storage, opened.properties)
    assert isinstance(table, Keyed)
    return table


@pytest.mark.parametrize("name", ARCHIVED)
def test_every_completed_write_once_newest_first(golden: GoldenTables, name: str) -> None:
    table = keyed(golden.table(name))
    history = commits_before(table)
    near = list(history.active)
    assert near[0].instant == history.instant
    assert table.reads == 0
    far = list(history.archived)
    assert table.reads == 1
    walked = [*near, *far]
    keys = [(commit.order_key, commit.instant) for commit in walked]
    assert keys == sorted(set(keys), reverse=True)
    active = {str(item.requested_time) for item in table.timeline().completed_writes}
    archive = table.archive()
    archived = set(archive.commits) - archive.rolled_back
    assert archived - active
    assert {commit.instant for commit in walked} == active | archived
    assert {commit.instant for commit in walked if commit.archived} == archived - active


@pytest.mark.parametrize("name", ARCHIVED)
def test_a_key_in_the_archive_is_found(golden: GoldenTables, name: str) -> None:
    archive = open_table(str(golden.table(name))).archive()
    at = min(
        time for time, commit in archive.commits.items() if not commit.is_service and time not in archive.rolled_back
    )
    history = commits_before(keyed(golden.table(name), at))
    found = find_offsets(history.active, history.archived, WriterHints(others_read_topic=False), lambda batch: None)
    assert isinstance(found, OffsetsFound)
    assert (found.sources[0].commit.instant, found.sources[0].commit.archived) == (at, True)
    history = commits_before(keyed(golden.table(name), at))
    with pytest.raises(ConfigurationError, match="several writers"):
        find_offsets(history.active, history.archived, WriterHints(), lambda batch: None)


@pytest.mark.parametrize("name", ARCHIVED)
def test_an_archived_instant(golden: GoldenTables, name: str) -> None:
    archive = open_table(str(golden.table(name))).archive()
    at = max(time for time in archive.commits if time not in archive.rolled_back)
    history = commits_before(keyed(golden.table(name), at), at)
    assert [*history.active] == []
    walked = list(history.archived)
    assert walked[0].instant == history.instant == at
    assert all(commit.order_key <= history.order_key for commit in walked)


def test_row_02_what_is_pending_on_layout_1_holds_the_instant_back(
    golden: GoldenTables, tmp_path: pathlib.Path
) -> None:
    scripted = ScriptedTimeline(golden.copy("C_v6_streamer", tmp_path), tmp_path / "aside")
    first, second, third = scripted.data
    scripted.pend(second)
    assert commits_before(scripted.open()).instant == first
    for instant in (second, third):
        with pytest.raises(ConfigurationError, match=f"would pass deltacommit {second}"):
            commits_before(scripted.open(), instant)


def test_row_01_what_is_pending_on_layout_2_comes_again_from_kafka(
    golden: GoldenTables, tmp_path: pathlib.Path
) -> None:
    scripted = ScriptedTimeline(golden.copy("C_v9_streamer_keys", tmp_path), tmp_path / "aside")
    newest = scripted.data[-1]
    scripted.pend(newest)
    history = commits_before(scripted.open())
    assert history.instant != newest
    found = find_offsets(history.active, history.archived, WriterHints(), lambda batch: None)
    assert isinstance(found, OffsetsFound)
    assert found.offsets.by_partition() == {0: 8, 1: 7}


@pytest.mark.parametrize(
    ("instant", "told"), [("20000101000000000", "not the requested time"), ("x", "not an instant")]
)
def test_no_such_instant(golden: GoldenTables, instant: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        commits_before(open_table(str(golden.table("C_v6_streamer"))), instant)


def test_a_table_without_a_write(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    scripted = ScriptedTimeline(golden.copy("C_v6_streamer", tmp_path), tmp_path / "aside")
    scripted.remove_after("0")
    with pytest.raises(ConfigurationError, match="no completed write"):
        commits_before(scripted.open())


class Late(HudiTable):
    """A table with an archived commit that completed between the two newest active ones, and one that was undone."""

    late = ""
    completed = ""
    gone = ""

    def archived_completions(self) -> Mapping[InstantTime, InstantTime]:
        return {**super().archived_completions(), InstantTime(self.late): InstantTime(self.completed)}

    def archive(self) -> Archive:
        archive = super().archive()
        instants = tuple(
            replace(item, completion_time=InstantTime(self.completed)) if item.requested_time == self.late else item
            for item in archive.instants
        )
        return replace(archive, instants=instants, rolled_back=archive.rolled_back | {self.gone})


def test_row_02_an_archived_commit_that_completed_late_has_its_place(golden: GoldenTables) -> None:
    opened = open_table(str(golden.table("B_v9_arch_mor")))
    active = commits_before(opened)
    newest, second, *_ = active.active
    gone, late = sorted(set(opened.archive().commits))[:2]
    table = Late(opened.storage, opened.properties)
    table.late, table.gone = late, gone
    table.completed = str(int(second.order_key) + 1)
    assert second.order_key < table.completed < newest.order_key
    history = commits_before(table)
    near = list(history.active)
    assert [commit.instant for commit in near] == [newest.instant]
    walked = [*near, *history.archived]
    assert [commit.instant for commit in walked[:3]] == [newest.instant, late, second.instant]
    assert [commit.archived for commit in walked[:3]] == [False, True, False]
    assert gone not in {commit.instant for commit in walked}
    assert len(walked) == len({commit.instant for commit in walked})
    with pytest.raises(ConfigurationError, match="not the requested time"):
        commits_before(table, gone)
