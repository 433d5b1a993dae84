"""The metadata table as one plan finds it: its timeline, its file slices, the records under some keys.

Shell: lists and reads under `.hoodie/metadata`. Not here: what records mean (`files`, `column_stats`), what to do
without a metadata table (`listing`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.proto.errors import CorruptFile, TableError
from penstock.proto.model.splits import FileRef
from penstock.table.config.properties import META_FOLDER, TableProperties, load_properties
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.files.slices import (
    CommittedInstants,
    DataFile,
    Everything,
    GroupId,
    VisibleFiles,
    group_files,
    slice_group,
    visible_files,
)
from penstock.table.hfile.reader import HFile
from penstock.table.hudi_table import HudiTable
from penstock.table.log.blocks import BlockKind, BlockPlace, LogBlock, read_blocks
from penstock.table.log.deletes import decode_deletes
from penstock.table.metadata.folder import FolderStorage
from penstock.table.metadata.records import RecordReaders
from penstock.table.metadata.validity import ValidBlocks, first_not_recorded, pending_instants
from penstock.table.storage.filesystem import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import Action

METADATA_FOLDER: Final = f"{META_FOLDER}/metadata"
MAX_LOG_BYTES: Final = 2 << 30
"""Largest log file that is read."""

_AT_ONCE_BYTES: Final = 4 << 20
"""A base file up to this size is read in one piece; of a larger one only the blocks that are needed."""

_READERS: Final = 8
_SCHEMA: Final = b"schema"

Versions = Mapping[str, Sequence[Fields | None]]
"""The records under each key, oldest first; None where the key was deleted."""

_Found = dict[str, list[Fields | None]]


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why the metadata table cannot stand for what is on storage."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of a log that counts so far, and the file it is in."""

    block: LogBlock
    data: memoryview
    file: str


def indexes(properties: TableProperties) -> frozenset[str]:
    """The metadata partitions that the data table's properties vouch for (`hoodie.table.metadata.partitions`)."""
    names = properties.raw.get("hoodie.table.metadata.partitions", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def open_metadata_table(table: HudiTable, timeline: Timeline) -> MetadataTable | Unusable:
    """The metadata table of `table`, whose timeline was read before; Unusable if it lacks an instant of it.

    Errors as for opening and listing any table: CorruptFile, StorageError, TableError,
    FormatError.
    """
    storage = FolderStorage(table.storage, METADATA_FOLDER)
    inner = HudiTable(storage, load_properties(storage))
    own = inner.timeline()
    lacking = first_not_recorded(timeline, own)
    if lacking:
        return Unusable(f"it lacks instant {lacking}")
    return MetadataTable(inner, own, pending_instants(timeline))


class MetadataTable:
    """One metadata table, pinned to one reading of both timelines. Not for use by several threads."""

    def __init__(self, table: HudiTable, timeline: Timeline, pending: frozenset[str]) -> None:
        self._table = table
        self._timeline = timeline
        self._pending = pending
        self._readers = RecordReaders()

    def records(self, partition: str, keys: Collection[str] | None) -> Versions:
        """The records of a metadata partition under these keys (None: all); a key without records is left out.

        Every file group is asked for every key: which group a key belongs to is its writer's affair. CorruptFile for
        anything damaged, TableError for a log compaction or a log block that is no HFile.
        """
        files = self._files(partition)
        valid = ValidBlocks(self._committed(files), self._pending)
        pending = self._pending_compactions()
        rows = None if keys is None else {key.encode() for key in keys}
        found: _Found = {}
        for group, members in sorted(group_files(files).items()):
            slices = slice_group(members, pending.get(group, frozenset()), valid.committed)
            visible = visible_files(slices, Everything(), valid.committed)
            if visible is not None:
                self._read_group(visible, valid, rows, found)
        return found

    def _read_group(
        self, visible: VisibleFiles, valid: ValidBlocks, rows: Collection[bytes] | None, found: _Found
    ) -> None:
        with ThreadPoolExecutor(max_workers=_READERS) as pool:
            logs = pool.map(self._read_log, [log.ref.path for log in visible.logs])
            if visible.base is not None:
                self._take(self._base(visible.base.ref), "", self._where(visible.base.ref.path), rows, found)
            blocks = self._counting_blocks(list(logs), visible.logs, valid)
        for item in blocks:
            content = item.data[item.block.content_start : item.block.content_end]
            where = self._where(f"{item.file}, block at byte {item.block.offset}")
            if item.block.kind is BlockKind.DELETE:
                for key in self._deleted_keys(item, content):
                    if key in found:
                        found[key].append(None)
            elif len(content):
                source = pa.BufferReader(pa.py_buffer(content))
                self._take(HFile(source, where), item.block.header.schema_json, where, rows, found)

    def _take(self, file: HFile, schema_json: str, where: str, rows: Collection[bytes] | None, found: _Found) -> None:
        """Adds the file's records under the rows; its own schema counts where the block names none."""
        if not file.entry_count:
            return
        text = schema_json or file.info().get(_SCHEMA, b"").decode("utf-8", "replace")
        read = self._readers.of(text, where)
        for row, value in file.scan() if rows is None else file.lookup(rows):
            record = read(value) if value else None
            found.setdefault(row.decode("utf-8", "replace"), []).append(record)

    def _base(self, ref: FileRef) -> HFile:
        where = self._where(ref.path)
        try:
            if ref.size_bytes <= _AT_ONCE_BYTES:
                data = self._table.storage.read_bytes(ref.path, MAX_LOG_BYTES)
                return HFile(pa.BufferReader(data), where)
            return HFile(self._table.storage.open_input(ref.path), where)
        except FileNotFoundError as error:
            raise CorruptFile(f"{where} is gone") from error

    def _read_log(self, path: str) -> memoryview:
        try:
            return memoryview(self._table.storage.read_bytes(path, MAX_LOG_BYTES))
        except FileNotFoundError as error:
            raise CorruptFile(f"{self._where(path)} is gone") from error

    def _counting_blocks(
        self, contents: Sequence[memoryview], logs: Sequence[DataFile], valid: ValidBlocks
    ) -> list[_Block]:
        """Data and delete blocks that count, in scan order. A rollback block takes out what stands before it."""
        kept: list[_Block] = []
        for data, log in zip(contents, logs, strict=True):
            for block in read_blocks(data, log.ref.path):
                if not isinstance(block, LogBlock):
                    raise CorruptFile(f"{self._where(log.ref.path)} is damaged: {block.reason} at byte {block.start}")
                header = block.header
                match block.kind:
                    case BlockKind.COMMAND:
                        target = header.target_instant_time
                        kept = [item for item in kept if item.block.header.instant_time != target]
                    case BlockKind.HFILE_DATA | BlockKind.DELETE if not header.compacted_block_times:
                        if valid.holds(header.instant_time):
                            kept.append(_Block(block, data, log.ref.path))
                    case kind:
                        what = "log compaction" if header.compacted_block_times else f"{kind.name} block"
                        raise TableError(f"{what} in the metadata table: {self._where(log.ref.path)}")
        return kept

    def _deleted_keys(self, item: _Block, content: memoryview) -> Iterator[str]:
        place = BlockPlace(
            redacted_uri(self._table.base_path), item.file, item.block.offset, item.block.header.instant_time
        )
        yield from decode_deletes(content, place).keys.to_pylist()

    def _files(self, partition: str) -> list[DataFile]:
        """Base and log files in the folder of a metadata partition. CorruptFile if there are none."""
        files: list[DataFile] = []
        for info in self._table.storage.list_dir(partition):
            name = None if info.is_dir else parse_file_name(info.name)
            if name is not None:
                files.append(
                    DataFile(partition=partition, ref=FileRef(info.path, info.size_bytes), name=name, listed=True)
                )
        if not files:
            raise CorruptFile(f"{self._where(partition)} holds no files, although the table's properties name it")
        return files

    def _committed(self, files: Collection[DataFile]) -> CommittedInstants:
        """The metadata table's own committed instants; those of its history where a log's place turns on them."""
        timeline = self._timeline
        order_keys: dict[str, str] = {i.requested_time: timeline.order_key(i) for i in timeline.completed_writes}
        archived = any(isinstance(file.name, LogName) and file.name.instant < timeline.first_active for file in files)
        if archived and timeline.layout == 2:
            order_keys = {**dict(self._table.archived_completions().items()), **order_keys}
        return CommittedInstants(layout=timeline.layout, order_keys=order_keys, archived_before=timeline.first_active)

    def _pending_compactions(self) -> dict[GroupId, frozenset[str]]:
        found: dict[GroupId, frozenset[str]] = {}
        for item in self._timeline.pending:
            if item.action is Action.COMPACTION:
                for group in self._table.compaction_plan(item):
                    key = (group.partition, group.file_id)
                    found[key] = found.get(key, frozenset()) | {item.requested_time}
        return found

    def _where(self, path: str) -> str:
        return f"file {path} of metadata table {redacted_uri(self._table.base_path)}"
