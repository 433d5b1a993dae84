"""Writes Arrow data into a Hudi table, as one instant."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.engine.write.current_table import CurrentTable, current_table
from penstock.engine.write.file_writes import FileWrites
from penstock.engine.write.incoming_rows import IncomingRows, incoming_rows
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.index.index_choice import BucketIndex, chosen_index
from penstock.engine.write.index.index_of_files import index_of_files
from penstock.engine.write.operations import Operation, parse_operation
from penstock.engine.write.partition_settings import check_new_partitions
from penstock.engine.write.prepared_rows import RowPreparation
from penstock.engine.write.results import WriteResult
from penstock.engine.write.settings import WriteSettings, parse_metadata, timeline_zone, write_settings
from penstock.proto.errors import UnsupportedFeature, WriteConflict
from penstock.table.config.change_logging import CDC_ENABLED
from penstock.table.config.properties import load_properties
from penstock.table.files.slices import GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage, open_writable
from penstock.table.timeline.commit_encoder import encode_requested_replace
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Action
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.index.slices import GroupWrite
from penstock.writer.rows.chunks import Batches, Data, batches_of
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.row_operations import has_operations
from penstock.writer.transaction.conflicts import StartOfWrite, TouchedGroups
from penstock.writer.transaction.failed_writes import roll_back_failed, rolled_back_on_error
from penstock.writer.transaction.transaction import Transaction, WriteEnvironment, transaction


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
) -> WriteResult:
    """Writes the rows of `data` into the table at `path` as one instant: `penstock.write` without the compaction that
    may follow (`table_services.inline_compaction`), where arguments and errors are described."""
    storage = open_writable(str(path))
    table = HudiTable(storage, load_properties(storage))
    keeps_metadata = parse_metadata(metadata)
    settings = write_settings(table, time_partitions or {}, keeps_metadata=keeps_metadata)
    kind = parse_operation(operation)
    chosen = chosen_index(index, buckets, table.properties, update_partition_path)
    environment = WriteEnvironment(zone=timeline_zone(table.properties, timeline_timezone))
    batches = batches_of(data)
    roll_back_failed(table, storage, environment, sole_writer=sole_writer)
    early = current_table(table)
    planned = _Write(
        table=table,
        storage=storage,
        settings=settings,
        operation=kind,
        environment=environment,
        keeps_metadata=keeps_metadata,
        assigner=Assigner(
            index=index_of_files(chosen, early, settings),
            operation=kind,
            sizes=sizes or FileSizes(),
            new_uuid=lambda: str(uuid.uuid4()),
            key_fields=settings.key_fields,
            ordering_fields=settings.ordering_fields,
            where=settings.where,
        ),
    )
    return planned.run(early, batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """One write."""

    table: HudiTable
    storage: WritableStorage
    settings: WriteSettings
    operation: Operation
    keeps_metadata: bool
    environment: WriteEnvironment
    assigner: Assigner

    def run(self, early: CurrentTable, data: Batches) -> WriteResult:
        """Prepares the rows for the table in the state `early` before the timeline changes, so that an error of the
        data leaves no trace; and plans the table once more if another writer completed an instant since then."""
        self._check_operations(early)
        preparation = RowPreparation(self.settings, self.operation, self.assigner.searches_table)
        with incoming_rows(preparation, self.assigner, early, data) as rows:
            if self._changes_nothing(early, rows):
                return result(None, "", self.operation, rows.num_rows, (), ())
            self._check_partitions(early, rows)
            return self._transacted(early, rows)

    def _check_operations(self, current: CurrentTable) -> None:
        """UnsupportedFeature for a merge-on-read table with stored operations whose changelog its logs would not
        keep."""
        settings = self.settings
        if not (settings.stores_operations or current.stores_operations) or not settings.properties.is_merge_on_read:
            return
        if not isinstance(self.assigner.index, BucketIndex):
            raise UnsupportedFeature(
                f"{settings.where} is merge-on-read and stores operations: only a bucket index is written; with "
                "another index the operations of new keys would be lost"
            )
        if settings.change_logging is not None:
            raise UnsupportedFeature(
                f"{settings.where} is merge-on-read, stores operations, and has {CDC_ENABLED}=true: it is not written, "
                "because Hudi cannot return the changes of its logs"
            )

    def _transacted(self, early: CurrentTable, rows: IncomingRows) -> WriteResult:
        layout = self.table.properties.layout
        requested = encode_requested_replace(self.operation.hudi_name, layout) if self.operation.replaces else b""
        with (
            transaction(
                self.table,
                self.storage,
                self.environment,
                self._action(),
                requested,
                keeps_metadata=self.keeps_metadata,
            ) as begun,
            rolled_back_on_error(begun),
        ):
            current = early
            if StartOfWrite.of(early.table.timeline()) != begun.start:
                current = current_table(self.table)
                index_of_files(self.assigner.index, current, self.settings)
                self._check_partitions(current, rows)
            return self._written(begun, current, rows)

    def _check_partitions(self, current: CurrentTable, rows: IncomingRows) -> None:
        if not self.operation.deletes and not self.operation.deletes_partitions:
            check_new_partitions(self.settings.paths, current, rows.partitions, self.settings.where)

    def _changes_nothing(self, current: CurrentTable, rows: IncomingRows) -> bool:
        """Whether there is nothing to write. Deletes in a table without a schema are that too: its first commit would
        record a schema of key columns alone."""
        if (self.operation.deletes or self.operation.deletes_partitions) and current.record is None:
            return True
        if self.operation.deletes_partitions:
            return not self._replaced(current, rows)
        return rows.is_empty and not self.operation.replaces_table

    def _action(self) -> Action:
        if self.operation.replaces:
            return Action.REPLACE_COMMIT
        return Action.DELTA_COMMIT if self.table.properties.is_merge_on_read else Action.COMMIT

    def _written(self, begun: Transaction, current: CurrentTable, rows: IncomingRows) -> WriteResult:
        schema = rows.schema(current)
        files = FileWrites(transaction=begun, current=current, settings=self.settings, schemas=schema)
        replaced = self._replaced(current, rows)
        stats: list[WriteStat] = []
        inserted_into: set[str] = set()
        for write, mine in rows.group_writes(current.without(replaced), self.assigner):
            stat = self._write_group(files, write, mine)
            if stat is not None:
                stats.append(stat)
            if write.latest is None or write.rewrites:
                inserted_into.add(write.partition)
        metadata = CommitMetadata(
            requested_time=begun.requested_time,
            operation=self.operation.hudi_name,
            compacted=False,
            schema_json=schema.recorded.json_text,
            extra={"schema": schema.recorded.json_text},
            stats=tuple(stats),
            replaced=tuple(sorted(replaced)),
        )
        touched = TouchedGroups(
            groups=frozenset({*((stat.partition, stat.file_id) for stat in stats), *replaced}),
            inserted_into=frozenset(inserted_into),
            keys_of_table=self.assigner.searches_table,
        )
        completion = begun.complete(
            metadata,
            touched,
            by_bucket=isinstance(self.assigner.index, BucketIndex),
            writes_base_files=any(not stat.file_name.startswith(".") for stat in stats),
        )
        return result(begun.requested_time, completion, self.operation, rows.num_rows, stats, tuple(replaced))

    def _replaced(self, current: CurrentTable, rows: IncomingRows) -> frozenset[GroupId]:
        """The file groups that the write replaces."""
        if not self.operation.replaces:
            return frozenset()
        partitions = current.slices.by_partition if self.operation.replaces_table else rows.partitions
        slices = [item for partition in partitions for item in current.slices.of(partition)]
        busy = [item for item in slices if item.being_compacted or item.group in current.slices.locked]
        if self.operation.deletes_partitions and busy:  # as Hudi `DeletePartitionUtils`
            raise WriteConflict(
                f"{self.settings.where}: file group {busy[0].file_id} of partition {busy[0].partition!r} is in a "
                "pending compaction, clustering or replacement: nothing was deleted; delete the partition when it has "
                "completed or was rolled back"
            )
        return frozenset(item.group for item in slices)

    def _write_group(self, files: FileWrites, write: GroupWrite, rows: KeyedRows) -> WriteStat | None:
        is_changelog = self.table.properties.is_merge_on_read and has_operations(rows.rows)
        if write.latest is None and (not is_changelog or self.operation.replaces or self.operation.only_new_groups):
            return files.new_base(write, rows)
        if self.table.properties.is_merge_on_read and not write.rewrites:
            return files.log(write, rows)
        return files.rewritten_base(write, rows, appends=not self.operation.searches_keys)


def result(
    instant: str | None,
    completion: str,
    operation: Operation,
    num_rows: int,
    stats: Sequence[WriteStat],
    replaced: Sequence[GroupId],
) -> WriteResult:
    """The result of a write. An empty one has no instant."""
    return WriteResult(
        instant=instant or "",
        completion_time=completion,
        operation=operation.value,
        rows=num_rows,
        inserted=sum(stat.num_inserts for stat in stats),
        updated=sum(stat.num_update_writes for stat in stats),
        deleted=sum(stat.num_deletes for stat in stats),
        files=len(stats),
        written_bytes=sum(stat.file_size_bytes for stat in stats),
        partitions=tuple(sorted({*(stat.partition for stat in stats), *(partition for partition, _ in replaced)})),
    )
