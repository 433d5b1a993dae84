"""The columns that a read of a topic needs: those of the record, and those of the finished row. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.hybrid import HybridMode, TopicRecords
from penstock.proto.model.splits import AllRows, Scan
from penstock.reader.merge.delete_markers import DELETE_MARK, DeleteMarkers, delete_markers
from penstock.reader.values.field_paths import top_level
from penstock.table.predicate.parse import parse_predicate
from penstock.table.predicate.tree import Predicate, columns_of
from penstock.table.schema.arrow import arrow_schema, arrow_type
from penstock.table.schema.avro import META_COLUMNS, OPERATION, AvroField, Primitive, RecordSchema, parse_record_schema
from penstock.table.schema.completion import returned_schema

_FLAG: Final = AvroField(DELETE_MARK, Primitive("boolean"), True, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReadSchema:
    """The columns of one read of a topic."""

    topic: TopicRecords
    """The records of the topic."""
    table: RecordSchema
    """The table's columns."""
    fields: tuple[AvroField, ...]
    """The columns that records are decoded to; the last may be a delete marker that the table lacks."""
    decoded: pa.Schema
    """The same as Arrow."""
    known: frozenset[str]
    """The names that are not counted as unknown fields."""
    carried: pa.Schema
    """The columns of the finished row for output, filter and report."""
    output: pa.Schema
    """The columns and order of the scan."""
    predicate: Predicate | None
    """The filter, or None."""
    marks: DeleteMarkers
    """The decoded columns that mark deletes."""

    @property
    def by_key(self) -> bool:
        """Whether deletes are rows."""
        return self.topic.mode is HybridMode.CHANGELOG

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The table's columns that hold the key."""
        return tuple(dict.fromkeys(top_level(name) for name in self.topic.key_fields))


def topic_read_schema(scan: Scan, *, event_time: str = "") -> TopicReadSchema:
    """The columns for a scan of a topic. ConfigurationError for a column or filter that does not fit."""
    topic = scan.topic
    changes = isinstance(scan.rows, ChangesOf) and scan.rows.format is ChangeFormat.ROWS
    if topic is None or changes != (topic.mode is HybridMode.CHANGELOG) or not (changes or scan.rows == AllRows()):
        raise InvariantViolation(f"table {scan.table}: rows {scan.rows} of a topic as {topic}")
    record = parse_record_schema(scan.schema_json, f"schema of table {scan.table}")
    table = arrow_schema(record)
    completed = scan.completion_times is not None
    whole = returned_schema(table, ChangeFormat.ROWS if changes else None, completion_time=completed)
    output = _chosen(whole, scan.columns, scan)
    predicate = parse_predicate(scan.where, whole) if scan.where else None
    filtered = columns_of(predicate) if predicate is not None else ()
    carried = _chosen(whole, (*output.names, *filtered, *((event_time,) if event_time else ())), scan)
    marks = replace(delete_markers(scan, record), operation="")
    table_fields = record.by_name()
    read_schema = TopicReadSchema(
        topic=topic,
        table=record,
        fields=(),
        decoded=pa.schema([]),
        known=frozenset((*table_fields, DELETE_MARK)),
        carried=carried,
        output=output,
        predicate=predicate,
        marks=marks,
    )
    needed = {*carried.names, *marks.columns, *(read_schema.key_columns if read_schema.by_key else ())}
    meta = (*META_COLUMNS, OPERATION)
    fields = tuple(field for field in record.fields if field.name in needed and field.name not in meta)
    if DELETE_MARK not in table_fields:
        fields, marks = (*fields, _FLAG), replace(marks, flag=DELETE_MARK)
    decoded = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])
    return replace(read_schema, fields=fields, decoded=decoded, marks=marks)


def topic_output(scan: Scan) -> pa.Schema:
    """The Arrow schema of a scan's batches."""
    return topic_read_schema(scan).output


def _chosen(schema: pa.Schema, names: tuple[str, ...], scan: Scan) -> pa.Schema:
    names = tuple(dict.fromkeys(names))
    missing = [name for name in names if name not in schema.names]
    if missing or not names:
        raise ConfigurationError(
            f"table {scan.table}: no column {', '.join(missing) or '(none is asked for)'}: rows of topics have "
            f"{', '.join(schema.names)[:1000]}"
        )
    return pa.schema([schema.field(name) for name in names])
