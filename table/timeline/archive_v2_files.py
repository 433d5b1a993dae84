"""Decodes a history file of layout 2: its instants as columns, and the metadata of selected instants.

A history file can be far smaller than its decoded rows, since millions of rows can share one dictionary value. So the
instants are filtered and deduplicated as columns, in small batches, before any row becomes a Python object. Source:
Hudi `LSMTimeline`, `HoodieLSMTimelineInstant`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.errors import CorruptFile, StorageError
from penstock.table.arrow_arrays import arrow_array
from penstock.table.arrow_compute import pc
from penstock.table.parquet.checks import is_storage_failure, read_footer
from penstock.table.parquet.pages import ChunkPages, check_pages
from penstock.table.storage.filesystem import Storage, is_local

MAX_INSTANTS: Final = 2_000_000
"""Limit of distinct instants of a history."""

_MAX_ROWS: Final = 20_000_000
_MAX_GROUP_BYTES: Final = 2 << 30
_READ_BYTES: Final = 64 << 20
"""Most bytes that one read decodes, unless a single value is larger."""
_INSTANT_ROWS: Final = 65_536
_METADATA_ROWS: Final = 1024
_MAX_TEXT_BYTES: Final = 256
"""Longest instant time or action, in bytes."""
_FRONT_CODED: Final = frozenset({"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"})
"""Encodings that pyarrow cannot decode into dictionary indices."""

COLUMNS: Final = ("instantTime", "completionTime", "action")
_METADATA: Final = "metadata"
_PLAN: Final = "plan"
_ROW: Final = "row"
HISTORY_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in COLUMNS),
        pa.field(_METADATA, pa.binary()),
        pa.field(_PLAN, pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
"""The columns of a history file: the metadata of the completed file, the plan of the requested one."""

_T = TypeVar("_T")


def distinct_instants(storage: Storage, path: str, actions: Collection[str], where: str) -> pa.Table:
    """The instants of these actions, each once, in the order of their first rows.

    The columns are `COLUMNS` as text, null where the file has null, and `row`, the number of the first row. `where`
    names file and table. CorruptFile for a file that is damaged, missing, or has more than MAX_INSTANTS.
    """
    with _HistoryFile(storage, path, COLUMNS, where) as file:
        action_values = arrow_array(sorted(actions), pa.string())
        parts: list[pa.Table] = []
        count, first_row = 0, 0
        for batch in file.batches(range(file.num_row_groups), _INSTANT_ROWS):
            columns = [file.texts(column, name) for name, column in zip(COLUMNS, batch.columns, strict=True)]
            rows = arrow_array(np.arange(first_row, first_row + batch.num_rows))
            first_row += batch.num_rows
            instants = pa.table([*columns, rows], names=[*COLUMNS, _ROW]).filter(
                pc.is_in(columns[2], value_set=action_values)
            )
            parts.append(_first_rows(instants))
            count += parts[-1].num_rows
            if count > MAX_INSTANTS:
                parts = [_first_rows(pa.concat_tables(parts))]
                count = parts[0].num_rows
                file.check_instants(count)
        if not parts:
            return pa.table(
                {**{name: arrow_array([], pa.string()) for name in COLUMNS}, _ROW: arrow_array([], pa.int64())}
            )
        return _first_rows(pa.concat_tables(parts))


def metadata_of(storage: Storage, path: str, rows: np.ndarray, where: str) -> Iterator[bytes]:
    """The metadata of these rows of a history file, ascending; b'' for null. Errors as for `distinct_instants`."""
    with _HistoryFile(storage, path, (_METADATA,), where) as file:
        begin = read = 0
        for number in range(file.num_row_groups):
            end = begin + file.rows_of(number)
            first, last = np.searchsorted(rows, (begin, end))
            if first < last:
                for body in _bodies(file, file.batches([number], _METADATA_ROWS), rows[first:last] - begin):
                    read += 1
                    yield body
            begin = end
        if read != len(rows):
            raise CorruptFile(f"{where} has metadata for {read} of {len(rows)} instants: expected one value for each")


def all_rows(storage: Storage, path: str, where: str) -> Iterator[pa.RecordBatch]:
    """The rows of a history file in file order, with `HISTORY_SCHEMA`, in batches of at most about 64 MiB unless a
    single row is larger. Errors as for `distinct_instants`."""
    with _HistoryFile(storage, path, HISTORY_SCHEMA.names, where) as file:
        for batch in file.batches(range(file.num_row_groups), _METADATA_ROWS):
            sizes = np.cumsum(np.sum([file.value_bytes(batch.column(name)) for name in (_METADATA, _PLAN)], axis=0))
            start = 0
            while start < batch.num_rows:
                before = sizes[start - 1] if start else 0
                end = max(start + 1, int(np.searchsorted(sizes, before + _READ_BYTES, "right")))
                yield file.plain(batch.slice(start, end - start))
                start = end


def _bodies(file: _HistoryFile, batches: Iterator[pa.RecordBatch], rows: np.ndarray) -> Iterator[bytes]:
    begin = 0
    for batch in batches:
        first, last = np.searchsorted(rows, (begin, begin + batch.num_rows))
        chosen = batch.column(0).take(arrow_array(rows[first:last] - begin))
        begin += batch.num_rows
        if not pa.types.is_dictionary(chosen.type):
            yield from (value.as_py() or b"" for value in file.as_bytes(chosen))
            continue
        previous, body = -1, b""
        for index in chosen.indices.to_pylist():
            if index is None:
                yield b""
                continue
            if index != previous:
                previous, body = index, file.body_of(chosen.dictionary, index)
            yield body


def _first_rows(instants: pa.Table) -> pa.Table:
    grouped = instants.group_by(list(COLUMNS), use_threads=False).aggregate([(_ROW, "min")])
    return grouped.rename_columns([*COLUMNS, _ROW]).sort_by(_ROW)


class _HistoryFile:
    """An open history file. Checks sizes that pyarrow does not check before it decodes."""

    def __init__(self, storage: Storage, path: str, columns: Sequence[str], where: str) -> None:
        self._columns, self._where = list(columns), where
        self._is_local = is_local(storage)
        try:
            self._source = self._guarded(lambda: storage.open_input(path))
        except FileNotFoundError as error:
            raise CorruptFile(f"{where} is missing, although the manifest names it") from error
        try:
            self._file = self._guarded(self._open)
        except BaseException:
            self._source.close()
            raise

    def __enter__(self) -> _HistoryFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close(force=True)
        self._source.close()

    @property
    def num_row_groups(self) -> int:
        return int(self._file.num_row_groups)

    def rows_of(self, number: int) -> int:
        return int(self._file.metadata.row_group(number).num_rows)

    def batches(self, groups: Collection[int], most_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of these row groups in file order, in small batches; texts as dictionary indices where possible."""
        for number in groups:
            rows = self._guarded(partial(self._rows_at_once, number, most_rows))
            parts = self._file.iter_batches(rows, row_groups=[number], columns=self._columns, use_threads=False)
            while (batch := self._guarded(partial(next, parts, None))) is not None:
                yield batch.select(self._columns)

    def texts(self, column: pa.Array, name: str) -> pa.Array:
        """A column of times or actions as text."""
        values = column.dictionary if pa.types.is_dictionary(column.type) else column
        longest = self._guarded(lambda: pc.max(pc.binary_length(values)).as_py() or 0)
        if longest > _MAX_TEXT_BYTES:
            raise CorruptFile(
                f"{self._where} cannot be read as a history file: a value of {longest} bytes in {name}, expected "
                f"at most {_MAX_TEXT_BYTES}"
            )
        return self._guarded(lambda: _valid(column.cast(pa.string())))

    def as_bytes(self, values: pa.Array) -> pa.Array:
        """Texts or bytes as bytes."""
        return self._guarded(lambda: values.cast(pa.large_binary()))

    def body_of(self, dictionary: pa.Array, index: int) -> bytes:
        """A value of a dictionary, whose indices pyarrow does not check; b'' for null."""
        return self._guarded(lambda: dictionary[index].cast(pa.large_binary()).as_py() or b"")

    def value_bytes(self, column: pa.Array) -> np.ndarray:
        """The size of each value; 0 for null."""
        values = column.dictionary if pa.types.is_dictionary(column.type) else column

        def sizes() -> np.ndarray:
            lengths = pc.fill_null(pc.binary_length(values), 0)
            if pa.types.is_dictionary(column.type):
                lengths = pc.fill_null(lengths.take(column.indices), 0)
            return np.asarray(lengths, np.int64)

        return self._guarded(sizes)

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with `HISTORY_SCHEMA`, without dictionaries."""

        def plain() -> pa.RecordBatch:
            columns = [column.cast(field.type) for column, field in zip(batch.columns, HISTORY_SCHEMA, strict=True)]
            part = pa.record_batch(columns, schema=HISTORY_SCHEMA)
            part.validate(full=True)
            return part

        return self._guarded(plain)

    def check_instants(self, count: int) -> None:
        """CorruptFile if the count exceeds MAX_INSTANTS."""
        if count > MAX_INSTANTS:
            raise CorruptFile(f"{self._where} holds more than {MAX_INSTANTS} instants, no more are read")

    def _open(self) -> pq.ParquetFile:
        footer = read_footer(self._source)
        file = pq.ParquetFile(self._source, metadata=footer, pre_buffer=False)
        missing = set(self._columns) - set(file.schema_arrow.names)
        if missing:
            raise ValueError(f"it has no column {min(missing)}")
        sizes = [footer.row_group(number).total_byte_size for number in range(footer.num_row_groups)]
        if footer.num_rows > _MAX_ROWS or max(sizes, default=0) > _MAX_GROUP_BYTES:
            raise CorruptFile(
                f"{self._where} holds {footer.num_rows} instants in row groups of up to {max(sizes, default=0)} bytes, "
                f"at most {_MAX_ROWS} and {_MAX_GROUP_BYTES} are read"
            )
        return pq.ParquetFile(self._source, metadata=footer, read_dictionary=self._as_indices(footer), pre_buffer=False)

    def _as_indices(self, footer: pq.FileMetaData) -> list[str]:
        """The columns that can be decoded into dictionary indices in every row group."""
        columns = []
        for place in range(footer.num_columns):
            leaf = footer.schema.column(place)
            chunks = (footer.row_group(number).column(place) for number in range(footer.num_row_groups))
            if (
                leaf.path in self._columns
                and leaf.physical_type == "BYTE_ARRAY"
                and not any(_FRONT_CODED.intersection(chunk.encodings) for chunk in chunks)
            ):
                columns.append(leaf.path)
        return columns

    def _rows_at_once(self, number: int, most_rows: int) -> int:
        pages: Collection[ChunkPages] = ()
        if self._is_local:
            pages = check_pages(self._source, self._file.metadata, number, self._columns).values()
        widest = sum(page.largest_bytes if page.front_coded else page.bytes_per_value for page in pages)
        return max(1, min(most_rows, _READ_BYTES // max(1, widest)))

    def _guarded(self, action: Callable[[], _T]) -> _T:
        try:
            return action()
        except FileNotFoundError:
            raise
        except (pa.ArrowException, KeyError, ValueError, IndexError, OSError) as error:
            if is_storage_failure(error):
                raise StorageError(f"{self._where} cannot be read: {str(error)[:200]}; a retry may succeed") from error
            raise CorruptFile(f"{self._where} cannot be read as a history file: {str(error)[:200]}") from error


def _valid(texts: pa.Array) -> pa.Array:
    texts.validate(full=True)
    return texts
