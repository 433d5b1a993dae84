"""Which partitions a filter rules out, by the values in their paths. Pure, and never too many.

Belongs here: decisions about partition paths and folders on the way to them. Not here: listing (`table.files.listing`,
`table.metadata.listing`), files of other partitions (enumerator).

Whether values come from paths at all is a question about *all* partitions that are read: one whose path does not fit
the fields, and all take their values from files (`table.partitions.values`). So a partition may be passed over only
where all fit, and a folder may be passed over unseen only where nothing that does not fit can be in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.table.columns import resolve_column
from penstock.table.config.properties import TableProperties
from penstock.table.partitions.scalars import partition_scalar
from penstock.table.partitions.values import DEFAULT_PARTITION, partition_values, path_value_fields
from penstock.table.predicate.bounds import UNKNOWN, BoundsLookup, ColumnBounds, MayMatch, range_bounds, value_bounds
from penstock.table.predicate.tree import Column, Predicate, columns_of

_BEHIND_SLASH: Final = b"0"
"""The byte behind '/'."""


class PartitionPruning:
    """One filter over one table's partition paths. Partitions that do not fit `fields` are never ruled out."""

    def __init__(self, fields: Collection[str], schema: pa.Schema, predicate: Predicate) -> None:
        """fields: the columns that take their values from paths, one a segment; names and types as in `schema`."""
        self._fields = tuple(fields)
        self._types = {name: schema.field(name).type for name in self._fields}
        self._may_hold = MayMatch(predicate)

    def fits(self, partitions: Collection[str]) -> bool:
        """Whether every one of these paths tells the values of its partition."""
        return all(partition_values(partition, self._fields) is not None for partition in partitions)

    def drops(self, partition: str) -> bool:
        """Whether the filter is true for no row of a partition."""
        values = partition_values(partition, self._fields)
        return values is not None and not self._may_hold(self._exact(values))

    def drops_below(self, folder: str) -> bool:
        """Whether the filter is true for no row of any fitting partition that is this folder, or in it."""
        segments = folder.split("/")
        if len(self._fields) == 1:
            return self.drops(folder) and not self._may_hold(self._deeper(folder))
        if not folder or len(segments) > len(self._fields):
            return False
        values = partition_values(folder, self._fields[: len(segments)])
        return values is not None and not self._may_hold(self._exact(values))

    def skipped_folders(self, known: Collection[str] | None) -> Callable[[str], bool]:
        """Which folders need not be looked into for partitions. `known`: every partition there is, if that is known.

        With one field every path fits. With several a folder may hold paths that do not, and then no partition may be
        passed over; only those on the way to known partitions, all of which fit, surely hold none.
        """
        if len(self._fields) == 1:
            return self.drops_below
        if known is None or not self.fits(known):
            return lambda folder: False
        ways = {partition[:end] for partition in known for end in _ends(partition)}
        return lambda folder: folder in ways and self.drops_below(folder)

    def _exact(self, values: Collection[str | None]) -> BoundsLookup:
        """What the first fields' values tell of columns; nothing of other columns."""
        told = {name: _scalar_bounds(text, self._types[name]) for name, text in zip(self._fields, values, strict=False)}
        return lambda column: told.get(column.path[0], UNKNOWN) if len(column.path) == 1 else UNKNOWN

    def _deeper(self, folder: str) -> BoundsLookup:
        """What is known of the one field in partitions inside the folder: texts that start with its own and a '/'."""
        values = partition_values(folder, self._fields)
        text = None if values is None else values[0]
        if text is None:
            text = DEFAULT_PARTITION
        name = self._fields[0]
        known = UNKNOWN
        if pa.types.is_string(self._types[name]):
            prefix = text.encode("utf-8", "surrogatepass")
            known = range_bounds(prefix + b"/", prefix + _BEHIND_SLASH, nulls=False)
        elif pa.types.is_integer(self._types[name]) or pa.types.is_date(self._types[name]):
            known = ColumnBounds(nulls=False, values=False)

        def bounds(column: Column) -> ColumnBounds:
            return known if column.path == (name,) else UNKNOWN

        return bounds


def partition_pruning(
    properties: TableProperties, schema: pa.Schema, row_filter: Predicate | None
) -> PartitionPruning | None:
    """The pruning of partitions by a filter that is bound to `schema`; None if the filter uses no partition column."""
    if row_filter is None:
        return None
    names = {name.lower() for name in schema.names}
    fields = path_value_fields(properties)
    if not fields or any(field.lower() not in names for field in fields):
        return None
    try:
        own = tuple(resolve_column(field, schema.names) for field in fields)
    except ConfigurationError:
        return None
    return PartitionPruning(own, schema, row_filter) if set(own) & set(columns_of(row_filter)) else None


def _scalar_bounds(text: str | None, kind: pa.DataType) -> ColumnBounds:
    """What a path's text tells; nothing if it is no value of the type (reading the partition will tell)."""
    try:
        return value_bounds(partition_scalar(text, kind, "partition"))
    except (PenstockError, pa.ArrowException, ValueError):
        return UNKNOWN


def _ends(partition: str) -> list[int]:
    """Where each folder on the way to a partition ends, the partition's own included."""
    return [place for place, letter in enumerate(partition) if letter == "/"] + [len(partition)]
