"""The order of a write, whatever its rows are: open the table, begin an instant, write the file groups, commit.

`write` gives it rows of Arrow data, `engine.spark.write` rows of a DataFrame.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.engine.write.current_table import CurrentTable, current_table
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.index.index_choice import BucketIndex, chosen_index
from penstock.engine.write.index.index_of_files import index_of_files
from penstock.engine.write.operations import Operation, parse_operation
from penstock.engine.write.partition_settings import check_new_partitions
from penstock.engine.write.prepared_rows import RowPreparation
from penstock.engine.write.results import WriteResult
from penstock.engine.write.service.remote_transaction import WriteServer, remote_transaction
from penstock.engine.write.settings import WriteSettings, parse_metadata, timeline_zone, write_settings
from penstock.proto.errors import ConfigurationError, UnsupportedFeature, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups, WriteSpec
from penstock.table.config.change_logging import CDC_ENABLED
from penstock.table.config.properties import load_properties
from penstock.table.files.slices import GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage, open_writable
from penstock.table.timeline.commit_encoder import encode_requested_replace
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Action
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.index.slices import NO_ROWS, GroupWrite
from penstock.writer.rows.write_schema import WriteSchema
from penstock.writer.transaction.conflicts import StartOfWrite
from penstock.writer.transaction.failed_writes import roll_back_failed, rolled_back_on_error
from penstock.writer.transaction.transaction import Transaction, WriteEnvironment, transaction


class WriteRows(Protocol):
    """The rows of a write, and how they become files."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        ...

    @property
    def num_rows(self) -> int:
        """How many rows there are. For the end of `write_groups`."""
        ...

    @property
    def partitions(self) -> Sequence[str]:
        """The partitions of the rows."""
        ...

    def schema(self, current: CurrentTable) -> WriteSchema:
        """The schema of the write in a state of the table."""
        ...

    def write_groups(
        self, begun: Transaction, current: CurrentTable, schema: WriteSchema
    ) -> Iterator[tuple[GroupWrite, WriteStat | None]]:
        """Writes the file groups, each once, and returns what was written: None for a group whose rows are deletes of
        keys that the table lacks. `current` is without the file groups that the write replaces. Errors after some
        groups too."""
        ...


def inserts_of(writes: Iterable[GroupWrite]) -> frozenset[str]:
    """The partitions in which the writes add rows to base files."""
    return frozenset(write.partition for write in writes if write.latest is None or write.rewrites)


@dataclass(slots=True)
class Leases:
    """Takes leases of the file groups that are assigned in a transaction."""

    keys_of_table: bool = False
    """See `TouchedGroups`."""
    transaction: Transaction | None = None
    """The transaction, once it has begun."""

    def take(self, writes: Sequence[GroupWrite]) -> None:
        """Called before the files of these groups are written. WriteConflict if another writer has one."""
        if self.transaction is not None:
            groups = frozenset((write.partition, write.file_id) for write in writes)
            touched = TouchedGroups(groups=groups, inserted_into=inserts_of(writes), keys_of_table=self.keys_of_table)
            self.transaction.lease(touched)


class AlreadyWritten(Exception):
    """Another process completed the same write after this one had begun. Nothing of this one is visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a caller asks for beside the rows. `penstock.write` describes the options."""

    operation: str = "upsert"
    """The operation."""
    index: str | None = None
    """The index of all the table's writers; None for the recorded one."""
    buckets: int | None = None
    """The number of buckets of a partition."""
    timeline_timezone: str = ""
    """The zone of the table's writers, for a LOCAL timeline."""
    sole_writer: bool = False
    """Whether pending writes of others are those of killed writers."""
    sizes: FileSizes = field(default_factory=FileSizes)
    """The sizes of base files."""
    time_partitions: Mapping[str, str] = field(default_factory=dict)
    """The form of time partitions that the table does not record."""
    update_partition_path: bool | None = None
    """Whether a row of another partition moves its key there (global index)."""
    metadata: str = "files"
    """`files` or `off`."""
    server: WriteServer | None = None
    """The server that owns the table's timeline; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One write of an opened table."""

    table: HudiTable
    """The table."""
    storage: WritableStorage
    """Its files."""
    early: CurrentTable
    """The table when the write was opened."""
    settings: WriteSettings
    """Its settings."""
    operation: Operation
    """The operation."""
    keeps_metadata: bool
    """Whether the metadata table is kept current, or removed."""
    environment: WriteEnvironment
    """Clocks and zone."""
    assigner: Assigner
    """Assigns rows to file groups."""
    leases: Leases
    """The leases of the file groups that it assigns."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Extra metadata of the commit, beside the schema."""
    commits_without_rows: bool = False
    """Whether a write without rows completes an instant too, for its extra metadata."""
    is_done: Callable[[HudiTable], bool] = lambda table: False
    """Whether another process has completed the same write. Asked if an instant completed since `early`, and under the
    lock when the write completes."""
    may_empty_table: bool = True
    """Whether `insert_overwrite_table` without rows empties the table."""
    server: WriteServer | None = None
    """The server that owns the table's timeline; None: this process changes it, under the table's lock."""
    table_name: str = ""
    """The table's name on the server."""
    timeline_timezone: str = ""
    """The zone of the table's writers, as given."""

    @property
    def preparation(self) -> RowPreparation:
        """How data becomes rows of this write."""
        return RowPreparation(self.settings, self.operation, self.assigner.searches_table)

    def run(self, rows: WriteRows) -> WriteResult:
        """Writes the rows, which were prepared for the table in the state `early`, so that an error of the data leaves
        no trace; and plans the table once more if another writer completed an instant since then.

        AlreadyWritten if `is_done` says so then, or when the write completes.
        """
        if self._changes_nothing(rows):
            return _result(None, "", self.operation, rows.num_rows, (), ())
        self._check_partitions(self.early, rows)
        with self._begun() as begun:
            current = self.early
            if StartOfWrite.of(current.table.timeline()) != begun.start:
                current = current_table(self.table)
                self._refuse_done(current.table)
                index_of_files(self.assigner.index, current, self.settings)
                self._check_partitions(current, rows)
            self.leases.transaction = begun
            return self._written(begun, current, rows)

    def _refuse_done(self, table: HudiTable) -> None:
        if self.is_done(table):
            raise AlreadyWritten

    @contextlib.contextmanager
    def _begun(self) -> Iterator[Transaction]:
        """The transaction, here or at the server. It is rolled back if the block ends with an error."""
        layout = self.table.properties.layout
        requested = encode_requested_replace(self.operation.hudi_name, layout) if self.operation.replaces else b""
        if self.server is None:
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
                begun.before_completion = self._refuse_done
                yield begun
            return
        spec = WriteSpec(
            action=self._action().value,
            requested=requested,
            timeline_timezone=self.timeline_timezone,
            keeps_metadata=self.keeps_metadata,
            by_bucket=isinstance(self.assigner.index, BucketIndex),
        )
        with remote_transaction(
            self.server, self.table_name, self.table, self.storage, self.environment, spec
        ) as begun:
            begun.before_completion = self._refuse_done
            yield begun

    def check_operations(self) -> None:
        """UnsupportedFeature for a merge-on-read table with stored operations whose changelog its logs would not
        keep."""
        settings = self.settings
        stores = settings.stores_operations or self.early.stores_operations
        if not stores or not settings.properties.is_merge_on_read:
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

    def _check_partitions(self, current: CurrentTable, rows: WriteRows) -> None:
        if not self.operation.deletes and not self.operation.deletes_partitions:
            check_new_partitions(self.settings.paths, current, rows.partitions, self.settings.where)

    def _changes_nothing(self, rows: WriteRows) -> bool:
        """Whether there is nothing to write. Deletes in a table without a schema are that too: its first commit would
        record a schema of key columns alone."""
        if (self.operation.deletes or self.operation.deletes_partitions) and self.early.record is None:
            return True
        if self.commits_without_rows:
            return False
        if self.operation.deletes_partitions:
            return not self._replaced(self.early, rows)
        return rows.is_empty and not (self.operation.replaces_table and self.may_empty_table)

    def _action(self) -> Action:
        if self.operation.replaces:
            return Action.REPLACE_COMMIT
        return Action.DELTA_COMMIT if self.table.properties.is_merge_on_read else Action.COMMIT

    def _written(self, begun: Transaction, current: CurrentTable, rows: WriteRows) -> WriteResult:
        schema = rows.schema(current)
        replaced = self._replaced(current, rows)
        begun.lease(TouchedGroups(groups=replaced))
        stats: list[WriteStat] = []
        writes: list[GroupWrite] = []
        for write, stat in rows.write_groups(begun, current.without(replaced), schema):
            if stat is not None:
                stats.append(stat)
            writes.append(replace(write, rows=NO_ROWS))
        json_text = schema.recorded.json_text
        metadata = commit_metadata(begun.requested_time, self.operation, json_text, self.extra, stats, replaced)
        touched = TouchedGroups(
            groups=frozenset({*((stat.partition, stat.file_id) for stat in stats), *replaced}),
            inserted_into=inserts_of(writes),
            keys_of_table=self.assigner.searches_table,
        )
        completion = begun.complete(
            metadata,
            touched,
            by_bucket=isinstance(self.assigner.index, BucketIndex),
            writes_base_files=any(not stat.file_name.startswith(".") for stat in stats),
        )
        return _result(begun.requested_time, completion, self.operation, rows.num_rows, stats, tuple(replaced))

    def _replaced(self, current: CurrentTable, rows: WriteRows) -> frozenset[GroupId]:
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


def open_write(path: str, options: WriteOptions) -> PlannedWrite:
    """Opens the table at `path`, or that of this name on the server, for a write, and without a server rolls back what
    killed writers left. Errors of `penstock.write`."""
    server = options.server
    if server is not None and options.sole_writer:
        raise ConfigurationError("sole_writer: with a server, the server rolls back what killed writers left")
    storage = open_writable(path if server is None else server.path_of(path))
    table = HudiTable(storage, load_properties(storage))
    keeps_metadata = parse_metadata(options.metadata)
    settings = write_settings(table, options.time_partitions, keeps_metadata=keeps_metadata)
    kind = parse_operation(options.operation)
    chosen = chosen_index(options.index, options.buckets, table.properties, options.update_partition_path)
    environment = WriteEnvironment(zone=timeline_zone(table.properties, options.timeline_timezone))
    if server is None:
        roll_back_failed(table, storage, environment, sole_writer=options.sole_writer)
    early = current_table(table)
    leases = Leases()
    assigner = Assigner(
        index=index_of_files(chosen, early, settings),
        operation=kind,
        sizes=options.sizes,
        new_uuid=lambda: str(uuid.uuid4()),
        key_fields=settings.key_fields,
        ordering_fields=settings.ordering_fields,
        where=settings.where,
        when_assigned=leases.take,
    )
    leases.keys_of_table = assigner.searches_table
    planned = PlannedWrite(
        table=table,
        storage=storage,
        early=early,
        settings=settings,
        operation=kind,
        environment=environment,
        keeps_metadata=keeps_metadata,
        assigner=assigner,
        leases=leases,
        server=server,
        table_name=path if server is not None else "",
        timeline_timezone=options.timeline_timezone,
    )
    planned.check_operations()
    return planned


def commit_metadata(
    instant: InstantTime,
    operation: Operation,
    schema_json: str,
    extra: Mapping[str, str],
    stats: Sequence[WriteStat],
    replaced: Collection[GroupId] = (),
) -> CommitMetadata:
    """The metadata of a write's commit, with this extra metadata beside the schema."""
    return CommitMetadata(
        requested_time=instant,
        operation=operation.hudi_name,
        compacted=False,
        schema_json=schema_json,
        extra={"schema": schema_json, **extra},
        stats=tuple(stats),
        replaced=tuple(sorted(replaced)),
    )


def _result(
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
