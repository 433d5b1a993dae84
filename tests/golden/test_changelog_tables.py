"""Changelogs that Hudi wrote (`hoodie.allow.operation.metadata.field`): kinds in log blocks that no commit's schema
names (tests/golden/generators/gen_D.py)."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from typing import Any, Protocol

import pyarrow as pa
import pytest

from penstock.engine.arrow import read
from penstock.enumerator.planning.plan import describe, plan_request
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, Latest, PlanRequest, ReadOptimized, Snapshot
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.storage.filesystem import FileInfo, Storage
from tests.golden.changes import balance, folded, rows_of, state_of

pytestmark = pytest.mark.golden

KIND = "_hoodie_operation"
STORED = [
    [("+I", "a", 1), ("+I", "b", 2), ("+I", "c", 3)],
    [("-U", "a", 1), ("+U", "a", 10), ("-D", "b", 2), ("+I", "d", 4)],
    [("-U", "d", 4), ("+U", "d", 40), ("-U", "c", 3)],
    [("+I", "b", 20), ("-D", "a", 10)],
]
"""The records that each commit of the generator's HISTORY stored, in its order."""
COMPARED = [
    [("+I", "a", 1), ("+I", "b", 2), ("+I", "c", 3)],
    [("-D", "b", 2), ("-U", "a", 1), ("+U", "a", 10), ("+I", "d", 4)],
    [("-D", "c", 3), ("-U", "d", 4), ("+U", "d", 40)],
    [("-D", "a", 10), ("+I", "b", 20)],
]
"""The changes of each commit to the rows."""
WITHOUT_COLUMN = ("D_changelog_ended_v9", "D_changelog_row_writer_v9")
"""The newest writer dropped the column, so that the record which deletes `b` is a row. Hudi's compaction knew the
column and removed that row without a change."""


class Golden(Protocol):
    def case(self, name: str) -> dict[str, Any]: ...
    def table(self, name: str) -> pathlib.Path: ...
    def names(self) -> list[str]: ...


def changelogs(golden: Golden) -> list[str]:
    return [name for name in golden.names() if name.startswith("D_changelog_")]


def commits(golden: Golden, case: str) -> list[str]:
    """Requested times of the data instants; compactions are commits of merge-on-read tables."""
    of_type = golden.case(case)
    action = "commit" if of_type["table_type"] == "COPY_ON_WRITE" else "deltacommit"
    return [requested for requested, _, name in of_type["instants"] if name == action]


def changes_of(table: pathlib.Path, **more: Any) -> list[tuple[Any, ...]]:
    rows = rows_of(table, Changes(ChangeFormat.ROWS, EARLIEST, Latest()), **more).sort_by("_change_seq")
    columns = ("_change_instant", "_change_type", "id", "v")
    return list(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def in_order(changes: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    """The changes of each key, in order; there is no order between file groups."""
    return {key: [change for change in changes if change[2] == key] for _, _, key, _ in changes}


def labelled(golden: Golden, case: str, by_commit: list[list[tuple[str, str, int]]]) -> list[tuple[Any, ...]]:
    return [(at, *change) for at, group in zip(commits(golden, case), by_commit, strict=True) for change in group]


@pytest.mark.parametrize("case", [f"D_changelog_{name}" for name in ("mor_v6", "mor_v8", "mor_v9", "parquet_v9")])
def test_changes_as_rows_are_the_records_as_stored(golden: Golden, case: str) -> None:
    change_rows = changes_of(golden.table(case))
    assert in_order(change_rows) == in_order(labelled(golden, case, STORED))


@pytest.mark.parametrize("case", ["D_changelog_cow_v6", "D_changelog_cow_v9", "D_changelog_cdc_cow_v9"])
def test_changes_of_base_files_are_what_differs(golden: Golden, case: str) -> None:
    """Hudi leaves the kinds of base rows null: the column exists without values."""
    rows = rows_of(golden.table(case), Snapshot())
    assert KIND in rows.column_names and rows[KIND].null_count == rows.num_rows
    change_rows = changes_of(golden.table(case))
    assert in_order(change_rows) == in_order(labelled(golden, case, COMPARED))


def test_commits_before_the_option_was_set_are_compared(golden: Golden) -> None:
    case = "D_changelog_resumed_v9"
    change_rows = changes_of(golden.table(case))
    assert in_order(change_rows) == in_order(labelled(golden, case, STORED))


def test_changes_after_bulk_insert_are_the_records_as_stored(golden: Golden) -> None:
    """The generator's writer inserts `b`, which is there: it stores what it is told."""
    case = "D_changelog_bulk_v9"
    first = [("+I", "a", 1), ("+I", "b", 2), ("+I", "c", 3), ("+I", "d", 4)]
    stored = labelled(golden, case, [first, STORED[2], STORED[3], [("+I", "e", 1)]])
    assert in_order(changes_of(golden.table(case))) == in_order(stored)
    rows = rows_of(golden.table(case), Snapshot())
    assert sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == [("b", 20), ("d", 40), ("e", 1)]


def test_changes_lead_to_the_state(golden: Golden) -> None:
    """Of each changelog, also of those in which the newest writer dropped the column and minus records are rows."""
    for name in changelogs(golden):
        if any(word in name for word in ("nometa", "cleaned", "archived", "bulk")):
            continue
        table = golden.table(name)
        changes = rows_of(table, Changes(ChangeFormat.ROWS, EARLIEST, Latest()))
        rows = rows_of(table, Snapshot())
        if name in WITHOUT_COLUMN:
            left = Counter(balance(changes))
            left.subtract(state_of(rows))
            assert [(json.loads(text)["id"], count) for text, count in left.items() if count] == [("b", 1)], name
            continue
        assert Counter(folded(changes, {}).values()) == state_of(rows), name
        if "_cow_" in name:
            assert balance(changes) == dict(state_of(rows)), name


def test_columns_and_filters(golden: Golden) -> None:
    """The column marks deletes even if it is not selected, and can be used in a filter."""
    table = golden.table("D_changelog_mor_v9")
    assert sorted(rows_of(table, Snapshot(), columns=("id",))["id"].to_pylist()) == ["b", "d"]
    assert rows_of(table, Snapshot(), columns=("id",), where=f"{KIND} = 'U'")["id"].to_pylist() == ["d"]
    assert rows_of(table, ReadOptimized(), columns=(KIND, "id"), where="v = 10").to_pylist() == [{KIND: "U", "id": "a"}]
    upto = Position(InstantTime(golden.case("D_changelog_mor_v9")["instants"][1][1]))
    rows = rows_of(table, Incremental(EARLIEST, upto), where=f"{KIND} IS NOT NULL", columns=("id",))
    assert sorted(rows["id"].to_pylist()) == ["a", "c", "d"]
    assert read(str(table), columns=["id"], where=f"{KIND} = 'I'").read_all()["id"].to_pylist() == ["b"]


def test_range_before_the_column_was_dropped_has_it_if_selected(golden: Golden) -> None:
    """With the schema of the range's end its minus records are deletes; without the column it has the newest schema."""
    case = "D_changelog_ended_v9"
    table, upto = golden.table(case), Position(InstantTime(golden.case(case)["instants"][4][1]))
    by_kind = rows_of(table, Incremental(EARLIEST, upto), columns=(KIND, "id"))
    assert sorted(by_kind.to_pylist(), key=str) == [{KIND: "I", "id": "b"}, {KIND: "U", "id": "d"}]
    assert sorted(rows_of(table, Incremental(EARLIEST, upto), columns=("id",))["id"].to_pylist()) == list("abcd")


class CountingStorage:
    """A table's storage that records the opened data files."""

    def __init__(self, inner: Storage) -> None:
        self._inner, self.base_path = inner, inner.base_path
        self.opened: list[str] = []

    def list_dir(self, path: str) -> list[FileInfo]:
        return self._inner.list_dir(path)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        if not path.startswith(".hoodie"):
            self.opened.append(path)
        return self._inner.read_bytes(path, limit_bytes)

    def open_input(self, path: str) -> pa.NativeFile:
        if not path.startswith(".hoodie"):
            self.opened.append(path)
        return self._inner.open_input(path)

    def file_info(self, path: str) -> FileInfo | None:
        return self._inner.file_info(path)


@pytest.mark.parametrize("case", ["A_merge_event_long_v9_h120", "A_cow_mixed_v9_h120", "D_changelog_mor_v9"])
def test_planning_opens_one_data_file_a_table_state(golden: Golden, case: str) -> None:
    opened = open_table(str(golden.table(case)))
    storage = CountingStorage(opened.storage)
    table = HudiTable(storage, opened.properties)
    for query in (Snapshot(), ReadOptimized(), Incremental(EARLIEST), Snapshot()):
        plan_request(table, case, PlanRequest(table=case, query=query))
    describe(table, case)
    assert len(storage.opened) == 1


def test_schema_without_meta_columns_opens_none(golden: Golden) -> None:
    case = "D_changelog_nometa_v9"
    opened = open_table(str(golden.table(case)))
    storage = CountingStorage(opened.storage)
    plan = plan_request(HudiTable(storage, opened.properties), case, PlanRequest(table=case, query=Snapshot()))
    assert storage.opened == []
    assert KIND not in [field["name"] for field in json.loads(plan.scan.schema_json)["fields"]]
