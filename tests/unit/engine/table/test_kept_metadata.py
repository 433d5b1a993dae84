"""What an open table keeps is never stale: after every kind of change its rows and errors are those of a new process.

Each scenario has a negative control: a table that keeps too much must give other answers.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table import hudi_table
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.timeline.archive_v2 import history_files, history_metadata
from penstock.table.timeline.instants import Action
from tests.scripted_timeline import ScriptedTimeline

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden

Change = Callable[[], None]


def restored(golden: GoldenTables, folder: pathlib.Path) -> tuple[pathlib.Path, Change]:
    """Real Hudi restored the table to a savepoint, rolled a commit back, compacted, clustered and cleaned it."""
    path = shutil.copytree(golden.table("B_v9_timeline_mor_before_restore"), folder / "t")
    return path, lambda: replaced(path, golden.table("B_v9_timeline_mor"))


def rolled_back(golden: GoldenTables, folder: pathlib.Path) -> tuple[pathlib.Path, Change]:
    """The newest commit is removed with its files, as by a rollback of layout 2."""
    path = golden.copy("A_fuzz_event_long_s1_v9_h120", folder)
    timeline = ScriptedTimeline(path, folder / "aside")
    last = timeline.data[-1]

    def change() -> None:
        timeline.remove_after(timeline.data[-2])
        for file in path.rglob(f"*_{last}.*"):
            file.unlink()

    return path, change


def cleaned(golden: GoldenTables, folder: pathlib.Path) -> tuple[pathlib.Path, Change]:
    """A clean removed every base file that a newer one of its group supersedes."""
    path = golden.copy("B_v9_cdc_cow_data_before", folder)

    def change() -> None:
        groups: dict[tuple[str, str], list[pathlib.Path]] = {}
        for file in path.glob("*/*.parquet"):
            groups.setdefault((file.parent.name, file.name.partition("_")[0]), []).append(file)
        deleted: dict[str, list[str]] = {}
        for (partition, _), files in groups.items():
            for file in sorted(files, key=lambda file: file.stem.rpartition("_")[2])[:-1]:
                deleted.setdefault(partition, []).append(file.name)
                file.unlink()
        assert deleted
        newest = max(file.name[:17] for file in (path / ".hoodie" / "timeline").glob("*.commit"))
        metadata = {
            "partitionMetadata": {name: {"successDeleteFiles": files} for name, files in deleted.items()},
            "earliestCommitToRetain": newest,
        }
        requested, completed = int(newest) + 1, int(newest) + 2
        (path / ".hoodie" / "timeline" / f"{requested}_{completed}.clean").write_text(json.dumps(metadata))

    return path, change


def archived(golden: GoldenTables, folder: pathlib.Path) -> tuple[pathlib.Path, Change]:
    """The instants that Hudi archived were still active."""
    path, later = golden.copy("B_v9_arch_mor", folder), golden.table("B_v9_arch_mor")
    table = open_table(str(later))
    timeline = path / ".hoodie" / "timeline"
    shutil.rmtree(timeline / "history")
    (timeline / "history").mkdir()
    for file in history_files(table.storage, table.properties):
        for requested, completion, action, body in history_metadata(
            table.storage, table.properties, file.name, [str(action) for action in Action]
        ):
            (timeline / f"{requested}_{completion}.{action}").write_bytes(body)
    return path, lambda: replaced(path, later)


def created_again(golden: GoldenTables, folder: pathlib.Path) -> tuple[pathlib.Path, Change]:
    """Another table of another type and version was created in the folder."""
    path = shutil.copytree(golden.table("A_merge_event_long_v6_h0150"), folder / "t")
    return path, lambda: replaced(path, golden.table("A_compaction_then_updates_v9_h120"))


def created_again_with_the_same_instants(golden: GoldenTables, folder: pathlib.Path) -> tuple[pathlib.Path, Change]:
    """The table was created again by the same instants, without one of its file groups."""
    path, source = golden.copy("A_log_only_v6_h0150", folder), golden.table("A_log_only_v6_h0150")

    def change() -> None:
        replaced(path, source)
        group = min(path.glob("*/.*.log.*")).name[1:].partition("_")[0]
        for file in path.glob(f"*/*{group}*"):
            file.unlink()
        for commit in (path / ".hoodie").glob("*commit"):
            metadata = json.loads(commit.read_text())
            for partition, stats in metadata["partitionToWriteStats"].items():
                metadata["partitionToWriteStats"][partition] = [s for s in stats if s["fileId"] != group]
            commit.write_text(json.dumps(metadata))

    return path, change


SCENARIOS = (restored, rolled_back, cleaned, archived, created_again, created_again_with_the_same_instants)


def replaced(path: pathlib.Path, source: pathlib.Path) -> None:
    """Puts a copy of another table in place of this one."""
    shutil.rmtree(path)
    shutil.copytree(source, path)


def queries(path: pathlib.Path) -> list[dict[str, Any]]:
    """Queries of the newest and of older states, of rows and of changes."""
    timeline = penstock.open_table(path).timeline()
    writes = [instant for instant in timeline if instant.action in ("commit", "deltacommit") and instant.order_key]
    middle = writes[len(writes) // 2]
    return [
        {},
        {"query": "read_optimized"},
        {"as_of": writes[0].requested_time},
        {"as_of": middle.requested_time},
        {"query": "incremental", "after": "earliest"},
        {"query": "incremental", "after": middle.order_key},
        {"query": "cdc", "after": middle.order_key},
        {"completion_time": "on", "timeline_timezone": "UTC"},
    ]


def answers(read: Callable[..., Any], requests: list[dict[str, Any]]) -> list[object]:
    """The sorted rows of each query, or its error."""

    def answer(options: dict[str, Any]) -> object:
        try:
            return sorted(read(**options).read_all().to_pylist(), key=repr)
        except PenstockError as error:
            return f"{type(error).__name__}: {error}"

    return [answer(options) for options in requests]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_answers_after_a_change_are_those_of_a_new_process(
    golden: GoldenTables, tmp_path: pathlib.Path, scenario: Callable[..., tuple[pathlib.Path, Change]]
) -> None:
    path, change = scenario(golden, tmp_path)
    table, requests = penstock.open_table(path), queries(path)
    before = answers(table.read, requests)
    assert isinstance(before[0], list) and before[0]
    change()
    after = answers(table.read, requests)
    assert after == answers(lambda **options: penstock.read(path, **options), requests)
    assert after != before or scenario is archived
    assert table.schema == penstock.open_table(path).schema
    assert table.timeline() == penstock.open_table(path).timeline()
    assert repr(table) == repr(penstock.open_table(path))


def keep_the_first_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks tables: each keeps its first timeline and properties for ever."""
    list_timeline, kept = HudiTable.timeline, {}

    def first_timeline(table: HudiTable) -> Any:
        return kept.setdefault(id(table), (table, list_timeline(table)))[1]

    monkeypatch.setattr(HudiTable, "timeline", first_timeline)
    monkeypatch.setattr(HudiTable, "refreshed", lambda table: table)


def keep_commits_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks tables: each keeps the commit of a file's name, whatever its version."""
    identity = hudi_table.FileIdentity
    monkeypatch.setattr(hudi_table, "FileIdentity", lambda path, *version: identity(path, 0, 0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_table_that_keeps_too_much_is_noticed(
    golden: GoldenTables,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[..., tuple[pathlib.Path, Change]],
) -> None:
    same_instants = scenario is created_again_with_the_same_instants
    keep_commits_by_name(monkeypatch) if same_instants else keep_the_first_timeline(monkeypatch)
    path, change = scenario(golden, tmp_path)
    table, requests = penstock.open_table(path), [*queries(path)[:3], *queries(path)[-1:]]
    table.read().read_all()
    change()
    fresh = answers(lambda **options: penstock.read(path, **options), requests)
    assert answers(table.read, requests) != fresh or table.timeline() != penstock.open_table(path).timeline()


def test_commits_are_parsed_once(golden: GoldenTables, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden.copy("A_fuzz_event_long_s1_v9_h120", tmp_path)
    timeline = ScriptedTimeline(path, tmp_path / "aside")
    last = timeline.data[-1]
    timeline.remove_after(timeline.data[-2])
    parsed: list[str] = []
    parse = hudi_table.parse_commit_lazily

    def counted(data: bytes, instant: Any, table: str) -> Any:
        parsed.append(instant.requested_time)
        return parse(data, instant, table)

    monkeypatch.setattr(hudi_table, "parse_commit_lazily", counted)
    table = penstock.open_table(path)
    first = list(parsed)
    assert len(first) == len(set(first)) > 1
    for _ in range(3):
        table.read().read_all()
        assert table.schema and table.plan() and table.scan().select("id").to_arrow()
    assert parsed == first
    timeline.give(last)
    rows = table.read().read_all()
    assert parsed == [*first, last]
    penstock.read(path).read_all()
    assert len(parsed) == 2 * (len(first) + 1), "penstock.read keeps nothing"
    assert sorted(rows.to_pylist(), key=repr) == sorted(penstock.read(path).read_all().to_pylist(), key=repr)


def test_reads_of_several_threads_have_the_same_rows(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    path = golden.copy("A_fuzz_event_long_s1_v9_h120", tmp_path)
    timeline = ScriptedTimeline(path, tmp_path / "aside")
    table = penstock.open_table(path)
    states = {len(timeline.data): table.read().read_all().num_rows}
    timeline.take(timeline.data[-1])
    states[len(timeline.data) - 1] = table.read().read_all().num_rows
    timeline.give(timeline.data[-1])
    counts: list[int] = []

    def read() -> None:
        counts.extend(table.read().read_all().num_rows for _ in range(3))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        timeline.take(timeline.data[-1])
        timeline.give(timeline.data[-1])
    for thread in threads:
        thread.join()
    assert len(counts) == 9 and set(counts) <= set(states.values())
