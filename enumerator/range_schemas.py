"""Which schema a range is read with whose columns the table has no more: the one that it had at the range's end. Pure.

A range is read with the table's newest schema, as Hudi does. That cannot be if a column which is asked for was dropped
or renamed since; at the end of the range it may still have been there, and then every row of the range has it.
"""

from __future__ import annotations

from penstock.enumerator.selection import TimelineFacts
from penstock.proto.changes import ChangeFormat
from penstock.proto.positions import InstantTime, Position
from penstock.proto.queries import Changes, Incremental, PlanRequest
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.changes import CHANGE_INSTANT, CHANGE_SEQ, CHANGE_TYPE


def schema_instant(request: PlanRequest, facts: TimelineFacts, newest: str) -> InstantTime | None:
    """The requested time of the last instant of the range, by order key, if the schema `newest` lacks a column that is
    asked for; None if it does not, and for queries without an end of their own."""
    query = request.query
    if not isinstance(query, Incremental | Changes) or not isinstance(query.upto, Position):
        return None
    if isinstance(query, Changes) and query.format is ChangeFormat.HUDI:
        return None
    own = (CHANGE_TYPE, CHANGE_INSTANT, CHANGE_SEQ) if isinstance(query, Changes) else ()
    held = {field.name.lower() for field in parse_record_schema(newest).fields}
    held.update(own)
    if all(name.lower() in held for name in request.columns):
        return None
    inside = [
        (facts.timeline.order_key(item), item.requested_time)
        for item in facts.timeline.completed_writes
        if facts.timeline.order_key(item) <= query.upto.order_key
    ]
    return max(inside)[1] if inside else None
