"""Excludes file groups from a plan: by the hash of keys, the record index, else bloom filters of keys, and column
statistics, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from penstock.enumerator.log import log_fallback
from penstock.enumerator.planning.pruning.bucket_hash import outside_buckets
from penstock.enumerator.planning.pruning.column_statistics import (
    log_free,
    usable_columns,
    with_statistics,
    without_rows,
)
from penstock.enumerator.planning.pruning.key_filters import may_be_filtered, without_possible_keys
from penstock.enumerator.planning.pruning.pruned_plan import PrunedPlan, Reason, RuledOut
from penstock.enumerator.planning.pruning.record_lookup import is_of_newest_rows, without_keys
from penstock.enumerator.planning.pruning.required_keys import required_keys
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.errors import PenstockError
from penstock.proto.model.queries import ReadOptimized, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import Plan, Split
from penstock.table.files.buckets import HASHING_FOLDER, recorded_buckets
from penstock.table.files.slices import GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.bloom_filters import BLOOM_FILTERS
from penstock.table.metadata.listing import TableListing
from penstock.table.metadata.metadata_table import MetadataTable, indexes
from penstock.table.metadata.record_index import RECORD_INDEX

FEW_FILES: Final = 8
"""Up to this many files are left to the reader: opening them costs no more than reading the metadata table."""


def prune_groups(table: HudiTable, state: TableState, plan: Plan) -> PrunedPlan:
    """The plan without the file groups in which no row matches the request's filter.

    The record index, bloom filters and column statistics are read for more than FEW_FILES groups that they can exclude.
    Indexes that the table's properties list, and that turn out to be unusable, are logged.
    """
    if state.request.row_filter is None or not plan.splits:
        return PrunedPlan(plan)
    pruning = _Pruning(table, state, plan)
    pruning.by_keys()
    pruning.by_column_statistics()
    return PrunedPlan(pruning.plan, tuple(pruning.ruled_out))


class _Pruning:
    """Applies one reason after the other to a plan."""

    def __init__(self, table: HudiTable, state: TableState, plan: Plan) -> None:
        self._table, self._state = table, state
        self._listing = TableListing(table, state.facts.timeline, metadata=True)
        self.plan = plan
        self.ruled_out: list[RuledOut] = []

    def by_keys(self) -> None:
        """Excludes groups by the record keys that the filter names."""
        state, row_filter = self._state, self._state.request.row_filter
        if row_filter is None or not isinstance(state.request.request.query, Snapshot | SnapshotAsOf | ReadOptimized):
            return
        scan = self.plan.scan
        path_fields = state.schema.arrow.names if scan.schema_history else scan.partition_fields
        keys = required_keys(row_filter, state.properties, path_fields)
        if keys is None:
            return
        groups = _groups(self.plan)
        buckets = recorded_buckets(state.properties)
        if buckets is not None and self._table.storage.file_info(HASHING_FOLDER) is None:
            self._exclude(Reason.BUCKET_HASH, outside_buckets(groups, keys, buckets))
        asked = state.request.request.record_index
        if asked and self._lists(RECORD_INDEX) and is_of_newest_rows(state) and len(self.plan.splits) > FEW_FILES:
            found = self._by_metadata(Reason.RECORD_INDEX, lambda metadata: without_keys(state, groups, keys, metadata))
            if found:
                return
        self._by_bloom_filters(keys)

    def _by_bloom_filters(self, keys: Collection[str]) -> None:
        if not (self._lists(BLOOM_FILTERS) and self._state.properties.populate_meta_fields and may_be_filtered(keys)):
            return
        candidates = log_free(self.plan)
        if len(candidates) > FEW_FILES:
            self._by_metadata(Reason.BLOOM_FILTERS, lambda metadata: without_possible_keys(candidates, keys, metadata))

    def by_column_statistics(self) -> None:
        """Excludes groups by the bounds of the filter's columns."""
        row_filter, columns = self._state.request.row_filter, usable_columns(self._state, self.plan)
        if row_filter is None or not columns:
            return
        candidates = with_statistics(self._state, self.plan)
        if len(candidates) > FEW_FILES:
            self._by_metadata(
                Reason.COLUMN_STATISTICS, lambda metadata: without_rows(row_filter, candidates, columns, metadata)
            )

    def _lists(self, index: str) -> bool:
        request = self._state.request.request
        return request.metadata and self._state.metadata_usable and index in indexes(self._state.properties)

    def _by_metadata(self, reason: Reason, excluded_by: Callable[[MetadataTable], frozenset[GroupId] | str]) -> bool:
        """Whether the metadata table could be used for the reason."""
        metadata = self._listing.metadata_table()
        if metadata is None:
            self._pass_over(reason, self._listing.fallback)
            return False
        try:
            excluded = excluded_by(metadata)
        except PenstockError as error:
            self._table.count_metadata_fallback()
            excluded = str(error)
        if isinstance(excluded, str):
            self._pass_over(reason, excluded)
            return False
        self._exclude(reason, excluded)
        return True

    def _pass_over(self, reason: Reason, why: str) -> None:
        log_fallback(self._state.table, f"{reason}: {why}")
        self.ruled_out.append(RuledOut(reason, (), why))

    def _exclude(self, reason: Reason, excluded: frozenset[GroupId]) -> None:
        kept: list[Split] = []
        out: list[Split] = []
        for split in self.plan.splits:
            (out if (split.partition, split.file_group) in excluded else kept).append(split)
        self.ruled_out.append(RuledOut(reason, tuple(out)))
        self.plan = replace(self.plan, splits=tuple(kept))


def _groups(plan: Plan) -> frozenset[GroupId]:
    return frozenset((split.partition, split.file_group) for split in plan.splits)
