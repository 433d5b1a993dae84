"""The run of a planned service: its files, and its completion."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from penstock.engine.table_services.service_files import ServiceFiles
from penstock.engine.table_services.serviced_table import ServicedTable, record_of
from penstock.engine.write.current_table import CurrentTable, current_table
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups
from penstock.table.files.slices import GroupId
from penstock.table.schema.arrow import arrow_schema
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Instant
from penstock.writer.rows.write_schema import WriteSchema, write_schema
from penstock.writer.table_services.clustering import ClusteringSizes
from penstock.writer.transaction.services import ServiceTransaction, service_transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRun:
    """A service that is being carried out."""

    transaction: ServiceTransaction
    """Its instant."""
    current: CurrentTable
    """The table when the run began."""
    files: ServiceFiles
    """Writes its files."""
    schema: WriteSchema
    """The table's schema."""
    operation: str
    """Hudi's name of the operation."""

    def complete(
        self, stats: Sequence[WriteStat], touched: TouchedGroups, replaced: Collection[GroupId] = ()
    ) -> InstantTime:
        """Completes the service; its completion time. Errors as `ServiceTransaction.complete`."""
        text = self.schema.recorded.json_text
        metadata = CommitMetadata(
            requested_time=self.transaction.requested_time,
            operation=self.operation,
            compacted=self.operation == "COMPACT",
            schema_json=text,
            extra={"schema": text},
            stats=tuple(stats),
            replaced=tuple(sorted(replaced)),
        )
        return self.transaction.complete(metadata, touched, by_bucket=False, writes_base_files=True)


@contextlib.contextmanager
def run_service(
    serviced: ServicedTable,
    planned: Instant,
    operation: str,
    *,
    sole_writer: bool,
    heartbeat: bytes = b"",
    most_bytes: int = ClusteringSizes().target_file_bytes,
) -> Iterator[ServiceRun]:
    """Carries out a planned service while the block runs. Errors as `service_transaction`."""
    with service_transaction(
        serviced.table,
        serviced.storage,
        serviced.environment,
        planned,
        sole_writer=sole_writer,
        heartbeat=heartbeat,
    ) as begun:
        current = current_table(begun.table)
        name = current.table.properties.name
        record = record_of(current)
        schema = write_schema(
            record, arrow_schema(record), name, serviced.where, stores_operations=current.stores_operations
        )
        files = ServiceFiles(
            transaction=begun,
            current=current,
            record=schema.stored,
            new_file_id=lambda: f"{uuid.uuid4()}-0",
            most_bytes=most_bytes,
        )
        yield ServiceRun(transaction=begun, current=current, files=files, schema=schema, operation=operation)
