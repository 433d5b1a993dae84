"""Plans of topic ranges: one split for each range, with the table's schema.

Reads the table's schema. `topic_position` chooses the ranges.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import pyarrow as pa

from penstock.enumerator.planning.annotate import EventTimeScan
from penstock.enumerator.planning.event_time.bounds import EventTimeColumn
from penstock.enumerator.planning.plan import newest_schema
from penstock.enumerator.planning.scan import bind_request
from penstock.enumerator.planning.split_ids import digest
from penstock.enumerator.planning.table_state import BoundRequest, TableSchema
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaRange, Phase, TopicRecords, kafka_position
from penstock.proto.model.positions import CommitRange, CompletionTimes
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import AllRows, CommitTimeOrdering, Plan, Scan, Split, VisibleInstants
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.completion import returned_schema
from penstock.table.storage.uris import redacted_uri

_NOWHERE: Final = kafka_position(Phase.SWITCHING, 0)


def topic_plan(
    table: HudiTable,
    name: str,
    request: PlanRequest,
    ranges: Collection[KafkaRange],
    scan_event_time: EventTimeScan | None,
    commit_range: CommitRange | None = None,
) -> Plan:
    """The plan of these ranges: one split each, in their order, with event times if the request scans them.

    The columns are those of the table's newest schema. Raises ConfigurationError for columns or a filter that do not
    match them; errors of reading the topic.
    """
    hybrid = _hybrid(request)
    schema = _table_schema(table, hybrid)
    bound = bind_request(request, schema, _returned(table, schema, hybrid, completion_time=request.completion_time))
    scan = _scan(table, name, bound, schema, hybrid)
    splits = tuple(_split(item) for item in ranges)
    if bound.event_time is not None and request.scan_event_time:
        splits = tuple(_with_times(scan, split, bound.event_time, hybrid, scan_event_time) for split in splits)
    return Plan(scan=scan, commit_range=commit_range or CommitRange(_NOWHERE, _NOWHERE), splits=splits)


def _hybrid(request: PlanRequest) -> Hybrid:
    if request.hybrid is None:
        raise ConfigurationError(f"table {request.table}: ranges of a topic need the option hybrid")
    return request.hybrid


def _table_schema(table: HudiTable, hybrid: Hybrid) -> TableSchema:
    schema = newest_schema(table)
    if schema is None:
        where = f"table {redacted_uri(table.base_path)}"
        raise SchemaMismatch(f"{where}: no schema is recorded, so records of topic {hybrid.topic} cannot be its rows")
    return schema


def _returned(table: HudiTable, schema: TableSchema, hybrid: Hybrid, *, completion_time: bool) -> pa.Schema:
    """The columns that the query returns: the table's, or those of change rows."""
    changes = ChangeFormat.ROWS if hybrid.mode is HybridMode.CHANGELOG else None
    if changes is not None and not table.properties.record_key_fields:
        where = f"table {redacted_uri(table.base_path)}"
        raise ConfigurationError(f"hybrid=changelog: {where} has no record key to identify changed rows; use append")
    return returned_schema(schema.arrow, changes, completion_time=completion_time)


def _scan(table: HudiTable, name: str, bound: BoundRequest, schema: TableSchema, hybrid: Hybrid) -> Scan:
    changelog = hybrid.mode is HybridMode.CHANGELOG
    return Scan(
        table=name,
        base_path=table.properties.base_path,
        table_version=table.properties.version,
        schema_json=schema.text,
        columns=bound.columns,
        where=bound.request.where,
        merge=CommitTimeOrdering(),
        visible=VisibleInstants(frozenset()),
        rows=ChangesOf(ChangeFormat.ROWS) if changelog else AllRows(),
        topic=TopicRecords(
            mode=hybrid.mode,
            value_format=hybrid.value_format,
            key_fields=table.properties.record_key_fields,
            fail_on_data_loss=hybrid.fail_on_data_loss,
        ),
        completion_times=CompletionTimes() if bound.request.completion_time else None,
    )


def _split(item: KafkaRange) -> Split:
    identity = [item.topic, item.topic_id, item.partition, item.first, item.end]
    return Split(
        split_id=digest(["topic", *identity]),
        partition="",
        partition_values=(),
        file_group=f"{item.topic}/{item.partition}",
        order_key=kafka_position(Phase.SWITCHING, item.first).order_key,
        base=None,
        part=item,
    )


def _with_times(
    scan: Scan, split: Split, column: EventTimeColumn, hybrid: Hybrid, scan_event_time: EventTimeScan | None
) -> Split:
    if scan_event_time is None:
        raise ConfigurationError(
            f"table {scan.table}: event times of topic {hybrid.topic} are known only by reading it, and this process "
            "plans without a reader"
        )
    times = scan_event_time(scan, split, column.name, column.unit, hybrid.access)
    return replace(split, event_time=times)
