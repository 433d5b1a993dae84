"""A DuckDB file as a target. Rows and positions are in the same file, and change in one transaction."""

from __future__ import annotations

import base64
import json
import pathlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa

from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.targets.duckdb_types import duckdb_type, quoted
from penstock.engine.sync.targets.rows import DATES_WITH_A_SIGN, key_text
from penstock.engine.sync.targets.target import (
    OUTSIDE_OF_YEARS,
    REPEATED,
    StoredTable,
    Write,
    check_base,
    dates_to_text,
)
from penstock.proto.errors import ConfigurationError, PenstockError, SchemaMismatch, TargetConflict, TargetUnavailable
from penstock.reader.values.struct_offsets import without_struct_offsets

_TABLES: Final = "_penstock_tables"
_POSITIONS: Final = "_penstock_positions"
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS {_TABLES} (name VARCHAR PRIMARY KEY, key VARCHAR, source_column VARCHAR, columns VARCHAR);
CREATE TABLE IF NOT EXISTS {_POSITIONS} (
    name VARCHAR, source VARCHAR, position VARCHAR, changed TIMESTAMP WITH TIME ZONE, PRIMARY KEY (name, source));
"""
_NAMES: Final = (
    "SELECT lower(table_name) FROM information_schema.tables"
    " WHERE table_catalog = current_database() AND table_schema = current_schema()"
)
_COLUMNS: Final = (
    "SELECT column_name, data_type FROM information_schema.columns"
    " WHERE table_catalog = current_database() AND table_schema = current_schema() AND lower(table_name) = lower(?)"
)
_STORED: Final = f"SELECT key, source_column, columns FROM {_TABLES} WHERE name = ?"
_STORED_POSITIONS: Final = f"SELECT source, position FROM {_POSITIONS} WHERE name = ?"
_VIEW: Final = "_penstock_rows"
_TEMPORARY: Final = (
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.TransactionException,
    duckdb.InterruptException,
)


@dataclass(slots=True)
class _Opened:
    """An open file."""

    connection: duckdb.DuckDBPyConnection
    """The connection from which each thread has its own."""
    file: tuple[int, int]
    """Identifies the file: device and inode."""
    is_prepared: bool = False
    """Whether the tables with positions exist."""


class DuckDBTarget:
    """A `Target` in a DuckDB file, which is created if it does not exist. DuckDB allows one process to write it.

    After an error that leaves DuckDB unusable, and if the file was removed or replaced, the next call opens it again.
    """

    def __init__(self, path: str) -> None:
        """Opens nothing yet: only `write` creates the file."""
        self._path, self._name = path, f"target duckdb:///{path}"
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    def check_columns(self, table: str, columns: pa.Schema) -> None:
        """See `Target.check_columns`."""
        names: dict[str, str] = {}
        if not table or table.casefold() in (_TABLES, _POSITIONS):
            raise ConfigurationError(f"{self._name}: table {table}: the name is one of Penstock's own: give `into`")
        for one in columns:
            if duckdb_type(one.type) is None:
                raise ConfigurationError(
                    f"{self._name}: table {table}: column {one.name}: DuckDB has no type for {one.type}"
                )
            other = names.setdefault(one.name.casefold(), one.name)
            if other != one.name:
                raise ConfigurationError(
                    f"{self._name}: table {table}: columns {other} and {one.name} are one name in DuckDB"
                )

    def types_of(self, columns: pa.Schema) -> list[str]:
        """See `Target.types_of`."""
        return [duckdb_type(one.type) or "" for one in columns]

    def stored(self, table: str) -> StoredTable | None:
        """See `Target.stored`."""
        with self._errors(table):
            if self._opened is None and not pathlib.Path(self._path).exists():
                return None
            with self._cursor() as cursor:
                names = {name for (name,) in _run(cursor, _NAMES)}
                known = {_TABLES, _POSITIONS} <= names
                rows = _run(cursor, _STORED, [table]) if known else []
                positions = _run(cursor, _STORED_POSITIONS, [table]) if known else []
        if table.lower() not in names:
            return None
        if not rows:
            raise ConfigurationError(
                f"{self._name}: table {table} exists, and no sync created it: drop it, or give `into`"
            )
        return StoredTable(layout=_layout(rows[0]), positions=dict(positions))

    def write(self, write: Write) -> None:
        """See `Target.write`."""
        with self._errors(write.table), self._cursor(creates=True) as cursor:
            _run(cursor, "BEGIN TRANSACTION")
            try:
                self._forget_dropped(cursor, write.table)
                self._check_position(cursor, write)
                self._change_layout(cursor, write)
                self._remove(cursor, write)
                self._append(cursor, write)
                self._store_position(cursor, write)
                _run(cursor, "COMMIT")
            except BaseException:
                _roll_back(cursor)
                raise

    def repeated_key(self, table: str, source: str) -> str:
        """See `Target.repeated_key`."""
        stored = self.stored(table)
        if stored is None:
            return ""
        names, column = stored.layout.key, stored.layout.source_column
        of_source = f"{quoted(column)} = $1" if column else "true"
        sql = REPEATED.format(table=quoted(table), key=", ".join(map(quoted, names)), rows=of_source)
        with self._errors(table), self._cursor() as cursor:
            rows = _run(cursor, sql, [source] if column else [])
        return key_text(names, rows[0]) if rows else ""

    def close(self) -> None:
        """See `Target.close`."""
        with self._lock:
            self._close()

    @contextmanager
    def _cursor(self, *, creates: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for one thread. It opens the file if necessary, with `creates` also for the first write."""
        with self._lock:
            if self._opened is not None and self._opened.file != _file_id(self._path):
                self._close()
                raise TargetUnavailable(f"{self._name}: the file was removed or replaced while it was open")
            if self._opened is None:
                self._opened = self._open()
            if creates and not self._opened.is_prepared:
                _run(self._opened.connection, _SCHEMA)
                self._opened.is_prepared = True
            cursor = self._opened.connection.cursor()
        with cursor:
            yield cursor

    def _open(self) -> _Opened:
        if not pathlib.Path(self._path).absolute().parent.is_dir():
            raise TargetUnavailable(f"{self._name}: its folder does not exist")
        return _Opened(duckdb.connect(self._path), _file_id(self._path))

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.connection.close()
            self._opened = None

    def _forget_dropped(self, cursor: duckdb.DuckDBPyConnection, table: str) -> None:
        """Someone may have dropped the table: it is then loaded again."""
        if not _run(cursor, f"{_NAMES} AND lower(table_name) = lower(?)", [table]):
            for own in (_TABLES, _POSITIONS):
                _run(cursor, f"DELETE FROM {own} WHERE name = ?", [table])

    def _check_position(self, cursor: duckdb.DuckDBPyConnection, write: Write) -> None:
        rows = _run(
            cursor, f"SELECT position FROM {_POSITIONS} WHERE name = ? AND source = ?", [write.table, write.source]
        )
        if (rows[0][0] if rows else None) != write.expected:
            raise TargetConflict(
                f"{self._name}: table {write.table}: the position of source {write.source} is not the one that "
                "this sync stored: another process fills the table"
            )

    def _change_layout(self, cursor: duckdb.DuckDBPyConnection, write: Write) -> None:
        table, change = quoted(write.table), write.change
        layout = change.layout
        known = _run(cursor, _STORED, [write.table])
        check_base(write, _layout(known[0]) if known else None, f"{self._name}: table {write.table}")
        types = {one.name: duckdb_type(one.type) for one in layout.columns}
        if known and write.replaces and not layout.source_column:
            _run(cursor, f"DROP TABLE IF EXISTS {table}")
            _run(cursor, f"DELETE FROM {_POSITIONS} WHERE name = ? AND source <> ?", [write.table, write.source])
            known = []
        if not known:
            columns = ", ".join(f"{quoted(name)} {sql_type}" for name, sql_type in types.items())
            _run(cursor, f"CREATE TABLE {table} ({columns})")
        else:
            for name in dates_to_text(write):
                if _run(cursor, OUTSIDE_OF_YEARS.format(table, quoted(name))):
                    raise SchemaMismatch(f"{self._name}: table {write.table}: column {name}: {DATES_WITH_A_SIGN}")
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

        self._check_types(cursor, write.table, layout)

    def _check_types(self, cursor: duckdb.DuckDBPyConnection, table: str, layout: TargetLayout) -> None:
        """An insert into a column of another type could store other values."""
        actual = dict(_run(cursor, _COLUMNS, [table]))
        as_printed = ", ".join(f"typeof(CAST(NULL AS {duckdb_type(one.type)}))" for one in layout.columns)
        ((*types,),) = _run(cursor, f"SELECT {as_printed}")
        for name, type_ in zip(layout.columns.names, types, strict=True):
            if actual.get(name) != type_:
                raise ConfigurationError(
                    f"{self._name}: table {table}: column {name} is {actual.get(name, 'missing')}, the sync created it "
                    f"as {type_}: change it back, or load the table again (--restart)"
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
            with _registered(cursor, write.removed) as removed:
                _run(cursor, f"DELETE FROM {table} AS t USING {removed} AS r WHERE {same}")

    def _append(self, cursor: duckdb.DuckDBPyConnection, write: Write) -> None:
        for batch in write.rows:
            with _registered(cursor, pa.Table.from_batches([without_struct_offsets(batch)])) as rows:
                _run(cursor, f"INSERT INTO {quoted(write.table)} BY NAME SELECT * FROM {rows}")

    def _store_position(self, cursor: duckdb.DuckDBPyConnection, write: Write) -> None:
        _run(
            cursor,
            f"INSERT OR REPLACE INTO {_POSITIONS} VALUES (?, ?, ?, now())",
            [write.table, write.source, write.position],
        )

    @contextmanager
    def _errors(self, table: str) -> Iterator[None]:
        """Errors of DuckDB as those of a `Target`."""
        where = f"{self._name}: table {table}" if table else self._name
        try:
            yield
        except PenstockError:
            raise
        except duckdb.FatalException as error:
            self.close()  # DuckDB refuses everything until the file is opened again
            raise TargetUnavailable(f"{where}: {_line(error)}") from error
        except _TEMPORARY as error:
            raise TargetUnavailable(f"{where}: {_line(error)}") from error
        except duckdb.Error as error:
            raise ConfigurationError(f"{where}: {_line(error)}") from error


def _layout(stored: tuple[Any, ...]) -> TargetLayout:
    """The layout of a row of `_STORED`."""
    key, source_column, columns = stored
    return TargetLayout(
        pa.ipc.read_schema(pa.py_buffer(base64.b64decode(columns))), tuple(json.loads(key)), source_column
    )


def _run(connection: duckdb.DuckDBPyConnection, sql: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """Executes statements and fetches the whole result, which DuckDB requires before the next one."""
    return connection.execute(sql, list(values)).fetchall()


@contextmanager
def _registered(cursor: duckdb.DuckDBPyConnection, rows: pa.Table) -> Iterator[str]:
    """The name of a view of these rows inside the block."""
    cursor.register(_VIEW, rows)
    yield _VIEW
    cursor.unregister(_VIEW)  # not after an error: the transaction is aborted, and the connection will be closed


def _roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    with suppress(duckdb.Error):  # DuckDB may have ended the transaction itself
        _run(cursor, "ROLLBACK")


def _file_id(path: str) -> tuple[int, int]:
    """Identifies a file; (0, 0): there is none."""
    try:
        status = pathlib.Path(path).stat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
