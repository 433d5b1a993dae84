"""Writes the base files of a compaction or clustering, and returns their statistics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from penstock.engine.table_services.slice_rows import merged_rows, sorted_rows
from penstock.engine.write.current_table import CurrentTable
from penstock.reader.split.report import SplitTally
from penstock.reader.values.record_keys import RECORD_KEY
from penstock.table.files.markers import IoType
from penstock.table.files.names import base_file_name
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema
from penstock.table.timeline.commits import CompactedLogs, WriteStat
from penstock.writer.files.base_file import write_base_file
from penstock.writer.files.meta_columns import in_file
from penstock.writer.files.required_columns import file_schema, with_schema
from penstock.writer.index.slices import LatestSlice
from penstock.writer.transaction.services import ServiceTransaction

_LOG_ROW_BYTES: Final = 100
"""An assumed size of a row in a log whose records are not known."""


@dataclass(slots=True, kw_only=True)
class ServiceFiles:
    """Writes the files of a service. For one thread."""

    transaction: ServiceTransaction
    """The service."""
    current: CurrentTable
    """The table at its beginning."""
    record: RecordSchema
    """The schema of the files, with meta columns."""
    new_file_id: Callable[[], str]
    """Makes the id of a new file group."""
    most_bytes: int
    """About the size at which another file is begun, for rows that are clustered."""
    _task: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def compacted(self, item: LatestSlice) -> WriteStat:
        """The base file of a slice and its logs, in the same group. If all rows are deleted, it is empty."""
        tally = SplitTally()
        known = self._known([item])
        name = self._name(item.file_id)
        rows = self._rows(merged_rows(self.current, item, tally), name, known.columns)
        io_type = IoType.MERGE if item.base else IoType.CREATE
        with self.transaction.data_file(item.partition, name, io_type) as file:
            size, num_rows = write_base_file(file, rows, known.columns, self.record.json_text, known.expected_rows)
        outcomes = tally.report().outcomes
        inserts = tally.inserted_rows
        updates = max(outcomes.won - inserts, 0)
        updated = outcomes.won + outcomes.deleted
        return WriteStat(
            partition=item.partition,
            file_id=item.file_id,
            path=_path(item.partition, name),
            num_writes=num_rows,
            num_deletes=max(known.base_rows + inserts - num_rows, 0),
            num_inserts=inserts,
            num_update_writes=updates,
            file_size_bytes=size,
            base_file="",
            log_files=(),
            prev_commit=item.key,
            prev_base_file=item.base_name,
            compacted_logs=CompactedLogs(
                files=len(item.logs),
                blocks=tally.log_blocks,
                records=updated + outcomes.lost_event_time + outcomes.duplicate,
                updated=updated,
                size_bytes=sum(log.size_bytes for log in item.logs),
            ),
        )

    def clustered(self, items: Sequence[LatestSlice], sort_by: Sequence[str]) -> list[WriteStat]:
        """The files of new groups with the rows of these slices of a partition, sorted by columns if there are any."""
        known = self._known(items)
        merged = itertools.chain.from_iterable(merged_rows(self.current, item, SplitTally()) for item in items)
        rows = _Head(sorted_rows(merged, sort_by) if sort_by else merged)
        stats = []
        while not rows.is_empty:
            stats.append(self._clustered_file(items[0].partition, rows, known))
        return stats

    def _clustered_file(self, partition: str, rows: _Head, known: _Known) -> WriteStat:
        file_id = self.new_file_id()
        name = self._name(file_id)
        with self.transaction.data_file(partition, name, IoType.CREATE) as file:
            part = rows.until(lambda: file.tell() >= self.most_bytes)
            batches = self._rows(part, name, known.columns)
            size, num_rows = write_base_file(file, batches, known.columns, self.record.json_text, known.expected_rows)
        return WriteStat(
            partition=partition,
            file_id=file_id,
            path=_path(partition, name),
            num_writes=num_rows,
            num_deletes=0,
            num_inserts=num_rows,
            num_update_writes=0,
            file_size_bytes=size,
            base_file="",
            log_files=(),
            prev_commit="",
        )

    def _name(self, file_id: str) -> str:
        token = f"{next(self._task)}-0-{self.transaction.attempt}"
        return base_file_name(file_id, token, self.transaction.requested_time)

    def _rows(self, batches: Iterable[pa.RecordBatch], name: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows in a file of this name, as it stores them."""
        schema = arrow_schema(self.record)
        for batch in batches:
            rows = in_file(batch.select(schema.names), name)
            yield with_schema(rows if rows.schema == schema else rows.cast(schema), columns)

    def _known(self, items: Iterable[LatestSlice]) -> _Known:
        schemas = []
        base_rows = log_rows = 0
        for item in items:
            if item.base is not None:
                with self.current.base_file(item, self.record, (RECORD_KEY,)) as base:
                    schemas.append(base.stored_schema)
                    base_rows += base.num_rows
            for log in item.logs:
                known = None if log.writes is None else sum(write.data_rows for write in log.writes)
                log_rows += log.size_bytes // _LOG_ROW_BYTES if known is None else known
        return _Known(file_schema(self.record, *schemas), base_rows, base_rows + log_rows)


@dataclass(frozen=True, slots=True)
class _Known:
    """What footers say about the rows of a file before they are merged."""

    columns: pa.Schema
    """The columns of the new file."""
    base_rows: int
    """The rows of base files."""
    expected_rows: int
    """About the rows of the new file."""


class _Head:
    """Batches that are taken in parts."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._next = next(batches, None)

    @property
    def is_empty(self) -> bool:
        """Whether no batch is left."""
        return self._next is None

    def until(self, is_full: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        """The next batches, at least one, until the part is full."""
        is_first = True
        while self._next is not None and (is_first or not is_full()):
            batch, self._next, is_first = self._next, next(self._batches, None), False
            yield batch


def _path(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name
