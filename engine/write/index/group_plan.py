"""The file groups of a write whose rows are elsewhere: how many rows there are says which groups there will be.

`Assigner.group_writes` takes rows apart that this process holds. Here rows are counted by slot, and the plan says to
which group the rows of a slot belong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.index.index_choice import BucketIndex
from penstock.table.files.slices import GroupId
from penstock.writer.index.bucket import writes_of_buckets
from penstock.writer.index.new_groups import files_of_new_rows, write_of_new_rows
from penstock.writer.index.slices import NO_ROWS, GroupWrite

SPREAD: Final = 1 << 20
"""The hash of a key, from 0 to this number, determines the group of a new row, so that equal keys have one group."""
NEW: Final = -1
"""The slot of rows whose keys the table does not have, or is not searched for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRows:
    """The rows of one slot of a partition."""

    partition: str
    """Partition path."""
    slot: int
    """With a bucket index the bucket; else the place of a slice among those of its partition, or NEW."""
    rows: int
    """How many rows there are."""
    data_rows: int
    """How many of them are no deletes."""
    has_copies: bool = False
    """Whether the base file of the slice has one of the keys in several rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The groups of the rows of one slot."""

    partition: str
    """Partition path."""
    slot: int
    """The slot."""
    groups: tuple[int, ...]
    """Numbers of groups."""
    limits: tuple[int, ...]
    """Ascending, one fewer than groups: a row belongs to the group whose place is the number of limits that are not
    above the hash of its key."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The groups of a write."""

    writes: tuple[GroupWrite, ...]
    """The groups, without row numbers. A group's number is its place."""
    routes: tuple[Route, ...]
    """Which rows belong to them. Rows without a route are deletes of keys that the table does not have."""


def plan_groups(assigner: Assigner, current: CurrentTable, counted: Iterable[CountedRows]) -> GroupPlan:
    """The plan of rows that were counted, each slot once. Errors of `Assigner.group_writes`."""
    order = sorted(counted, key=lambda one: (one.partition, one.slot))
    match assigner.index:
        case BucketIndex(buckets):
            slots = [(one.partition, one.slot) for one in order]
            writes = writes_of_buckets(slots, current.slices, buckets, assigner.new_uuid, assigner.where)
            assigner.refuse_second_groups(writes)
            routes = [
                Route(partition=partition, slot=slot, groups=(number,), limits=())
                for number, (partition, slot) in enumerate(slots)
            ]
        case _:
            writes, routes = _by_slice(assigner, current, order)
    assigner.check(current, writes)
    return GroupPlan(tuple(writes), tuple(routes))


def _by_slice(
    assigner: Assigner, current: CurrentTable, order: Sequence[CountedRows]
) -> tuple[list[GroupWrite], list[Route]]:
    planned = _PlannedGroups()
    routes: list[Route] = []
    sizes = assigner.sizes_of(current)
    for one in order:
        if one.slot >= 0:
            item = current.slices.of(one.partition)[one.slot]
            write = assigner.write_of_slice(current, item, NO_ROWS, has_copies=one.has_copies)
            groups, limits = [planned.add(write)], []
        elif one.data_rows:
            fillable = assigner.fillable(current, one.partition)
            files = files_of_new_rows(one.data_rows, fillable, current.slices.locked, sizes)
            groups = [
                planned.add(write_of_new_rows(one.partition, item, NO_ROWS, assigner.new_file_id)) for item, _ in files
            ]
            ends = list(accumulate(count for _, count in files))
            limits = [SPREAD * end // one.data_rows for end in ends[:-1]]
        else:
            continue
        routes.append(Route(partition=one.partition, slot=one.slot, groups=tuple(groups), limits=tuple(limits)))
    return planned.writes, routes


class _PlannedGroups:
    """Groups in the order of their numbers."""

    def __init__(self) -> None:
        self.writes: list[GroupWrite] = []
        self._numbers: dict[GroupId, int] = {}

    def add(self, write: GroupWrite) -> int:
        """The number of a group. One that has rows of stored keys and of new ones is rewritten."""
        number = self._numbers.setdefault((write.partition, write.file_id), len(self.writes))
        if number == len(self.writes):
            self.writes.append(write)
        elif write.rewrites:
            self.writes[number] = write
        return number
