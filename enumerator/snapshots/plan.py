"""Plans the snapshot that a stream begins with, whole or a run of its splits. Shell; `snapshot_list` decides.

Not here: how far a batch goes (`batches`).
"""

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
from penstock.enumerator.snapshots.split_list import as_inserts, checked, in_event_time_order
from penstock.proto.model.changes import ChangeFormat, ChangesOf, ComparedStates, GroupChanges
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, SnapshotPart
from penstock.proto.model.splits import Plan, Split, WholeFile
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.changes import change_schema

_UNCUT: Final = 2**62


def plan_list(
    table: HudiTable, name: str, request: PlanRequest, at: Position, changes: ChangeFormat | None, planned: Planning
) -> tuple[Plan, tuple[Split, ...]]:
    """The plan of the state at `at` and its splits in event-time order. Errors as for `planning.plan_request`."""
    asked = replace(request, query=Incremental(EARLIEST, at))
    if changes is None:
        plan = planned(table, name, asked, ())
        return plan, in_event_time_order(plan.splits)
    refuse_without_meta_columns(table.properties, name)
    whole = replace(asked, columns=(), where="", target_split_bytes=_UNCUT)
    plan = planned(table, name, whole, ())
    facts = read_timeline(table)
    known = _known(facts, at)
    schema = TableSchema.parse(plan.scan.schema_json, f"schema of table {name}")
    columns = bind_request(request, schema, change_schema(schema.arrow, changes)).columns
    rows = ChangesOf(changes, known)
    scan = replace(plan.scan, columns=columns, where=request.where, rows=rows)
    instant = known[-1] if known else at.order_key
    ordered = in_event_time_order(plan.splits)
    splits = tuple(as_inserts(split, instant, place) for place, split in enumerate(ordered))
    return replace(plan, scan=scan, splits=splits), splits


def _known(facts: TimelineFacts, at: Position) -> tuple[InstantTime, ...]:
    """Completed writes up to the position in commit order, data instants last: the state is what they made."""
    inside = [
        item
        for item in completed_in_order(facts.timeline, facts.pending_clusterings)
        if facts.timeline.order_key(item) <= at.order_key
    ]
    newest = next((item for item in reversed(inside) if facts.is_data(item)), None)
    others = (item.requested_time for item in inside if item is not newest)
    return (*others, *((newest.requested_time,) if newest is not None else ()))


def plan_part(table: HudiTable, name: str, request: PlanRequest, part: SnapshotPart, planned: Planning) -> Plan:
    """The run of splits that `part` names. DataInvalidated if the list is another one by now."""
    plan, splits = plan_list(table, name, request, part.at, part.changes, planned)
    return part_of(plan, splits, part, name)


def part_of(plan: Plan, splits: tuple[Split, ...], part: SnapshotPart, name: str) -> Plan:
    """A run of a list that was planned."""
    chosen = checked(splits, part.digest, name, str(part.at))[part.first : part.end]
    return replace(plan, splits=chosen)


def rows_of(table: HudiTable, split: Split, cache: FooterCache) -> int:
    """At most how many rows are read for a split of a snapshot; a log of which that is not known counts as none."""
    slices = [split]
    if isinstance(split.part, GroupChanges):
        sources = (step.source for step in split.part.steps)
        states = (source.after for source in sources if isinstance(source, ComparedStates) and source.after is not None)
        slices = [replace(split, part=WholeFile(), base=files.base, logs=files.logs) for files in states]
    told = (replace(item, logs=tuple(log for log in item.logs if log.writes is not None)) for item in slices)
    return sum(max_rows_of_split(table, item, cache) or 0 for item in told)
