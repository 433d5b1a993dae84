"""The rows of file slices as services write them: merged as a reader does, and sorted for a clustering.

The rows of a clustering group are sorted in memory: a group is about as large as a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.write.current_table import CurrentTable
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import Split
from penstock.reader.read_split import read_split
from penstock.reader.split.report import SplitTally
from penstock.table.config.merge_rules import merge_rules
from penstock.writer.index.slices import LatestSlice

_BATCH_ROWS: Final = 64 << 10


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


def sorted_rows(rows: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows in the ascending order of these columns, in batches. Nulls are first, as in Hudi. Rows of equal values
    keep their order."""
    held = list(rows)
    if not held:
        return
    table = pa.Table.from_batches(held).combine_chunks()
    held.clear()
    order = pc.sort_indices(*_sort_keys(table, columns))
    for begin in range(0, len(order), _BATCH_ROWS):
        yield from table.take(order.slice(begin, _BATCH_ROWS)).combine_chunks().to_batches()


def _sort_keys(table: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, list[tuple[str, str]]]:
    """The columns to sort by, each after one that puts its nulls first, and their order."""
    arrays = []
    for name in columns:
        arrays += [pc.is_valid(table.column(name)).cast(pa.int8()), table.column(name)]
    names = [str(number) for number in range(len(arrays))]
    return pa.Table.from_arrays(arrays, names=names), [(name, "ascending") for name in names]


def check_sortable(schema: pa.Schema, columns: Sequence[str], where: str) -> None:
    """ConfigurationError, beginning with `where`, for a column that the table lacks, that is named twice, or whose
    values have no order."""
    for name in columns:
        if schema.get_field_index(name) < 0:
            raise ConfigurationError(
                f"{where}: got sort_by {name[:80]!r}, and the table has {', '.join(schema.names)[:500]}"
            )
        if pa.types.is_nested(schema.field(name).type):
            raise ConfigurationError(
                f"{where}: got sort_by {name[:80]!r}, whose type {schema.field(name).type} has no order"
            )
    if len(set(columns)) < len(columns):
        raise ConfigurationError(f"{where}: got sort_by {', '.join(columns)[:500]}: a column is named twice")
