"""A base file: Parquet row groups as batches of the table's columns and types, decoded on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from penstock.proto.errors import CorruptFile, SchemaMismatch, StorageError
from penstock.proto.model.splits import FileRef, RowGroupRun, WholeFile
from penstock.reader.base.checked_file import CheckedFile
from penstock.reader.base.columns import ColumnSource, Missing, Stored, Widened, column_sources, unchanged_columns
from penstock.reader.base.decoded_size import joined_keys, pieces
from penstock.reader.base.row_group import BaseRowGroup
from penstock.reader.base.row_group_stats import RowGroupBounds
from penstock.reader.split.emit import BatchSize
from penstock.reader.split.report import SplitTally
from penstock.reader.values.dictionary_text import (
    IndexOutOfDictionary,
    checked,
    constant_columns,
    is_encoded,
    one_value,
    text_bytes,
    worth_encoding,
)
from penstock.reader.values.widening import HUDI_TOO, NotExact, widened
from penstock.table.parquet.checks import ParquetError, is_storage_failure
from penstock.table.parquet.legacy_calendar import LegacyCalendar, legacy_calendar
from penstock.table.schema.avro import RecordSchema
from penstock.table.schema.history import ColumnMapping
from penstock.table.storage.filesystem import Storage, is_local

if TYPE_CHECKING:
    from penstock.reader.base.legacy_calendar import CalendarRebase

_FAILURES: Final = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowSerializationError,
    UnicodeDecodeError,
    OSError,
    ParquetError,
    IndexOutOfDictionary,
    pa.ArrowIndexError,
)

_T = TypeVar("_T")


class BaseFile:
    """An open base file, for one thread at a time. `close` (or `with`) closes it."""

    stored_schema: pa.Schema
    """The columns as the file has them."""
    footer: Mapping[bytes, bytes]
    """The key-value metadata of the footer."""

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
        may_be_encoded: Collection[str] = (),
        calendars: bool = True,
        tally: SplitTally | None = None,
        compiled: bool = False,
    ) -> None:
        """* record: the table's schema.
        * columns_read: the columns to read, distinct, at least one. `key`: one of them that must not be null, or ''.
        * table: its name for errors; `where` replaces the whole beginning of their texts.
        * names: the file's column names, if they differ from the table's.
        * may_be_encoded: text columns that may be returned as indices (`values.dictionary_text`) where that is cheaper.
        * calendars: whether dates and timestamps of the legacy calendar are converted.
        * tally: gets the time that decoding takes.
        * compiled: whether a kernel checks a small file.

        CorruptFile if the file is gone, shorter than planned, or not Parquet; SchemaMismatch if a column's type cannot
        be read as the table's. Only the footer is read.
        """
        self._where = where or f"table {table}: base file {ref.path}"
        self._storage, self._ref, self._key = storage, ref, key
        self._encoded: list[str] = []
        self._may_be_encoded: Collection[str] = ()
        self._tally = tally
        self._bounds: RowGroupBounds | None = None
        try:
            source = storage.open_input(ref.path)
        except FileNotFoundError:
            raise self._gone() from None
        self._parquet = self._translated(lambda: CheckedFile(source, local=is_local(storage), compiled=compiled))
        try:
            self.footer = self._parquet.footer.metadata or {}
            schema, physical = self._translated(self._parquet.columns)
            sources = column_sources(schema, physical, record, columns_read, self._where, names)
            self._encode(schema, sources, may_be_encoded)
            self._calendar = legacy_calendar(self.footer) if calendars else None
            self._rebase = None if self._calendar is None else _calendar_rebase(self._calendar, schema, physical)
        except BaseException:
            self._parquet.close()
            raise
        if any(isinstance(source, Missing) and source.name == key for source in sources):
            self._parquet.close()
            raise SchemaMismatch(f"{self._where}: it has no column {key} to merge by (virtual keys) and a log")
        self._sources = sources
        self._unchanged = None if key else unchanged_columns(sources)
        self.stored_schema = schema

    def __enter__(self) -> BaseFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; no row can be read afterwards."""
        self._parquet.close()

    @property
    def where(self) -> str:
        """Table and file, the beginning of error texts."""
        return self._where

    def row_group_bounds(self) -> RowGroupBounds:
        """The footer's statistics of the columns read. CorruptFile if they do not have their columns' types."""
        if self._bounds is None:
            self._check_statistics()
            self._bounds = RowGroupBounds(self._parquet.footer, self.stored_schema, self._sources, self._calendar)
        return self._bounds

    @property
    def num_rows(self) -> int:
        """The rows of the whole file."""
        return int(self._parquet.footer.num_rows)

    @property
    def num_row_groups(self) -> int:
        """The row groups of the whole file."""
        return int(self._parquet.footer.num_row_groups)

    def row_groups(self, part: WholeFile | RowGroupRun, size: BatchSize) -> Iterator[BaseRowGroup]:
        """The row groups of this part, in file order. CorruptFile if the file has fewer."""
        total = self.num_row_groups
        first, end = (part.first, part.end) if isinstance(part, RowGroupRun) else (0, total)
        if not 0 <= first <= end <= total:
            raise CorruptFile(
                f"{self._where}: row groups {first} to {end - 1} were planned, it has {total}: the file was replaced "
                "under the reader; plan the query again"
            )
        for number in range(first, end):
            yield BaseRowGroup(self, number, size)

    def rows_of(self, number: int) -> int:
        """The number of rows of the row group."""
        return int(self._parquet.footer.row_group(number).num_rows)

    def read(self, number: int, size: BatchSize, columns: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The row group's rows in file order, with the table's types; with `columns` only those columns."""
        batches = self._read(number, size, columns)
        return batches if self._tally is None else self._tally.timed("base_decode", batches)

    def _read(self, number: int, size: BatchSize, columns: Collection[str] | None) -> Iterator[pa.RecordBatch]:
        sources: Sequence[ColumnSource] = self._sources
        if columns is not None:
            sources = [source for source in sources if source.name in columns]
        stored = [source.column for source in sources if not isinstance(source, Missing)]
        constant_texts = self._constant_columns(number)
        stored = [column for column in stored if column not in constant_texts] or stored
        read, file = self._translated(lambda: self._parquet.batches(number, size, stored))
        batches = self._translated(
            lambda: file.iter_batches(read.rows, row_groups=[number], columns=stored, use_threads=False)
        )
        has_indices = bool(self._encoded or read.as_indices)
        constants = {column: one_value(text, read.rows) for column, text in constant_texts.items()}
        remaining = self.rows_of(number)
        while (decoded := self._translated(lambda: next(batches, None))) is not None:
            remaining -= decoded.num_rows
            if read.fits_batch:
                yield self._as_table_columns(self._rebased(decoded), sources, constants)
                continue
            parts = pieces(decoded, size, self.stored_schema, self._may_be_encoded, has_indices=has_indices)
            while (piece := self._translated(partial(next, parts, None))) is not None:
                batch = self._as_table_columns(self._rebased(piece), sources, constants)
                batch_bytes = text_bytes(batch) if has_indices else int(batch.nbytes)
                step = max(1, min(size.rows, size.size_bytes * batch.num_rows // max(1, batch_bytes)))
                for begin in range(0, batch.num_rows, step):
                    yield batch if step >= batch.num_rows else batch.slice(begin, step)
        self._check_count(number, remaining)

    def read_keys(self, number: int, size: BatchSize) -> pa.Array | None:
        """The keys of all rows of the row group, in file order; None if they take too much memory to hold at once, or
        would be requested from a store a second time."""
        if not is_local(self._storage):
            return None
        return joined_keys(batch.column(0) for batch in self.read(number, size, [self._key]))

    def _check_count(self, number: int, remaining: int) -> None:
        if remaining:
            raise CorruptFile(
                f"{self._where}: row group {number} lacks {remaining} of {self.rows_of(number)} rows: "
                "the file is damaged, restore or rewrite it"
            )

    def _encode(self, schema: pa.Schema, sources: Sequence[ColumnSource], may_be_encoded: Collection[str]) -> None:
        """Opens the file once more, with the columns as indices for which that is cheaper."""
        plain = {
            source.column
            for source in sources
            if isinstance(source, Stored) and source.type == pa.string() and source.name in may_be_encoded
        }
        self._may_be_encoded = [column for column in plain if pa.types.is_string(schema.field(column).type)]
        if plain:
            self._encoded = self._translated(lambda: worth_encoding(self._parquet.footer, schema, plain))
        if self._encoded:
            self._translated(lambda: self._parquet.encode(self._encoded))

    def _check_statistics(self) -> None:
        if (fault := self._parquet.statistics_fault) is not None:

            def damaged() -> None:
                raise fault

            self._translated(damaged)

    def _constant_columns(self, number: int) -> Mapping[str, str]:
        """The row group's encoded columns that have a single value by the footer's statistics.

        Damaged statistics are ignored, because rows can be read without them.
        """
        if self._encoded and self._parquet.statistics_fault is None:
            return constant_columns(self._parquet.footer, number, self._encoded)
        return {}

    def _rebased(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        if self._rebase is None:
            return decoded
        from penstock.reader.base.legacy_zones import UnknownZone  # late, as below

        try:
            return self._rebase.rebased(decoded)
        except UnknownZone as error:
            raise CorruptFile(
                f"{self._where}: its timestamps before 1900 are of the legacy calendar, and its footer names {error} "
                "(org.apache.spark.timeZone), expected one that Java supports: they cannot be converted; rewrite the "
                "file, as clustering with Spark 3.2 or later does"
            ) from None

    def _as_table_columns(
        self, decoded: pa.RecordBatch, sources: Sequence[ColumnSource], constants: Mapping[str, pa.Array]
    ) -> pa.RecordBatch:
        if sources is self._sources and self._unchanged is not None and decoded.schema.equals(self._unchanged):
            return pa.RecordBatch.from_arrays(decoded.columns, schema=self._unchanged)
        columns: list[pa.Array] = []
        for source in sources:
            match source:
                case Missing(_, kind):
                    columns.append(pa.nulls(decoded.num_rows, kind))
                case Stored() if source.column in constants:
                    columns.append(constants[source.column].slice(0, decoded.num_rows))
                case Stored(name, kind):
                    column = decoded.column(source.column)
                    if is_encoded(column.type):
                        column = self._checked_indices(column)
                    elif column.type != kind:
                        column = self._cast(name, column, kind)
                    columns.append(self._checked_keys(column) if name == self._key else column)
                case Widened():
                    columns.append(self._widened(source, decoded.column(source.column)))
        return pa.RecordBatch.from_arrays(columns, names=[source.name for source in sources])

    def _checked_indices(self, column: pa.Array) -> pa.Array:
        return self._translated(lambda: checked(column))

    def _cast(self, name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
        try:
            return column.cast(kind)
        except pa.ArrowInvalid as error:
            reason = str(error).partition("\n")[0][:200]
            raise SchemaMismatch(
                f"{self._where}: column {name!r}: {column.type} holds a value that {kind} cannot: {reason}"
            ) from None

    def _widened(self, source: Widened, column: pa.Array) -> pa.Array:
        try:
            return widened(column, source.written, source.reader_type)
        except NotExact as error:
            raise SchemaMismatch(f"{self._where}: column {source.name!r}: {error}; {HUDI_TOO}") from None

    def _checked_keys(self, keys: pa.Array) -> pa.Array:
        if keys.null_count:
            raise CorruptFile(f"{self._where}: a row without {self._key}: the file is damaged, restore or rewrite it")
        return keys

    def _translated(self, action: Callable[[], _T]) -> _T:
        """The action's result. A failure becomes CorruptFile, or StorageError if the storage caused it."""
        try:
            return action()
        except _FAILURES as error:
            reason = str(error).partition("\n")[0][:300]
            if is_storage_failure(error):
                raise StorageError(f"{self._where}: reading failed: {reason}; a retry may succeed") from error
            info = self._storage.file_info(self._ref.path)
            if info is None:
                raise self._gone() from None
            short = f" (truncated: it has {info.size_bytes} bytes, the plan says {self._ref.size_bytes})"
            raise CorruptFile(
                f"{self._where} cannot be read{short if info.size_bytes < self._ref.size_bytes else ''}: {reason}; "
                "it is damaged: restore it, or roll back or rewrite the instant that wrote it"
            ) from None

    def _gone(self) -> CorruptFile:
        error = CorruptFile(
            f"{self._where} is in the plan but is gone; the cleaner may have removed it. Plan the query again, and "
            "keep cleaned versions longer than a query lasts"
        )
        error.is_gone = True
        return error


def _calendar_rebase(calendar: LegacyCalendar, schema: pa.Schema, physical: Sequence[str]) -> CalendarRebase:
    from penstock.reader.base.legacy_calendar import CalendarRebase  # late: few files have the legacy calendar

    return CalendarRebase(calendar, schema, physical)
