"""`penstock.spark.explain`: what the scans of a DataFrame read, and what of the query reached them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.engine.connect import enumerator_for
from penstock.engine.requests.batch import plan_request
from penstock.engine.spark.load import loaded
from penstock.engine.spark.query.scan import FORMAT
from penstock.engine.spark.slices.scan_options import DESCRIBED, ScanDescription
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.proto.model.queries import Changes, Incremental, Query, ReadOptimized, SnapshotAsOf
from penstock.proto.options.registry import EntryPoint
from penstock.proto.retry import Retry
from penstock.table.storage.uris import redacted_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EXPLAINED: Final = frozenset({"query", "asof", "after", "upto"})
"""Options that the line of the range shows."""


def explain(df: DataFrame) -> str:
    """The scans of Penstock tables in a DataFrame, one paragraph each: table, range, splits, columns and filter.

    Filters that only Spark evaluates are not among them; `df.explain()` shows those. The range and the splits are those
    of a new plan. A DataFrame that was read before keeps the plan of its first action.

    Raises `penstock.errors.ConfigurationError` if the DataFrame reads no Penstock table.
    """
    scans = list(_once(_scans(df)))
    if not scans:
        raise ConfigurationError("the DataFrame reads no Penstock table: expected one that sql, table or load returned")
    return "\n".join(_paragraph(options) for options in scans)


def _once(scans: Iterator[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """The options of each scan as they were given. A scan that was planned in advance may have several parts."""
    seen: set[str] = set()
    for options in scans:
        text = next((value for name, value in options.items() if name.lower() == DESCRIBED), "")
        if not text:
            yield options
            continue
        described = ScanDescription.of(text)
        if described.scan_id not in seen:
            seen.add(described.scan_id)
            yield {**described.options, DESCRIBED: text}


def _paragraph(options: Mapping[str, str]) -> str:
    options = dict(options)
    described = options.pop(DESCRIBED, "")
    by_name = {name.lower(): value for name, value in options.items()}
    table, server = redacted_uri(by_name.get("path", "")), by_name.get("server")
    others = ", ".join(f"{name}={value}" for name, value in options.items() if name.lower() in _EXPLAINED)
    lines = [
        f"table {table}" + (f" of server {server}" if server else ""),
        f"  range: {_range(options)}" + (f" ({others})" if others else ""),
        f"  columns: {_columns(by_name.get('columns', ''))}",
        f"  filter: {by_name.get('where') or 'none'}",
    ]
    if described:
        parts = ScanDescription.of(described)
        lines.append(f"  readers: Spark {parts.spark_files} files, Penstock {parts.penstock_splits} splits")
    return "\n".join(lines)


def _columns(text: str) -> str:
    if not text:
        return "all"
    return ", ".join(json.loads(text)) if text.startswith("[") else text


def _range(options: Mapping[str, str]) -> str:
    """The range and the splits of a new plan, or why there is none."""
    try:
        load = loaded(options, EntryPoint.BATCH, os.environ)
        enumerator, retry = enumerator_for(load.options.server, load.options.access), Retry(policy=load.options.retry)
        request = plan_request(
            load.table, load.options, lambda: retry.call(lambda: enumerator.describe_table(load.table))
        )
        if isinstance(enumerator, EmbeddedEnumerator):
            plan = retry.call(lambda: enumerator.plan(request))
            sizes = sum(split.size_bytes for split in plan.splits)
            return (
                f"{_of_query(request.query)} up to {plan.commit_range.upto}, {len(plan.splits)} splits, {sizes} bytes"
            )
        opened = retry.call(lambda: enumerator.open_plan(request))
        return f"{_of_query(request.query)}, {opened.splits} splits, {opened.size_bytes} bytes"
    except PenstockError as error:
        return f"not known in this process: {error}"


def _of_query(query: Query) -> str:
    match query:
        case SnapshotAsOf(instant, base_files_only):
            return f"{'base files' if base_files_only else 'snapshot'} as of {instant}"
        case ReadOptimized():
            return "base files"
        case Incremental(after=after):
            return f"rows after {after}"
        case Changes(after=after):
            return f"changes after {after}"
    return "snapshot"


def _scans(df: DataFrame) -> Iterator[Mapping[str, str]]:
    """The options of each scan, in the order of Spark's plan."""
    own = vars(df)
    if "_jdf" in own:
        plan = own["_jdf"].queryExecution().analyzed()
        for each in (plan, *_sequence(plan.subqueriesAll())):
            yield from _of_classic(each)
    elif "_plan" in own:
        yield from _of_connect(own["_plan"].to_proto(df.sparkSession.client))


def _of_classic(plan: Any) -> Iterator[Mapping[str, str]]:
    for leaf in _sequence(plan.collectLeaves()):
        if leaf.getClass().getSimpleName() == "DataSourceV2Relation" and leaf.table().name() == FORMAT:
            yield dict(leaf.options().asCaseSensitiveMap())
        elif leaf.getClass().getSimpleName() == "LogicalRelation":
            relation = leaf.relation()
            if relation.getClass().getSimpleName() == "HadoopFsRelation":
                described = relation.options().get(DESCRIBED)
                if described.isDefined():
                    yield {DESCRIBED: described.get()}


def _sequence(scala: Any) -> list[Any]:
    return [scala.apply(place) for place in range(scala.size())]


def _of_connect(message: Any) -> Iterator[Mapping[str, str]]:
    """Spark Connect keeps the plan as a protocol message: the scans are its `Read.DataSource` messages."""
    if message.DESCRIPTOR.full_name == "spark.connect.Read.DataSource":
        if message.format.lower() == FORMAT:
            paths = {"path": message.paths[0]} if len(message.paths) == 1 else {}
            yield {**dict(message.options), **paths}
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            values = [item for item in value.values() if hasattr(item, "DESCRIPTOR")]
        else:
            values = list(value) if field.is_repeated else [value]
        for each in values:
            yield from _of_connect(each)
