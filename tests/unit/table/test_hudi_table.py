"""HudiTable: fresh timeline, cached commits, plans, partitions, on a table that is built here file by file."""

from __future__ import annotations

import json
import os
import pathlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import pytest

from penstock.proto.errors import CorruptFile, StorageError, TableNotFound
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.metadata.metadata_table import MetadataTable
from penstock.table.storage.local_listing import FileVersion
from penstock.table.timeline.commit_cache import CommitCache
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Instant
from penstock.table.timeline.services.plans import CompactionGroup


def _commit(schema: str = "") -> str:
    return json.dumps({"partitionToWriteStats": {}, "extraMetadata": {"schema": schema}})


class Built:
    """A table folder under construction."""

    def __init__(self, base: pathlib.Path, version: int) -> None:
        self.base = base
        self.folder = base / ".hoodie" / ("timeline" if version >= 8 else "")
        self.folder.mkdir(parents=True)
        self.properties = base / ".hoodie/hoodie.properties"
        self.properties.write_text(f"hoodie.table.name=t\nhoodie.table.version={version}\n")

    def write(self, name: str, text: str = "", modified_ns: int = 0) -> None:
        (self.folder / name).write_text(text)
        if modified_ns:
            os.utime(self.folder / name, ns=(modified_ns, modified_ns))

    def table(self) -> HudiTable:
        return open_table(str(self.base))


@pytest.fixture
def built(tmp_path: pathlib.Path) -> Built:
    return Built(tmp_path / "table", 6)


def _only(table: HudiTable) -> Instant:
    (instant,) = table.timeline().completed_writes
    return instant


def test_timeline_is_fresh(built: Built) -> None:
    table = built.table()
    assert table.timeline().instants == ()
    built.write("001.commit", _commit())
    assert [i.requested_time for i in table.timeline().completed_writes] == ["001"]


def test_replace_that_was_listed_while_it_was_written_is_a_change(built: Built) -> None:
    """Its writer creates the file first: an empty one is no clustering."""
    built.write("001.commit.requested")
    built.write("002.replacecommit.requested")
    table = built.table()
    before = table.timeline()
    assert not table.requested_replace(before.pending[-1]).is_clustering
    built.write("001.commit.requested", "{}")
    assert table.timeline() is before, "nobody reads it"
    built.write("002.replacecommit.requested", json.dumps({"operationType": "CLUSTER", "clusteringPlan": {}}))
    assert table.timeline() is not before
    assert table.requested_replace(before.pending[-1]).is_clustering


def test_commit_is_read_once(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    built.write("001.commit", _commit("one"))
    table = built.table()
    first = table.commit(_only(table))
    monkeypatch.setattr(table.storage, "read_bytes", _never)
    assert table.commit(_only(table)) is first


def _never(*_: object) -> bytes:
    raise AssertionError("read again")


def test_file_created_again_is_not_served_stale(built: Built) -> None:
    built.write("001.commit", _commit("one"), 10**18)
    table = built.table()
    assert table.commit(_only(table)).schema_json == "one"
    built.write("001.commit", _commit("two"), 10**18 + 1)
    assert table.commit(_only(table)).schema_json == "two"


def test_cached_with_and_without_a_listing(built: Built) -> None:
    built.write("001.commit", _commit("one"))
    instant = _only(built.table())
    assert built.table().commit(instant).schema_json == "one"


def test_empty_commit_file_is_read_once_more(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    built.write("001.commit", "")
    table = built.table()
    instant = _only(table)
    answers = [b"", _commit("late").encode()]
    monkeypatch.setattr(table.storage, "read_bytes", lambda *_: answers.pop(0))
    assert table.commit(instant).schema_json == "late"


def test_commit_file_that_stays_empty_is_corrupt(built: Built) -> None:
    built.write("001.commit", "")
    os.utime(built.folder / "001.commit", (1, 1))
    table = built.table()
    with pytest.raises(CorruptFile, match=r"commit 001, file 001\.commit of table .* is empty: got 0 bytes"):
        table.commit(_only(table))


def test_truncated_commit_names_table_instant_and_file(built: Built) -> None:
    built.write("001.commit", _commit()[:-5])
    os.utime(built.folder / "001.commit", (1, 1))
    table = built.table()
    with pytest.raises(CorruptFile, match=rf"commit 001, file 001\.commit of table {built.base} .*truncated"):
        table.commit(_only(table))


def test_commit_file_that_vanished_may_be_asked_again(built: Built) -> None:
    built.write("001.commit", _commit())
    table = built.table()
    instant = _only(table)
    (built.folder / "001.commit").unlink()
    with pytest.raises(StorageError, match=r"001\.commit.*archived or rolled back"):
        table.commit(instant)
    with pytest.raises(StorageError, match=r"001\.commit"):
        built.table().commit(instant)


def test_plans_are_found_from_any_state(tmp_path: pathlib.Path) -> None:
    built = Built(tmp_path / "table", 9)
    operations = {"operations": [{"fileId": "f-0", "partitionPath": "p", "baseInstantTime": "000"}]}
    cluster = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": []}}
    built.write("001.compaction.requested", json.dumps(operations))
    built.write("001.compaction.inflight")
    built.write("002.clustering.requested", json.dumps(cluster))
    built.write("003.clustering.requested", json.dumps(cluster))
    built.write("003_004.replacecommit", _commit())
    built.write("005.replacecommit.requested", "")
    built.write("005_006.replacecommit", _commit())
    table = built.table()
    timeline = table.timeline()
    compaction, clustering = timeline.pending
    assert compaction.state == "inflight"
    assert table.compaction_plan(compaction) == (CompactionGroup("p", "f-0", "000"),)
    assert table.requested_replace(clustering).is_clustering
    assert [table.requested_replace(i).is_clustering for i in timeline.completed_writes] == [True, False]
    (built.folder / "002.clustering.requested").unlink()
    with pytest.raises(StorageError, match=r"002\.clustering\.requested"):
        table.requested_replace(clustering)


def test_clean(built: Built) -> None:
    metadata = {"partitionMetadata": {"p": {"successDeleteFiles": ["x"]}}, "earliestCommitToRetain": "003"}
    built.write("004.clean", json.dumps(metadata))
    table = built.table()
    (clean,) = table.timeline().completed_cleans
    assert table.clean(clean).earliest_to_retain == "003"


def test_partitions_and_files(built: Built) -> None:
    table = built.table()
    assert table.list_partitions() == ("",), "a table without partition fields"
    (built.base / "p=a").mkdir()
    (built.base / "p=a/.hoodie_partition_metadata").write_text("")
    (built.base / "p=a/f-0_0-1-2_001.parquet").write_text("xy")
    assert table.list_partitions() == ("p=a",)
    assert [(i.ref.path, i.ref.size_bytes) for i in table.list_partition("p=a")] == [("p=a/f-0_0-1-2_001.parquet", 2)]
    with pytest.raises(CorruptFile, match="refused"):
        table.list_partition("../x")


def test_empty_partitioned_table_has_no_partition(built: Built) -> None:
    built.properties.write_text(built.properties.read_text() + "hoodie.table.partition.fields=p\n")
    assert built.table().list_partitions() == ()


def test_refreshed_follows_an_upgrade_and_keeps_the_cache(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    built.write("001.commit", _commit("one"))
    table = built.table()
    instant = _only(table)
    first = table.commit(instant)
    assert table.refreshed() is table
    built.properties.write_text(built.properties.read_text() + "hoodie.table.ordering.fields=ts\n")
    again = table.refreshed()
    assert again is not table and again.properties.ordering_fields == ("ts",)
    monkeypatch.setattr(again.storage, "read_bytes", _never)
    assert again.commit(instant) is first


def test_refreshed_shares_the_lock_of_its_cache(built: Built) -> None:
    """A value that one of the tables removes between the other one's test and look-up would be a KeyError."""
    table = built.table()
    table.derived_once("key", lambda: "value")
    built.properties.write_text(built.properties.read_text() + "hoodie.table.ordering.fields=ts\n")
    again = table.refreshed()

    class Watched(OrderedDict[Hashable, object]):
        held: ClassVar[list[tuple[bool, bool]]] = []

        def __getitem__(self, key: Hashable) -> object:
            self.held.append((table._lock.locked(), again._lock.locked()))
            return super().__getitem__(key)

    table._derived = again._derived = Watched(table._derived)
    assert table.derived_once("key", str) == again.derived_once("key", str) == "value"
    assert Watched.held == [(True, True)] * 2


def test_archived_completions_are_read_once_a_version(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(tmp_path / "table", 9)
    table = built.table()
    assert table.archived_completions() == {} and not table.has_archived()
    history = built.folder / "history"
    history.mkdir()
    (history / "manifest_1").write_text('{"files":[]}')
    (history / "_version_").write_text("1")
    first = table.archived_completions()
    assert table.archived_completions() is first
    (history / "manifest_2").write_text('{"files":[]}')
    (history / "_version_").write_text("2")
    second = table.archived_completions()
    assert second is not first and table.archived_completions() is second
    (history / "manifest_2").unlink()
    (history / "manifest_2").write_text('{"files": []}')
    assert table.archived_completions() is not second, "a table that was created again has the same version numbers"
    other = built.table()
    third = other.pinned().archived_completions()
    assert other.pinned().archived_completions() is third is other.archived_completions(), "pinned tables share them"
    assert table.newest_archived_completion() is None


def test_timeline_is_built_again_only_if_a_file_changed(built: Built) -> None:
    built.write("001.commit", _commit("one"))
    table = built.table()
    first = table.timeline()
    assert table.timeline() is first
    built.write("002.commit", _commit("two"))
    second = table.timeline()
    assert [item.requested_time for item in second.completed_writes] == ["001", "002"]
    (built.folder / "001.commit").unlink()
    third = table.timeline()
    assert [item.requested_time for item in third.completed_writes] == ["002"]
    (only,) = third.completed_writes
    assert table.commit(only).requested_time == "002"
    before = table.listed_file(only)
    built.write("002.commit", _commit("another"))
    table.timeline()
    assert before is not None and table.listed_file(only) != before
    assert "another" in table.commit(only).schema_json


def test_pinned_table_keeps_its_timeline(built: Built) -> None:
    built.write("001.commit", _commit("one"))
    table = built.table()
    pinned = table.pinned()
    built.write("002.commit", _commit("two"))
    (only,) = pinned.timeline().completed_writes
    assert pinned.timeline() is pinned.pinned().timeline() and "one" in pinned.commit(only).schema_json
    assert len(table.timeline().completed_writes) == len(pinned.unpinned().timeline().completed_writes) == 2
    assert pinned.is_pinned and not pinned.unpinned().is_pinned and pinned.pinned().unpinned() is table
    assert len(table.pinned().timeline().completed_writes) == 2, "each listing is a new one"


def test_commits_of_a_timeline_follow_its_files(built: Built) -> None:
    built.write("001.commit", _commit("one"), modified_ns=1_000_000_000)
    table = built.table()
    commits = table.commits_of(table.timeline())
    assert table.commits_of(table.timeline()) is commits is table.pinned().commits_of(table.timeline())
    built.write("001.commit", _commit("two"), modified_ns=2_000_000_000)  # the same name and size
    assert [commit.schema_json for commit in table.commits_of(table.timeline()).values()] == ["two"]
    built.write("002.commit", _commit("three"))
    assert [commit.schema_json for commit in table.commits_of(table.timeline()).values()] == ["two", "three"]


def test_a_later_timeline_reads_only_new_files(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    built.write("001.commit", _commit("one"))
    table = built.table()
    table.commits_of(table.timeline())
    built.write("002.commit", _commit("two"))
    timeline = table.timeline()
    read, names = HudiTable._commit_of, list[str]()

    def noted(self: HudiTable, item: Instant, version: FileVersion | None) -> CommitMetadata:
        names.append(item.file_name)
        return read(self, item, version)

    monkeypatch.setattr(HudiTable, "_commit_of", noted)
    assert [commit.schema_json for commit in table.commits_of(timeline).values()] == ["one", "two"]
    assert names == ["002.commit"]


def test_the_commit_of_a_time_that_another_action_had_too(built: Built) -> None:
    """It is read again once the file of the other action is gone."""
    built.write("001.commit", _commit("one"))
    built.write("001.replacecommit", json.dumps({**json.loads(_commit("two")), "partitionToReplaceFileIds": {}}))
    table = built.table()
    assert [commit.schema_json for commit in table.commits_of(table.timeline()).values()] == ["two"]
    (built.folder / "001.replacecommit").unlink()
    assert [commit.schema_json for commit in table.commits_of(table.timeline()).values()] == ["one"]


def test_commits_have_the_versions_of_one_listing(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread lists the timeline while commits are read: the content of an older version is not kept under the
    newer one."""
    built.write("001.commit", _commit("one"), modified_ns=1_000_000_000)
    table = built.table()
    older = table.timeline(), table._listed
    table.commits_of(older[0])
    built.write("001.commit", _commit("two"), modified_ns=2_000_000_000)
    timeline = table.timeline()
    of_timeline = CommitCache.of_timeline

    def beside_another_thread(*arguments: Any) -> Mapping[str, CommitMetadata]:
        table._listed = older[1]
        return of_timeline(*arguments)

    monkeypatch.setattr(CommitCache, "of_timeline", beside_another_thread)
    assert [commit.schema_json for commit in table.commits_of(timeline).values()] == ["two"]
    monkeypatch.undo()
    built.write("002.commit", _commit("three"))
    assert [commit.schema_json for commit in table.commits_of(table.timeline()).values()] == ["two", "three"]


def test_timeline_of_names_follows_names_and_its_commits_follow_files(tmp_path: pathlib.Path) -> None:
    built = Built(tmp_path / "table", 9)
    built.write("001_002.commit", _commit("one"), modified_ns=1_000_000_000)
    opened = built.table()
    table = HudiTable(opened.storage, opened.properties, names_only=True)
    timeline = table.timeline()
    built.write("001_002.commit", _commit("two"), modified_ns=2_000_000_000)
    assert table.timeline() is timeline
    assert table.commit(_only(table)).schema_json == "two"
    built.write("001_002.commit", _commit("three"), modified_ns=3_000_000_000)
    assert table.commit(_only(table)).schema_json == "three", "its version is that of now"
    built.write("003_004.commit", _commit())
    assert len(table.timeline().completed_writes) == 2
    (built.folder / "001_002.commit").unlink()
    assert [item.requested_time for item in table.timeline().completed_writes] == ["003"]


def test_timeline_of_names_reads_the_time_that_is_a_completion_time(tmp_path: pathlib.Path) -> None:
    built = Built(tmp_path / "table", 9)
    opened = built.table()
    table = HudiTable(opened.storage, opened.properties, names_only=True)
    for seconds in (1_000_000_000, 1_000_000_001):
        built.write("001.commit", _commit(), modified_ns=seconds * 10**9)
        assert _only(table).completion_time == _only(opened).completion_time


def test_each_plan_reads_the_commits_of_a_metadata_table_as_they_are(tmp_path: pathlib.Path) -> None:
    built = Built(tmp_path / "table", 9)
    opened = built.table()
    table = HudiTable(opened.storage, opened.properties, names_only=True)
    for seconds, partition in enumerate(("files", "other"), 1_000_000_000):  # the same name and size
        stats = {partition: [{"fileId": "f", "path": f"{partition}/f"}]}
        built.write("001_002.deltacommit", json.dumps({"partitionToWriteStats": stats}), modified_ns=seconds * 10**9)
        plan = MetadataTable(table, table.timeline(), frozenset())
        assert list(plan.partitions_of("001")) == list(plan.partitions_of("001")) == [partition]


def test_value_of_a_pinned_table_is_computed_once(built: Built) -> None:
    table, calls = built.table(), list[int]()

    def derive() -> int:
        calls.append(1)
        return len(calls)

    assert [table.once_pinned("a", derive), table.once_pinned("a", derive)] == [1, 2]
    pinned = table.pinned()
    assert [pinned.once_pinned("a", derive), pinned.once_pinned("a", derive), pinned.once_pinned("b", derive)] == [
        3,
        3,
        4,
    ]
    assert table.pinned().once_pinned("a", derive) == 5


def test_fallbacks_of_a_pinned_table_are_counted(built: Built) -> None:
    table = built.table()
    table.pinned().count_metadata_fallback()
    assert table.metadata_fallbacks == 1


def test_open_table_says_what_is_missing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TableNotFound, match="does not exist"):
        open_table(str(tmp_path / "nothing"))
