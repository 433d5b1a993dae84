"""Slices of tables that real Hudi wrote: the rows Hudi returned, and the oracle's rows in the oracle's order."""

from __future__ import annotations

import collections
import datetime
import pathlib
from typing import Any

import pyarrow as pa
import pytest

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import PlanRequest, Query, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering, Plan, Scan, Split
from penstock.reader.read_split import ReadOptions, SplitTally, read_split
from penstock.reader.split.read_schema import read_schema_of
from penstock.table.hudi_table import open_table
from tests.oracle.file_slice import FileSlice
from tests.unit.reader.slices import comparable, ordinals_of, table_of

pytestmark = pytest.mark.golden

CASES = [
    "A_merge_event_long_v6_h0150",
    "A_merge_event_long_v9_h120",
    "A_merge_commit_long_v6_h0150",
    "A_merge_commit_long_v9_h120",
    "A_merge_event_string_v9_h120",
    "A_merge_event_timestamp_v6_h0150",
    "A_merge_event_timestamp_v9_h120",
    "A_merge_event_decimal_v6_h0150",
    "A_merge_event_decimal_v9_h120",
    "A_merge_event_int_v9_h120",
    "A_fuzz_event_long_s1_v8_h102",
    "A_fuzz_event_long_s1_v9_h120",
    "A_fuzz_event_string_s3_v9_h120",
    "A_fuzz_commit_long_s1_v9_h120",
    "A_delete_all_reinsert_v9_h120",
    "A_positions_v9_h120",
    "A_positions_commit_v9_h120",
    "A_rollback_log_v6_h0150",
    "A_rollback_log_v9_h120",
    "A_compaction_pending_v9_h120",
    "A_failed_leftover_v6_h0150",
    "A_log_only_v9_h120",
    "A_nbcc_commit_v9_h120",
    "A_types_v6_h0150",
    "A_types_v9_h120",
    "A_types_int96_v6_h0150",
    "A_types_bulk_millis_v6_h0150",
    "A_part_special_v9_h120",
    "A_evo_add_column_v9_h120",
    "A_block_parquet_v6_h0150",
    "A_block_parquet_v9_h120",
    "A_block_parquet_zstd_v9_h120",
    "A_types_parquet_log_v9_h120",
    "A_log_compaction_v6_h0150",
    "A_log_compaction_v8_h102",
    "A_log_compaction_v9_h120",
    "A_corrupt_middle_v9_h120",
    "A_corrupt_tail_v6_h0150",
    "A_corrupt_tail_v9_h120",
    "D_changelog_mor_v6",
    "D_changelog_parquet_v9",
    "D_changelog_ended_v9",
]
KINDS = {
    "int32": "int",
    "int64": "long",
    "string": "string",
    "date32[day]": "date",
    "double": "double",
    "float": "float",
}


def plan(folder: pathlib.Path, query: Query) -> Plan:
    return plan_request(open_table(str(folder)), folder.name, PlanRequest(table=str(folder), query=query))


def counted(rows: pa.Table) -> collections.Counter[str]:
    """Rows as a multiset by column name; sets of map entries in order."""

    def value(held: Any) -> Any:
        match held:
            case datetime.datetime():
                return held.astimezone(datetime.UTC) if held.tzinfo else held.replace(tzinfo=datetime.UTC)
            case list() if held and isinstance(held[0], tuple):
                return sorted((key, value(inner)) for key, inner in held)
            case list():
                return [value(inner) for inner in held]
            case dict():
                return {name: value(inner) for name, inner in held.items()}
        return held

    return collections.Counter(
        repr(sorted((name, value(held)) for name, held in row.items())) for row in rows.to_pylist()
    )


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_snapshots_are_the_rows_hudi_returned(golden: Any, case: str) -> None:
    """Each snapshot and time travel, compiled in one batch and without the kernels in small ones."""
    for query in golden.case(case)["queries"]:
        if query["query"] not in ("snapshot", "time_travel") or "@" in query["id"] or not query.get("expected"):
            continue
        request = Snapshot() if query["query"] == "snapshot" else SnapshotAsOf(InstantTime(query["as_of"]))
        planned = plan(golden.table(case), request)
        expected = counted(golden.expected(case, query["id"]))
        for options in (ReadOptions(), ReadOptions(batch_rows=2, compiled=False)):
            result = [batch for split in planned.splits for batch in read_split(planned.scan, split, options=options)]
            assert counted(table_of(result, planned.scan)) == expected, f"{query['id']} {options}"


def oracle_slice(scan: Scan, split: Split) -> FileSlice:
    folder = pathlib.Path(scan.base_path)
    ordering = None
    match scan.merge:
        case EventTimeOrdering((name,)):
            kind = read_schema_of(scan).table.field(name).type
            kind_name = "timestamp" if pa.types.is_timestamp(kind) else "decimal" if pa.types.is_decimal(kind) else ""
            ordering = (name, kind_name or KINDS[str(kind)])
        case CommitTimeOrdering() | EventTimeOrdering(()):
            pass
    return FileSlice(
        base=folder / split.base.path if split.base else None,
        logs=[folder / log.path for log in split.logs],
        base_instant=split.base_instant,
        visible=scan.visible.holds,
        stores_operation="_hoodie_operation" in read_schema_of(scan).table.names,
        ordering=ordering,
    )


FLAT_CASES = [case for case in CASES if not any(part in case for part in ("types", "part_special", "evo"))]
"""The oracle resolves no schemas, and takes partition columns from the file."""


@pytest.mark.parametrize("case", FLAT_CASES)
def test_each_slice_is_the_oracles_in_its_order(golden: Any, case: str) -> None:
    planned = plan(golden.table(case), Snapshot())
    for split in planned.splits:
        expected = comparable(
            {name: row.get(name) for name in planned.scan.columns} for row in oracle_slice(planned.scan, split).rows()
        )
        tally = SplitTally()
        result = list(read_split(planned.scan, split, options=ReadOptions(batch_rows=3), tally=tally))
        assert comparable(row for batch in result for row in batch.batch.to_pylist()) == expected
        assert ordinals_of(result) == list(range(len(expected)))
        assert tally.report().rows == len(expected)
