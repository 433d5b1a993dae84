"""The columns that a read of a scan needs: for output, for filters, for the merge. Pure; computed once per scan."""

from __future__ import annotations

import functools
import weakref
from dataclasses import field
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import COMPLETION_TIME
from penstock.proto.model.splits import CustomMerge, RowsOf, Scan
from penstock.proto.value_classes import dataclass
from penstock.reader.merge.delete_markers import DeleteMarkers, delete_markers
from penstock.reader.merge.ordering_columns import OrderingColumns, ordering_columns
from penstock.reader.values.field_paths import field_of
from penstock.reader.values.record_keys import RECORD_KEY, STORED_KEY, KeyMaker, key_maker
from penstock.table.predicate.parse import parse_predicate
from penstock.table.predicate.tree import Predicate, columns_of
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import AvroField, RecordSchema, parse_record_schema
from penstock.table.schema.completion import returned_schema
from penstock.table.schema.history import ColumnMapping, SchemaHistory, parse_history

COMMIT_TIME: Final = "_hoodie_commit_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSchema:
    """The columns of one read."""

    record: RecordSchema
    """The table's columns as Avro."""
    table: pa.Schema
    """The table's columns as Arrow."""
    output: pa.Schema
    """The columns and order of the scan."""
    carried: tuple[str, ...]
    """The columns that a merged row needs for output, filters and report."""
    stored: tuple[str, ...]
    """Those of `carried` that come from files, at least one; the others are constants of the split, or computed
    (`_completion_time`)."""
    predicate: Predicate | None
    """The filter, or None."""
    ordering: OrderingColumns
    """The ordering columns; none if the newer record always wins."""
    deletes: DeleteMarkers
    """The columns that mark deletes in the log."""
    keys: KeyMaker = STORED_KEY
    """How the record key is made."""
    history: SchemaHistory | None = None
    """Maps columns of files by id; None: by name."""
    pass_through: tuple[str, ...] = field(init=False)
    """The columns of files that only filters and the caller use."""

    def __post_init__(self) -> None:
        merged = {*self.merge_columns, RECORD_KEY}
        object.__setattr__(self, "pass_through", tuple(name for name in self.stored if name not in merged))

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The columns that the record key is, or is made of."""
        return self.keys.columns()

    @property
    def base_columns(self) -> tuple[str, ...]:
        """The columns to read of a base file that is merged with a log."""
        return _unique(*self.stored, *self.merge_columns)

    @property
    def merge_columns(self) -> tuple[str, ...]:
        """The columns of a base file that the merge needs."""
        return _unique(*self.key_fields, *self.ordering.columns)

    @property
    def log_merge_columns(self) -> tuple[str, ...]:
        """The columns of a log record that the merge needs."""
        return _unique(*self.key_fields, *self.ordering.columns, *self.deletes.columns)

    @property
    def ordering_fields(self) -> tuple[AvroField, ...]:
        """The ordering fields as the table defines them, in the order of `ordering.names`."""
        fields = (field_of(self.record, name) for name in self.ordering.names)
        return tuple(field for field in fields if field is not None)

    def file_names(self, instant: str, where: str) -> ColumnMapping | None:
        """The names of the columns in a file or block of this instant; None if they are the table's."""
        if self.history is None:
            return None
        return ColumnMapping(self.history.at(instant).columns, self.history.current.columns, where)


def output_schema(scan: Scan) -> pa.Schema:
    """The Arrow schema of a scan's batches: `scan.columns` in their order, with the table's types, all nullable.

    ConfigurationError if the table lacks a column, or if a column is named twice.
    """
    schema = _returned(scan)
    missing = [name for name in scan.columns if schema.get_field_index(name) < 0]
    if missing or not scan.columns:
        raise ConfigurationError(
            f"table {scan.table}: no column {', '.join(missing) or '(none is asked for)'}: the table has "
            f"{', '.join(schema.names)[:1000]}"
        )
    if len(set(scan.columns)) < len(scan.columns):
        raise ConfigurationError(f"table {scan.table}: a column is asked for twice: {', '.join(scan.columns)}")
    return pa.schema([schema.field(name) for name in scan.columns])


def read_schema_of(scan: Scan, *, event_time: str = "", keyed: bool = False, merged: bool = False) -> ReadSchema:
    """The columns to read for this scan. `event_time` names one more column for the report, `keyed` adds the record
    key, `merged` is for files with logs: a function of the user's (`CustomMerge`) merges whole records.

    UnsupportedFeature for an ordering column whose values have no order, and as `delete_markers`; SchemaMismatch if the
    table has no such ordering column; ConfigurationError for a column or filter that does not fit the table.
    """
    global _last_schema
    last, whole = _last_schema, merged and isinstance(scan.merge, CustomMerge)
    if last is None or last[0]() is not scan or last[1] != (event_time, keyed, whole):
        schema = _read_schema(scan, event_time, keyed, whole=whole)
        _last_schema = last = (weakref.ref(scan), (event_time, keyed, whole), schema)
    return last[2]


_last_schema: tuple[weakref.ref[Scan], tuple[str, bool, bool], ReadSchema] | None = None
"""The schema of the last scan, by its identity: most splits are read after another one of their scan. The scan, whose
URI may have credentials, is not kept."""


def _read_schema(scan: Scan, event_time: str, keyed: bool, *, whole: bool) -> ReadSchema:
    record, schema = _table_schema(scan.schema_json)
    output, completed = output_schema(scan), scan.completion_times is not None
    predicate = _predicate(scan.where, scan.schema_json, completion_time=completed) if scan.where else None
    used = _unique(*output.names, *(columns_of(predicate) if predicate is not None else ()))
    completed = completed and COMPLETION_TIME in used
    extra: tuple[str, ...] = (COMMIT_TIME,) if isinstance(scan.rows, RowsOf) else ()
    if extra and COMMIT_TIME not in schema.names:
        raise ConfigurationError(f"table {scan.table}: rows of a range without column {COMMIT_TIME} (virtual keys)")
    if completed and COMMIT_TIME in schema.names:
        extra += (COMMIT_TIME,)
    if keyed:
        extra += (RECORD_KEY,)
    if event_time:
        extra += (event_time,)
    carried = _unique(*used, *extra)
    computed = (COMPLETION_TIME,) if completed else ()
    known = {*schema.names, *computed}
    absent = [name for name in carried if name not in known]
    if absent:
        raise ConfigurationError(f"table {scan.table}: no column {', '.join(absent)}")
    stored = tuple(name for name in carried if name not in scan.partition_fields and name not in computed)
    if whole:
        stored = tuple(schema.names)
    if not stored:
        stored = (RECORD_KEY,) if RECORD_KEY in schema.names else (schema.names[0],)
    return ReadSchema(
        record=record,
        table=schema,
        output=output,
        carried=carried,
        stored=stored,
        predicate=predicate,
        ordering=ordering_columns(scan, schema),
        deletes=delete_markers(scan, record),
        keys=_keys(scan, record),
        history=parse_history(scan.schema_history, f"table {scan.table}") if scan.schema_history else None,
    )


def _keys(scan: Scan, record: RecordSchema) -> KeyMaker:
    if not scan.key_fields:
        return STORED_KEY
    return key_maker(scan.key_fields, record, f"table {scan.table}", may_be_named=scan.keys_may_be_named)


def _unique(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


@functools.lru_cache(maxsize=32)
def _table_schema(schema_json: str) -> tuple[RecordSchema, pa.Schema]:
    record = parse_record_schema(schema_json, "the table's schema")
    return record, arrow_schema(record)


def _returned(scan: Scan) -> pa.Schema:
    """The columns that rows of the scan can have."""
    table = _table_schema(scan.schema_json)[1]
    return returned_schema(table, None, completion_time=scan.completion_times is not None)


@functools.lru_cache(maxsize=64)
def _predicate(where: str, schema_json: str, *, completion_time: bool) -> Predicate:
    table = _table_schema(schema_json)[1]
    return parse_predicate(where, returned_schema(table, None, completion_time=completion_time))
