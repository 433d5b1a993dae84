"""A table as an object: `Table`, and `penstock.open_table`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.engine.instants import TableInstant
from penstock.engine.table.plan import TablePlan, plan_of
from penstock.engine.table.scan import Scan
from penstock.engine.table.session import TableSession, merged

if TYPE_CHECKING:
    from penstock.engine.requests.times import Time
    from penstock.engine.requests.where import Where

_SHOWN_COLUMNS: Final = 20


class Table:
    """A table that is read several times. Created by `penstock.open_table`; any thread; needs no closing.

    Each call reads the table as it is then. It lists the timeline and the folders that it needs; commits, archived
    instants and schemas are kept between the calls, and only files that are new or changed are read again. After a
    commit, a rollback, a clean, an archival, or if the table was created again, the rows are those that a new process
    would read.
    """

    __slots__ = ("_options", "_session")

    def __init__(self, session: TableSession, options: Mapping[str, object]) -> None:
        self._session, self._options = session, dict(options)

    @property
    def path(self) -> str:
        """The path or URI without credentials, or with a server the name."""
        return self._session.name

    @property
    def schema(self) -> pa.Schema:
        """The schema of `read()` now."""
        return self._session.schema(self._options, "penstock.Table.schema")

    def timeline(self) -> tuple[TableInstant, ...]:
        """The active instants, by requested time; of `as_of`, those that were requested at or before that time.

        A server lists at most 5,000 instants at a time; later ones are listed later, as they are then.
        """
        return self._session.timeline(self._options)

    def read(
        self,
        *,
        query: str | None = None,
        after: Time | None = None,
        upto: Time | None = None,
        as_of: Time | None = None,
        columns: Sequence[str] | str | None = None,
        where: Where | None = None,
        limit: int | None = None,
        threads: int | None = None,
        ordered: bool | None = None,
        **options: object,
    ) -> pa.RecordBatchReader:
        """The rows, streamed, as by `penstock.read` with the same arguments.

        What is not given here is taken from `open_table`, then from PENSTOCK_* in the environment.
        """
        given: dict[str, object] = {
            "query": query,
            "after": after,
            "upto": upto,
            "as_of": as_of,
            "columns": columns,
            "where": where,
            "limit": limit,
            "threads": threads,
            "ordered": ordered,
        }
        return self._session.read(self._given({**given, **options}), "penstock.Table.read")

    def changes(self, *, after: Time = "earliest", upto: Time | None = None, **options: object) -> pa.RecordBatchReader:
        """Each change by the instants of (`after`, `upto`], streamed: `penstock.read` with `query="cdc"`.

        The bounds are order keys, or times as in `penstock.read`; `after` is by default the beginning of what the table
        retains, `upto` the newest instant. The columns begin with those of the change (`_change_type`: +I, -U, +U, -D),
        and within a file group changes are in the order of `_change_seq`. `options` are those of `read`, such as
        `columns`, `where`, `limit`, `cdc_format`.
        """
        given = {**options, "query": "cdc", "after": after, "upto": upto}
        return self._session.read(self._given(given), "penstock.Table.changes")

    def plan(self, **options: object) -> TablePlan:
        """What `read` with the same options would scan: its splits with their files and bytes. Reads no rows."""
        return plan_of(self._session.open(self._given(options), "penstock.Table.plan"))

    def scan(self, **options: object) -> Scan:
        """A lazy read with the options of `read`; see `Scan`. Reads nothing."""
        given = self._given(options)
        parsed = self._session.parsed(given, "penstock.Table.scan", stacklevel=4)
        scan = Scan(
            session=self._session,
            options={name: value for name, value in given.items() if name not in ("columns", "where", "limit")},
        )
        for condition in (parsed.where,) if parsed.where else ():
            scan = scan.where(condition)
        if parsed.columns:
            scan = scan.select(*parsed.columns)
        return scan if parsed.limit is None else scan.limit(parsed.limit)

    def as_of(self, time: Time) -> Table:
        """The table as of a requested time, as the option `as_of` of `penstock.read`; it shares what is kept."""
        return Table(self._session, {**self._options, "as_of": time})

    def __repr__(self) -> str:
        """What the table is, as of the last call that described it; reads nothing."""
        return _text(self._session, self._options)

    def _given(self, options: Mapping[str, object]) -> dict[str, object]:
        return merged(self._options, options)


def _text(session: TableSession, options: Mapping[str, object]) -> str:
    described = session.described
    names = session.known_columns()
    shown = ", ".join(names[:_SHOWN_COLUMNS])
    more = f", … {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    at = f" as of {options['as_of']}" if "as_of" in options else ""
    server = f" of server {session.server}" if session.server else ""
    return (
        f"Table {session.name}{server}{at}: {described.table_type}, table version {described.table_version}, timeline "
        f"layout {described.timeline_layout}, newest instant {described.newest}, "
        f"columns {shown + more if names else 'not recorded'}"
    )


def open_table(table: str | os.PathLike[str], *, server: str | None = None, **options: object) -> Table:
    """A table to be read several times.

    `table` is a path or URI; with `server` (HOST:PORT) the name of a table that it serves. `options` are those of
    `penstock.read`, for every read of the table. Errors are `penstock.errors`: TableNotFound if there is no table,
    ConfigurationError for an unknown option, naming the nearest.
    """
    return Table(TableSession(os.fspath(table), {**options, "server": server}), {})
