"""A folder of Hudi tables as a target. Rows and positions are one instant of the table's timeline.

The metadata of each commit of the sync has the layout and the positions of all sources, after it. A row that is removed
is a delete by marker (`_hoodie_is_deleted`), so that removals and rows are one upsert.
"""

from __future__ import annotations

import json
import logging
import pathlib
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Final
from urllib.parse import parse_qsl

import pyarrow as pa

from penstock.engine.arrow import read
from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.targets.folders import folder_problem
from penstock.engine.sync.targets.hudi.served_tables import CONNECTING, ServedTables
from penstock.engine.sync.targets.hudi.stored_state import SYNC, newest_state, parsed_state, state_text
from penstock.engine.sync.targets.rows import aligned, check_text_of_dates
from penstock.engine.sync.targets.target import StoredTable, Write, check_base, dates_to_text
from penstock.engine.table_services.maintain import maintain
from penstock.engine.write.create import create_table
from penstock.engine.write.planned_write import WriteOptions, open_write
from penstock.engine.write.write import write_batches
from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    PenstockError,
    SchemaMismatch,
    StorageError,
    TableNotFound,
    TargetConflict,
    TargetUnavailable,
)
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.schema.avro import META_COLUMNS, OPERATION
from penstock.table.schema.avro_text import avro_schema_json, stored_arrow_schema
from penstock.writer.rows.chunks import Batches

log = logging.getLogger("penstock.engine.sync")

REMOVED: Final = "_hoodie_is_deleted"
"""The column of the delete marker. A table has it beside the columns of its layout, if it is not one of them."""
MAINTAINED_AFTER: Final = 10
"""Writes of a process after which a table is maintained."""
_TABLE_TYPES: Final = ("merge_on_read", "copy_on_write")
_MAX_BUCKETS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _NewTables:
    """How tables are created."""

    buckets: int = 4
    """Of the index, in each partition."""
    table_type: str = "merge_on_read"
    """The table type."""
    table_version: int = 9
    """The table version."""


_OF_TABLES: Final = tuple(one.name for one in fields(_NewTables))
_OPTIONS: Final = (*_OF_TABLES, "server", *CONNECTING)


class HudiTarget:
    """A `Target` in a local folder, with one Hudi table in a folder of its name for each table.

    A table has a bucket index and one row for each key, whose columns may not be null. With a source column, each
    source is a partition.
    """

    def __init__(self, place: str) -> None:
        """`place`: a local path, after `?` the options of new tables: `buckets`, `table_type`, `table_version`; and
        `server`, HOST:PORT of the server that owns the timelines of the tables, with its connection."""
        path, _, query = place.partition("?")
        self._folder, self._name = pathlib.Path(path), f"hudi://{path}"
        given = _given_options(query, self._name)
        self._new = _parsed_options(given, self._name)
        self._served = _served_tables(given, self._name)
        self._writes: dict[str, int] = {}
        if "://" in path:
            raise ConfigurationError(f"target {self._name}: Hudi tables are written in local folders only")

    def check_columns(self, table: str, columns: pa.Schema) -> None:
        """See `Target.check_columns`."""
        if problem := folder_problem(table):
            raise ConfigurationError(f"target {self._name}: table {table}: {problem}")
        if reserved := sorted({*META_COLUMNS, OPERATION} & set(columns.names)):
            raise ConfigurationError(
                f"target {self._name}: table {table}: column {reserved[0]} is Hudi's own: give a `key` of other columns"
            )
        if REMOVED in columns.names and not pa.types.is_boolean(columns.field(REMOVED).type):
            raise ConfigurationError(
                f"target {self._name}: table {table}: column {REMOVED} is {columns.field(REMOVED).type}, and Hudi takes"
                " it for the delete marker, a boolean"
            )
        try:
            avro_schema_json(columns, table, meta_columns=False)
        except SchemaMismatch as error:
            raise ConfigurationError(f"target {self._name}: table {table}: {error}") from None

    def types_of(self, columns: pa.Schema) -> list[str]:
        """See `Target.types_of`."""
        fields = json.loads(avro_schema_json(columns, "table", meta_columns=False))["fields"]
        return [_type_text(one["type"][1]) for one in fields]

    def stored(self, table: str) -> StoredTable | None:
        """See `Target.stored`."""
        with self._errors(table):
            opened = self._opened(table)
            return None if opened is None else self._stored(table, opened)

    def write(self, write: Write) -> None:
        """See `Target.write`."""
        with self._errors(write.table):
            opened = self._opened(write.table)
            self._check_position(write, opened)
            layout = write.change.layout
            if opened is not None and write.replaces and not layout.source_column:
                self._remove(write.table)
                opened = None
            if opened is None:
                self._create(write.table, layout)
            self._check_dates(write)
            self._write(write, is_new=opened is None or not opened.timeline().completed_writes)
        self._maintain(write.table)

    def repeated_key(self, table: str, source: str) -> str:
        """See `Target.repeated_key`. An upsert leaves one row of each key."""
        return ""

    def close(self) -> None:
        """See `Target.close`."""

    def _opened(self, table: str) -> HudiTable | None:
        if problem := folder_problem(table):
            raise ConfigurationError(f"target {self._name}: table {table}: {problem}")
        try:
            return open_table(str(self._folder / table))
        except TableNotFound:
            return None

    def _stored(self, table: str, opened: HudiTable) -> StoredTable | None:
        """The layout and the positions after the newest commit of a sync; None for a table without a commit.
        ConfigurationError for a table that no sync fills."""
        text = newest_state(opened)
        if text is None:
            if not opened.timeline().completed_writes:
                return None
            raise ConfigurationError(
                f"target {self._name}: table {table}: there is a table that a sync did not create: give another folder "
                "or another name (`into`)"
            )
        try:
            return parsed_state(text)
        except ValueError as error:
            raise ConfigurationError(
                f"target {self._name}: table {table}: the metadata of its newest commit is not that of a sync: {error}"
            ) from None

    def _check_position(self, write: Write, opened: HudiTable | None) -> StoredTable | None:
        """What is stored now. TargetConflict for another position than the expected one."""
        stored = None if opened is None else self._stored(write.table, opened)
        position = stored.positions.get(write.source) if stored else None
        if position != write.expected:
            raise TargetConflict(
                f"target {self._name}: table {write.table}: got position {str(position)[:200]!r} of {write.source}, "
                f"expected {str(write.expected)[:200]!r}: another process fills this table"
            )
        check_base(write, stored.layout if stored else None, f"target {self._name}: table {write.table}")
        return stored

    def _create(self, table: str, layout: TargetLayout) -> None:
        """An empty table, unless one without a commit is there already."""
        create_table(
            str(self._folder / table),
            stored_arrow_schema(_with_marker(layout.columns)),
            record_key=layout.key,
            partition_by=layout.source_column or (),
            table_type=self._new.table_type,
            table_version=self._new.table_version,
            buckets=self._new.buckets,
            url_encode_partitions=bool(layout.source_column),
        )

    def _check_dates(self, write: Write) -> None:
        """SchemaMismatch for stored dates that have no text as a new type of their column."""
        for name in dates_to_text(write):
            for batch in read(str(self._folder / write.table), columns=[name]):
                check_text_of_dates(batch.column(name), pa.string())

    def _write(self, write: Write, *, is_new: bool) -> None:
        layout = write.change.layout
        schema = _with_marker(layout.columns)
        first = next(write.rows, None)
        rows: Iterator[pa.RecordBatch] = iter(())
        if first is not None:
            marker = None if REMOVED in layout.columns.names else False
            rows = _marked(chain([first], write.rows), schema, marker)
        operation = "upsert"
        if write.removed is not None:  # before the rows: of rows of one key the last one wins
            rows = chain(_marked(write.removed.to_batches(), schema, True), rows)
        if write.replaces and not is_new:
            operation = "delete_partition" if first is None else "insert_overwrite"
            if first is None:
                schema = pa.schema([pa.field(layout.source_column, pa.string())])
                rows = iter([pa.record_batch([[write.source_name]], schema)])
        path = str(self._folder / write.table)
        server = self._served.writer(write.table, write.source, path) if self._served else None
        planned = open_write(write.table if server else path, WriteOptions(operation=operation, server=server))
        stored = self._check_position(write, planned.early.table)
        positions = {**(stored.positions if stored else {}), write.source: write.position}

        def is_done(table: HudiTable) -> bool:
            """Never; TargetConflict if another process has written meanwhile."""
            self._check_position(write, table)
            return False

        extra = {SYNC: state_text(layout, positions)}
        planned = replace(planned, extra=extra, is_done=is_done, commits_without_rows=True)
        write_batches(planned, Batches(schema, rows, None))

    def _remove(self, table: str) -> None:
        """Removes a table that is loaded again. It is renamed first, so that no reader sees a part of it."""
        gone = self._folder / f".{table[:100]}.{uuid.uuid4().hex}"
        (self._folder / table).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _maintain(self, table: str) -> None:
        """Compacts, cleans and archives a table from time to time. A failure harms no row: it is tried again later."""
        self._writes[table] = self._writes.get(table, 0) + 1
        if self._writes[table] % MAINTAINED_AFTER:
            return
        try:
            maintain(str(self._folder / table))
        except PenstockError as error:
            log.warning("target %s: table %s was not maintained: %s", self._name, table, error)

    @contextmanager
    def _errors(self, table: str) -> Iterator[None]:
        """TargetUnavailable for errors after which a retry may help."""
        try:
            yield
        except (TargetConflict, TargetUnavailable):
            raise
        except (StorageError, OSError) as error:
            raise TargetUnavailable(f"target {self._name}: table {table}: {error}") from error
        except PenstockError as error:
            if not error.retryable and not isinstance(error, Fenced):  # the position shows another process
                raise
            raise TargetUnavailable(f"target {self._name}: table {table}: {error}") from error


def _given_options(query: str, where: str) -> Mapping[str, str]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(given) - set(_OPTIONS)):
        raise ConfigurationError(f"target {where}: option {unknown[0][:60]!r}: expected {', '.join(_OPTIONS)}")
    return given


def _served_tables(given: Mapping[str, str], where: str) -> ServedTables | None:
    """The tables on the server, if the options name one."""
    connection = {name: given[name] for name in CONNECTING if name in given}
    if "server" in given:
        return ServedTables(given["server"], connection)
    if connection:
        raise ConfigurationError(f"target {where}: option {min(connection)} without `server`")
    return None


def _parsed_options(given: Mapping[str, str], where: str) -> _NewTables:
    buckets, table_type = given.get("buckets", "4"), given.get("table_type", _TABLE_TYPES[0])
    version = given.get("table_version", "9")
    if not (buckets.isdecimal() and 1 <= int(buckets) <= _MAX_BUCKETS):
        raise ConfigurationError(f"target {where}: buckets: got {buckets[:40]!r}, expected 1 to {_MAX_BUCKETS}")
    if table_type not in _TABLE_TYPES:
        raise ConfigurationError(
            f"target {where}: table_type: got {table_type[:40]!r}, expected {' or '.join(_TABLE_TYPES)}"
        )
    if version not in ("6", "9"):
        raise ConfigurationError(f"target {where}: table_version: got {version[:40]!r}, expected 6 or 9")
    return _NewTables(buckets=int(buckets), table_type=table_type, table_version=int(version))


def _with_marker(columns: pa.Schema) -> pa.Schema:
    """The columns of a table: those of the layout, and the delete marker."""
    return columns if REMOVED in columns.names else columns.append(pa.field(REMOVED, pa.bool_()))


def _marked(batches: Iterable[pa.RecordBatch], schema: pa.Schema, marker: bool | None) -> Iterator[pa.RecordBatch]:
    """The rows with the columns of the table. `marker`: their delete marker; None: they have their own."""
    place = schema.get_field_index(REMOVED)
    for batch in batches:
        rows = aligned(batch, schema)
        if marker is not None:
            rows = rows.set_column(place, REMOVED, pa.repeat(pa.scalar(marker), batch.num_rows))
        yield rows


def _type_text(kind: Any) -> str:
    """An Avro type for people."""
    if isinstance(kind, str):
        return kind
    logical = kind.get("logicalType")
    match kind["type"]:
        case "array":
            return f"array<{_type_text(kind['items'][1])}>"
        case "map":
            return f"map<{_type_text(kind['values'][1])}>"
        case "record":
            return f"record<{', '.join(one['name'] + ': ' + _type_text(one['type'][1]) for one in kind['fields'])}>"
        case _ if logical == "decimal":
            return f"decimal({kind['precision']}, {kind['scale']})"
        case _:
            return str(logical or kind["type"])
