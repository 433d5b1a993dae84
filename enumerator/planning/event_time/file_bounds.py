"""Event-time bounds of single files: base files by their footer, log files by the footers of their Parquet blocks.

A Parquet block (Hudi `HoodieParquetDataBlock`) holds a whole Parquet file. Only footers are read, and of a log the
block framing; never rows. Cached values of a file hold for every view of it; which log blocks count is decided for each
view (`FileBounds.of_slice`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.enumerator.planning.event_time.bounds import (
    EventTimeColumn,
    SplitBounds,
    row_group_bounds,
    row_group_sizes,
    union_of_bounds,
)
from penstock.proto.errors import CorruptBlock, CorruptFile, InvariantViolation, StorageError
from penstock.proto.model.changes import ChangesOf, ChangeStep, ComparedStates, GroupChanges, LoggedImages, StoredKinds
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.splits import FileRef, Scan, UnknownBounds, VisibleInstants
from penstock.proto.value_classes import dataclass
from penstock.table.base_formats import is_parquet, read_other_footer
from penstock.table.bootstrap.sources import open_sources
from penstock.table.hudi_table import HudiTable
from penstock.table.log.blocks import BlockKind, LogBlock, read_blocks
from penstock.table.log.remote_bytes import RemoteBytes, RemoteRangeTooLong
from penstock.table.parquet.checks import ParquetError, check_rows, check_statistics, is_storage_failure
from penstock.table.parquet.footer import read_base_footer
from penstock.table.storage.uris import redacted_uri

MAX_CELLS: Final = 200_000
"""The total weight of all entries: one for each entry, and one for each row group or log block in it."""

_T = TypeVar("_T")


class FooterCache:
    """Values from footers by key, for any thread. The least recently used are evicted above `max_cells`.

    A key holds everything that its value depends on: table, file with its size, column with type and unit.
    """

    def __init__(self, max_cells: int = MAX_CELLS) -> None:
        self._max_cells = max_cells
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._cells = 0

    def get(self, key: Hashable) -> object | None:
        """The value, marked as used; None if it is not cached."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: object, cells: int = 0) -> None:
        """Cache a value. `cells` is its weight beside the entry itself."""
        weight = cells + 1
        with self._lock:
            before = self._entries.pop(key, None)
            self._cells += weight - (before[1] if before else 0)
            self._entries[key] = (value, weight)
            while self._cells > self._max_cells and self._entries:
                _, (_, evicted) = self._entries.popitem(last=False)
                self._cells -= evicted

    def get_or_compute(self, key: Hashable, compute: Callable[[], _T], cells: Callable[[_T], int]) -> _T:
        """The value of a key, computed if it is not cached. Two threads may both compute it and get equal values."""
        cached = self.get(key)
        if cached is not None:
            return cast("_T", cached)
        value = compute()
        self.put(key, value, cells(value))
        return value

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)


_LogReader = Callable[[pa.NativeFile, list[LogBlock]], "LogBounds"]
_ROLLBACK: Final = "0"
_MAX_BLOCKS: Final = 1000
_TAIL_BYTES: Final = 64 << 10
_MAX_FOOTER_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class BaseFileBounds:
    """The row groups of a base file, one item each."""

    rows: tuple[int, ...]
    """The number of rows."""
    sizes_bytes: tuple[int, ...]
    """The bytes on storage."""
    bounds: tuple[SplitBounds, ...]
    """The event-time bounds; unknown if no column was requested."""


@dataclass(frozen=True, slots=True)
class BlockBounds:
    """A data block of a log."""

    instant: str
    """The requested time of the instant that wrote it."""
    bounds: SplitBounds
    """The event-time bounds of its records."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A rollback block: the blocks of its target before it do not count."""

    target: str
    """The requested time of the instant that was rolled back."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The blocks of a log."""

    blocks: tuple[BlockBounds | RolledBack, ...] | None
    """In file order; None if the log holds data whose event times are in no footer."""


_UNKNOWN_LOG: Final = LogBounds(None)


@dataclass(frozen=True, slots=True)
class FileBounds:
    """The event-time bounds of a table's files."""

    table: HudiTable
    """The table."""
    column: EventTimeColumn | None
    """The event-time column; None if only rows and bytes are needed."""
    cache: FooterCache
    """Values that were read before."""

    def of_base(self, file: FileRef) -> BaseFileBounds:
        """The row groups of a base file, from its footer; of a skeleton those of its source, which are read. Errors as
        for `read_base_footer` and `open_sources`."""

        def read() -> BaseFileBounds:
            storage, stored = self.table.storage, file
            if file.source is not None:
                stored = file.source
                storage = open_sources(self.table.base_path, self.table.properties.bootstrap_base_path)
            if not is_parquet(stored.path):
                other_rows = read_other_footer(storage, stored).rows
                return BaseFileBounds((other_rows,), (stored.size_bytes,), (UnknownBounds(),))
            footer = read_base_footer(storage, stored)
            rows = tuple(footer.row_group(index).num_rows for index in range(footer.num_row_groups))
            bounds: tuple[SplitBounds, ...] = tuple(UnknownBounds() for _ in rows)
            if self.column is not None:
                bounds = row_group_bounds(footer, self.column)
            return BaseFileBounds(rows, row_group_sizes(footer, stored.size_bytes), bounds)

        return self.cache.get_or_compute(self.key("base", (file,)), read, lambda base: len(base.rows))

    def of_slice(self, base: FileRef | None, logs: Sequence[FileRef], visible: VisibleInstants) -> SplitBounds:
        """The bounds of every row that can be merged from the slice.

        A log block counts if its instant is visible and no later rollback block rolls it back (Hudi
        `BaseHoodieLogRecordReader`); delete blocks add no row. Unknown if a log has a damaged block or a data block
        that is not Parquet. CorruptFile for a missing file.
        """
        by_instant: dict[str, list[SplitBounds]] = {}
        for log in logs:
            blocks = self.of_log(log).blocks
            if blocks is None:
                return UnknownBounds()
            for block in blocks:
                if isinstance(block, RolledBack):
                    by_instant.pop(block.target, None)
                elif visible.holds(block.instant):
                    by_instant.setdefault(block.instant, []).append(block.bounds)
        parts = [part for of_instant in by_instant.values() for part in of_instant]
        return union_of_bounds([*(self.of_base(base).bounds if base is not None else ()), *parts])

    def of_log(self, file: FileRef) -> LogBounds:
        """The blocks of a log file. CorruptFile if it is missing; StorageError if the storage failed."""

        def cells(log: LogBounds) -> int:
            return len(log.blocks or ())

        return self.cache.get_or_compute(self.key("log", (file,)), lambda: self._read_log(file, self._blocks), cells)

    def logs_keys_only(self, file: FileRef) -> bool:
        """Whether the changes in a `.cdc` log have no row images (Hudi supplemental logging mode `op_key_only`,
        `HoodieCDCUtils.schemaBySupplementalLoggingMode`). Errors as for `of_log`."""
        log = self.cache.get_or_compute(
            self.key("changes", (file,)),
            lambda: self._read_log(file, lambda _, items: _without_images(items)),
            lambda _: 0,
        )
        return log.blocks is not None

    def of_changes(self, changes: GroupChanges, scan: Scan) -> SplitBounds:
        """The bounds of both images of every change, from footers. Errors as for `of_slice`."""
        covering = covering_slices(changes, self)
        if covering is None:
            return UnknownBounds()
        visible = _visible_in_any_step(scan)
        return union_of_bounds(self.of_slice(item.base, item.logs, visible) for item in covering)

    def key(self, kind: str, files: Sequence[FileRef]) -> tuple[object, ...]:
        """The cache key of a value about these files."""
        return (
            kind,
            self.table.base_path,
            self.column,
            *((each.path, each.size_bytes) for file in files for each in (file, file.source) if each is not None),
        )

    def _read_log(self, file: FileRef, read: _LogReader) -> LogBounds:
        where = f"log file {file.path} of table {redacted_uri(self.table.base_path)}"
        try:
            with self.table.storage.open_input(file.path) as source:
                data = RemoteBytes(source)
                if not len(data) or len(data) < file.size_bytes:
                    return _UNKNOWN_LOG
                items: list[LogBlock] = []
                for item in read_blocks(data, where):
                    if not isinstance(item, LogBlock) or len(items) == _MAX_BLOCKS:
                        return _UNKNOWN_LOG
                    if item.kind in (BlockKind.AVRO_DATA, BlockKind.HFILE_DATA):
                        return _UNKNOWN_LOG
                    items.append(item)
                return read(source, items)
        except FileNotFoundError as error:
            raise CorruptFile(f"{where} is missing, although it was there when the folder was listed") from error
        except (CorruptBlock, RemoteRangeTooLong, ParquetError):
            return _UNKNOWN_LOG
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, OSError) and not is_storage_failure(error):
                return _UNKNOWN_LOG
            detail = str(error).partition("\n")[0][:200]
            raise StorageError(f"{where} cannot be read: {detail}; a retry may succeed") from error

    def _blocks(self, source: pa.NativeFile, items: Iterable[LogBlock]) -> LogBounds:
        """The bounds of a log's blocks. Blocks of changes (`.cdc`) are skipped: they are not merged with rows."""
        blocks: list[BlockBounds | RolledBack] = []
        for item in items:
            match item.kind:
                case BlockKind.PARQUET_DATA if self.column is not None:
                    footer = _block_footer(source, item)
                    bounds = union_of_bounds(row_group_bounds(footer, self.column))
                    blocks.append(BlockBounds(item.header.instant_time, bounds))
                case BlockKind.COMMAND if item.header.command == _ROLLBACK and item.header.target_instant_time:
                    blocks.append(RolledBack(item.header.target_instant_time))
                case BlockKind.DELETE | BlockKind.CDC_DATA:
                    continue
                case _:
                    return _UNKNOWN_LOG
        return LogBounds(tuple(blocks))


def _block_footer(source: pa.NativeFile, block: LogBlock) -> pq.FileMetaData:
    """The footer of the Parquet file in a block, read from the end of the block's content."""
    size = block.content_end - block.content_start
    tail = source.read_at(min(size, _TAIL_BYTES), block.content_end - min(size, _TAIL_BYTES))
    needed = int.from_bytes(tail[-8:-4], "little") + 12
    if needed > min(size, _MAX_FOOTER_BYTES):
        raise ParquetError(f"a footer of {needed - 12} bytes in a block of {size}")
    if needed > len(tail):
        tail = source.read_at(needed, block.content_end - needed)
    buffer = pa.BufferReader(tail)
    check_statistics(buffer)
    try:
        footer = pq.read_metadata(pa.BufferReader(tail))
        check_rows(footer)
        return footer
    except (pa.ArrowException, OSError) as error:
        raise ParquetError(str(error)[:200]) from None


def _without_images(items: Iterable[LogBlock]) -> LogBounds:
    """A result with `blocks` if every block of changes has a schema without row images."""
    for item in items:
        schema = item.header.schema_json
        if item.kind is not BlockKind.CDC_DATA or not schema or '"before"' in schema or '"after"' in schema:
            return _UNKNOWN_LOG
    return LogBounds(())


def covering_slices(changes: GroupChanges, files: FileBounds) -> tuple[SliceFiles, ...] | None:
    """Slices that hold every image of the changes, each once; None if an image may be in another file."""
    slices: dict[SliceFiles, None] = {}
    for step in changes.steps:
        states = _states_of(step, files)
        if states is None:
            return None
        slices.update(dict.fromkeys(states))
    return tuple(slices)


def _states_of(step: ChangeStep, files: FileBounds) -> tuple[SliceFiles, ...] | None:
    match step.source:
        case ComparedStates(before, after):
            return tuple(state for state in (before, after) if state is not None)
        case StoredKinds(stored):
            return (stored,)
        case LoggedImages(logs, before, after):
            if before is None or after is None or not all(files.logs_keys_only(log) for log in logs):
                return None
            return (before, after)


def _visible_in_any_step(scan: Scan) -> VisibleInstants:
    """The instants that are visible in any state of the changes: more than in each single state."""
    if not isinstance(scan.rows, ChangesOf):
        raise InvariantViolation(f"table {scan.table}: a split of changes, and the scan is not one of changes")
    return VisibleInstants(
        members=scan.visible.members.union(scan.rows.instants), archived_before=scan.visible.archived_before
    )
