"""Merge rules of Hudi's payload classes, for tables below version 9 that name one. Pure.

From version 9 on, a table stores the rules themselves (RFC-97). The rules are those of Hudi 1.2.0: the ordering value
of a delete block counts only for classes that became a merge mode; otherwise a delete always wins
(`CustomPayloadRecordMerger`).
"""

from __future__ import annotations

from dataclasses import field
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
from penstock.proto.value_classes import dataclass

_MODEL: Final = "org.apache.hudi.common.model."
_UNAVAILABLE: Final = "__debezium_unavailable_value"
_DEBEZIUM_DELETE: Final = DeleteMarker("_change_operation_type", "d")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """The rules by which records of one key merge into a row."""

    mode: MergeMode
    """Which of two records wins."""
    fill: FillMode = field(default_factory=WholeRecords)
    """Which columns of the winner are filled from the other record."""
    delete_marker: DeleteMarker | None = None
    """A column value that marks a record as a delete; None if the table has none."""


def full_name(payload_class: str) -> str:
    """The class name with Hudi's current package; the first one was `com.uber.hoodie`."""
    return payload_class.replace("com.uber.hoodie", "org.apache.hudi", 1)


def is_plain(payload_class: str) -> bool:
    """Whether the class means exactly event time or commit time ordering."""
    return full_name(payload_class).removeprefix(_MODEL) in (
        "DefaultHoodieRecordPayload",
        "EventTimeAvroPayload",
        "OverwriteWithLatestAvroPayload",
    )


def payload_rules(payload_class: str, ordering_fields: tuple[str, ...]) -> MergeRules | None:
    """The rules of a payload class; None for a class that a function of the reader's stands for (`CustomMerge`)."""
    match full_name(payload_class).removeprefix(_MODEL):
        case "DefaultHoodieRecordPayload" | "EventTimeAvroPayload":
            return MergeRules(mode=EventTimeOrdering(ordering_fields))
        case "OverwriteWithLatestAvroPayload" | "HoodieAvroPayload":
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
