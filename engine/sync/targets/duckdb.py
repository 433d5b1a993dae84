"""A DuckDB file as a target. Rows and positions are in the same file, and change in one transaction."""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa

from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.targets.duckdb_types import duckdb_type, quoted
from penstock.engine.sync.targets.target import StoredTable, Write
from penstock.proto.errors import ConfigurationError, PenstockError, TargetConflict, TargetUnavailable

_TABLES: Final = "_penstock_tables"
_POSITIONS: Final = "_penstock_positions"
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS {_TABLES} (name VARCHAR PRIMARY KEY, key VARCHAR, source_column VARCHAR, columns VARCHAR);
CREATE TABLE IF NOT EXISTS {_POSITIONS} (
    name VARCHAR, source VARCHAR, position VARCHAR, changed TIMESTAMP WITH TIME ZONE, PRIMARY KEY (name, source));
"""
_TEMPORARY: Final = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.TransactionException,
                     duckdb.InterruptException, duckdb.FatalException)  # fmt: skip


class DuckDBTarget:
    """A `Target` in a DuckDB file, which is created if it does not exist. DuckDB allows one process to write it."""

    def __init__(self, path: str) -> None:
        """TargetUnavailable: another process has the file open. ConfigurationError: the file cannot be opened."""
        self._path, self._name = path, f"duckdb://{path}"
        if path and not pathlib.Path(path).parent.is_dir():
            raise ConfigurationError(f"target {self._name}: its folder does not exist")
        with self._errors(""):
            self._connection = duckdb.connect(path or ":memory:")
            _run(self._connection, _SCHEMA)

    def check_columns(self, table: str, columns: pa.Schema) -> None:
        """See `Target.check_columns`."""
        names: dict[str, str] = {}
        for one in columns:
            if duckdb_type(one.type) is None:
                raise ConfigurationError(
                    f"target {self._name}: table {table}: column {one.name}: DuckDB has no type for {one.type}"
                )
            other = names.setdefault(one.name.casefold(), one.name)
            if other != one.name:
                raise ConfigurationError(
                    f"target {self._name}: table {table}: columns {other} and {one.name} are one name in DuckDB"
                )

    def types_of(self, columns: pa.Schema) -> list[str]:
        """See `Target.types_of`."""
        return [duckdb_type(one.type) or "" for one in columns]

    def stored(self, table: str) -> StoredTable | None:
        """See `Target.stored`."""
        with self._errors(table), self._connection.cursor() as cursor:
            found = _run(cursor, f"SELECT key, source_column, columns FROM {_TABLES} WHERE name = ?", [table])
            if not found:
                if _run(cursor, "SELECT 1 FROM duckdb_tables() WHERE table_name = ? AND NOT temporary", [table]):
                    raise ConfigurationError(
                        f"target {self._name}: table {table} exists, and no sync created it: drop it, or give `into`"
                    )
                return None
            positions = _run(cursor, f"SELECT source, position FROM {_POSITIONS} WHERE name = ?", [table])
        columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found[0][2])))
        layout = TargetLayout(columns, tuple(json.loads(found[0][0])), found[0][1])
        return StoredTable(layout=layout, positions=dict(positions))

    def write(self, write: Write) -> None:
        """See `Target.write`."""
        with self._errors(write.table), self._connection.cursor() as cursor:
            _run(cursor, "BEGIN TRANSACTION")
            try:
                self._check_position(cursor, write)
                self._change_layout(cursor, write)
                self._remove(cursor, write)
                self._append(cursor, write)
                self._store_position(cursor, write)
                _run(cursor, "COMMIT")
            except BaseException:
                _roll_back(cursor)
                raise

    def close(self) -> None:
        """See `Target.close`."""
        self._connection.close()

    def _check_position(self, cursor: duckdb.DuckDBPyConnection, write: Write) -> None:
        found = _run(
            cursor, f"SELECT position FROM {_POSITIONS} WHERE name = ? AND source = ?", [write.table, write.source]
        )
        if (found[0][0] if found else None) != write.expected:
            raise TargetConflict(
                f"target {self._name}: table {write.table}: the position of source {write.source} is not the one that "
                "this sync stored: another process fills the table"
            )

    def _change_layout(self, cursor: duckdb.DuckDBPyConnection, write: Write) -> None:
        table, change = quoted(write.table), write.change
        layout = change.layout
        known = bool(_run(cursor, f"SELECT 1 FROM {_TABLES} WHERE name = ?", [write.table]))
        types = {one.name: duckdb_type(one.type) for one in layout.columns}
        if known and write.replaces and not layout.source_column:
            _run(cursor, f"DROP TABLE {table}")
            known = False
        if not known:
            columns = ", ".join(f"{quoted(name)} {sql_type}" for name, sql_type in types.items())
            _run(cursor, f"CREATE TABLE {table} ({columns})")
        else:
            for name in change.added:
                _run(cursor, f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {types[name]}")
            for name in change.widened:
                _run(cursor, f"ALTER TABLE {table} ALTER COLUMN {quoted(name)} SET DATA TYPE {types[name]}")
        if not known or not change.is_empty:
            columns = base64.b64encode(layout.columns.serialize().to_pybytes()).decode()
            _run(
                cursor,
                f"INSERT OR REPLACE INTO {_TABLES} VALUES (?, ?, ?, ?)",
                [write.table, json.dumps(layout.key), layout.source_column, columns],
            )

    def _remove(self, cursor: duckdb.DuckDBPyConnection, write: Write) -> None:
        table = quoted(write.table)
        if write.replaces and write.change.layout.source_column:
            column = quoted(write.change.layout.source_column)
            _run(cursor, f"DELETE FROM {table} WHERE {column} = ?", [write.source_name])
        if write.removed is not None and write.removed.num_rows:
            same = " AND ".join(
                f"t.{quoted(name)} IS NOT DISTINCT FROM r.{quoted(name)}" for name in write.removed.column_names
            )
            cursor.register("_penstock_removed", write.removed)
            _run(cursor, f"DELETE FROM {table} AS t USING _penstock_removed AS r WHERE {same}")
            cursor.unregister("_penstock_removed")

    def _append(self, cursor: duckdb.DuckDBPyConnection, write: Write) -> None:
        for batch in write.rows:
            cursor.register("_penstock_rows", pa.Table.from_batches([batch]))
            _run(cursor, f"INSERT INTO {quoted(write.table)} BY NAME SELECT * FROM _penstock_rows")
            cursor.unregister("_penstock_rows")

    def _store_position(self, cursor: duckdb.DuckDBPyConnection, write: Write) -> None:
        _run(
            cursor,
            f"INSERT OR REPLACE INTO {_POSITIONS} VALUES (?, ?, ?, now())",
            [write.table, write.source, write.position],
        )

    @contextmanager
    def _errors(self, table: str) -> Iterator[None]:
        """Errors of DuckDB as those of a `Target`."""
        where = f"target {self._name}: table {table}" if table else f"target {self._name}"
        try:
            yield
        except PenstockError:
            raise
        except _TEMPORARY as error:
            raise TargetUnavailable(f"{where}: {_line(error)}") from error
        except duckdb.Error as error:
            raise ConfigurationError(f"{where}: {_line(error)}") from error


def _run(connection: duckdb.DuckDBPyConnection, sql: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """Executes statements and fetches the whole result, which DuckDB requires before the next one."""
    return connection.execute(sql, list(values)).fetchall()


def _roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    try:
        _run(cursor, "ROLLBACK")
    except duckdb.Error:
        pass  # DuckDB has ended the transaction itself


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
