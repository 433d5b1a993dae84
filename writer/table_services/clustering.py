"""Which file groups a clustering joins. Pure.

Source: Hudi `PartitionAwareClusteringPlanStrategy`, `SparkSizeBasedClusteringPlanStrategy`: the small groups of a
partition, packed up to the size of a file. Hudi packs the largest first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from penstock.table.files.slices import GroupId
from penstock.table.timeline.services.plans import ClusteringGroup, ClusteringSlice
from penstock.table.timeline.services.service_plan_encoder import InputSize
from penstock.writer.index.slices import LatestSlice, TableSlices
from penstock.writer.table_services.compaction import input_size


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringSizes:
    """The sizes by which groups are joined."""

    target_file_bytes: int = 120 << 20
    """Groups are joined up to it (Hudi `hoodie.clustering.plan.strategy.target.file.max.bytes`)."""
    small_file_bytes: int = 100 << 20
    """Groups below it are joined (Hudi `hoodie.clustering.plan.strategy.small.file.limit`)."""


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """What a clustering would do."""

    groups: tuple[tuple[LatestSlice, ...], ...]
    """The slices that it writes together, by partition."""
    left_out: frozenset[str]
    """Partitions that it does not look at, or in which a pending service has groups."""

    @property
    def slices(self) -> tuple[LatestSlice, ...]:
        """All slices that it reads."""
        return tuple(item for group in self.groups for item in group)

    def encoded(self) -> tuple[tuple[ClusteringGroup, InputSize], ...]:
        """The groups as the plan's file has them."""
        return tuple((ClusteringGroup(tuple(map(clustering_slice, group))), input_size(group)) for group in self.groups)


def plan_clustering(
    slices: TableSlices,
    busy: Collection[GroupId],
    partitions: Collection[str],
    sizes: ClusteringSizes,
    sorted_by_service: Collection[str] | None,
) -> ClusteringPlan:
    """The clustering of the small groups of these partitions (none: all), but the `busy` ones.

    sorted_by_service: the instants of clusterings, if rows are sorted: then a group is rewritten alone too, unless one
    of these wrote its base file. None if they are not sorted.
    """
    groups: list[tuple[LatestSlice, ...]] = []
    left_out = set()
    for partition in sorted(slices.by_partition):
        if partitions and partition not in partitions:
            left_out.add(partition)
            continue
        small = [item for item in slices.of(partition) if slice_bytes(item) < sizes.small_file_bytes]
        free = [item for item in small if item.group not in busy]
        if len(free) < len(small):
            left_out.add(partition)
        groups += [group for group in _packed(free, sizes) if _is_worthwhile(group, sorted_by_service)]
    return ClusteringPlan(tuple(groups), frozenset(left_out))


def slice_bytes(item: LatestSlice) -> int:
    """The size of a slice's files."""
    return item.size_bytes + sum(log.size_bytes for log in item.logs)


def clustering_slice(item: LatestSlice) -> ClusteringSlice:
    """A slice as the plan of a clustering has it."""
    return ClusteringSlice(item.partition, item.file_id, item.base_name, item.log_names)


def _packed(slices: list[LatestSlice], sizes: ClusteringSizes) -> Iterator[tuple[LatestSlice, ...]]:
    """The slices, the smallest first, in groups up to the size of a file."""
    held: list[LatestSlice] = []
    held_bytes = 0
    for item in sorted(slices, key=lambda one: (slice_bytes(one), one.file_id)):
        if held and held_bytes + slice_bytes(item) > sizes.target_file_bytes:
            yield tuple(held)
            held, held_bytes = [], 0
        held.append(item)
        held_bytes += slice_bytes(item)
    if held:
        yield tuple(held)


def _is_worthwhile(group: tuple[LatestSlice, ...], sorted_by_service: Collection[str] | None) -> bool:
    if len(group) > 1:
        return True
    (item,) = group
    return sorted_by_service is not None and (bool(item.logs) or item.base_instant not in sorted_by_service)
