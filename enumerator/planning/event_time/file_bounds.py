"""What single files tell of event times: base files by their footers, log files by the footers of their Parquet blocks
(Hudi `HoodieParquetDataBlock`, whose content is a whole Parquet file). Kept in a `TimesCache`.

Shell: reads footers, and of a log the framing and the ends of contents, never rows. What is kept of a file holds for
every view of it; which blocks count is asked again each time (`FileTimes.of_slice`). Not here: splits (`split_times`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.enumerator.planning.event_time.bounds import (
    EventTimeColumn,
    SplitBounds,
    read_footer,
    row_group_sizes,
    row_group_times,
    together,
)
from penstock.proto.errors import CorruptBlock, CorruptFile, StorageError
from penstock.proto.model.splits import FileRef, UnknownBounds, VisibleInstants
from penstock.table.hudi_table import HudiTable
from penstock.table.log.blocks import BlockKind, LogBlock, read_blocks
from penstock.table.log.remote_bytes import RemoteBytes, RemoteRangeTooLong
from penstock.table.parquet.checks import ParquetError, check_rows, check_statistics, is_storage_failure
from penstock.table.storage.filesystem import redacted_uri

MAX_CELLS: Final = 200_000
"""What all entries weigh together: one for the entry, one for each row group or log block in it."""

_T = TypeVar("_T")


class TimesCache:
    """Entries by key; those unused longest are let go once all weigh more than `max_cells`.

    A key names everything that its value depends on: table, file with its size, column with type and unit.
    """

    def __init__(self, max_cells: int = MAX_CELLS) -> None:
        self._max_cells = max_cells
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._cells = 0

    def get(self, key: Hashable) -> object | None:
        """The value, used just now; None if it is not here."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: object, cells: int = 0) -> None:
        """Keeps a value that weighs `cells` more than an entry."""
        weight = cells + 1
        with self._lock:
            before = self._held.pop(key, None)
            self._cells += weight - (before[1] if before else 0)
            self._held[key] = (value, weight)
            while self._cells > self._max_cells and self._held:
                _, (_, gone) = self._held.popitem(last=False)
                self._cells -= gone

    def made(self, key: Hashable, make: Callable[[], _T], cells: Callable[[_T], int]) -> _T:
        """The value under a key, made if it is not here; two threads may make it both, and get equal ones."""
        found = self.get(key)
        if found is not None:
            return cast("_T", found)
        value = make()
        self.put(key, value, cells(value))
        return value

    def __len__(self) -> int:
        with self._lock:
            return len(self._held)


_Look = Callable[[pa.NativeFile, list[LogBlock]], "LogTimes"]
_ROLLBACK: Final = "0"
_MAX_BLOCKS: Final = 1000
_TAIL_BYTES: Final = 64 << 10
_MAX_FOOTER_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class BaseTimes:
    """Of each row group of a base file: rows, bytes on storage, event times (unknown where no column was asked for)."""

    rows: tuple[int, ...]
    sizes_bytes: tuple[int, ...]
    times: tuple[SplitBounds, ...]


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """Records that an instant wrote into a log, and their event times."""

    instant: str
    rows: int
    times: SplitBounds


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A rollback block: what its target wrote in front of it does not count."""

    target: str


@dataclass(frozen=True, slots=True)
class LogTimes:
    """The blocks of a log in file order; None if there is anything in it whose event times no footer tells."""

    blocks: tuple[BlockTimes | TakenBack, ...] | None


_UNTOLD: Final = LogTimes(None)


@dataclass(frozen=True, slots=True)
class FileTimes:
    """The files of one table asked for one column; no column: for rows and bytes alone."""

    table: HudiTable
    column: EventTimeColumn | None
    cache: TimesCache

    def of_base(self, file: FileRef) -> BaseTimes:
        """A base file, by its footer. Errors as for `bounds.read_footer`."""

        def read() -> BaseTimes:
            footer = read_footer(self.table.storage, file)
            rows = tuple(footer.row_group(index).num_rows for index in range(footer.num_row_groups))
            times = tuple(UnknownBounds() for _ in rows)
            if self.column is not None:
                return BaseTimes(rows, row_group_sizes(footer, file.size_bytes), row_group_times(footer, self.column))
            return BaseTimes(rows, row_group_sizes(footer, file.size_bytes), times)

        return self.cache.made(self.key("base", (file,)), read, lambda found: len(found.rows))

    def of_slice(self, base: FileRef | None, logs: Sequence[FileRef], visible: VisibleInstants) -> SplitBounds:
        """Every row that can be merged from the slice: of its logs those blocks count whose instant is visible, and
        that no rollback block behind them takes back (Hudi `BaseHoodieLogRecordReader`); delete blocks bring no row.

        Unknown if a log has a block of data that is not Parquet, or a damaged one. CorruptFile for a file that is gone.
        """
        by_instant: dict[str, list[SplitBounds]] = {}
        for log in logs:
            blocks = self.of_log(log).blocks
            if blocks is None:
                return UnknownBounds()
            for block in blocks:
                if isinstance(block, TakenBack):
                    by_instant.pop(block.target, None)
                elif visible.holds(block.instant):
                    by_instant.setdefault(block.instant, []).append(block.times)
        parts: list[SplitBounds] = [part for found in by_instant.values() for part in found]
        return together([*(self.of_base(base).times if base is not None else ()), *parts])

    def of_log(self, file: FileRef) -> LogTimes:
        """A log file. CorruptFile if it is gone; StorageError if it cannot be read now."""

        def cells(found: LogTimes) -> int:
            return len(found.blocks or ())

        return self.cache.made(self.key("log", (file,)), lambda: self._read_log(file, self._blocks), cells)

    def logs_keys_alone(self, file: FileRef) -> bool:
        """Whether the changes in a `.cdc` log have no images of rows (Hudi `HoodieCDCUtils.schemaBySupplementalLogging
        Mode`, `op_key_only`). Errors as for `of_log`."""

        def cells(found: LogTimes) -> int:
            return 0

        found = self.cache.made(
            self.key("changes", (file,)), lambda: self._read_log(file, lambda _, items: _without_images(items)), cells
        )
        return found.blocks is not None

    def key(self, kind: str, files: Sequence[FileRef]) -> tuple[object, ...]:
        """What a value about these files is kept under."""
        return (kind, self.table.base_path, self.column, *((file.path, file.size_bytes) for file in files))

    def _read_log(self, file: FileRef, look: _Look) -> LogTimes:
        where = f"log file {file.path} of table {redacted_uri(self.table.base_path)}"
        try:
            with self.table.storage.open_input(file.path) as source:
                data = RemoteBytes(source)
                if not len(data) or len(data) < file.size_bytes:
                    return _UNTOLD
                items: list[LogBlock] = []
                for item in read_blocks(data, where):
                    if not isinstance(item, LogBlock) or len(items) == _MAX_BLOCKS:
                        return _UNTOLD
                    if item.kind in (BlockKind.AVRO_DATA, BlockKind.HFILE_DATA):
                        return _UNTOLD
                    items.append(item)
                return look(source, items)
        except FileNotFoundError as error:
            raise CorruptFile(f"{where} is missing, although it was there when the folder was listed") from error
        except (CorruptBlock, RemoteRangeTooLong, ParquetError):
            return _UNTOLD
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, OSError) and not is_storage_failure(error):
                return _UNTOLD
            detail = str(error).partition("\n")[0][:200]
            raise StorageError(f"{where} cannot be read: {detail}; asking again may help") from error

    def _blocks(self, source: pa.NativeFile, items: Iterable[LogBlock]) -> LogTimes:
        """The event times of a log's blocks; of changes (`.cdc`) in it nothing is read with its rows."""
        found: list[BlockTimes | TakenBack] = []
        for item in items:
            match item.kind:
                case BlockKind.PARQUET_DATA if self.column is not None:
                    footer = _block_footer(source, item)
                    rows = sum(footer.row_group(index).num_rows for index in range(footer.num_row_groups))
                    times = together(row_group_times(footer, self.column))
                    found.append(BlockTimes(item.header.instant_time, rows, times))
                case BlockKind.COMMAND if item.header.command == _ROLLBACK and item.header.target_instant_time:
                    found.append(TakenBack(item.header.target_instant_time))
                case BlockKind.DELETE | BlockKind.CDC_DATA:
                    continue
                case _:
                    return _UNTOLD
        return LogTimes(tuple(found))


def _block_footer(source: pa.NativeFile, block: LogBlock) -> pq.FileMetaData:
    """The footer of the Parquet file that is the block's content, from the content's end alone."""
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


def _without_images(items: Iterable[LogBlock]) -> LogTimes:
    """Told if every block of changes tells a schema without images."""
    for item in items:
        schema = item.header.schema_json
        if item.kind is not BlockKind.CDC_DATA or not schema or '"before"' in schema or '"after"' in schema:
            return _UNTOLD
    return LogTimes(())
