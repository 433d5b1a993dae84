"""Hudi's own payload classes as rules: what a table below version 9 that names one does when records of a key meet.

Pure. From version 9 on a table stores the rules themselves (RFC-97). The rules are those by which Hudi 1.2.0 runs the
classes: a delete block's ordering value counts only where the class became a merge mode; else a delete wins whatever
it meets (`CustomPayloadRecordMerger`). Not here: which settings a table has (`merge_rules`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.proto.model.splits import (
    CommitTimeOrdering,
    DeleteMarker,
    EventTimeOrdering,
    FillDefaults,
    FillMarked,
    FillMode,
    FillNulls,
    MergeMode,
    WholeRecords,
)

_MODEL: Final = "org.apache.hudi.common.model."
_UNAVAILABLE: Final = "__debezium_unavailable_value"
_DEBEZIUM_DELETE: Final = DeleteMarker("_change_operation_type", "d")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """Everything of a table that decides how its records of one key become a row."""

    mode: MergeMode
    fill: FillMode = field(default_factory=WholeRecords)
    delete_marker: DeleteMarker | None = None


def full_name(payload_class: str) -> str:
    """The class name under Hudi's present package (`com.uber.hoodie` was its first)."""
    return payload_class.replace("com.uber.hoodie", "org.apache.hudi", 1)


def is_plain(payload_class: str) -> bool:
    """Whether the class says no more than event time or commit time does."""
    return full_name(payload_class).removeprefix(_MODEL) in (
        "DefaultHoodieRecordPayload",
        "EventTimeAvroPayload",
        "OverwriteWithLatestAvroPayload",
    )


def payload_rules(payload_class: str, ordering_fields: tuple[str, ...]) -> MergeRules | None:
    """The rules of a payload class; None if it is not Hudi's, or has no rules of its own."""
    match full_name(payload_class).removeprefix(_MODEL):
        case "DefaultHoodieRecordPayload" | "EventTimeAvroPayload":
            return MergeRules(mode=EventTimeOrdering(ordering_fields))
        case "OverwriteWithLatestAvroPayload":
            return MergeRules(mode=CommitTimeOrdering())
        case "PartialUpdateAvroPayload":
            return MergeRules(mode=EventTimeOrdering(ordering_fields, deletes_win=True), fill=FillNulls())
        case "OverwriteNonDefaultsWithLatestAvroPayload":
            return MergeRules(mode=CommitTimeOrdering(), fill=FillDefaults(by_identity=False))
        case "AWSDmsAvroPayload":
            return MergeRules(mode=CommitTimeOrdering(), delete_marker=DeleteMarker("Op", "D"))
        case "debezium.PostgresDebeziumAvroPayload":
            return MergeRules(
                mode=EventTimeOrdering(("_event_lsn",), deletes_win=True),
                fill=FillMarked(_UNAVAILABLE, from_newer=False),
                delete_marker=_DEBEZIUM_DELETE,
            )
        case "debezium.MySqlDebeziumAvroPayload":
            return MergeRules(
                mode=EventTimeOrdering(("_event_seq",), dotted_numbers=True, deletes_win=True),
                delete_marker=_DEBEZIUM_DELETE,
            )
    return None
