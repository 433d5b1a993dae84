"""The commits of the offset search, their order, and when the archive is read."""

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
    """A table whose archived commit `at` has a key."""

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
def test_completed_writes_are_listed_once_newest_first(golden: GoldenTables, name: str) -> None:
    table = keyed(golden.table(name))
    history = commits_before(table)
    near = list(history.active)
    assert near[0].instant == history.instant
    assert table.reads == 0
    far = list(history.archived)
    assert table.reads == 1
    commits = [*near, *far]
    keys = [(commit.order_key, commit.instant) for commit in commits]
    assert keys == sorted(set(keys), reverse=True)
    active = {str(item.requested_time) for item in table.timeline().completed_writes}
    archive = table.archive()
    archived = set(archive.commits) - archive.rolled_back
    assert archived - active
    assert {commit.instant for commit in commits} == active | archived
    assert {commit.instant for commit in commits if commit.archived} == archived - active


@pytest.mark.parametrize("name", ARCHIVED)
def test_key_in_the_archive_is_used(golden: GoldenTables, name: str) -> None:
    archive = open_table(str(golden.table(name))).archive()
    at = min(
        time for time, commit in archive.commits.items() if not commit.is_service and time not in archive.rolled_back
    )
    history = commits_before(keyed(golden.table(name), at))
    result = find_offsets(history.active, history.archived, WriterHints(others_read_topic=False), lambda batch: None)
    assert isinstance(result, OffsetsFound)
    assert (result.sources[0].commit.instant, result.sources[0].commit.archived) == (at, True)
    history = commits_before(keyed(golden.table(name), at))
    with pytest.raises(ConfigurationError, match="several writers"):
        find_offsets(history.active, history.archived, WriterHints(), lambda batch: None)


@pytest.mark.parametrize("name", ARCHIVED)
def test_archived_instant_is_accepted(golden: GoldenTables, name: str) -> None:
    archive = open_table(str(golden.table(name))).archive()
    at = max(time for time in archive.commits if time not in archive.rolled_back)
    history = commits_before(keyed(golden.table(name), at), at)
    assert [*history.active] == []
    commits = list(history.archived)
    assert commits[0].instant == history.instant == at
    assert all(commit.order_key <= history.order_key for commit in commits)


def test_row_02_pending_instant_of_layout_1_limits_the_hand_over(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    scripted = ScriptedTimeline(golden.copy("C_v6_streamer", tmp_path), tmp_path / "aside")
    first, second, third = scripted.data
    scripted.pend(second)
    assert commits_before(scripted.open()).instant == first
    for instant in (second, third):
        with pytest.raises(ConfigurationError, match=f"would pass deltacommit {second}"):
            commits_before(scripted.open(), instant)


def test_row_01_pending_instant_of_layout_2_is_repeated_from_kafka(
    golden: GoldenTables, tmp_path: pathlib.Path
) -> None:
    scripted = ScriptedTimeline(golden.copy("C_v9_streamer_keys", tmp_path), tmp_path / "aside")
    newest = scripted.data[-1]
    scripted.pend(newest)
    history = commits_before(scripted.open())
    assert history.instant != newest
    result = find_offsets(history.active, history.archived, WriterHints(), lambda batch: None)
    assert isinstance(result, OffsetsFound)
    assert result.offsets.by_partition() == {0: 8, 1: 7}


@pytest.mark.parametrize(
    ("instant", "message"), [("20000101000000000", "not the requested time"), ("x", "not an instant")]
)
def test_unknown_instant_is_refused(golden: GoldenTables, instant: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        commits_before(open_table(str(golden.table("C_v6_streamer"))), instant)


def test_table_without_a_write_has_no_commits(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    scripted = ScriptedTimeline(golden.copy("C_v6_streamer", tmp_path), tmp_path / "aside")
    scripted.remove_after("0")
    with pytest.raises(ConfigurationError, match="no completed write"):
        commits_before(scripted.open())


class Late(HudiTable):
    """A table with an archived commit that completed between the two newest active ones, and a rolled-back one."""

    late = ""
    completed = ""
    gone = ""

    def archived_completions(self) -> Mapping[InstantTime, InstantTime]:
        return {**super().archived_completions(), InstantTime(self.late): InstantTime(self.completed)}

    def newest_archived_completion(self) -> InstantTime:
        return max(self.archived_completions().values())

    def archive(self) -> Archive:
        archive = super().archive()
        instants = tuple(
            replace(item, completion_time=InstantTime(self.completed)) if item.requested_time == self.late else item
            for item in archive.instants
        )
        return replace(archive, instants=instants, rolled_back=archive.rolled_back | {self.gone})


def test_row_02_archived_commit_that_completed_late_is_in_order(golden: GoldenTables) -> None:
    opened = open_table(str(golden.table("B_v9_arch_mor")))
    active = commits_before(opened)
    newest, second, *_ = active.active
    removed, late = sorted(set(opened.archive().commits))[:2]
    table = Late(opened.storage, opened.properties)
    table.late, table.gone = late, removed
    table.completed = str(int(second.order_key) + 1)
    assert second.order_key < table.completed < newest.order_key
    history = commits_before(table)
    near = list(history.active)
    assert [commit.instant for commit in near] == [newest.instant]
    commits = [*near, *history.archived]
    assert [commit.instant for commit in commits[:3]] == [newest.instant, late, second.instant]
    assert [commit.archived for commit in commits[:3]] == [False, True, False]
    assert removed not in {commit.instant for commit in commits}
    assert len(commits) == len({commit.instant for commit in commits})
    with pytest.raises(ConfigurationError, match="not the requested time"):
        commits_before(table, removed)
