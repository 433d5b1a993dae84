"""An ORC base file: its rows as batches of the table's columns and types.

The whole file is one row group, because pyarrow returns the statistics of no stripe. Source of the column types: Hudi
`AvroOrcUtils`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa

from penstock.proto.errors import UnsupportedFeature
from penstock.proto.model.splits import FileRef
from penstock.reader.base.columns import INT96, Missing
from penstock.reader.base.decoded_size import pieces
from penstock.reader.base.one_group_file import FIRST_ROWS, OneGroupFile, leaf_types, rows_at_once
from penstock.reader.base.orc_zone import writer_zone
from penstock.reader.split.emit import BatchSize
from penstock.reader.split.report import SplitTally
from penstock.table.orc import orc_footer
from penstock.table.schema.avro import RecordSchema
from penstock.table.schema.history import ColumnMapping
from penstock.table.storage.filesystem import Storage

_OUT_OF_RANGE: Final = "out of range for nanosecond resolution"
"""In the error of Arrow for a timestamp before 1677 or after 2262."""

_T = TypeVar("_T")


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
        try:
            self._source = storage.open_input(ref.path)
        except FileNotFoundError:
            raise self._gone() from None
        try:
            footer = self._translated(lambda: orc_footer(self._source, self._where))
            self._match(footer.schema, record, columns_read, names)
            stored = {source.column for source in self._sources if not isinstance(source, Missing)}
            read = pa.schema([field for field in footer.schema if field.name in stored])
            self._zone = self._translated(lambda: writer_zone(self._source, read, self._where))
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
        from pyarrow.dataset import OrcFileFormat

        sources = [source for source in self._sources if columns is None or source.name in columns]
        stored = [source.column for source in sources if not isinstance(source, Missing)]
        fragment = OrcFileFormat().make_fragment(self._source if self._zone is None else self._zone.source)

        def decoded_by(rows: int) -> Iterator[pa.RecordBatch]:
            options = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
            return iter(fragment.to_batches(columns=stored, batch_size=min(size.rows, rows), **options))

        first = self._translated(lambda: next(decoded_by(FIRST_ROWS), None))
        batches = decoded_by(rows_at_once(first, size.size_bytes))
        remaining = self._rows
        while (decoded := self._translated(partial(next, batches, None))) is not None:
            remaining -= decoded.num_rows
            if self._zone is not None:
                decoded = self._translated(partial(self._zone.instants, decoded))
            for piece in pieces(decoded, size, self.stored_schema, ()):
                yield self._as_table_columns(piece, sources, {})
        self._check_count(number, remaining)

    def _translated(self, action: Callable[[], _T]) -> _T:
        def decoded() -> _T:
            try:
                return action()
            except pa.ArrowException as error:
                if _OUT_OF_RANGE in str(error):
                    raise UnsupportedFeature(
                        f"ORC timestamps before 1677 or after 2262: {self._where}: {str(error)[:200]}; read other "
                        "columns, or let Hudi rewrite the table in Parquet"
                    ) from None
                if type(error) is pa.ArrowException:  # the library of ORC fails without a class of its own
                    raise pa.ArrowInvalid(str(error)) from error
                raise

        return super()._translated(decoded)
