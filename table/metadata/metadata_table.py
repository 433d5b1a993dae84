"""Reads the metadata table for one plan: its timeline, its file slices, and the records of requested keys.

Lists and reads files under `.hoodie/metadata`. `files` and `column_stats` decode the meaning of records; `listing`
falls back to folders.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import pyarrow as pa

from penstock.proto.errors import CorruptFile, TableError
from penstock.proto.model.splits import FileRef
from penstock.proto.value_classes import dataclass
from penstock.table.config.properties import META_FOLDER, TableProperties, load_properties
from penstock.table.files.names import LogName
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
from penstock.table.metadata.folder import FolderStorage
from penstock.table.metadata.records import RecordReaders, Records, StoredRecords
from penstock.table.metadata.validity import ValidBlocks, first_not_recorded, pending_instants
from penstock.table.storage.filesystem import is_local
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import Action

METADATA_FOLDER: Final = f"{META_FOLDER}/metadata"
MAX_LOG_BYTES: Final = 2 << 30
"""Largest log file that is read, in bytes."""

_AT_ONCE_BYTES: Final = 4 << 20
"""A base file up to this size is read completely; of a larger one, only the required blocks."""

_READERS: Final = 8
_SCHEMA: Final = b"schema"

Versions = Mapping[str, Sequence[Fields | None]]
"""Key -> its records, oldest first; None where the key was deleted."""

KeysOf = Callable[[Sequence[VisibleFiles]], Mapping[VisibleFiles, Collection[str]]]
"""All file groups of a metadata partition -> those to read, with the keys to look up in each."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """The metadata table cannot be used."""

    reason: str
    """For the user."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A valid block of a log, and its file."""

    block: LogBlock
    data: memoryview
    file: str


def indexes(properties: TableProperties) -> frozenset[str]:
    """The valid metadata partitions, from the data table's properties (`hoodie.table.metadata.partitions`)."""
    names = properties.raw.get("hoodie.table.metadata.partitions", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def open_metadata_table(table: HudiTable, timeline: Timeline) -> MetadataTable | Unusable:
    """Opens the metadata table of `table`; Unusable if it lacks an instant of `timeline`, which was read before.

    Errors as for opening any table: CorruptFile, StorageError, TableError, FormatError.
    """
    inner = table.derived_once("metadata table", lambda: _opened(table)).refreshed()
    own = inner.timeline()
    missing = first_not_recorded(timeline, own)
    if missing:
        return Unusable(f"it lacks instant {missing}")
    return MetadataTable(inner, own, pending_instants(timeline))


def _opened(table: HudiTable) -> HudiTable:
    storage = FolderStorage(table.storage, METADATA_FOLDER)
    return HudiTable(storage, load_properties(storage), names_only=is_local(table.storage))


class MetadataTable:
    """A metadata table as of one read of both timelines. Not thread-safe."""

    def __init__(self, table: HudiTable, timeline: Timeline, pending: frozenset[str]) -> None:
        self._table = table
        self._timeline = timeline
        self._pending = pending
        self._readers = RecordReaders()
        self._versions: HudiTable | None = None

    @property
    def timeline(self) -> Timeline:
        """The active timeline of the metadata table."""
        return self._timeline

    def partitions_of(self, requested_time: str) -> Collection[str]:
        """The metadata partitions to which a completed write of the active timeline wrote; none for any other."""
        item = self._timeline.completed_write(requested_time)
        return () if item is None else self._with_versions().commit_lazily(item).partitions

    def _with_versions(self) -> HudiTable:
        """The table with the versions of its timeline's files, which are listed once. Few plans read its commits."""
        table = self._table
        if self._versions is None and table.names_only:
            properties = table.properties
            key = ("with versions", properties.version, properties.layout)
            self._versions = table.derived_once(key, lambda: HudiTable(table.storage, properties))
            self._versions.timeline()
        return self._versions or table

    def records(self, partition: str, keys: Collection[str] | None) -> Versions:
        """The records of these keys in a metadata partition (None: all keys); a key without records is left out. They
        are decoded when they are requested (`StoredRecords`).

        Looks every key up in every file group, as only the writer determines the group of a key. CorruptFile for
        damaged files, TableError for a log compaction or a log block other than HFile.
        """
        files = self._files(partition)
        valid = ValidBlocks(self._committed(files), self._pending)
        row_keys = None if keys is None else {key.encode() for key in keys}
        records = StoredRecords()
        for visible in self._visible(files, valid.committed):
            self._read_group(visible, valid, row_keys, records)
        return records

    def records_by_group(self, partition: str, keys_of: KeysOf) -> Iterator[Versions]:
        """The records of each file group alone, as `records`. `keys_of` gives the groups to read, and their keys."""
        for read_group in self._chosen(partition, keys_of):
            records = StoredRecords()
            read_group(records)
            yield records

    def read_into(self, records: Records, partition: str, keys_of: KeysOf) -> None:
        """Adds the records of the groups to `records`, those of a key oldest first. Holds no record."""
        for read_group in self._chosen(partition, keys_of):
            read_group(records)

    def _chosen(self, partition: str, keys_of: KeysOf) -> Iterator[Callable[[Records], None]]:
        files = self._files(partition)
        valid = ValidBlocks(self._committed(files), self._pending)
        for visible, keys in keys_of(tuple(self._visible(files, valid.committed))).items():
            yield partial(self._read_group, visible, valid, {key.encode() for key in keys})

    def visible(self, partition: str) -> tuple[VisibleFiles, ...]:
        """The newest files of each file group of a metadata partition. Errors as `records`."""
        files = self._files(partition)
        return tuple(self._visible(files, self._committed(files)))

    def _visible(self, files: Sequence[DataFile], committed: CommittedInstants) -> Iterator[VisibleFiles]:
        pending = self._pending_compactions()
        for group, members in sorted(group_files(files).items()):
            slices = slice_group(members, pending.get(group, frozenset()), committed)
            visible = visible_files(slices, Everything(), committed)
            if visible is not None:
                yield visible

    def _read_group(
        self, visible: VisibleFiles, valid: ValidBlocks, row_keys: Collection[bytes] | None, records: Records
    ) -> None:
        with ThreadPoolExecutor(max_workers=_READERS) as pool:
            logs = pool.map(self._read_log, [log.ref.path for log in visible.logs])
            if visible.base is not None:
                self._add_records(
                    self._base(visible.base.ref), "", self._where(visible.base.ref.path), row_keys, records
                )
            blocks = self._valid_blocks(list(logs), visible.logs, valid)
        for item in blocks:
            content = item.data[item.block.content_start : item.block.content_end]
            where = self._where(f"{item.file}, block at byte {item.block.offset}")
            if item.block.kind is BlockKind.DELETE:
                for key in self._deleted_keys(item, content):
                    records.delete(key)
            elif len(content):
                source = pa.BufferReader(pa.py_buffer(content))
                self._add_records(HFile(source, where), item.block.header.schema_json, where, row_keys, records)

    def _add_records(
        self, file: HFile, schema_json: str, where: str, row_keys: Collection[bytes] | None, records: Records
    ) -> None:
        """Adds the file's records of the row keys, with the block's schema, else that in the file, as their decoder."""
        if not file.entry_count:
            return
        text = schema_json or file.info().get(_SCHEMA, b"").decode("utf-8", "replace")
        read = self._readers.of(text, where)
        for row, value in file.scan() if row_keys is None else file.lookup(row_keys):
            records.add(row.decode("utf-8", "replace"), value, read)

    def _base(self, ref: FileRef) -> HFile:
        where = self._where(ref.path)
        try:
            if ref.size_bytes <= _AT_ONCE_BYTES:
                data = self._table.storage.read_bytes(ref.path, MAX_LOG_BYTES)
                return HFile(pa.BufferReader(data), where)
            return HFile(self._table.storage.open_input(ref.path), where)
        except FileNotFoundError as error:
            raise CorruptFile(f"{where} is missing") from error

    def _read_log(self, path: str) -> memoryview:
        try:
            return memoryview(self._table.storage.read_bytes(path, MAX_LOG_BYTES))
        except FileNotFoundError as error:
            raise CorruptFile(f"{self._where(path)} is missing") from error

    def _valid_blocks(
        self, contents: Sequence[memoryview], logs: Sequence[DataFile], valid: ValidBlocks
    ) -> list[_Block]:
        """The valid data and delete blocks, in scan order. A rollback block removes earlier blocks of its target."""
        blocks: list[_Block] = []
        for data, log in zip(contents, logs, strict=True):
            for block in read_blocks(data, log.ref.path):
                if not isinstance(block, LogBlock):
                    raise CorruptFile(f"{self._where(log.ref.path)} is damaged: {block.reason} at byte {block.start}")
                header = block.header
                match block.kind:
                    case BlockKind.COMMAND:
                        target = header.target_instant_time
                        blocks = [item for item in blocks if item.block.header.instant_time != target]
                    case BlockKind.HFILE_DATA | BlockKind.DELETE if not header.compacted_block_times:
                        if valid.holds(header.instant_time):
                            blocks.append(_Block(block, data, log.ref.path))
                    case kind:
                        what = "log compaction" if header.compacted_block_times else f"{kind.name} block"
                        raise TableError(f"{what} in the metadata table: {self._where(log.ref.path)}")
        return blocks

    def _deleted_keys(self, item: _Block, content: memoryview) -> Iterator[str]:
        from penstock.table.log.deletes import decode_deletes  # late: reads without the metadata table need none

        place = BlockPlace(
            redacted_uri(self._table.base_path), item.file, item.block.offset, item.block.header.instant_time
        )
        yield from decode_deletes(content, place).keys.to_pylist()

    def _files(self, partition: str) -> tuple[DataFile, ...]:
        """Base and log files in the folder of a metadata partition. CorruptFile if there are none."""
        files = self._table.list_partition(partition)
        if not files:
            raise CorruptFile(f"{self._where(partition)} has no files, although the table's properties name it")
        return files

    def _committed(self, files: Collection[DataFile]) -> CommittedInstants:
        """The committed instants of the metadata table, with its history where the slice of a log depends on it."""
        timeline = self._timeline
        order_keys: Mapping[str, str] = timeline.order_keys
        archived = any(isinstance(file.name, LogName) and file.name.instant < timeline.first_active for file in files)
        if archived and timeline.layout == 2:
            order_keys = {**dict(self._table.archived_completions().items()), **order_keys}
        return CommittedInstants(layout=timeline.layout, order_keys=order_keys, archived_before=timeline.first_active)

    def _pending_compactions(self) -> dict[GroupId, frozenset[str]]:
        pending: dict[GroupId, frozenset[str]] = {}
        for item in self._timeline.pending:
            if item.action is Action.COMPACTION:
                for group in self._table.compaction_plan(item):
                    key = (group.partition, group.file_id)
                    pending[key] = pending.get(key, frozenset()) | {item.requested_time}
        return pending

    def _where(self, path: str) -> str:
        return f"file {path} of metadata table {redacted_uri(self._table.base_path)}"
