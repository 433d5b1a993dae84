"""One row group of an open base file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.reader.split.emit import BatchSize


class RowGroupReader(Protocol):
    """An open base file, by row groups."""

    def rows_of(self, number: int) -> int:
        """The number of rows of the row group."""
        ...

    def read(self, number: int, size: BatchSize, columns: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The row group's rows in file order, with the table's types; with `columns` only those columns."""
        ...

    def read_keys(self, number: int, size: BatchSize) -> pa.Array | None:
        """The keys of all rows of the row group, in file order; None if they take too much memory to hold at once."""
        ...


@dataclass(frozen=True, slots=True)
class BaseRowGroup:
    """One row group of an open base file."""

    file: RowGroupReader
    """The file."""
    number: int
    """The row group's index in the file."""
    size: BatchSize
    """The size of batches."""
    columns: Collection[str] | None = None
    """The columns to read, for a row group whose rows are only matched with a log and not returned; None for all
    columns."""

    @property
    def emits_rows(self) -> bool:
        """Whether its rows may be returned."""
        return self.columns is None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.file.rows_of(self.number)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows in file order, with the columns and types that the file was opened with."""
        return self.file.read(self.number, self.size, self.columns)

    def keys(self) -> pa.Array | None:
        """The record keys of all its rows, in file order; None if they take too much memory to hold at once."""
        return self.file.read_keys(self.number, self.size)
