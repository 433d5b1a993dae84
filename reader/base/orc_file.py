"""An ORC base file: its rows as batches of the table's columns and types.

The whole file is one row group, because pyarrow returns the statistics of no stripe. Source of the column types: Hudi
`AvroOrcUtils`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa

from penstock.proto.model.splits import FileRef
from penstock.reader.base.columns import INT96, Missing
from penstock.reader.base.decoded_size import pieces
from penstock.reader.base.decoding.orc import read_orc
from penstock.reader.base.one_group_file import FIRST_ROWS, OneGroupFile, rows_at_once
from penstock.reader.base.orc.far_times import FarTimes
from penstock.reader.base.orc.zone import writer_zone
from penstock.reader.split.emit import BatchSize
from penstock.reader.split.report import SplitTally
from penstock.reader.values.leaves import leaf_types
from penstock.table.orc import orc_footer
from penstock.table.schema.avro import RecordSchema
from penstock.table.schema.history import ColumnMapping
from penstock.table.storage.filesystem import Storage

_OUT_OF_RANGE: Final = "out of range for nanosecond resolution"
"""In the error of Arrow for a timestamp before 1677 or after 2262."""

_T = TypeVar("_T")


class _OutOfRange(Exception):
    """A timestamp before 1677 or after 2262."""


class OrcFile(OneGroupFile):
    """An open ORC file, for one thread at a time."""

    def __init__(
        self,
        storage: Storage,
        ref: FileRef,
        record: RecordSchema,
        columns_read: Sequence[str],
        *,
        table: str,
        key: str = "",
        where: str = "",
        names: ColumnMapping | None = None,
        tally: SplitTally | None = None,
    ) -> None:
        """The arguments and errors are those of `BaseFile`. Only the footer is read."""
        self._where = where or f"table {table}: base file {ref.path}"
        self._storage, self._ref, self._key, self._tally = storage, ref, key, tally
        self._encoded, self._rebase, self._unchanged = [], None, None
        self._far: FarTimes | None = None
        """Reads timestamps before 1677 and after 2262, once the file has one."""
        try:
            self._source = storage.open_input(ref.path)
        except FileNotFoundError:
            raise self._gone() from None
        try:
            footer = self._translated(lambda: orc_footer(self._source, self._where))
            self._match(footer.schema, record, columns_read, names)
            stored = {source.column for source in self._sources if not isinstance(source, Missing)}
            self._read_schema = pa.schema([field for field in footer.schema if field.name in stored])
            self._zone = self._translated(lambda: writer_zone(self._source, self._read_schema, self._where))
            if (zone := self._zone) is not None:
                declared = self._translated(lambda: orc_footer(zone.source, self._where))
                self._match(declared.schema, record, columns_read, names)
        except BaseException:
            self._source.close()
            raise
        self._rows = footer.rows
        self.footer = {}

    def _match(
        self,
        stored: pa.Schema,
        record: RecordSchema,
        columns_read: Sequence[str],
        names: ColumnMapping | None,
    ) -> None:
        self.stored_schema = stored
        leaves = [leaf for field in stored for leaf in leaf_types(field.type)]
        physical = [INT96 if pa.types.is_timestamp(leaf) else "" for leaf in leaves]  # nanoseconds, as INT96 is
        self._sources = self._matched(physical, record, columns_read, names)

    def close(self) -> None:
        """Closes the file; no row can be read afterwards."""
        self._source.close()

    def _read(self, number: int, size: BatchSize, columns: Collection[str] | None) -> Iterator[pa.RecordBatch]:
        sources = [source for source in self._sources if columns is None or source.name in columns]
        stored = [source.column for source in sources if not isinstance(source, Missing)]
        remaining = self._rows
        for batch in self._decoded(stored, size):
            remaining -= batch.num_rows
            for piece in pieces(batch, size, self.stored_schema, ()):
                yield self._as_table_columns(piece, sources, {})
        self._check_count(number, remaining)

    def _decoded(self, stored: Sequence[str], size: BatchSize) -> Iterator[pa.RecordBatch]:
        """Batches of these columns of the file. Once a timestamp is out of range for nanoseconds, they are decoded
        again in microseconds, without the rows that were yielded."""
        yielded = 0
        if self._far is None or not self._far.has(stored):
            batches = self._sized(partial(self._near_batches, stored), size)
            while True:
                try:
                    batch = next(batches, None)
                except _OutOfRange:
                    self._far = self._translated(self._far_times)
                    break
                if batch is None:
                    return
                yielded += batch.num_rows
                yield batch
        for batch in self._sized(partial(self._far.batches, stored), size):
            if yielded < batch.num_rows:
                yield batch.slice(yielded)
            yielded = max(0, yielded - batch.num_rows)

    def _sized(
        self, opened: Callable[[int, int | None], Generator[pa.RecordBatch, None, None]], size: BatchSize
    ) -> Iterator[pa.RecordBatch]:
        """The batches of `opened`, a function of the most rows of one and the most batches, with as many rows as `size`
        allows."""
        first = self._translated(lambda: list(opened(min(size.rows, FIRST_ROWS), 1)))
        rows = min(size.rows, rows_at_once(first[0] if first else None, size.size_bytes))
        with closing(opened(rows, None)) as batches:
            while (batch := self._translated(partial(next, batches, None))) is not None:
                yield batch

    def _near_batches(
        self, stored: Sequence[str], rows: int, most: int | None
    ) -> Generator[pa.RecordBatch, None, None]:
        zone = self._zone
        with closing(read_orc(self._source if zone is None else zone.source, stored, rows, most)) as batches:
            for batch in batches:
                yield batch if zone is None else zone.instants(batch)

    def _far_times(self) -> FarTimes:
        offset_s = 0 if self._zone is None else self._zone.offset_s
        return FarTimes(self._source, self._read_schema, offset_s, self._where)

    def _translated(self, action: Callable[[], _T]) -> _T:
        def translated() -> _T:
            try:
                return action()
            except pa.ArrowException as error:
                if _OUT_OF_RANGE in str(error) and self._far is None:
                    raise _OutOfRange from None
                if type(error) is pa.ArrowException:  # the library of ORC fails without a class of its own
                    raise pa.ArrowInvalid(str(error)) from error
                raise

        return super()._translated(translated)
