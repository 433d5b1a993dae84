"""A table as an engine reads it: its schema at once, and a new plan for each of the engine's reads."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.adapters.conditions import pushed_where
from penstock.engine.arrow import open_reading
from penstock.engine.connect import embedded_enumerator, open_tables
from penstock.engine.read_tasks import PlannedRead, open_read
from penstock.engine.requests.expression_tree import columns_of
from penstock.engine.table.session import merged
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options
from penstock.table.storage.uris import redacted_uri

if TYPE_CHECKING:
    from penstock.enumerator.embedded import EmbeddedEnumerator


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table, the options of its reads, and the schema that it had when the source was created."""

    table: str
    """The path or URI, or with `server` the name."""
    options: ParsedOptions
    """The options of the query."""
    schema: pa.Schema
    """The columns that the engine can request, in order."""
    embedded: EmbeddedEnumerator | None = field(default=None, repr=False, compare=False)
    """The enumerator of this process, which keeps what it knows of the table between reads; None: with a server, or in
    a process that received the source."""

    def __reduce__(self) -> tuple[type[TableSource], tuple[object, ...]]:
        return TableSource, (self.table, self.options, self.schema)

    def planned(self, columns: Sequence[str] | None, condition: pc.Expression | None = None) -> PlannedRead:
        """Plans a read of the table as it is now: of `columns` (None: all) and those of `condition`, at least one.

        The rows are at least those for which `condition` is true: the engine must apply its own condition.
        Errors: `penstock.proto.errors`; SchemaMismatch if a column has changed since the source was created.
        """
        opened = open_read(self.table, self._options(columns, condition, None), self.embedded)
        self._check(opened.schema)
        return opened.planned()

    def batches(
        self, columns: Sequence[str] | None, condition: pc.Expression | None = None, limit: int | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Plans a read as `planned` does, and reads at most `limit` rows in this process, in plan order.

        Closing the generator closes the files that it holds open.
        """
        reading = open_reading(self.table, self._options(columns, condition, limit), self.embedded, ahead=True)
        self._check(reading.schema)
        return reading.batches()

    def _options(
        self, columns: Sequence[str] | None, condition: pc.Expression | None, limit: int | None
    ) -> ParsedOptions:
        names = self._names(columns, condition)
        where = pushed_where(self.options.where, condition, self.schema)
        return replace(self.options, columns=names, where=where, limit=limit)

    def _names(self, columns: Sequence[str] | None, condition: pc.Expression | None) -> tuple[str, ...]:
        if columns is None:
            return tuple(self.schema.names)
        needed = dict.fromkeys(columns)
        if condition is not None:
            named = columns_of(condition)
            needed |= dict.fromkeys(name for name in self.schema.names if named is None or name in named)
        return tuple(needed) or (_narrowest(self.schema),)

    def _check(self, schema: pa.Schema) -> None:
        for column in schema:
            expected = self.schema.field(column.name)
            if not column.equals(expected):
                raise SchemaMismatch(
                    f"table {redacted_uri(self.table)}: column {column.name!r} was {expected.type} when the query was "
                    f"written, and is {column.type} now: create the scan again"
                )


def table_source(entry: str, table: str | os.PathLike[str], options: Mapping[str, object], limit: str) -> TableSource:
    """The source of a table for the function `entry`, which the user called with `options`.

    `limit` says how the engine limits rows. Errors: `penstock.proto.errors`.
    """
    parsed = parse_options(merged(options, {}), entry_point=EntryPoint.ARROW, environment=os.environ)
    for text in parsed.warnings:
        warnings.warn(f"{entry}: {text}", UserWarning, stacklevel=4)
    if parsed.limit is not None:
        raise ConfigurationError(f"{entry} does not take the option limit: got {parsed.limit}; {limit}")
    path = os.fspath(table)
    embedded = embedded_enumerator(open_tables(max_tables=1)) if parsed.server is None else None
    return TableSource(path, parsed, open_read(path, parsed, embedded).schema, embedded)


def _narrowest(schema: pa.Schema) -> str:
    """The column that costs least to read: the narrowest of a fixed width, else the first."""

    def width(field: pa.Field) -> int:
        try:
            return int(field.type.bit_width)
        except ValueError:
            return 1 << 20

    return str(min(schema, key=width).name)
