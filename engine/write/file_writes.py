"""Writes the files of one file group in a transaction, and returns their statistics."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.operations import Operation
from penstock.engine.write.settings import WriteSettings
from penstock.proto.errors import InvariantViolation, WriteConflict
from penstock.reader.merge.fold import RecordKind
from penstock.table.files.markers import IoType
from penstock.table.files.names import LogName, base_file_name, log_file_name, parse_file_name
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema
from penstock.table.timeline.commits import WriteStat
from penstock.writer.files.base_file import write_base_file
from penstock.writer.files.change_log import ChangeLogWriter
from penstock.writer.files.log_file import LogDeletes, log_blocks
from penstock.writer.files.meta_columns import RowStamp, in_file
from penstock.writer.files.required_columns import file_schema, with_schema
from penstock.writer.files.rewritten_base import RewriteCounts, appended_rows, merged_rows
from penstock.writer.files.row_changes import RowChanges
from penstock.writer.index.slices import GroupWrite, LatestSlice
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.row_operations import counted, has_operations
from penstock.writer.rows.write_schema import WriteSchema
from penstock.writer.transaction.attempt_files import AttemptFiles
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.transaction import Transaction

_MAX_LOG_VERSIONS: Final = 10_000


@dataclass(slots=True, kw_only=True)
class FileWrites:
    """Writes the files of a transaction. For one thread. The number of a file, which is part of its write token and of
    the sequence numbers of its rows, is unique in the instant."""

    transaction: Transaction | AttemptFiles
    """The transaction, or what creates the files of an attempt at a part of it."""
    current: CurrentTable
    """The table at its beginning."""
    settings: WriteSettings
    """The table's settings."""
    schemas: WriteSchema
    """The schema of the write."""
    attempt: str = "0-0"
    """The rest of the write token, which no other attempt at the same file has."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """The numbers of the files."""

    @property
    def record(self) -> RecordSchema:
        """The schema of the files, with meta columns."""
        return self.schemas.stored

    @property
    def schema(self) -> pa.Schema:
        """The columns of the files."""
        return arrow_schema(self.record)

    def group(self, write: GroupWrite, rows: KeyedRows, operation: Operation) -> WriteStat | None:
        """The file of a group that the operation writes. None if the rows are deletes of keys that the table lacks."""
        is_merge_on_read = self.settings.properties.is_merge_on_read
        is_changelog = is_merge_on_read and has_operations(rows.rows)
        if write.latest is None and (not is_changelog or operation.replaces or operation.only_new_groups):
            return self.new_base(write, rows)
        if is_merge_on_read and not write.rewrites:
            return self.log(write, rows)
        return self.rewritten_base(write, rows, appends=not operation.searches_keys)

    def new_base(self, write: GroupWrite, rows: KeyedRows) -> WriteStat | None:
        """A base file of a new group; deletes of keys that the table does not have are left out. None without rows."""
        data = rows.data()
        if not len(data):
            return None
        task = next(self.numbers)
        name = base_file_name(write.file_id, f"{task}-{self.attempt}", self.transaction.requested_time)
        stamp = RowStamp(self.transaction.requested_time, task, write.partition, name)
        place = (write.partition, name)
        rows_of_file = _stamped(stamp, data)
        size, num_rows = self._base(place, file_schema(self.record), rows_of_file, len(data), IoType.CREATE)
        return self._stat(write, name, size, num_rows=num_rows, inserts=num_rows, previous="")

    def rewritten_base(self, write: GroupWrite, rows: KeyedRows, *, appends: bool) -> WriteStat:
        """A base file that replaces that of an existing group, merged with the rows; with `appends` they are added
        without a search for equal keys."""
        latest = write.latest
        if latest is None:
            raise InvariantViolation(f"rewrite of the new file group {write.file_id}")
        task = next(self.numbers)
        name = base_file_name(write.file_id, f"{task}-{self.attempt}", self.transaction.requested_time)
        stamp = RowStamp(self.transaction.requested_time, task, write.partition, name)
        counts = RewriteCounts()
        names = tuple(self.schema.names)
        change_logs: dict[str, int] = {}
        with (
            self.current.base_file(latest, self.record, names) as base,
            self._change_log(write, f"{task}-{self.attempt}", change_logs) as changes,
        ):
            expected = base.num_rows + len(rows)
            if appends:
                merged = appended_rows(base, _stamped(stamp, rows.data()), names, counts, changes)
            else:
                ordering = self.settings.ordering(self.schema)
                merged = merged_rows(base, rows, stamp, self.settings.mode, ordering, counts, changes)
            batches = (in_file(batch, name) for batch in merged)
            columns = file_schema(self.record, base.stored_schema)
            size, num_rows = self._base((write.partition, name), columns, batches, expected, IoType.MERGE)
        return self._stat(
            write,
            name,
            size,
            num_rows=num_rows,
            inserts=counts.inserts,
            updates=counts.updates,
            deletes=counts.deletes,
            previous=latest.base_instant,
            previous_base=_name(latest),
            change_logs=change_logs,
        )

    def log(self, write: GroupWrite, rows: KeyedRows) -> WriteStat:
        """A log file: the rows and deletes of a group, which may be new. The base file is not read. Rows that have an
        operation are stored in their order, also those that delete."""
        latest = write.latest
        task = next(self.numbers)
        instant = self.transaction.requested_time
        stamp = RowStamp(instant, task, write.partition, write.file_id, keeps_operations=True)
        is_changelog = has_operations(rows.rows)
        data, deletes = (rows, []) if is_changelog else (rows.data(), _deletes(rows))
        counts = counted(rows.rows) if is_changelog else {"U": len(data), "D": len(rows) - len(data)}
        columns = file_schema(self.record)
        batches = (self._stored(batch, columns) for batch in _stamped(stamp, data))
        blocks = log_blocks(
            instant, write.partition, self.record, batches, deletes, in_avro=self._has_texts_as_ordering
        )
        layout = self.settings.properties.layout
        version = 1 if layout == 2 else 1 + _newest_version(latest)
        named = instant if layout == 2 or latest is None else latest.key
        name = log_file_name(write.file_id, named, version, f"{task}-{self.attempt}")
        try:
            with self.transaction.data_file(write.partition, name, self._log_type) as file:
                size = sum(file.write(block) for block in blocks)
        except FileExistsError:  # on layout 1, where the instant of the slice is in the name
            raise WriteConflict(
                f"{self.settings.where}, partition {write.partition!r}: another writer created log {name} at the same "
                "time: nothing was written; write again"
            ) from None
        depends = latest if layout == 1 or self.settings.change_logging is not None else None
        old_logs = [log.path.rpartition("/")[2] for log in depends.logs] if depends else []
        return self._stat(
            write,
            name,
            size,
            num_rows=len(data),
            inserts=counts.get("I", 0),
            updates=counts.get("U", 0),
            deletes=counts.get("D", 0),
            previous=(depends.base_instant or depends.key) if depends else instant,
            base_file=_name(depends) if depends else "",
            log_files=(*old_logs, name),
        )

    @property
    def _has_texts_as_ordering(self) -> bool:
        """Whether an ordering column is text. Hudi 1.2.0 then compares the rows of a Parquet block with the ordering
        value of the block's last row, and returns wrong rows; of its own Parquet blocks too."""
        types = (self.schema.field(name).type for name in self.settings.ordering_fields)
        return any(pa.types.is_string(kind) or pa.types.is_binary(kind) for kind in types)

    @contextlib.contextmanager
    def _change_log(self, write: GroupWrite, token: str, sizes: dict[str, int]) -> Iterator[RowChanges | None]:
        """The log of changes beside a base file with this write token; None in a table without change logging. At the
        end, `sizes` has its path and size in bytes."""
        mode, instant = self.settings.change_logging, self.transaction.requested_time
        if mode is None:
            yield None
            return
        name = log_file_name(write.file_id, instant, 1, token, is_cdc=True)
        with self.transaction.data_file(write.partition, name, self._log_type) as file:
            log = ChangeLogWriter(file, instant, mode, self.schemas.recorded)
            yield RowChanges(log)
            log.close()
            sizes[joined(write.partition, name)] = file.tell()

    @property
    def _log_type(self) -> IoType:
        return IoType.CREATE if self.settings.properties.version >= 8 else IoType.APPEND

    def _base(
        self,
        place: tuple[str, str],
        columns: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        expected: int,
        io_type: IoType,
    ) -> tuple[int, int]:
        """Writes a base file, at a partition and name; its size and rows."""
        rows = (self._stored(batch, columns) for batch in batches)
        with self.transaction.data_file(*place, io_type) as file:
            return write_base_file(file, rows, columns, self.record.json_text, expected)

    def _stored(self, rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
        return with_schema(rows if rows.schema == self.schema else rows.cast(self.schema), columns)

    def _stat(
        self,
        write: GroupWrite,
        name: str,
        size: int,
        *,
        num_rows: int,
        inserts: int = 0,
        updates: int = 0,
        deletes: int = 0,
        previous: str,
        previous_base: str = "",
        base_file: str = "",
        log_files: tuple[str, ...] = (),
        change_logs: Mapping[str, int] | None = None,
    ) -> WriteStat:
        return WriteStat(
            partition=write.partition,
            file_id=write.file_id,
            path=joined(write.partition, name),
            num_writes=num_rows,
            num_deletes=deletes,
            num_inserts=inserts,
            num_update_writes=updates,
            file_size_bytes=size,
            base_file=base_file,
            log_files=log_files,
            prev_commit=previous,
            prev_base_file=previous_base,
            change_logs=change_logs or {},
        )


def _name(latest: LatestSlice) -> str:
    """The name of the base file of a slice; '' without one."""
    return latest.base.path.rpartition("/")[2] if latest.base else ""


def _stamped(stamp: RowStamp, rows: KeyedRows) -> Iterator[pa.RecordBatch]:
    return (stamp.stamped(batch, keys) for batch, keys in rows.batches())


def _newest_version(latest: LatestSlice | None) -> int:
    names = [parse_file_name(log.path.rpartition("/")[2]) for log in latest.logs] if latest else []
    return max((name.version for name in names if isinstance(name, LogName)), default=0)


def _deletes(rows: KeyedRows) -> list[LogDeletes]:
    """The deletes, those with ordering values first: the others win over everything before them."""
    ordered = rows.take(np.flatnonzero(rows.kinds == RecordKind.DELETE))
    default = rows.take(np.flatnonzero(rows.kinds == RecordKind.DEFAULT_DELETE))
    parts = zip(ordered.keys.chunks, *(column.chunks for column in ordered.ordering), strict=True)
    return [
        *(LogDeletes(keys, ordering) for keys, *ordering in parts),
        *(LogDeletes(keys) for keys in default.keys.chunks),
    ]
