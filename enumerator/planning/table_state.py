"""The planner's input: the state of a table at one discovery, and the request bound to the table's schema. Values only.

The schema's JSON and the filter's text are parsed once, during discovery. Planning uses the parsed values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.enumerator.planning.event_time.bounds import EventTimeColumn
from penstock.enumerator.planning.selection import Selection, TimelineFacts
from penstock.proto.model.positions import CompletionTimes, InstantTime
from penstock.proto.model.queries import PlanRequest
from penstock.proto.value_classes import dataclass
from penstock.table.config.properties import TableProperties
from penstock.table.files.slices import CommittedInstants, DataFile, GroupId
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema, parse_record_schema

if TYPE_CHECKING:
    from penstock.table.predicate.tree import Predicate


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table's schema, parsed once."""

    record: RecordSchema
    """The parsed Avro record."""
    arrow: pa.Schema
    """The same columns as an Arrow schema."""

    @classmethod
    def parse(cls, text: str, where: str) -> TableSchema:
        """Parse the JSON text of an Avro record. CorruptFile or SchemaMismatch, with `where` in the message."""
        record = parse_record_schema(text, where)
        return cls(record, arrow_schema(record))

    @property
    def text(self) -> str:
        """The Avro record schema as JSON. Scans carry this form."""
        return self.record.json_text


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundRequest:
    """A request whose names and filter are resolved against the table's schema."""

    request: PlanRequest
    """The request as the client sent it."""
    columns: tuple[str, ...]
    """The requested columns, by their names in the table."""
    row_filter: Predicate | None
    """The filter over the table's rows; it may exclude partitions and files. None without a filter, and for a query of
    changes, whose filter applies to change rows."""
    event_time: EventTimeColumn | None
    """The event-time column; None if the request names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state of a table at one discovery, for one request. Planning reads nothing else."""

    table: str
    """The table's name in plans and log events."""
    properties: TableProperties
    """The table's configuration (`hoodie.properties`)."""
    facts: TimelineFacts
    """The timeline and the commit metadata."""
    request: BoundRequest
    """The request, bound to `schema`."""
    selections: tuple[Selection, ...]
    """Alternative selections in order of preference. All give the same rows."""
    committed: CommittedInstants
    """The completed instants, with their order keys."""
    files: tuple[DataFile, ...]
    """Files of the selected groups: those listed in the folders, those named by active commits, and those removed by
    active cleans."""
    cleaned: Mapping[str, str]
    """Path of a removed file -> requested time of the clean that removed it."""
    pending_compactions: Mapping[GroupId, frozenset[str]]
    """File group -> requested times of the pending compaction plans that name it."""
    schema: TableSchema
    """The table's schema for this request."""
    metadata_usable: bool = True
    """False if the metadata table was tried and could not be used."""
    schema_history: str = ""
    """The schema-on-read history (JSON) of `schema`; '' without one."""
    pruned: frozenset[str] = frozenset()
    """Partitions that the request's filter excluded before they were listed. None of their groups is read."""
    storing_operations: frozenset[InstantTime] = frozenset()
    """For a range of changes: the instants whose files have the column `_hoodie_operation`."""
    completion_times: CompletionTimes | None = None
    """The completion times of the instants whose rows may be read; None without `PlanRequest.completion_time`."""
