"""The properties of a table that decide how a write's rows are merged, keyed and placed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_KEPT: Final = (
    "hoodie.table.type",
    "hoodie.record.merge.mode",
    "hoodie.record.merge.strategy.id",
    "hoodie.compaction.payload.class",
    "hoodie.table.precombine.field",
    "hoodie.table.ordering.fields",
    "hoodie.table.recordkey.fields",
    "hoodie.table.partition.fields",
    "hoodie.table.keygenerator.type",
    "hoodie.table.keygenerator.class",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.datasource.write.drop.partition.columns",
    "hoodie.populate.meta.fields",
    "hoodie.table.cdc.enabled",
    "hoodie.table.cdc.supplemental.logging.mode",
    "hoodie.table.timeline.timezone",
    "hoodie.index.type",
    "hoodie.bucket.index.num.buckets",
)


def changed_setting(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The first of these properties that changed; '' if none did."""
    return next((name for name in _KEPT if before.get(name, "").strip() != after.get(name, "").strip()), "")
