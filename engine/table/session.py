"""A table, the options of its reads, and what is kept between them: `TableSession`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from penstock.engine.arrow import read_parsed
from penstock.engine.connect import embedded_enumerator, enumerator_for, open_tables
from penstock.engine.instants import TableInstant, list_instants
from penstock.engine.read_tasks import OpenedRead, open_read
from penstock.engine.requests.batch import RANGES
from penstock.engine.requests.where import where_text
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.reports import TableDescription
from penstock.proto.options.registry import EntryPoint, ParsedOptions, option_named, parse_options
from penstock.proto.retry import Retry
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.completion import returned_columns, returned_schema
from penstock.table.storage.uris import redacted_uri

if TYPE_CHECKING:
    from penstock.engine.requests.where import Where


class TableSession:
    """A table and the options of its reads. Any thread; needs no closing.

    In this process the timeline, commits, archived instants and what follows from them are kept as long as the session.
    Each read lists the timeline and the folders that it needs, and reads only timeline files that are new or changed.
    A server keeps them itself.
    """

    def __init__(self, table: str, options: Mapping[str, object]) -> None:
        """`options` are those of every read; a read overrides them. ConfigurationError if they do not fit."""
        self.table, self.options = table, merged(options, {})
        self._warned: set[str] = set()
        parsed = self._parsed(options, "penstock.open_table", stacklevel=4)
        self.server = parsed.server
        self._embedded = None if self.server is not None else embedded_enumerator(open_tables(max_tables=1))
        self._access, self._retry = parsed.access, Retry(policy=parsed.retry_if_given)
        self.described = self.describe()
        """The table when it was last described."""

    @property
    def name(self) -> str:
        """The table's name, or its path or URI without credentials."""
        return redacted_uri(self.table)

    def describe(self) -> TableDescription:
        """The table now."""
        self.described = self._retry.call(partial(self._enumerator.describe_table, self.table))
        return self.described

    @property
    def _enumerator(self) -> Enumerator:
        return self._embedded or enumerator_for(self.server, self._access)

    def parsed(self, given: Mapping[str, object], entry: str, *, stacklevel: int = 5) -> ParsedOptions:
        """The options of a read: those of the session, overridden by `given`. ConfigurationError as `parse_options`.

        `entry` is the function that the user called, for warnings. Each warning is given once, at `stacklevel`.
        """
        if given.get("server") is not None:
            raise ConfigurationError(
                "option server: penstock.open_table chooses the server, and all reads of the table go there; open the "
                "table again for another one"
            )
        return self._parsed(merged({**self.options, "server": self.server}, given), entry, stacklevel)

    def _parsed(self, options: Mapping[str, object], entry: str, stacklevel: int) -> ParsedOptions:
        parsed = parse_options(options, entry_point=EntryPoint.ARROW, environment=os.environ)
        for text in parsed.warnings:
            if text not in self._warned:
                self._warned.add(text)
                warnings.warn(f"{entry}: {text}", UserWarning, stacklevel=stacklevel)
        return parsed

    def read(self, given: Mapping[str, object], entry: str) -> pa.RecordBatchReader:
        """The rows of a read; see `penstock.read`."""
        return read_parsed(self.table, self.parsed(given, entry), self._embedded)

    def open(self, given: Mapping[str, object], entry: str) -> OpenedRead:
        """Plans a read; see `open_read`."""
        return open_read(self.table, self.parsed(given, entry), self._embedded)

    def schema(self, given: Mapping[str, object], entry: str) -> pa.Schema:
        """The schema of a read: from the description of the table now if that suffices, else from its plan."""
        parsed = self.parsed(given, entry)
        columns = _columns_of(self.describe(), parsed)
        if columns is None:
            return open_read(self.table, parsed, self._embedded).schema
        names = returned_columns(parsed.columns, columns.names, meta=parsed.meta == "on")
        return pa.schema([columns.field(name) for name in names])

    def check(self, given: Mapping[str, object], entry: str, check: Callable[[pa.Schema], object]) -> None:
        """Calls `check` with the columns that a read of these options can return, if the table's description suffices.

        If it fails, the table is described again, because it may have gained a column, and `check` decides.
        """
        parsed = self.parsed(given, entry)
        known = _columns_of(self.described, parsed)
        if known is not None:
            try:
                check(known)
                return
            except ConfigurationError:
                pass
        now = _columns_of(self.describe(), parsed)
        if now is not None:
            check(now)

    def timeline(self, given: Mapping[str, object]) -> tuple[TableInstant, ...]:
        """The active instants of the table now; with the option `as_of`, those requested at or before that time."""
        parsed = self.parsed(given, "penstock.Table.timeline")
        return list_instants(self._enumerator, self.table, parsed, self._retry)

    def known_columns(self) -> list[str]:
        """The names of the table's columns when it was last described; [] if no schema was recorded."""
        known = self.described.schema_json
        return [field.name for field in parse_record_schema(known, self.name).fields] if known else []


def _columns_of(described: TableDescription, options: ParsedOptions) -> pa.Schema | None:
    """The columns that a read of the newest state can return; None if only a plan has them: as of a time, of a range,
    or if no commit recorded a schema."""
    if options.query in RANGES or options.as_of is not None or not described.schema_json:
        return None
    record = parse_record_schema(described.schema_json, f"schema of table {described.table}")
    return returned_schema(arrow_schema(record), None, completion_time=options.completion_time == "on")


def merged(options: Mapping[str, object], given: Mapping[str, object]) -> dict[str, object]:
    """The options, overridden by those `given` that are not None, in any spelling; conditions as text."""
    return dict(
        _entry(name, value) for source in (options, given) for name, value in source.items() if value is not None
    )


def _entry(name: str, value: object) -> tuple[str, object]:
    option = option_named(name)
    spelling = name if option is None else option.python_name
    if spelling == "where":
        return spelling, where_text(cast("Where", value))
    if spelling == "columns" and isinstance(value, Sequence) and not isinstance(value, str):
        return spelling, tuple(value)
    return spelling, value
