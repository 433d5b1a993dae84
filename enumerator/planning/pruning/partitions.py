"""Partitions that a request's filter rules out before they are listed. Pure.

Belongs here: whether that is safe for a query, and for which partitions. Not here: what a filter says of a path
(`table.partitions.pruning`), splits of partitions that were listed all the same (`planner`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.model.queries import Incremental, PlanRequest, ReadOptimized, Snapshot, SnapshotAsOf
from penstock.table.config.properties import TableProperties
from penstock.table.partitions.pruning import PartitionPruning, partition_pruning
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema

_ROWS_OF_THE_TABLE: Final = (Snapshot, ReadOptimized, SnapshotAsOf, Incremental)


def filter_of_rows(request: PlanRequest) -> str:
    """The filter, if it is about rows as files hold them: only then may anything be left out early."""
    return request.where if isinstance(request.query, _ROWS_OF_THE_TABLE) else ""


def pruning_before_listing(
    properties: TableProperties, schema_json: str, where: str, facts: TimelineFacts, known: Collection[str]
) -> PartitionPruning | None:
    """What rules partitions out, None if all must be listed.

    All must be where one of the `known` partitions does not fit the fields (then no value comes from a path), and
    where archived instants were put back: any file may then tell of an instant that is lost.
    """
    if not where or facts.archive_begins is not None:
        return None
    schema = arrow_schema(parse_record_schema(schema_json, f"schema of table {facts.table}"))
    pruning = partition_pruning(properties, schema, where)
    return pruning if pruning is not None and pruning.fits(known) else None


def ruled_out(pruning: PartitionPruning | None, known: Collection[str], listing: Collection[str]) -> frozenset[str]:
    """The known partitions that no group is read of; none if a partition came to light that does not fit."""
    if pruning is None or not pruning.fits(listing):
        return frozenset()
    return frozenset(name for name in known if pruning.drops(name))
