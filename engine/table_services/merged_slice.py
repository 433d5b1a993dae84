"""The rows of a file slice as a reader merges them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from penstock.engine.write.current_table import CurrentTable
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import Split
from penstock.reader.read_split import read_split
from penstock.reader.split.report import SplitTally
from penstock.table.config.merge_rules import merge_rules
from penstock.writer.index.slices import LatestSlice


def merged_rows(current: CurrentTable, item: LatestSlice, tally: SplitTally) -> Iterator[pa.RecordBatch]:
    """The rows of a slice with all columns of the table, meta columns included, in batches. Rows that its logs delete
    are left out; the others are as they are stored.

    `tally` is complete at the end. Errors of reading (`read_split`).
    """
    if current.scan is None:
        raise InvariantViolation(f"rows of {item.group} in a table without a schema")
    # values of partition columns are those of the files: a path may have another form of them
    rules = merge_rules(current.table.properties, None)  # the scan has none if no newest slice has a log
    scan = replace(
        current.scan, partition_fields=(), merge=rules.mode, fill=rules.fill, delete_marker=rules.delete_marker
    )
    split = Split(
        split_id=f"{item.partition}/{item.file_id}",
        partition=item.partition,
        partition_values=(),
        file_group=item.file_id,
        order_key=InstantTime(item.key),
        base=item.base,
        base_instant=item.base_instant,
        logs=item.logs,
    )
    for part in read_split(scan, split, storage=current.table.storage, tally=tally):
        yield part.batch
