"""Writes Arrow data into a Hudi table, as one instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.file_writes import FileWrites
from penstock.engine.write.incoming_rows import IncomingRows, incoming_rows
from penstock.engine.write.planned_write import PlannedWrite, WriteOptions, open_write
from penstock.engine.write.results import WriteResult
from penstock.engine.write.service.remote_transaction import WriteServer
from penstock.table.timeline.commits import WriteStat
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.index.slices import GroupWrite
from penstock.writer.rows.chunks import Batches, Data, batches_of
from penstock.writer.rows.write_schema import WriteSchema
from penstock.writer.transaction.transaction import Transaction


def write(
    path: str,
    data: Data,
    operation: str = "upsert",
    *,
    index: str | None = None,
    buckets: int | None = None,
    timeline_timezone: str = "",
    sole_writer: bool = False,
    sizes: FileSizes | None = None,
    time_partitions: Mapping[str, str] | None = None,
    update_partition_path: bool | None = None,
    metadata: str = "files",
    server: WriteServer | None = None,
) -> WriteResult:
    """Writes the rows of `data` into the table at `path` as one instant: `penstock.write` without the compaction that
    may follow (`table_services.inline_compaction`), where arguments and errors are described."""
    options = WriteOptions(
        operation=operation,
        index=index,
        buckets=buckets,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
        sizes=sizes or FileSizes(),
        time_partitions=time_partitions or {},
        update_partition_path=update_partition_path,
        metadata=metadata,
        server=server,
    )
    return write_batches(open_write(str(path), options), batches_of(data))


def write_batches(planned: PlannedWrite, data: Batches) -> WriteResult:
    """Carries out a planned write of Arrow data. Errors of `penstock.write`."""
    with incoming_rows(planned.preparation, planned.assigner, planned.early, data) as rows:
        return planned.run(_ArrowRows(planned, rows))


@dataclass(frozen=True, slots=True)
class _ArrowRows:
    """Rows of Arrow data, which this process writes one file group after the other. `WriteRows`."""

    planned: PlannedWrite
    rows: IncomingRows

    @property
    def is_empty(self) -> bool:
        return self.rows.is_empty

    @property
    def num_rows(self) -> int:
        return self.rows.num_rows

    @property
    def partitions(self) -> Sequence[str]:
        return self.rows.partitions

    def schema(self, current: CurrentTable) -> WriteSchema:
        return self.rows.schema(current)

    def write_groups(
        self, begun: Transaction, current: CurrentTable, schema: WriteSchema
    ) -> Iterator[tuple[GroupWrite, WriteStat | None]]:
        planned = self.planned
        files = FileWrites(transaction=begun, current=current, settings=planned.settings, schemas=schema)
        for write, rows in self.rows.group_writes(current, planned.assigner):
            yield write, files.group(write, rows, planned.operation)
