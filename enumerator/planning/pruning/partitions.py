"""Partitions that a request's filter excludes before they are listed. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.enumerator.planning.selection import TimelineFacts
from penstock.table.config.properties import TableProperties
from penstock.table.partitions.pruning import PartitionPruning, partition_pruning

if TYPE_CHECKING:
    from penstock.table.predicate.tree import Predicate


def partitions_to_prune(
    properties: TableProperties,
    schema: pa.Schema,
    row_filter: Predicate | None,
    facts: TimelineFacts,
    known: Collection[str],
) -> PartitionPruning | None:
    """The pruning of partitions before they are listed; None if all must be listed.

    All must be listed if the path of one of the `known` partitions does not fit the partition fields, because then no
    value comes from a path; and if archived instants were added, because then any file may reveal a lost instant.
    """
    if row_filter is None or facts.archive_begins is not None:
        return None
    pruning = partition_pruning(properties, schema, row_filter)
    return pruning if pruning is not None and pruning.fits(known) else None


def pruned_partitions(
    pruning: PartitionPruning | None, known: Collection[str], listing: Collection[str]
) -> frozenset[str]:
    """The known partitions of which no group is read; none if a listed partition does not fit the partition fields."""
    if pruning is None or not pruning.fits(listing):
        return frozenset()
    return frozenset(name for name in known if pruning.drops(name))
