"""A schema of PostgreSQL as a target. Rows and positions change in one transaction of the server."""

from __future__ import annotations

import hashlib
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from adbc_driver_postgresql import dbapi

from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.targets.json_text import json_text
from penstock.engine.sync.targets.postgresql_connections import Connections, parsed_url, run
from penstock.engine.sync.targets.postgresql_types import column_problem, name_problem, postgresql_type, quoted
from penstock.engine.sync.targets.rows import (
    DATES_WITH_A_SIGN,
    aligned,
    key_text,
    layout_text,
    null_patterns,
    parsed_layout,
)
from penstock.engine.sync.targets.target import (
    OUTSIDE_OF_YEARS,
    REPEATED,
    StoredTable,
    Write,
    check_base,
    dates_to_text,
)
from penstock.proto.errors import ConfigurationError, SchemaMismatch, TargetConflict, TargetUnavailable

_TABLES: Final = "_penstock_tables"
_POSITIONS: Final = "_penstock_positions"
_REMOVED: Final = "_penstock_removed"
_OWN: Final = (_TABLES, _POSITIONS, _REMOVED)
LOCK_TIMEOUT_MS: Final = 30_000
"""How long a transaction waits for another process's on the same table."""
_TOO_LONG: Final = "SQLSTATE: 54000"
"""In errors for a key that is longer than an index holds, about 2,700 bytes."""
_JSONB_VERSION: Final = "\x01"
"""The first byte of a jsonb in a binary COPY (PostgreSQL's function jsonb_recv)."""


class PostgreSQLTarget:
    """A `Target` in a schema of a PostgreSQL database. Rows are sent by a binary COPY.

    A transaction holds an advisory lock of its table, so that another process waits and then sees another position.
    """

    def __init__(self, url: str) -> None:
        """`postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, with `?schema=` if it is not `public`, and libpq's
        parameters. ConfigurationError: the URL or the schema's name is unusable. Connects when it is used."""
        _, self._schema, self._name = parsed_url(url)
        if name_problem(self._schema):
            raise ConfigurationError(f"target {self._name}: schema: {name_problem(self._schema)}")
        self._connections = Connections(url)

    def __repr__(self) -> str:
        return f"PostgreSQLTarget({self._name!r})"

    def check_columns(self, table: str, columns: pa.Schema) -> None:
        """See `Target.check_columns`."""
        problem = name_problem(table) or column_problem(columns)
        if table in _OWN:
            problem = "the name is one of Penstock's own tables: give `into`"
        if problem:
            raise ConfigurationError(f"target {self._name}: table {table}: {problem}")

    def types_of(self, columns: pa.Schema) -> list[str]:
        """See `Target.types_of`."""
        return [postgresql_type(one.type) or "" for one in columns]

    def stored(self, table: str) -> StoredTable | None:
        """See `Target.stored`."""
        with self._connections.transaction(table) as cursor:
            # a commit of this process whose answer was lost may still run on the server
            self._lock(cursor, f"{self._schema}.{table}", shared=True)
            known = self._exists(cursor, _TABLES)
            found = known and run(cursor, f"SELECT layout FROM {self._own(_TABLES)} WHERE name = $1", [table])
            if not self._exists(cursor, table):
                return None
            if not found:
                raise ConfigurationError(
                    f"target {self._name}: table {table} exists, and no sync created it: drop it, or give `into`"
                )
            positions = run(
                cursor, f"SELECT source, position FROM {self._own(_POSITIONS)} WHERE name = $1", [table]
            )  # fmt: skip
        return StoredTable(layout=self._layout(table, found[0][0]), positions=dict(positions))

    def write(self, write: Write) -> None:
        """See `Target.write`."""
        try:
            self._write(write)
        except ConfigurationError as error:
            if _TOO_LONG not in str(error):
                raise
            if not self._drop_index(write.table):  # another limit, such as that of a row
                raise
            raise TargetUnavailable(f"{error}: the index on the key is removed; the next try needs none") from None

    def _write(self, write: Write) -> None:
        with self._connections.transaction(write.table) as cursor:
            self._begin(cursor, write.table)
            if not self._exists(cursor, write.table):  # someone may have dropped it: it is then loaded again
                for own in (_TABLES, _POSITIONS):
                    run(cursor, f"DELETE FROM {self._own(own)} WHERE name = $1", [write.table])
            self._check_position(cursor, write)
            self._change_layout(cursor, write)
            self._remove(cursor, write)
            for batch in write.rows:
                self._copy(cursor, write.table, aligned(batch, write.change.layout.columns))
            run(
                cursor,
                f"INSERT INTO {self._own(_POSITIONS)} (name, source, position, changed) VALUES ($1, $2, $3, now()) "
                "ON CONFLICT (name, source) DO UPDATE SET position = excluded.position, changed = excluded.changed",
                [write.table, write.source, write.position],
            )

    def repeated_key(self, table: str, source: str) -> str:
        """See `Target.repeated_key`."""
        stored = self.stored(table)
        if stored is None:
            return ""
        names, column = stored.layout.key, stored.layout.source_column
        of_source = f"{quoted(column)} = $1" if column else "true"
        sql = REPEATED.format(table=self._own(table), key=", ".join(map(quoted, names)), rows=of_source)
        with self._connections.transaction(table) as cursor:
            rows = run(cursor, sql, [source] if column else [])
        return key_text(names, rows[0]) if rows else ""

    def close(self) -> None:
        """See `Target.close`."""
        self._connections.close()

    def _drop_index(self, table: str) -> bool:
        """Removes the index on the key; False: the table has none."""
        with self._connections.transaction(table) as cursor:
            self._begin(cursor, table)
            sql = f"UPDATE {self._own(_TABLES)} SET has_index = false WHERE name = $1 AND has_index RETURNING name"
            had_index = bool(run(cursor, sql, [table]))
            run(cursor, f"DROP INDEX IF EXISTS {self._own(_index_name(table))}")
        return had_index

    def _own(self, table: str) -> str:
        return f"{quoted(self._schema)}.{quoted(table)}"

    def _exists(self, cursor: dbapi.Cursor, table: str) -> bool:
        sql = (
            "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 AND c.relname = $2"
        )
        return bool(run(cursor, sql, [self._schema, table]))

    def _layout(self, table: str, text: str) -> TargetLayout:
        try:
            return parsed_layout(text)
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise ConfigurationError(
                f"target {self._name}: table {table}: {_TABLES} has no layout of this version: {error}"
            ) from error

    def _begin(self, cursor: dbapi.Cursor, table: str) -> None:
        run(cursor, "SET LOCAL datestyle = 'ISO'")
        self._lock(cursor, f"{self._schema}.{table}")
        if self._exists(cursor, _POSITIONS):
            return
        self._lock(cursor, self._schema)
        run(cursor, f"CREATE SCHEMA IF NOT EXISTS {quoted(self._schema)}")
        run(
            cursor,
            f"CREATE TABLE IF NOT EXISTS {self._own(_TABLES)} (name text PRIMARY KEY, layout text NOT NULL, "
            "has_index boolean NOT NULL DEFAULT true)",
        )
        run(
            cursor,
            f"CREATE TABLE IF NOT EXISTS {self._own(_POSITIONS)} (name text, source text, position text NOT NULL, "
            "changed timestamptz NOT NULL, PRIMARY KEY (name, source))",
        )

    def _lock(self, cursor: dbapi.Cursor, name: str, *, shared: bool = False) -> None:
        run(cursor, f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_MS}ms'")
        function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
        run(cursor, f"SELECT {function}(hashtextextended($1, 22))::text", [f"penstock {name}"])

    def _check_position(self, cursor: dbapi.Cursor, write: Write) -> None:
        sql = f"SELECT position FROM {self._own(_POSITIONS)} WHERE name = $1 AND source = $2"
        found = run(cursor, sql, [write.table, write.source])
        if (found[0][0] if found else None) != write.expected:
            raise TargetConflict(
                f"target {self._name}: table {write.table}: the position of source {write.source} is not the one that "
                "this sync stored: another process fills the table"
            )

    def _change_layout(self, cursor: dbapi.Cursor, write: Write) -> None:
        table, layout = self._own(write.table), write.change.layout
        known = run(cursor, f"SELECT layout FROM {self._own(_TABLES)} WHERE name = $1", [write.table])
        stored = self._layout(write.table, known[0][0]) if known else None
        where = f"target {self._name}: table {write.table}"
        check_base(write, stored, where)
        if known and write.replaces and not layout.source_column:
            run(cursor, f"DROP TABLE {table}")
            run(cursor, f"DELETE FROM {self._own(_POSITIONS)} WHERE name = $1", [write.table])
            known = []
        types = {one.name: postgresql_type(one.type) for one in layout.columns}
        if not known:
            columns = ", ".join(f"{quoted(name)} {type_}" for name, type_ in types.items())
            run(cursor, f"CREATE TABLE {table} ({columns})")
        else:
            for name in dates_to_text(write):
                if run(cursor, OUTSIDE_OF_YEARS.format(table, quoted(name))):
                    raise SchemaMismatch(
                        f"target {self._name}: table {write.table}: column {name}: {DATES_WITH_A_SIGN}"
                    )
            for name in write.change.added:
                run(cursor, f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {types[name]}")
            for name in write.change.widened:
                column = quoted(name)
                run(
                    cursor,
                    f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {types[name]} USING {column}::{types[name]}",
                )
        if not known or not write.change.is_empty:
            run(
                cursor,
                f"INSERT INTO {self._own(_TABLES)} (name, layout) VALUES ($1, $2) "
                "ON CONFLICT (name) DO UPDATE SET layout = excluded.layout",
                [write.table, layout_text(layout)],
            )
        self._check_types(cursor, write.table, layout)

    def _check_types(self, cursor: dbapi.Cursor, table: str, layout: TargetLayout) -> None:
        """A binary COPY into a column of another type could store other values."""
        sql = (
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a "
            "WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped"
        )
        actual = dict(run(cursor, sql, [self._own(table)]))
        for one in layout.columns:
            if actual.get(one.name) != postgresql_type(one.type):
                raise ConfigurationError(
                    f"target {self._name}: table {table}: column {one.name} is {actual.get(one.name, 'missing')}, "
                    f"the sync created it as {postgresql_type(one.type)}: change it back, or load the table again "
                    "(--restart)"
                )

    def _remove(self, cursor: dbapi.Cursor, write: Write) -> None:
        """Removes rows by key. The keys are joined by equality, in one statement for each set of columns that are null:
        a comparison that treats nulls as equal can neither be hashed nor use the index."""
        table, source_column = self._own(write.table), write.change.layout.source_column
        if write.replaces and source_column:
            run(cursor, f"DELETE FROM {table} WHERE {quoted(source_column)} = $1", [write.source_name])
        if write.removed is None or not write.removed.num_rows:
            return
        names = write.removed.column_names
        self._create_index(cursor, write)
        layout = write.change.layout.columns
        types = pa.schema([layout.field(name) for name in names])
        columns = ", ".join(f"{quoted(one.name)} {postgresql_type(one.type)}" for one in types)
        run(cursor, f"CREATE TEMPORARY TABLE {_REMOVED} ({columns}) ON COMMIT DROP")
        for batch in write.removed.to_batches():
            self._copy(cursor, _REMOVED, aligned(batch, types), temporary=True)
        run(cursor, f"ANALYZE {_REMOVED}")
        for nulls in null_patterns(write.removed):
            same = " AND ".join(
                f"t.{quoted(name)} IS NULL AND r.{quoted(name)} IS NULL"
                if name in nulls
                else f"t.{quoted(name)} = r.{quoted(name)}"
                for name in names
            )
            run(cursor, f"DELETE FROM {table} AS t USING pg_temp.{_REMOVED} AS r WHERE {same}")

    def _create_index(self, cursor: dbapi.Cursor, write: Write) -> None:
        """An index on the key, unless a key was too long for one."""
        if run(cursor, f"SELECT 1 FROM {self._own(_TABLES)} WHERE name = $1 AND has_index", [write.table]):
            key = ", ".join(quoted(name) for name in write.change.layout.key)
            index = quoted(_index_name(write.table))
            run(cursor, f"CREATE INDEX IF NOT EXISTS {index} ON {self._own(write.table)} ({key})")

    def _copy(self, cursor: dbapi.Cursor, table: str, batch: pa.RecordBatch, *, temporary: bool = False) -> None:
        arrays = []
        for array in batch.columns:
            if pa.types.is_nested(array.type):
                array = pc.binary_join_element_wise(pa.scalar(_JSONB_VERSION), json_text(array), "")
            arrays.append(array)
        rows = pa.RecordBatch.from_arrays(arrays, batch.schema.names)
        schema = None if temporary else self._schema
        cursor.adbc_ingest(table, rows, mode="append", db_schema_name=schema, temporary=temporary)


def _index_name(table: str) -> str:
    """A name of at most 63 bytes, which stays the same. Two tables of one beginning have different names."""
    return f"_penstock_key_{hashlib.sha256(table.encode()).hexdigest()[:32]}"
