"""The schema of a load, and the slots of a plan. Runs in Spark's planner processes, never in a task."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import cache

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.engine.connect import enumerator_for
from penstock.engine.requests.batch import no_files_warning, query_of, request_of
from penstock.engine.requests.hybrid import changes_read
from penstock.engine.requests.stream import check_streamable, stream_scope, stream_start
from penstock.engine.spark.load import Loaded, only_a_batch, only_a_stream
from penstock.engine.spark.schema.casting import casting
from penstock.engine.spark.schema.types import spark_schema
from penstock.engine.spark.task.input_partitions import PackedSlot, PulledSlot, Slot, packed_splits
from penstock.engine.spark.watermark.columns import event_time_column, with_columns
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.codec.serialized import encode_scan, encode_split
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import InvariantViolation, SchemaMismatch
from penstock.proto.model.access import NO_ACCESS, ServerAccess
from penstock.proto.model.queries import PlanRequest, SnapshotAsOf
from penstock.proto.model.reports import TableDescription
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry
from penstock.reader.output_schema import output_schema
from penstock.table.columns import resolve_columns
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.completion import returned_schema
from penstock.table.storage.uris import redacted_uri, uri_without_credentials

log = logging.getLogger("penstock.engine.spark")


def schema_of(load: Loaded) -> StructType:
    """The schema of a load, projected by the option `columns`.

    It is the newest schema of the table, also for a range. For `asOf` it is the schema of that instant, which needs a
    plan (a server keeps this plan until its idle timeout). Options that exclude each other raise an error here if no
    stream accepts them, else at the start of the batch or stream.
    """
    table, options = load.table, load.options
    enumerator, retry = enumerator_for(options.server, options.access), Retry(policy=options.retry)

    @cache
    def describe() -> TableDescription:
        return retry.call(lambda: enumerator.describe_table(table))

    if only_a_batch(options):
        query = query_of(table, options, describe)
        if isinstance(query, SnapshotAsOf):
            request = request_of(table, query, options, slots=1)
            opened = retry.call(lambda: enumerator.open_plan(request))
            return _with_watermark_columns(spark_schema(output_schema(opened.scan)), options)
    else:
        check_streamable(options)
        stream_start(table, options, describe)
        if only_a_stream(options):
            stream_scope(table, options, describe)
    schema_json = describe().schema_json
    if not schema_json:
        raise SchemaMismatch(f"no schema: table {redacted_uri(table)} has no data, and no schema is recorded")
    schema = arrow_schema(parse_record_schema(schema_json, f"schema of table {redacted_uri(table)}"))
    schema = returned_schema(schema, changes_read(options), completion_time=options.completion_time == "on")
    columns = resolve_columns(options.columns, schema.names)
    return _with_watermark_columns(spark_schema(pa.schema([schema.field(name) for name in columns])), options)


def _with_watermark_columns(table: StructType, options: ParsedOptions) -> StructType:
    """The schema of the table's columns; with `eventTime` also the two columns of the watermark."""
    if not options.event_time:
        return table
    event_time_column(table, options)
    return with_columns(table)


def _warn(request: PlanRequest, splits: int) -> None:
    if warning := no_files_warning(request, splits):
        log.warning("%s", warning)


def plan_slots(
    enumerator: Enumerator,
    server: str | None,
    request: PlanRequest,
    schema: StructType,
    access: ServerAccess = NO_ACCESS,
    *,
    narrows: bool = False,
    watermark_us: int | None = None,
) -> list[Slot]:
    """Plans the request. Returns one slot for each Spark task; [] if the plan has no split.

    `schema`: the table's columns in the DataFrame; a type that cannot be cast raises an error here, before a task runs
    (`casting`, also for `narrows`). `watermark_us` is stored in the slots.

    With a server, the plan is opened there, and a slot has the plan id, its number and the `access` for the task.
    Embedded, the slots contain the splits and the table's URI without credentials: tasks have their own.
    """
    if server is not None:
        opened = enumerator.open_plan(request)
        _warn(request, opened.splits)
        casting(output_schema(opened.scan), schema, table=opened.scan.table, narrows=narrows)
        log.info(
            "table %s: plan %s at %s, %d splits, %d bytes, %d slots",
            opened.scan.table,
            opened.plan_id,
            server,
            opened.splits,
            opened.size_bytes,
            opened.slots,
        )
        return [PulledSlot(server, opened.plan_id, slot, access, watermark_us) for slot in range(opened.slots)]
    if not isinstance(enumerator, EmbeddedEnumerator):
        raise InvariantViolation(f"no server, but the enumerator is a {type(enumerator).__name__}")
    plan = enumerator.plan(request)
    _warn(request, len(plan.splits))
    casting(output_schema(plan.scan), schema, table=plan.scan.table, narrows=narrows)
    packed = packed_splits(plan.scan, plan.splits, os.cpu_count() or 1, request.slots)
    log.info(
        "table %s: plan up to %s in this process, %d splits, %d slots",
        plan.scan.table,
        plan.commit_range.upto,
        len(plan.splits),
        len(packed),
    )
    scan = encode_scan(replace(plan.scan, base_path=uri_without_credentials(plan.scan.base_path)))
    return [
        PackedSlot(scan, tuple(encode_split(plan.splits[index]) for index in slot), watermark_us) for slot in packed
    ]
