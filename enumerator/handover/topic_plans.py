"""Ranges of a topic as splits of a plan, beside those of the lake.

Shell: reads the table's schema; event times of ranges are read by the scan that is handed in. Not here: which ranges
(`topic_rounds`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from penstock.enumerator.planning.event_time.annotate import EventTimeScan
from penstock.enumerator.planning.plan import newest_schema_json
from penstock.enumerator.planning.scan import event_time_column, wanted_columns
from penstock.enumerator.planning.split_ids import digest
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaRange, Phase, TopicRecords, kafka_position
from penstock.proto.model.positions import CommitRange
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import AllRows, CommitTimeOrdering, Plan, Scan, Split, VisibleInstants
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.changes import change_schema
from penstock.table.storage.filesystem import redacted_uri

_NOWHERE: Final = kafka_position(Phase.SWITCHING, 0)


def topic_plan(
    table: HudiTable,
    name: str,
    request: PlanRequest,
    ranges: Collection[KafkaRange],
    scan_event_time: EventTimeScan | None,
    commit_range: CommitRange | None = None,
) -> Plan:
    """The plan of these ranges, one split each, in their order, with event times where the request wants them.

    The columns are the lake's, as its newest schema has them. ConfigurationError for columns or a filter that do not
    suit them; errors of reading the topic.
    """
    hybrid = _hybrid(request)
    scan = _scan(table, name, request, hybrid)
    splits = tuple(_split(item) for item in ranges)
    if request.event_time and request.scan_event_time:
        splits = tuple(_with_times(scan, split, request, hybrid, scan_event_time) for split in splits)
    return Plan(scan=scan, commit_range=commit_range or CommitRange(_NOWHERE, _NOWHERE), splits=splits)


def _hybrid(request: PlanRequest) -> Hybrid:
    if request.hybrid is None:
        raise ConfigurationError(f"ranges of a topic are asked of table {request.table} without the option hybrid")
    return request.hybrid


def _scan(table: HudiTable, name: str, request: PlanRequest, hybrid: Hybrid) -> Scan:
    where = f"table {redacted_uri(table.base_path)}"
    schema_json = newest_schema_json(table)
    if not schema_json:
        raise SchemaMismatch(f"{where}: no schema is recorded, so records of topic {hybrid.topic} cannot be its rows")
    schema = arrow_schema(parse_record_schema(schema_json, where))
    changelog = hybrid.mode is HybridMode.CHANGELOG
    keys = table.properties.record_key_fields
    if changelog and not keys:
        raise ConfigurationError(f"hybrid=changelog: {where} has no record key, by which changes are told; use append")
    returned = change_schema(schema, ChangeFormat.ROWS) if changelog else schema
    return Scan(
        table=name,
        base_path=table.properties.base_path,
        table_version=table.properties.version,
        schema_json=schema_json,
        columns=wanted_columns(request, schema, returned),
        where=request.where,
        merge=CommitTimeOrdering(),
        visible=VisibleInstants(frozenset()),
        rows=ChangesOf(ChangeFormat.ROWS) if changelog else AllRows(),
        topic=TopicRecords(
            mode=hybrid.mode,
            value_format=hybrid.value_format,
            key_fields=keys,
            fail_on_data_loss=hybrid.fail_on_data_loss,
        ),
    )


def _split(item: KafkaRange) -> Split:
    place = [item.topic, item.topic_id, item.partition, item.first, item.end]
    return Split(
        split_id=digest(["topic", *place]),
        partition="",
        partition_values=(),
        file_group=f"{item.topic}/{item.partition}",
        order_key=kafka_position(Phase.SWITCHING, item.first).order_key,
        base=None,
        part=item,
    )


def _with_times(
    scan: Scan, split: Split, request: PlanRequest, hybrid: Hybrid, scan_event_time: EventTimeScan | None
) -> Split:
    if scan_event_time is None:
        raise ConfigurationError(
            f"table {scan.table}: event times of topic {hybrid.topic} are told by reading it alone, and this process "
            "plans without a reader"
        )
    schema = arrow_schema(parse_record_schema(scan.schema_json))
    column = event_time_column(request.event_time, schema)
    times = scan_event_time(scan, split, column, request.event_time_unit, hybrid.access)
    return replace(split, event_time=times)
