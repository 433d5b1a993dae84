"""Prunes partitions by the values in their paths: decides which ones a filter excludes. Pure.

A partition with matching rows is never excluded. If the path of a single partition does not match the partition fields,
the values of *all* partitions come from files (`table.partitions.values`). So a partition is excluded only if all paths
match, and a folder is skipped without listing only if every path in it must match.
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

_AFTER_SLASH: Final = b"0"
"""The byte after '/'."""


class PartitionPruning:
    """A filter applied to the partition paths of a table. Paths that do not match `fields` are never excluded."""

    def __init__(self, fields: Collection[str], schema: pa.Schema, predicate: Predicate) -> None:
        """`fields`: the columns whose values come from paths, one for each segment, as named in `schema`."""
        self._fields = tuple(fields)
        self._types = {name: schema.field(name).type for name in self._fields}
        self._may_match = MayMatch(predicate)
        self._dropped: dict[str, bool] = {}

    def fits(self, partitions: Collection[str]) -> bool:
        """Whether each of these paths matches the partition fields."""
        return all(partition_values(partition, self._fields) is not None for partition in partitions)

    def drops(self, partition: str) -> bool:
        """Whether the filter is true for no row of a partition."""
        dropped = self._dropped.get(partition)
        if dropped is None:
            values = partition_values(partition, self._fields)
            dropped = self._dropped[partition] = values is not None and not self._may_match(self._exact(values))
        return dropped

    def drops_below(self, folder: str) -> bool:
        """Whether the filter is true for no row of any matching partition that is this folder or inside it."""
        segments = folder.split("/")
        if len(self._fields) == 1:
            return self.drops(folder) and not self._may_match(self._deeper(folder))
        if not folder or len(segments) > len(self._fields):
            return False
        values = partition_values(folder, self._fields[: len(segments)])
        return values is not None and not self._may_match(self._exact(values))

    def skipped_folders(self, known: Collection[str] | None) -> Callable[[str], bool]:
        """The folders that need not be listed for partitions. `known`: all partitions of the table, if available.

        With one field every path matches. With several, a folder may contain paths that do not match, and then no
        partition may be excluded. Only parent folders of known partitions, if all of these match, contain none.
        """
        if len(self._fields) == 1:
            return self.drops_below
        if known is None or not self.fits(known):
            return lambda folder: False
        parents = {partition[:end] for partition in known for end in _ends(partition)}
        return lambda folder: folder in parents and self.drops_below(folder)

    def _exact(self, values: Collection[str | None]) -> BoundsLookup:
        """The bounds of the first fields, by their values; UNKNOWN for other columns."""
        known = {
            name: _scalar_bounds(text, self._types[name]) for name, text in zip(self._fields, values, strict=False)
        }
        return lambda column: known.get(column.path[0], UNKNOWN) if len(column.path) == 1 else UNKNOWN

    def _deeper(self, folder: str) -> BoundsLookup:
        """The bounds of the only field in partitions inside the folder: texts that start with the folder and '/'."""
        values = partition_values(folder, self._fields)
        text = None if values is None else values[0]
        if text is None:
            text = DEFAULT_PARTITION
        name = self._fields[0]
        known = UNKNOWN
        if pa.types.is_string(self._types[name]):
            prefix = text.encode("utf-8", "surrogatepass")
            known = range_bounds(prefix + b"/", prefix + _AFTER_SLASH, nulls=False)
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
    """The bounds of a path's text; UNKNOWN if it is not a value of the type, which reading the partition reports."""
    try:
        return value_bounds(partition_scalar(text, kind, "partition"))
    except (PenstockError, pa.ArrowException, ValueError):
        return UNKNOWN


def _ends(partition: str) -> list[int]:
    """The end of each parent folder in a partition path, and of the path itself."""
    return [index for index, character in enumerate(partition) if character == "/"] + [len(partition)]
