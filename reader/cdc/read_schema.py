"""The columns that a read of changes needs: those of the finished change, and those of its images. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.positions import COMPLETION_TIME
from penstock.proto.model.splits import AllRows, Scan
from penstock.reader.split.completion import CompletionColumn
from penstock.reader.split.read_schema import ReadSchema, read_schema_of
from penstock.table.predicate.parse import parse_predicate
from penstock.table.predicate.tree import Predicate, columns_of
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.changes import CHANGE_INSTANT, HUDI_COLUMNS
from penstock.table.schema.completion import returned_schema

_CHEAPEST: Final = {ChangeFormat.ROWS: (CHANGE_INSTANT,), ChangeFormat.HUDI: (HUDI_COLUMNS[1],)}
"""Columns that need no image, for a read of `_completion_time` alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesReadSchema:
    """The columns of one read of changes."""

    format: ChangeFormat
    """The output format."""
    carried: pa.Schema
    """The columns of the finished change for output, filter and report, at least one, without `_completion_time`."""
    output: pa.Schema
    """The columns and order of the scan."""
    images: tuple[str, ...]
    """The table's columns that images need; at least one."""
    predicate: Predicate | None
    """The filter, or None."""
    table: ReadSchema
    """How the images' columns are read."""
    completion: CompletionColumn | None = None
    """The completion times for the column `_completion_time`, which follows the others; None if it is not read."""


def changes_output(scan: Scan) -> pa.Schema:
    """The Arrow schema of a scan's batches of changes. ConfigurationError for columns that changes do not have."""
    return _chosen(_schema(scan), scan.columns, scan)


def changes_read_schema(scan: Scan, *, event_time: str = "") -> ChangesReadSchema:
    """The columns for a scan of changes. ConfigurationError for a column or filter that does not fit."""
    schema = _schema(scan)
    output = _chosen(schema, scan.columns, scan)
    predicate = parse_predicate(scan.where, schema) if scan.where else None
    filtered = columns_of(predicate) if predicate is not None else ()
    names = dict.fromkeys((*output.names, *filtered, *((event_time,) if event_time else ())))
    completion = None
    if scan.completion_times is not None and COMPLETION_TIME in names:
        completion = CompletionColumn(scan.completion_times)
        del names[COMPLETION_TIME]
    carried = _chosen(schema, tuple(names) or _CHEAPEST[_format(scan)], scan)
    record = parse_record_schema(scan.schema_json, f"schema of table {scan.table}")
    own = arrow_schema(record).names
    if _format(scan) is ChangeFormat.HUDI:
        needed = {"before", "after"} & set(carried.names)
        images = tuple(own) if needed else (own[0],)
    else:
        images = tuple(name for name in carried.names if name in own) or (own[0],)
    table = read_schema_of(replace(scan, columns=images, where="", rows=AllRows()))
    return ChangesReadSchema(
        format=_format(scan),
        carried=carried,
        output=output,
        images=images,
        predicate=predicate,
        table=table,
        completion=completion,
    )


def _format(scan: Scan) -> ChangeFormat:
    if not isinstance(scan.rows, ChangesOf):
        raise InvariantViolation(f"table {scan.table}: the scan is not one of changes")
    return scan.rows.format


def _schema(scan: Scan) -> pa.Schema:
    table = arrow_schema(parse_record_schema(scan.schema_json, f"schema of table {scan.table}"))
    return returned_schema(table, _format(scan), completion_time=scan.completion_times is not None)


def _chosen(schema: pa.Schema, names: tuple[str, ...], scan: Scan) -> pa.Schema:
    missing = [name for name in names if name not in schema.names]
    if missing or not names or len(set(names)) < len(names):
        raise ConfigurationError(
            f"table {scan.table}: changes have the columns {', '.join(schema.names)[:1000]}, each asked for at most "
            f"once; got {', '.join(names)[:1000] or 'none'}"
        )
    return pa.schema([schema.field(name) for name in names])
