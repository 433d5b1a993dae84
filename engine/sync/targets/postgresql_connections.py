"""Connections to PostgreSQL: the URL, the pool, and the errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import adbc_driver_manager as adbc
from adbc_driver_postgresql import dbapi

from penstock.proto.errors import ConfigurationError, PenstockError, TargetConflict, TargetUnavailable

_TEMPORARY: Final = ("08", "40", "53", "55", "57", "58")
"""Classes of SQLSTATE: connection, rollback of a deadlock, resources, lock, operator, I/O."""
_READ_ONLY: Final = "25006"
"""SQLSTATE of a write into a server that is read-only, such as a standby."""
_PROTOCOL_VIOLATION: Final = "08P01"
_RACES: Final = frozenset({"23505", "42P07", "42701"})
"""SQLSTATE of a key, table or column that another process has added."""
_SECRETS: Final = ("password", "sslpassword")
"""Parameters of the URL that are never in an error."""
_MISCONFIGURED: Final = ("authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry",
                         "invalid connection option", "could not translate host name")  # fmt: skip


def parsed_url(url: str) -> tuple[str, str, str]:
    """The URL for libpq, the schema of `?schema=`, and the URL for texts. ConfigurationError for an unusable one."""
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        raise ConfigurationError(
            "target postgresql: the URL is not valid: expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE with "
            "special characters percent-encoded"
        ) from None
    options = parse_qsl(parts.query, keep_blank_values=True)
    if not parts.path.strip("/") and "dbname" not in dict(options):
        raise ConfigurationError("target postgresql: the URL has no database: expected postgresql://USER@HOST/DATABASE")
    schema = dict(options).get("schema", "public")
    rest = urlencode([(name, value) for name, value in options if name != "schema"], quote_via=quote)
    name = f"postgresql://{host}{parts.path}" + (f"?schema={schema}" if schema != "public" else "")
    return parts._replace(query=rest, fragment="").geturl(), schema, name


class Connections:
    """Connections to one database. Idle ones are used again; one whose use failed is closed."""

    def __init__(self, url: str) -> None:
        """Opens nothing yet."""
        self._url, _, self._name = parsed_url(url)
        parts = urlsplit(url)
        given = (unquote(parts.password or ""), *(value for name, value in parse_qsl(parts.query) if name in _SECRETS))
        self._secrets = {text for one in given if one for text in (one, quote(one, safe=""))}
        self._idle: list[dbapi.Connection] = []
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def transaction(self, table: str = "") -> Iterator[dbapi.Cursor]:
        """A cursor in a transaction, which is committed at the end of the block, and rolled back after an error.

        Errors of PostgreSQL are raised as those of a `Target`, with `table` in the text.
        """
        with self._errors(None, table), self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            with self._errors(None, table):
                connection = dbapi.connect(self._url, autocommit=True)
        try:
            with self._errors(connection, table), connection.cursor() as cursor:
                run(cursor, "BEGIN")  # the driver's own transactions begin at once after the last one
                yield cursor
                run(cursor, "COMMIT")
        except BaseException:
            self._discard(connection)
            raise
        with self._lock:
            if not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def _discard(self, connection: dbapi.Connection) -> None:
        """Closes a connection, whose transaction the server then rolls back, and the idle ones: the server may be
        another one now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in (connection, *idle):
            with suppress(adbc.Error):
                one.close()

    def close(self) -> None:
        """Closes the idle connections; those in use are closed after it."""
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for connection in idle:
            with suppress(adbc.Error):
                connection.close()

    @contextmanager
    def _errors(self, connection: dbapi.Connection | None, table: str) -> Iterator[None]:
        try:
            yield
        except PenstockError:
            raise
        except adbc.Error as error:
            raise self._error(connection, table, error) from None  # its text may have the URL

    def _error(self, connection: dbapi.Connection | None, table: str, error: adbc.Error) -> PenstockError:
        text = " ".join(str(error).split()).replace(self._url, self._name)[:600]
        for secret in self._secrets:
            text = text.replace(secret, "***")
        where = f"target {self._name}: table {table}: {text}" if table else f"target {self._name}: {text}"
        state = getattr(error, "sqlstate", None) or ""
        if state in _RACES:
            return TargetConflict(f"{where}: another process fills the table")
        if state:
            is_temporary = (state[:2] in _TEMPORARY and state != _PROTOCOL_VIOLATION) or state == _READ_ONLY
        elif connection is None:
            is_temporary = not any(one in text for one in _MISCONFIGURED)
        else:
            is_temporary = not _is_alive(connection)
        return TargetUnavailable(where) if is_temporary else ConfigurationError(where)


def run(cursor: dbapi.Cursor, sql: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """Executes one statement and fetches its result."""
    cursor.execute(sql, list(values) or None)
    return cursor.fetchall() if cursor.description else []


def _is_alive(connection: dbapi.Connection) -> bool:
    """Whether the server still answers; an error without a state is then one of the values."""
    try:
        with connection.cursor() as cursor:
            run(cursor, "ROLLBACK")
            return run(cursor, "SELECT 1") == [(1,)]
    except adbc.Error:
        return False
