"""What a filter excludes from a plan, and why."""

from __future__ import annotations

from enum import StrEnum

from penstock.proto.model.splits import Plan, Split
from penstock.proto.value_classes import dataclass


class Reason(StrEnum):
    """Why file groups are excluded."""

    BUCKET_HASH = "bucket hash"
    """The hash of each key is the number of another file group."""
    RECORD_INDEX = "record index"
    """The record index has each key in another file group, or not at all."""
    BLOOM_FILTERS = "bloom filters"
    """The bloom filter of the base file in the metadata table has none of the keys."""
    COLUMN_STATISTICS = "column statistics"
    """No value within the bounds of a column in the metadata table matches."""


@dataclass(frozen=True, slots=True)
class RuledOut:
    """The file groups that one reason excludes, of those that the reasons before it left."""

    reason: Reason
    """The reason."""
    splits: tuple[Split, ...]
    """Their splits."""
    unused: str = ""
    """Why the reason could not be used; '' if it was."""


@dataclass(frozen=True, slots=True)
class PrunedPlan:
    """A plan, and what a filter excluded from it."""

    plan: Plan
    """The remaining splits."""
    ruled_out: tuple[RuledOut, ...] = ()
    """What each reason excluded, in the order in which they were applied; only those that apply to the request."""
