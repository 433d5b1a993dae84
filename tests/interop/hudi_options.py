"""Options of Hudi's writers and procedures for the tables of tests of writes and table services."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

COMPACTS = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
"""Of a writer that compacts after its write."""


def hudis_options(version: int, kind: str, index: str) -> dict[str, str]:
    """Options of Hudi's writer that fit the table."""
    options = {
        "hoodie.table.name": "trip",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": kind.upper(),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        **{f"hoodie.{step}.shuffle.parallelism": "1" for step in ("insert", "upsert", "delete", "bulkinsert")},
    }
    if index == "bucket":
        options |= {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
    else:
        options |= {"hoodie.index.type": "SIMPLE"}
    return options


def service_call(service: str, step: str, path: pathlib.Path, options: Mapping[str, str]) -> str:
    """The statement that plans (`schedule`) or carries out (`execute`) a compaction or clustering, or both
    (`scheduleAndExecute`). Options with a comma or without a value cannot be part of it."""
    texts = ",".join(f"{name}={value}" for name, value in options.items() if value and "," not in value)
    return f"CALL run_{service}(op => '{step}', path => '{path}', options => '{texts}')"
