"""Tables stay open, are read in their current state, and are bounded in number."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest

from penstock.enumerator.tables import open_tables
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import TableNotFound
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.table import hudi_table

CASE = "A_merge_event_long_v9_h120"
OTHER = "A_merge_event_long_v6_h0150"


@pytest.fixture
def opened_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The opened paths."""
    paths: list[str] = []
    open_table = open_tables.open_table

    def counted(path: str, *commits: Any) -> Any:
        paths.append(path)
        return open_table(path, *commits)

    monkeypatch.setattr(open_tables, "open_table", counted)
    return paths


def test_table_is_opened_once_for_all_calls(golden: Any, opened_paths: list[str]) -> None:
    path = str(golden.table(CASE))
    tables = OpenTables()
    tables.check(path)
    newest = tables.newest(path, None, 0)
    assert tables.describe(path, "trips").newest == newest
    assert tables.describe(path, "trips").table == "trips"
    plan = tables.plan(path, "trips", PlanRequest(table="trips", query=Snapshot()))
    assert (plan.scan.table, plan.commit_range.after, plan.commit_range.upto) == ("trips", EARLIEST, newest)
    assert opened_paths == [path]


def test_another_table_at_the_same_path_is_detected(golden: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(golden.table(OTHER), path)
    tables = OpenTables()
    assert tables.describe(str(path), "t").table_version == 6
    shutil.rmtree(path)
    shutil.copytree(golden.table(CASE), path)
    described = tables.describe(str(path), "t")
    assert (described.table_version, described.timeline_layout) == (9, 2)


def test_removed_table_is_not_found_until_it_exists_again(golden: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(golden.table(CASE), path)
    tables = OpenTables()
    newest = tables.newest(str(path), None, 0)
    (path / ".hoodie").rename(tmp_path / "away")
    with pytest.raises(TableNotFound):
        tables.newest(str(path), None, 0)
    (tmp_path / "away").rename(path / ".hoodie")
    assert tables.newest(str(path), None, 0) == newest
    assert isinstance(newest, Position)


def test_path_without_a_table_is_refused_by_check(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TableNotFound):
        OpenTables().check(str(tmp_path))


def test_open_tables_are_bounded_and_the_least_recently_used_is_evicted(golden: Any, opened_paths: list[str]) -> None:
    one, other = str(golden.table(CASE)), str(golden.table(OTHER))
    tables = OpenTables(max_tables=1)
    for path in (one, one, other, other, one):
        tables.check(path)
    assert opened_paths == [one, other, one]


def test_open_tables_keep_a_bounded_number_of_timeline_files(
    golden: Any, opened_paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = str(golden.table(CASE)), str(golden.table(OTHER))
    tables = OpenTables()
    for _ in range(2):
        for path in (one, other):
            tables.newest(path, None, 0)
    assert opened_paths == [one, other]
    monkeypatch.setattr(open_tables, "MAX_LISTED_FILES", 1)
    for path in (one, other, one):
        tables.newest(path, None, 0)
    assert opened_paths == [one, other, other, one]


def test_files_of_a_forgotten_table_do_not_count(golden: Any, tmp_path: pathlib.Path, opened_paths: list[str]) -> None:
    """Tables that come and go must not use up the number of files that open tables may have."""
    one, other, third = str(golden.table(CASE)), str(golden.table(OTHER)), str(golden.copy(CASE, tmp_path / "copy"))
    tables = OpenTables()
    for _ in range(2):  # files are counted when the table is used again
        tables.newest(one, None, 0)
    tables.forget(one)
    for path in (other, third):
        tables.newest(path, None, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            open_tables, "MAX_LISTED_FILES", sum(tables.current(path).listed_files for path in (other, third))
        )
        for path in (other, third, other):
            tables.newest(path, None, 0)
    assert opened_paths == [one, other, third]


def test_commits_are_parsed_once_also_after_a_table_was_closed(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = str(golden.table(CASE)), str(golden.table(OTHER))
    parsed: list[str] = []
    parse_commit = hudi_table.parse_commit_lazily

    def counted(data: bytes, instant: Any, table: str) -> Any:
        parsed.append(instant.file_name)
        return parse_commit(data, instant, table)

    monkeypatch.setattr(hudi_table, "parse_commit_lazily", counted)
    tables = OpenTables(max_tables=1)
    for path in (one, other, one, other):
        tables.describe(path, "t")
    assert parsed and len(parsed) == len(set(parsed))
