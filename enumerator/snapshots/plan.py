"""Plan the snapshot that a stream starts with, as a whole or one part of its splits."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.enumerator.planning.annotate import max_rows_of_split
from penstock.enumerator.planning.commit_order import completed_in_order
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.event_time.file_bounds import FooterCache
from penstock.enumerator.planning.plan import Planning
from penstock.enumerator.planning.scan import bind_request, refuse_without_meta_columns
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.enumerator.planning.table_state import TableSchema
from penstock.enumerator.snapshots.split_list import as_inserts, in_event_time_order, verified
from penstock.proto.model.changes import ChangeFormat, ChangesOf, ComparedStates, GroupChanges
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, SnapshotPart
from penstock.proto.model.splits import Plan, Split, WholeFile
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.completion import returned_schema

_NO_RUNS: Final = 2**62
"""A target size, in bytes, above which no base file is cut into runs of row groups."""


def plan_snapshot(
    table: HudiTable, name: str, request: PlanRequest, at: Position, changes: ChangeFormat | None, planned: Planning
) -> tuple[Plan, tuple[Split, ...]]:
    """The plan of the state at a position, and its splits in event-time order. Errors as for `plan.plan_request`.

    With `changes` the splits return the rows as inserts in that format.
    """
    of_state = replace(request, query=Incremental(EARLIEST, at))
    if changes is None:
        plan = planned(table, name, of_state, ())
        return plan, in_event_time_order(plan.splits)
    refuse_without_meta_columns(table.properties, name)
    whole = replace(of_state, columns=(), where="", target_split_bytes=_NO_RUNS)
    plan = planned(table, name, whole, ())
    facts = read_timeline(table)
    known = _completed_up_to(facts, at)
    schema = TableSchema.parse(plan.scan.schema_json, f"schema of table {name}")
    returned = returned_schema(schema.arrow, changes, completion_time=request.completion_time)
    columns = bind_request(request, schema, returned).columns
    rows = ChangesOf(changes, known)
    scan = replace(plan.scan, columns=columns, where=request.where, rows=rows)
    instant = known[-1] if known else at.order_key
    ordered = in_event_time_order(plan.splits)
    splits = tuple(as_inserts(split, instant, place) for place, split in enumerate(ordered))
    return replace(plan, scan=scan, splits=splits), splits


def _completed_up_to(facts: TimelineFacts, at: Position) -> tuple[InstantTime, ...]:
    """Completed writes up to the position in commit order; the newest data instant comes last."""
    inside = [
        item
        for item in completed_in_order(facts.timeline, facts.pending_clusterings)
        if facts.timeline.order_key(item) <= at.order_key
    ]
    newest = next((item for item in reversed(inside) if facts.is_data(item)), None)
    others = (item.requested_time for item in inside if item is not newest)
    return (*others, *((newest.requested_time,) if newest is not None else ()))


def plan_part(table: HudiTable, name: str, request: PlanRequest, part: SnapshotPart, planned: Planning) -> Plan:
    """The plan of one part of the snapshot. DataInvalidated if the snapshot's list of splits has changed."""
    plan, splits = plan_snapshot(table, name, request, part.at, part.changes, planned)
    return part_of(plan, splits, part, name)


def part_of(plan: Plan, splits: tuple[Split, ...], part: SnapshotPart, name: str) -> Plan:
    """The plan of one part of a snapshot that is already planned."""
    of_part = verified(splits, part.digest, name, str(part.at))[part.first : part.end]
    return replace(plan, splits=of_part)


def max_rows_of(table: HudiTable, split: Split, cache: FooterCache) -> int:
    """An upper bound for the rows that a split of a snapshot reads. A log with unknown writes counts as 0 rows."""
    slices = [split]
    if isinstance(split.part, GroupChanges):
        sources = (step.source for step in split.part.steps)
        states = (source.after for source in sources if isinstance(source, ComparedStates) and source.after is not None)
        slices = [replace(split, part=WholeFile(), base=files.base, logs=files.logs) for files in states]
    countable = (replace(item, logs=tuple(log for log in item.logs if log.writes is not None)) for item in slices)
    return sum(max_rows_of_split(table, item, cache) or 0 for item in countable)
