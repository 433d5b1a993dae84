"""Partition columns whose values come from the partition's path: one value for all rows of a split. Pure.

Source: Hudi `HoodieSparkUtils.parsePartitionColumnValues` (the path's value, unescaped, cast to the column's type).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.proto.errors import CorruptFile
from penstock.proto.model.splits import Scan, Split
from penstock.table.partitions.scalars import partition_scalar


class PartitionConstants:
    """The constant columns of one split's batches."""

    def __init__(self, scan: Scan, split: Split, schema: pa.Schema, columns: Sequence[str]) -> None:
        """`schema` is the table's, `columns` are those to provide.

        CorruptFile if a value of the path cannot be cast to its column's type, or if the split has another number of
        values than the scan has partition fields; SchemaMismatch for types that Hudi does not read from a path either:
        nested columns, times, local timestamps as numbers.
        """
        where = f"table {scan.table}: partition {split.partition!r}"
        if scan.partition_fields and len(split.partition_values) != len(scan.partition_fields):
            raise CorruptFile(
                f"{where}: {len(split.partition_values)} values for the partition columns "
                f"{', '.join(scan.partition_fields)}; plan the query again"
            )
        values = dict(zip(scan.partition_fields, split.partition_values, strict=False))
        self._scalars = {
            name: partition_scalar(values[name], schema.field(name).type, f"{where}: column {name!r}")
            for name in columns
            if name in values
        }
        self._columns: dict[str, pa.Array] = {}

    def column(self, name: str, rows: int) -> pa.Array | None:
        """`rows` rows of the column's value; None if the column is not constant."""
        if name not in self._scalars:
            return None
        known = self._columns.get(name)
        if known is None or len(known) < rows:
            known = self._columns[name] = pa.repeat(self._scalars[name], rows)
        return known.slice(0, rows)
