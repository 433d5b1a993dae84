"""A Lance base file: its rows as batches of the table's columns and types.

The whole file is one row group, because Lance stores no statistics. The library of Lance, in a process of its own
(`decoding.lance`), opens paths only: a file that is not on the local file system is copied to a temporary one first.
Source of the column types: Hudi `HoodieSparkLanceWriter`.
"""

from __future__ import annotations

import pathlib
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Final

import pyarrow as pa

from penstock.proto.model.splits import FileRef
from penstock.reader.base.columns import Missing
from penstock.reader.base.decoded_size import pieces
from penstock.reader.base.decoding.lance import lance_schema, read_lance
from penstock.reader.base.one_group_file import FIRST_ROWS, OneGroupFile, rows_at_once
from penstock.reader.split.emit import BatchSize
from penstock.reader.split.report import SplitTally
from penstock.reader.values.leaves import leaf_types
from penstock.table.lance import lance_footer
from penstock.table.schema.avro import RecordSchema
from penstock.table.schema.history import ColumnMapping
from penstock.table.storage.filesystem import Storage
from penstock.table.storage.local_listing import LocalFolders

_VECTOR_ELEMENTS: Final = (pa.float32(), pa.float64(), pa.int8())
"""The numbers of Hudi's vectors."""
_COPIED_BYTES: Final = 1 << 20


class LanceFile(OneGroupFile):
    """An open Lance file, for one thread at a time."""

    def __init__(
        self,
        storage: Storage,
        ref: FileRef,
        record: RecordSchema,
        columns_read: Sequence[str],
        *,
        table: str,
        key: str = "",
        names: ColumnMapping | None = None,
        tally: SplitTally | None = None,
    ) -> None:
        """The arguments and errors are those of `BaseFile`; ConfigurationError without the extra `lance`;
        OutOfMemory; UnsupportedFeature for an unknown version of the format. Only the footer is decoded; a file on a
        remote store is copied."""
        self._where = f"table {table}: base file {ref.path}"
        self._storage, self._ref, self._key, self._tally = storage, ref, key, tally
        self._encoded, self._rebase, self._unchanged = [], None, None
        self._closing = ExitStack()
        try:
            self._path = self._translated(self._local_path)
            self._schema: pa.Schema = self._translated(lambda: lance_schema(self._path))
            self.stored_schema = pa.schema([_stored(field) for field in self._schema])
            physical = ["" for field in self.stored_schema for _ in leaf_types(field.type)]
            self._sources = self._matched(physical, record, columns_read, names)
        except BaseException:
            self._closing.close()
            raise
        self.footer = {}

    def close(self) -> None:
        """Closes the file and removes its copy; no row can be read afterwards."""
        self._closing.close()

    def _read(self, number: int, size: BatchSize, columns: Collection[str] | None) -> Iterator[pa.RecordBatch]:
        sources = [source for source in self._sources if columns is None or source.name in columns]
        stored = [source.column for source in sources if not isinstance(source, Missing)]
        if not self._rows:
            return
        # without a column Lance returns no rows
        read = partial(read_lance, self._path, stored or self._schema.names[:1])
        first = self._translated(lambda: list(read(min(FIRST_ROWS, self._rows), FIRST_ROWS)))
        rows = min(size.rows, rows_at_once(first[0] if first else None, size.size_bytes))
        remaining = self._rows
        with closing(read(self._rows, rows)) as batches:
            while (decoded := self._translated(partial(next, batches, None))) is not None:
                remaining -= decoded.num_rows
                converted = self._translated(partial(_with_vectors, decoded, self.stored_schema))
                for piece in pieces(converted, size, self.stored_schema, (), has_indices=True):
                    yield self._as_table_columns(piece, sources, {})
        self._check_count(number, remaining)

    def _local_path(self) -> str:
        """The path of the file, or of its copy, after a check of the footer."""
        with self._storage.open_input(self._ref.path) as source:
            self._rows = lance_footer(source, self._where).rows
            local = self._storage.local_folder(self._ref.path) if isinstance(self._storage, LocalFolders) else None
            if local is not None:
                return local
            folder = self._closing.enter_context(tempfile.TemporaryDirectory(prefix="penstock-"))
            path = pathlib.Path(folder) / "copy.lance"
            source.seek(0)
            with path.open("wb") as copy:
                shutil.copyfileobj(source, copy, _COPIED_BYTES)
            return str(path)


def _stored(field: pa.Field) -> pa.Field:
    """The column with the type of a vector in Parquet: a fixed of its numbers."""
    kind = field.type
    if not pa.types.is_fixed_size_list(kind) or kind.value_type not in _VECTOR_ELEMENTS:
        return pa.field(field.name, kind)
    return pa.field(field.name, pa.binary(kind.list_size * kind.value_type.bit_width // 8))


def _with_vectors(decoded: pa.RecordBatch, stored: pa.Schema) -> pa.RecordBatch:
    """The batch with its vectors as `_stored` says. ArrowInvalid for a null number."""
    columns = [
        _fixed(column, stored.field(name).type) if pa.types.is_fixed_size_list(column.type) else column
        for name, column in zip(decoded.schema.names, decoded.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=decoded.schema.names)


def _fixed(column: pa.FixedSizeListArray, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_fixed_size_binary(kind):
        return column
    if column.flatten().null_count:
        raise pa.ArrowInvalid("a vector with a null number")
    validity, numbers = column.buffers()[0], column.values.buffers()[1]
    if column.values.offset:
        numbers = numbers.slice(column.values.offset * column.type.value_type.bit_width // 8)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(column), [validity, numbers], offset=column.offset)
