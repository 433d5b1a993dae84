"""Counts what each part of the planner excluded from a plan by a filter, and what remains. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.enumerator.planning.pruning.pruned_plan import RuledOut
from penstock.proto.model.splits import Split
from penstock.table.files.slices import GroupId

PARTITION_FILTER: Final = "partition filter"
"""The reason of groups that no other reason excludes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Parts of a table."""

    partitions: int
    """Number of partitions."""
    file_groups: int
    """Number of file groups."""
    files: int
    """Number of base files and logs."""
    size_bytes: int
    """Bytes of these files on storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedBy:
    """What one reason excluded, of what the reasons before it left."""

    reason: str
    """The reason."""
    amount: Amount
    """What it excluded. A partition counts if the reason excluded the last of its remaining groups."""
    unused: str
    """Why the reason could not be used; '' if it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The effect of a filter on a plan."""

    by: tuple[PrunedBy, ...]
    """The reasons that apply, in the order in which they were applied."""
    remaining: Amount
    """What is read."""
    reasons: Mapping[GroupId, str]
    """The reason of each file group that is not read."""


def pruning_of(whole: Collection[Split], planned: Collection[Split], ruled_out: Iterable[RuledOut]) -> Pruning:
    """The pruning of a plan. `whole`: the splits without the filter; `ruled_out`: those of `groups.PrunedPlan`."""
    parts = {(split.partition, split.file_group): split for split in whole}
    kept = {(split.partition, split.file_group) for split in planned}
    steps = [
        (item.reason.value, {(split.partition, split.file_group) for split in item.splits} & parts.keys(), item.unused)
        for item in ruled_out
    ]
    others = parts.keys() - kept.union(*(groups for _, groups, _ in steps))
    by: list[PrunedBy] = []
    reasons: dict[GroupId, str] = {}
    left = set(parts)
    for reason, groups, unused in ((PARTITION_FILTER, others, ""), *steps):
        if not groups and reason == PARTITION_FILTER:
            continue
        reasons |= dict.fromkeys(groups, reason)
        before = {partition for partition, _ in left}
        left -= groups
        partitions = len(before) - len({partition for partition, _ in left})
        by.append(PrunedBy(reason=reason, amount=_amount(groups, parts, partitions), unused=unused))
    partitions = len({partition for partition, _ in left})
    return Pruning(by=tuple(by), remaining=_amount(left, parts, partitions), reasons=reasons)


def _amount(groups: Collection[GroupId], parts: Mapping[GroupId, Split], partitions: int) -> Amount:
    splits = [parts[group] for group in groups]
    stored = (file for split in splits for file in (split.base, split.base and split.base.source, *split.logs))
    files = {file.path: file.size_bytes for file in stored if file is not None}
    return Amount(partitions=partitions, file_groups=len(splits), files=len(files), size_bytes=sum(files.values()))
