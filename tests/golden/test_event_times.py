"""Event-time bounds of golden tables' splits against their rows: the bounds include every row, in every query."""

from __future__ import annotations

import datetime as dt
import pathlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.engine.event_time_scan import scan_event_time
from penstock.enumerator.planning.annotate import TimeSources
from penstock.enumerator.planning.event_time.file_bounds import FooterCache
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import FormatError, PositionExpired, TableError
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query, Snapshot
from penstock.proto.model.splits import EventTimeBounds, NoEventTimes, Scan, Split, UnknownBounds
from penstock.reader.read_split import read_split
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.timeline.active import Timeline

pytestmark = pytest.mark.golden

REPORTED = (
    "A_block_parquet_v6_h0150",
    "A_block_parquet_v9_h120",
    "A_types_parquet_log_v9_h120",
    "A_merge_into_partial_parquet_v9_h120",
    "A_evo_add_column_v9_h120",
    "A_drop_part_cols_v9_h120",
    "A_replace_ops_v9_h120",
    "A_mdt_all_v9_h120",
    "B_v6_colstats_mor",
    "B_v8_colstats_mor",
    "B_v9_colstats_cow",
    "B_v9_colstats_mor",
    "B_v6_cdc_cow_op_key_only",
    "B_v9_cdc_cow_data_before",
    "B_v9_cdc_cow_op_key_only",
    "B_v9_cdc_mor_op_key_only",
    "B_v9_cdc_mor_data_before_after",
    "B_v9_cdc_types_mor",
)
"""Tables whose files have at least some bounds of their splits."""

READ = (
    "A_types_v6_h0150",
    "A_types_v9_h120",
    "A_types_bulk_millis_v9_h120",
    "A_types_int96_v6_h0150",
    "A_rollback_log_v6_h0150",
    "A_merge_event_timestamp_v9_h120",
    "A_evo_widen_v9_h120",
    "A_evo_on_read_v9_h120",
)
"""Tables whose splits must all be read: logs of Avro blocks without statistics, or columns matched by id."""

UNIT = "ms"
DAY_US = 86_400_000_000
HIGHEST_US = 2**63 - 1


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...


def queries(timeline: Timeline) -> Iterator[Query]:
    """The current state; the newest half of the instants, as rows and as changes; all changes."""
    yield Snapshot()
    keys = sorted({timeline.order_key(item) for item in timeline.completed_writes})
    if keys:
        yield Incremental(Position(keys[len(keys) // 2]), Position(keys[-1]))
        yield Changes(ChangeFormat.ROWS, Position(keys[len(keys) // 2]), Position(keys[-1]))
    yield Changes(ChangeFormat.HUDI)


def event_columns(scan: Scan) -> dict[str, pa.DataType]:
    schema = arrow_schema(parse_record_schema(scan.schema_json))
    return {
        field.name: field.type
        for field in schema
        if pa.types.is_timestamp(field.type) or pa.types.is_date32(field.type) or pa.types.is_int64(field.type)
    }


def times_us(column: pa.Array) -> list[int]:
    """Every value in microseconds, computed independently of the code under test."""
    kind = column.type
    if pa.types.is_date32(kind):
        return [(day - dt.date(1970, 1, 1)).days * DAY_US for day in column.drop_null().to_pylist()]
    if pa.types.is_timestamp(kind):
        return list(pc.cast(column, pa.int64()).drop_null().to_pylist())
    return [max(-HIGHEST_US, min(HIGHEST_US, value * 1000)) for value in column.drop_null().to_pylist()]


def rows_of_splits(scan: Scan, splits: tuple[Split, ...], columns: list[str]) -> dict[str, dict[str, list[int]]]:
    """The event times of all rows, by split and column."""
    rows = ChangesOf(ChangeFormat.ROWS, scan.rows.instants) if isinstance(scan.rows, ChangesOf) else scan.rows
    wide = replace(scan, columns=tuple(columns), rows=rows)
    result: dict[str, dict[str, list[int]]] = {}
    for split in splits:
        times: dict[str, list[int]] = {name: [] for name in columns}
        for part in read_split(wide, split):
            for name in columns:
                times[name] += times_us(part.batch.column(name))
        result[split.split_id] = times
    return result


def check(split: Split, times: list[int], reported: Counter[str]) -> None:
    match split.event_time:
        case EventTimeBounds(low, high):
            assert not times or low <= min(times) <= max(times) <= high, split
        case NoEventTimes():
            assert not times, split
    reported[type(split.event_time).__name__] += 1


def reported_of(table: HudiTable, query: Query) -> Counter[str]:
    """Checks every column, with and without the metadata table, by statistics alone and by reading; the reported
    outcomes."""
    reported: Counter[str] = Counter()
    try:
        plain = plan_request(table, "t", PlanRequest(table="t", query=query))
        columns = event_columns(plain.scan)
        if not columns:
            return reported
        truth = rows_of_splits(plain.scan, plain.splits, list(columns))
    except (PositionExpired, TableError, FormatError):
        return reported  # the query has no rows to compare
    sources = TimeSources(FooterCache(), scan_event_time)
    for name, kind in columns.items():
        request = PlanRequest(
            table="t", query=query, event_time=name, event_time_unit=UNIT if pa.types.is_int64(kind) else ""
        )
        for split in plan_request(table, "t", replace(request, metadata=False)).splits:
            check(split, truth[split.split_id][name], reported)
        from_files = plan_request(table, "t", request).splits
        read = plan_request(table, "t", replace(request, scan_event_time=True), sources=sources)
        for before, split in zip(from_files, read.splits, strict=True):
            check(before, truth[split.split_id][name], reported)
            if isinstance(before.event_time, UnknownBounds):
                times = truth[split.split_id][name]
                assert split.event_time == (EventTimeBounds(min(times), max(times)) if times else NoEventTimes())
            else:
                assert split == before
        assert plan_request(table, "t", replace(request, scan_event_time=True), sources=sources) == read
    return reported


@pytest.mark.parametrize("case", [*REPORTED, *READ])
def test_rows_are_within_the_bounds_of_their_splits(golden: Golden, case: str) -> None:
    table = open_table(str(golden.table(case)))
    reported = Counter[str]()
    for query in queries(table.timeline()):
        reported += reported_of(table, query)
    assert sum(reported.values()) > 0
    assert bool(reported["EventTimeBounds"] + reported["NoEventTimes"]) == (case in REPORTED), reported
