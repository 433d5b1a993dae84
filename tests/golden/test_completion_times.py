"""The column `_completion_time` of golden tables: what the files of their timelines, which real Hudi wrote, say.

The expectation is computed row by row from the names of the timeline's files and from the rows of its history, without
Penstock's code. Of the tables with archived instants the generator also noted down each completion time.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import pathlib
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.enumerator.planning import discovery
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, Query, Snapshot
from tests.golden.catalogue import Entry, counted_changes, counted_entries
from tests.golden.rows import difference
from tests.golden.test_every_golden_table import expected_rows, rows_of

pytestmark = pytest.mark.golden

COLUMN = "_completion_time"
COMPLETED: dict[str, Any] = {"completion_time": True, "timeline_timezone": "UTC"}
"""The fields of a request for the column. The golden tables were written in UTC, also those whose timeline is LOCAL."""
_COMPLETED = re.compile(r"(\d{14}|\d{17})_(\d{17})\.(commit|deltacommit|replacecommit)")
_HISTORY = ("instantTime", "completionTime")


class Golden(Protocol):
    def case(self, name: str) -> dict[str, Any]: ...
    def table(self, name: str) -> pathlib.Path: ...
    def expected(self, name: str, query_id: str) -> pa.Table: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


def by_case(entries: list[Entry]) -> dict[str, list[Entry]]:
    """One entry of each case; of every third two, of different kinds of query."""
    chosen: dict[str, dict[type[Query], Entry]] = defaultdict(dict)
    for entry in entries:
        if not entry.must_fail:
            chosen[entry.case].setdefault(type(entry.query), entry)
    return {
        case: list(of_case.values())[: 1 + (place % 3 == 0)] for place, (case, of_case) in enumerate(chosen.items())
    }


ROWS = by_case(counted_entries())
CHANGES = by_case(counted_changes())


def two_of_three(cases: Iterable[str]) -> list[Any]:
    """The cases; every third one runs in `make long` only."""
    return [
        pytest.param(case, marks=pytest.mark.long) if place % 3 == 2 else case
        for place, case in enumerate(sorted(cases))
    ]


def moment(digits: str) -> dt.datetime:
    seconds = dt.datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=dt.UTC)
    return seconds + dt.timedelta(milliseconds=int(digits[14:]))


def stated(table: pathlib.Path) -> dict[str, dt.datetime]:
    """Requested time -> completion time, as the files of the table's timeline state them; layout 1 states none."""
    times: dict[str, dt.datetime] = {}
    folder = table / ".hoodie" / "timeline"
    for file in folder.glob("history/*.parquet"):
        for row in pq.read_table(file, columns=list(_HISTORY)).to_pylist():
            times[row["instantTime"]] = moment(row["completionTime"])
    for file in folder.glob("*"):
        if match := _COMPLETED.fullmatch(file.name):
            times[match[1]] = moment(match[2])
    return times


def mismatches(rows: pa.Table, commits: str, times: dict[str, dt.datetime]) -> list[dict[str, Any]]:
    """The rows whose completion time is not the stated one of their commit."""
    return [row for row in rows.select([commits, COLUMN]).to_pylist() if row[COLUMN] != times.get(row[commits])]


@pytest.mark.parametrize("case", two_of_three(ROWS))
@pytest.mark.sampled(8)
def test_rows_carry_the_completion_time_of_their_commit(golden: Golden, case: str) -> None:
    """Hudi's rows, and for each the completion time that the timeline states for its `_hoodie_commit_time`."""
    times = stated(golden.table(case))
    for entry in ROWS[case]:
        rows = rows_of(golden.table(case), entry.query, columns_by_name=entry.columns_by_name, **COMPLETED)
        assert rows.schema.names[-1] == COLUMN
        assert rows.schema.field(COLUMN).type == pa.timestamp("us", tz="UTC")
        assert difference(rows.drop_columns([COLUMN]), expected_rows(golden, entry)) == "", entry
        if "_hoodie_commit_time" in rows.schema.names:
            assert mismatches(rows, "_hoodie_commit_time", times) == [], entry
        else:
            assert rows[COLUMN].null_count == rows.num_rows, entry


@pytest.mark.parametrize("case", two_of_three(CHANGES))
@pytest.mark.sampled(6)
def test_changes_carry_the_completion_time_of_their_commit(golden: Golden, case: str) -> None:
    times = stated(golden.table(case))
    for entry in CHANGES[case]:
        assert isinstance(entry.query, Changes)
        for form, commits in ((ChangeFormat.HUDI, "ts_ms"), (ChangeFormat.ROWS, "_change_instant")):
            query = replace(entry.query, format=form)
            rows = rows_of(golden.table(case), query, **COMPLETED)
            assert difference(rows.drop_columns([COLUMN]), rows_of(golden.table(case), query)) == "", entry
            assert mismatches(rows, commits, times) == [], entry


@pytest.mark.parametrize("case", ["B_v8_arch_mor", "B_v9_arch_cow", "B_v9_arch_mor"])
def test_archived_commits_have_the_times_that_the_writer_noted(golden: Golden, case: str) -> None:
    """The history holds the completion times of commits that left the active timeline."""
    note = next(note for note in golden.case(case)["notes"] if note.startswith("all data instants"))
    noted = {requested: moment(done) for requested, done, _ in json.loads(note.partition(": ")[2])}
    active = {
        match[1] for file in golden.table(case).glob(".hoodie/timeline/*") if (match := _COMPLETED.match(file.name))
    }
    rows = rows_of(golden.table(case), Snapshot(), **COMPLETED)
    commits = set(rows["_hoodie_commit_time"].to_pylist())
    assert commits - active, "no row of an archived commit"
    assert mismatches(rows, "_hoodie_commit_time", noted) == []


@pytest.mark.parametrize("case", ["A_clustering_done_v9_h120", "A_compaction_then_updates_v9_h120", "B_v9_inc_mor"])
def test_range_holds_the_rows_that_completed_in_it(golden: Golden, case: str) -> None:
    """On layout 2 the order key is the completion time: the column is on the right side of a range's end."""
    ordered = sorted(stated(golden.table(case)).values())
    middle = ordered[len(ordered) // 2]
    digits = middle.strftime("%Y%m%d%H%M%S") + f"{middle.microsecond // 1000:03d}"
    place = Position(InstantTime(digits))
    after = rows_of(golden.table(case), Incremental(place), **COMPLETED)[COLUMN].to_pylist()
    before = rows_of(golden.table(case), Incremental(EARLIEST, place), **COMPLETED)[COLUMN].to_pylist()
    assert after and before
    assert min(after) > middle >= max(before)


@pytest.mark.parametrize("case", ["A_fuzz_event_long_s1_v9_h120", "B_v9_arch_mor", "A_archive_v6_h0150"])
def test_filter_on_the_column_keeps_the_rows_that_match(golden: Golden, case: str) -> None:
    whole = rows_of(golden.table(case), Snapshot(), **COMPLETED)
    known = sorted({value for value in whole[COLUMN].to_pylist() if value is not None})
    limit = known[len(known) // 2] if known else dt.datetime.max.replace(tzinfo=dt.UTC)
    for where, column in (
        (f"{COLUMN} is null", ("_hoodie_record_key",)),
        (f"{COLUMN} >= '{limit.isoformat()}'", (COLUMN,)),
    ):
        kept = rows_of(golden.table(case), Snapshot(), where=where, columns=column, **COMPLETED)
        matches = [
            row
            for row in whole.to_pylist()
            if (row[COLUMN] is None if "null" in where else known and row[COLUMN] >= limit)
        ]
        assert sorted(map(str, kept.column(0).to_pylist())) == sorted(str(row[column[0]]) for row in matches), where
    assert bool(known) != case.endswith("v6_h0150")


def test_zone_of_a_local_timeline_is_needed(golden: Golden) -> None:
    """Its wall clock is converted by the option; without it there is no wrong time."""
    case = "A_archive_v9_h120"
    with pytest.raises(
        ConfigurationError, match=r"A_archive_v9_h120 is written in its writer's local time.*timelineTimezone"
    ):
        rows_of(golden.table(case), Snapshot(), completion_time=True)
    utc = rows_of(golden.table(case), Snapshot(), **COMPLETED)[COLUMN]
    berlin = rows_of(golden.table(case), Snapshot(), completion_time=True, timeline_timezone="Europe/Berlin")[COLUMN]
    hour = dt.timedelta(hours=1)  # the table was written in November
    assert berlin.to_pylist() == [value - hour for value in utc.to_pylist()]


def test_commit_without_a_completion_time_in_its_name_has_that_of_its_file(
    golden: Golden, tmp_path: pathlib.Path
) -> None:
    """As in Hudi (`ActiveTimelineV2`): an upgrade leaves such files."""
    case = "A_positions_v9_h120"
    table = golden.copy(case, tmp_path)
    named = rows_of(table, Snapshot(), **COMPLETED).sort_by("_hoodie_record_key")  # their order is by completion time
    commit = named["_hoodie_commit_time"][0].as_py()
    (file,) = table.glob(f".hoodie/timeline/{commit}_*")
    changed = file.with_name(f"{commit}{file.suffix}")
    file.rename(changed)
    os.utime(changed, ns=(0, 1_800_000_000_123_456_789))
    renamed = rows_of(table, Snapshot(), **COMPLETED).sort_by("_hoodie_record_key")
    for before, after in zip(named.to_pylist(), renamed.to_pylist(), strict=True):
        of_file = before["_hoodie_commit_time"] == commit
        assert after[COLUMN] == (dt.datetime.fromtimestamp(1_800_000_000.123, dt.UTC) if of_file else before[COLUMN])


def test_more_completion_times_than_a_scan_holds_are_refused(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_COMPLETIONS", 2)
    with pytest.raises(
        ConfigurationError, match=r"completionTime: the timeline of table .* instants, expected at most 2"
    ):
        rows_of(golden.table("A_archive_v9_h120"), Snapshot(), **COMPLETED)


def test_wrong_completion_time_is_seen(golden: Golden) -> None:
    """The comparison itself: a time that is a millisecond off, and one that is missing."""
    case = "A_archive_v9_h120"
    times = stated(golden.table(case))
    rows = rows_of(golden.table(case), Snapshot(), **COMPLETED)
    commit = rows["_hoodie_commit_time"][0].as_py()
    assert mismatches(rows, "_hoodie_commit_time", times) == []
    assert mismatches(rows, "_hoodie_commit_time", {**times, commit: times[commit] + dt.timedelta(milliseconds=1)})
    assert mismatches(rows, "_hoodie_commit_time", {key: value for key, value in times.items() if key != commit})
