"""Base files without row groups and statistics of their own (ORC, Lance): the whole file is one row group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import pyarrow as pa

from penstock.proto.errors import ConfigurationError, OutOfMemory, SchemaMismatch
from penstock.reader.base.columns import ColumnSource, Missing, column_sources
from penstock.reader.base.decoding.child import LibraryUnavailable
from penstock.reader.base.file import BaseFile
from penstock.reader.base.row_group_stats import RowGroupBounds
from penstock.table.schema.avro import RecordSchema
from penstock.table.schema.history import ColumnMapping

FIRST_ROWS: Final = 16
"""The number of rows that are decoded first, to learn the size of a row."""
MOST_ROWS: Final = 1024
"""The most rows that are decoded at once: a text of a dictionary may be that of every row."""

_T = TypeVar("_T")


class OneGroupFile(BaseFile):
    """A file that is one row group. A format sets `_rows`, `stored_schema` and `_sources`, and reads batches in
    `_read`."""

    _rows: int

    def row_group_bounds(self) -> RowGroupBounds:
        """Bounds that rule out nothing."""
        return RowGroupBounds(None, self.stored_schema, self._sources)

    @property
    def num_rows(self) -> int:
        """The rows of the whole file."""
        return self._rows

    @property
    def num_row_groups(self) -> int:
        """The whole file is one."""
        return 1

    def rows_of(self, number: int) -> int:
        """The rows of the whole file."""
        return self._rows

    def _matched(
        self,
        physical: Sequence[str],
        record: RecordSchema,
        columns_read: Sequence[str],
        names: ColumnMapping | None,
    ) -> tuple[ColumnSource, ...]:
        """The sources of the columns in `stored_schema`. SchemaMismatch as for `BaseFile`."""
        sources = column_sources(self.stored_schema, list(physical), record, columns_read, self._where, names)
        if any(isinstance(source, Missing) and source.name == self._key for source in sources):
            raise SchemaMismatch(f"{self._where}: it has no column {self._key} to merge by (virtual keys) and a log")
        return sources

    def _translated(self, action: Callable[[], _T]) -> _T:
        try:
            return super()._translated(action)
        except LibraryUnavailable as error:
            raise ConfigurationError(f"{self._where}: {error}") from error
        except MemoryError as error:
            raise OutOfMemory(
                f"{self._where}: {error or 'too little memory'}: read fewer splits at once, or on a larger machine"
            ) from error


def rows_at_once(first: pa.RecordBatch | None, most_bytes: int) -> int:
    """How many rows are decoded at once, by the size of the first rows; at least 1."""
    row_bytes = 1 if first is None else max(1, first.nbytes // max(1, first.num_rows))
    return max(1, min(MOST_ROWS, most_bytes // row_bytes))
