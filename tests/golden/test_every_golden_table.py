"""Every counted golden entry, through planner and reader: Hudi's rows, or the expected error."""

from __future__ import annotations

import itertools
import operator
import pathlib
import shutil
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import CorruptBlock, CorruptFile, PositionExpired
from penstock.proto.model.queries import Incremental, PlanRequest, Query, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import Plan
from penstock.reader.read_split import ReadOptions, output_schema, read_split
from penstock.table.hudi_table import open_table
from tests.golden.catalogue import Entry, counted_entries
from tests.golden.rows import difference

pytestmark = pytest.mark.golden

LATE_ROWS = {
    "B_up_mor_v6/inc_03": {"k1"},
    "B_up_mor_v8/inc_05": {"k6"},
    "B_up_mor_v9/inc_02": {"k6"},
    "B_up_mor_v9/inc_05": {"k6"},
    "B_v9_nbcc_mor/inc_06": {"k1"},
    "B_v9_nbcc_mor/inc_mid": {"k1"},
}
"""Ranges in which Hudi also returns rows (by record key) that lose the merge against an older row with a higher
ordering value, because its reader has only the range's files. The catalogue marks most such ranges by `full`, but not
these."""

ENTRIES = counted_entries()
OTHER_FORMATS = "EFHIJ"
"""Catalogues of bootstrapped tables, ORC, Lance, HFile blocks and variants. Their random histories have many states."""


class Golden(Protocol):
    def case(self, name: str) -> dict[str, Any]: ...
    def table(self, name: str) -> pathlib.Path: ...
    def expected(self, name: str, query_id: str) -> pa.Table: ...


def plan_of(path: pathlib.Path, query: Query, **more: Any) -> Plan:
    return plan_request(open_table(str(path)), path.name, PlanRequest(table=path.name, query=query, **more))


def rows_of_plan(plan: Plan, options: ReadOptions | None = None) -> pa.Table:
    """Penstock's rows, read split by split."""
    batches = [part.batch for split in plan.splits for part in read_split(plan.scan, split, options=options)]
    return pa.Table.from_batches(batches, output_schema(plan.scan))


def rows_of(path: pathlib.Path, query: Query, **more: Any) -> pa.Table:
    """Penstock's rows for a query."""
    return rows_of_plan(plan_of(path, query, **more))


def expected_rows(golden: Golden, entry: Entry) -> pa.Table:
    """Hudi's rows without those that lose the merge."""
    rows = golden.expected(entry.case, entry.query_id)
    late = LATE_ROWS.get(str(entry))
    if late is None:
        return rows
    is_late = pc.is_in(rows["_hoodie_record_key"], value_set=pa.array(sorted(late)))
    assert pc.sum(is_late).as_py() == len(late), "the rows this exception is about are not in the expectation"
    return rows.filter(pc.invert(is_late))


def cases() -> Iterator[Any]:
    """All entries. Of the older states and the ranges of OTHER_FORMATS, `make long` has nine of ten."""
    for entry in ENTRIES:
        is_of_other_format = entry.case[0] in OTHER_FORMATS and isinstance(entry.query, SnapshotAsOf | Incremental)
        is_long = is_of_other_format and zlib.crc32(str(entry).encode()) % 10 != 0
        yield pytest.param(entry, id=str(entry), marks=[pytest.mark.long] if is_long else [])


@pytest.mark.parametrize("entry", list(cases()))
def test_entry(golden: Golden, entry: Entry) -> None:
    if entry.must_fail:
        with pytest.raises(PositionExpired):
            rows_of(golden.table(entry.case), entry.query)
        return
    plan = plan_of(golden.table(entry.case), entry.query, columns_by_name=entry.columns_by_name)
    expected = expected_rows(golden, entry)
    with_logs = any(split.logs or split.ancestry for split in plan.splits)
    # without kernels, base files alone are checked and read for a quarter of the entries
    for compiled in (True, False) if with_logs or zlib.crc32(str(entry).encode()) % 4 == 0 else (True,):
        assert difference(rows_of_plan(plan, ReadOptions(compiled=compiled)), expected) == "", compiled


def test_catalogue_has_every_entry() -> None:
    """The catalogue has as many entries as when it was copied."""
    assert len(ENTRIES) == 2294
    assert sum(entry.must_fail for entry in ENTRIES) == 6


def test_states_of_random_histories_differ_from_the_states_before(golden: Golden) -> None:
    """So a read of another state is noticed. A service changes no row."""
    for case in (entry.case for entry in ENTRIES if entry.query_id == "snapshot" and "_history_" in entry.case):
        travels = [q for q in golden.case(case)["queries"] if q["query"] == "time_travel" and q["expected"]]
        states = [golden.expected(case, q["id"]) for q in sorted(travels, key=operator.itemgetter("as_of"))]
        differ = sum(difference(*pair) != "" for pair in itertools.pairwise(states))
        assert differ >= 5, case


def test_lost_rows_are_an_error_and_skipped_only_on_request(golden: Golden) -> None:
    """Two logs that commits name are missing, a third is damaged: Hudi silently loses ten updates (marked WRONG)."""
    case = "A_corrupt_middle_v6_h0150"
    with pytest.raises(CorruptFile, match=r"log\.1_0-1743-1430 .*instant 20261120215015719 names it"):
        rows_of(golden.table(case), Snapshot())
    abandoned = rows_of(golden.table(case), Snapshot(), skip_corrupt=True)
    assert difference(abandoned, golden.expected(case, "snapshot")) == ""


def test_truncated_block_of_a_completed_instant_is_an_error(golden: Golden, tmp_path: pathlib.Path) -> None:
    """The last log of a golden table without its last bytes, before planning."""
    for case in ("A_merge_event_long_v6_h0150", "A_merge_event_long_v9_h120"):
        folder = tmp_path / case
        shutil.copytree(golden.table(case), folder)
        log = max(folder.rglob(".*.log.*[0-9]"), key=lambda file: (file.stat().st_mtime_ns, file.name))
        log.write_bytes(log.read_bytes()[:-9])
        with pytest.raises(CorruptBlock, match=r"of completed instant \d+ .* are there, expected"):
            rows_of(folder, Snapshot())
        assert rows_of(folder, Snapshot(), skip_corrupt=True).num_rows > 0


def test_runs_of_row_groups_return_the_rows_of_the_file(golden: Golden, tmp_path: pathlib.Path) -> None:
    """A golden table whose base files are rewritten with one row per row group."""
    folder = tmp_path / "table"
    shutil.copytree(golden.table("B_v9_inc_cow"), folder)
    for file in folder.glob("*/*.parquet"):
        pq.write_table(pq.read_table(file), file, row_group_size=1)
    request = PlanRequest(table="t", query=Snapshot(), target_split_bytes=1)
    rows = golden.expected("B_v9_inc_cow", "snapshot")
    assert len(plan_request(open_table(str(folder)), "t", request).splits) == rows.num_rows
    assert difference(rows_of(folder, Snapshot(), target_split_bytes=1), rows) == ""


def test_comparison_detects_a_row_that_differs(golden: Golden) -> None:
    """Tests the comparison: one changed, one dropped and one duplicate row."""
    rows = golden.expected("B_v9_inc_cow", "snapshot")
    assert difference(rows, rows) == ""
    assert "1 missing" in difference(rows.slice(1), rows)
    assert "1 extra" in difference(pa.concat_tables([rows, rows.slice(0, 1)]), rows)
    changed = rows.set_column(0, rows.column_names[0], pc.replace_substring(rows.column(0), "2", "3"))
    assert f"{rows.num_rows} missing" in difference(changed, rows)
    assert "columns" in difference(rows.drop_columns([rows.column_names[0]]), rows)
