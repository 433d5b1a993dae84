"""The DataFrame of a snapshot, planned now: log-free slices by Spark's Parquet reader, the others by Penstock.

Both parts come from one plan, so that together they are one state of the table.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from itertools import count
from typing import TYPE_CHECKING, Final

from penstock.engine.connect import enumerator_for
from penstock.engine.requests.batch import no_files_warning, plan_request
from penstock.engine.spark.load import Loaded, loaded
from penstock.engine.spark.schema.types import spark_schema
from penstock.engine.spark.slices.divide import Division, FactsOf, divided
from penstock.engine.spark.slices.footers import FooterFacts
from penstock.engine.spark.slices.parquet_frame import (
    OtherFiles,
    check_reach,
    parquet_frame,
    spark_folder,
    unusable_setting,
)
from penstock.engine.spark.slices.scan_options import DESCRIBED, PLANNED, ScanDescription, as_option
from penstock.engine.spark.startup import missing_format_explained
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import InvariantViolation, PenstockError
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.reports import NextSplit
from penstock.proto.model.splits import Scan, Split
from penstock.proto.options.registry import EntryPoint, ParsedOptions
from penstock.proto.retry import Retry
from penstock.reader.output_schema import output_schema
from penstock.reader.split.read_schema import read_schema_of
from penstock.table.storage.filesystem import open_storage
from penstock.table.storage.uris import redacted_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.engine.spark.slices.footers import FileFacts
    from penstock.proto.model.files import FileRef
    from penstock.proto.model.splits import VisibleInstants

log = logging.getLogger("penstock.engine.spark")

_PULLED_SLOTS: Final = 8
"""Slots of a server's plan that the driver pulls at the same time."""

_FACTS = FooterFacts()
"""The footers that this process read. Files of a table never change."""


def snapshot_frame(
    spark: SparkSession, table: str, read_options: Mapping[str, str], *, always: bool = False
) -> tuple[DataFrame, VisibleInstants] | None:
    """The rows of a load, and the instants that its plan shows. Maybe also rows that its filter (`where`) leaves out:
    the caller keeps the filter in Spark.

    The columns are those of `spark.read.format("penstock")`. Plans now. None if Spark must plan such a load: ranges,
    `limit`, `eventTime`, plans with very many splits that Penstock reads, and Spark Connect. Also None if Spark's
    Parquet reader is not used (`nativeParquet`, `unusable_setting`), except with `always`. Errors:
    `penstock.proto.errors`.
    """
    load = loaded({**read_options, "path": table}, EntryPoint.BATCH, os.environ)
    reason = _not_planned_now(spark, load.options)
    setting = "" if reason else _unusable(spark, load.options)
    if reason or setting:
        log.debug("table %s: Spark's Parquet reader is not used: %s", redacted_uri(table), reason or setting)
    if reason or (setting and not always):
        return None
    for warning in load.options.warnings:
        log.warning("%s", warning)
    options = load.options
    enumerator, retry = enumerator_for(options.server, options.access), Retry(policy=options.retry)
    request = plan_request(table, options, lambda: retry.call(lambda: enumerator.describe_table(table)))
    scan, splits = _planned(enumerator, request, retry)
    if warning := no_files_warning(request, len(splits)):
        log.warning("%s", warning)
    name = redacted_uri(scan.table)
    folder = spark_folder(scan.base_path)
    division = divided(scan, splits, _facts_of(scan)) if folder and not setting else Division((), splits)
    frames: list[DataFrame] = []
    given = {**read_options, "path": table}
    description = _description(division, given)
    if division.spark:
        try:
            frames = _spark_frames(spark, folder, scan, division, description)
        except _errors_of_spark() as error:  # Spark does not reach the storage: Penstock reads all files
            reason = (str(error).splitlines() or [type(error).__name__])[0][:300]
            log.warning("table %s: Spark's Parquet reader is not used: %s", name, reason)
            division = Division((), splits)
            description = _description(division, given)
    if division.rest or not frames:
        rest = _rest_frame(spark, scan, division, load, description)
        if rest is None:
            log.warning("table %s: Spark's Parquet reader is not used: the plan has too many splits with logs", name)
            return None
        frames.insert(0, rest)
    log.info(
        "table %s: %d splits planned: %d files for Spark's Parquet reader in %d scans, %d splits for Penstock%s",
        name,
        len(splits),
        sum(len(part.files) for part in division.spark),
        len(division.spark),
        len(division.rest),
        "".join(f"; {reason}: {files} files" for reason, files in division.reasons)[:500],
    )
    return reduce(lambda left, right: left.union(right), frames), scan.visible


def _errors_of_spark() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, OtherFiles, PenstockError, OSError


def _not_planned_now(spark: SparkSession, options: ParsedOptions) -> str:
    """Why Spark plans a load; '' if it is planned now."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return "Spark Connect resolves a scan anew for each action"
    if options.query not in ("snapshot", "read_optimized"):
        return f"query={options.query}"
    return "limit or eventTime is given" if options.limit is not None or options.event_time else ""


def _unusable(spark: SparkSession, options: ParsedOptions) -> str:
    """Why Spark's Parquet reader is not used; '' if it may be."""
    return unusable_setting(spark) if options.native_parquet == "on" else "nativeParquet is off"


def _description(division: Division, given: Mapping[str, str]) -> str:
    files = sum(len(part.files) for part in division.spark)
    return ScanDescription(uuid.uuid4().hex, given, files, len(division.rest)).as_option()


def _spark_frames(
    spark: SparkSession, folder: str, scan: Scan, division: Division, description: str
) -> list[DataFrame]:
    output = output_schema(scan)
    stored = read_schema_of(scan).stored[0]
    check_reach(spark, folder, division.spark[0].files[0])
    return [parquet_frame(spark, folder, part, output, stored, description) for part in division.spark]


def _rest_frame(
    spark: SparkSession, scan: Scan, division: Division, load: Loaded, description: str
) -> DataFrame | None:
    """The rows of the other splits; None if they are too many for an option. The plan has the query, columns and
    filter; only options of reading remain."""
    options = {"batchRows": str(load.options.batch_rows)}
    if load.options.mergers:
        options["mergers"] = ",".join(f"{name}={target}" for name, target in load.options.mergers)
    if load.options.retry_timeout_us is not None:
        options["retryTimeout"] = f"{load.options.retry_timeout_us // 1000} ms"
    planned = as_option(scan, division.rest, os.cpu_count() or 1, load.options.slots)
    if planned is None:
        return None
    reader = spark.read.format("penstock").options(**options).option(PLANNED, planned).option(DESCRIBED, description)
    with missing_format_explained():
        return reader.schema(spark_schema(output_schema(scan))).load(load.table)


def _facts_of(scan: Scan) -> FactsOf:
    def facts(files: Sequence[FileRef], columns: tuple[str, ...]) -> Sequence[FileFacts | None]:
        return _FACTS.of(open_storage(scan.base_path), files, columns)

    return facts


def _planned(enumerator: Enumerator, request: PlanRequest, retry: Retry) -> tuple[Scan, tuple[Split, ...]]:
    """The scan and all splits of the plan. Those of a server's plan are pulled; they are never reported as read."""
    if isinstance(enumerator, EmbeddedEnumerator):
        plan = retry.call(lambda: enumerator.plan(request))
        return plan.scan, plan.splits
    opened = retry.call(lambda: enumerator.open_plan(replace(request, slots=_PULLED_SLOTS)))

    def pull(slot: int) -> list[Split]:
        splits: list[Split] = []
        for index in count():
            answer = retry.call(partial(enumerator.next_split, opened.plan_id, slot, index))
            if not isinstance(answer, NextSplit):
                break
            splits.append(answer.split)
        return splits

    with ThreadPoolExecutor(max(1, opened.slots), "penstock-pull") as pool:
        splits = [split for pulled in pool.map(pull, range(opened.slots)) for split in pulled]
    if len(splits) != opened.splits or len({split.split_id for split in splits}) != opened.splits:
        raise InvariantViolation(f"plan {opened.plan_id}: pulled {len(splits)} splits, expected {opened.splits}")
    return opened.scan, tuple(sorted(splits, key=lambda split: (split.order_key, split.split_id)))
