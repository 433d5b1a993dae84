"""A lazy read of a table: `Scan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from penstock.engine.requests.where import where_text
from penstock.engine.table.plan import TablePlan, plan_of
from penstock.proto.errors import ConfigurationError
from penstock.table.columns import resolve_columns
from penstock.table.predicate.parse import parse_predicate

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

    from penstock.engine.requests.times import Time
    from penstock.engine.requests.where import Where
    from penstock.engine.table.session import TableSession

_ENTRY: Final = "penstock.Scan"
_SHOWN_OPTIONS: Final = ("query", "after", "upto", "as_of")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Scan:
    """A read that is not started: the rows that meet every condition, at most `max_rows`, with the selected columns.

    Immutable: `select`, `where`, `limit` and `as_of` return a new scan, in any order with the same result. Nothing is
    read before a method `to_…` or `plan`; each of these plans the read anew, from the table's state at that time.
    Arrow consumers take a scan as it is (`pyarrow.table(scan)`, `polars.DataFrame(scan)`).
    """

    session: TableSession = field(repr=False)
    """The table."""
    options: Mapping[str, object] = field(default_factory=dict)
    """The options of the read."""
    columns: tuple[str, ...] = ()
    """The selected columns, in order; empty: all."""
    conditions: tuple[str, ...] = ()
    """The conditions on the table's rows, in the syntax of the option `where`; all must be true."""
    max_rows: int | None = None
    """The maximum number of rows; None: no limit."""

    def select(self, *columns: str) -> Scan:
        """The scan with only these columns, in this order; of an earlier `select`, some of its columns.

        `where` may use columns that are not selected. ConfigurationError for a column that does not exist (with the
        most similar names), is named twice, or was not selected before.
        """
        names = [name for name in columns if isinstance(name, str)]
        if len(names) < len(columns) or not columns:
            raise ConfigurationError(f"select: got {columns!r:.200}, expected names of columns: select('a', 'b')")
        if self.columns:
            columns = resolve_columns(columns, self.columns)
        else:
            self.session.check(self.options, _ENTRY, lambda schema: resolve_columns(columns, schema.names))
        return replace(self, columns=columns)

    def where(self, condition: Where) -> Scan:
        """The scan with only the rows for which the condition is true, in addition to earlier conditions.

        The condition is SQL text (docs/reference/semantics.md), a `pyarrow.compute.Expression`, or a list of (column,
        operator, value). ConfigurationError for an unknown column (with the most similar names), or a condition that
        cannot be used.
        """
        text = where_text(condition)
        self.session.check(self.options, _ENTRY, lambda schema: parse_predicate(text, schema))
        return replace(self, conditions=(*self.conditions, text))

    def limit(self, rows: int) -> Scan:
        """The scan with at most this number of rows, after all conditions, also those that are added later."""
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
            raise ConfigurationError(f"limit: got {rows!r:.80}, expected a number of rows, 0 or more")
        return replace(self, max_rows=rows if self.max_rows is None else min(rows, self.max_rows))

    def as_of(self, time: Time) -> Scan:
        """The scan of the state as of a requested time, as the option `as_of` of `penstock.read`."""
        return replace(self, options={**self.options, "as_of": time})

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows, from the table's state now."""
        return self.session.schema(self._given(), _ENTRY)

    def plan(self) -> TablePlan:
        """What the scan would read: its splits with their files. Reads no rows."""
        return plan_of(self.session.open(self._given(), _ENTRY))

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows, streamed in plan order. Close the reader, or read it to its end, to release its files."""
        return self.session.read(self._given(), _ENTRY)

    def to_arrow(self) -> pa.Table:
        """The rows as a table of Arrow, in memory."""
        return self.to_batches().read_all()

    def to_pandas(self, **arguments: Any) -> pandas.DataFrame:
        """The rows as a DataFrame of pandas. `arguments` are those of `pyarrow.Table.to_pandas`.

        ImportError if pandas is not installed.
        """
        _require("pandas", "to_pandas")
        return cast("pandas.DataFrame", self.to_arrow().to_pandas(**arguments))

    def to_polars(self) -> polars.DataFrame:
        """The rows as a DataFrame of Polars. ImportError if Polars is not installed."""
        _require("polars", "to_polars")
        import polars

        return cast("polars.DataFrame", polars.from_arrow(self.to_arrow()))

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows, in memory, as a relation of DuckDB: of `connection`, by default of DuckDB's own.

        `penstock.duckdb.relation` reads only what a query needs. ImportError if DuckDB is not installed.
        """
        _require("duckdb", "to_duckdb")
        import duckdb

        return (connection or duckdb.default_connection()).from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C interface."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        parts = [f"select {', '.join(self.columns) or '*'}"]
        if self.conditions:
            parts.append(f"where {' AND '.join(f'({text})' for text in self.conditions)}")
        if self.max_rows is not None:
            parts.append(f"limit {self.max_rows}")
        parts += [f"{name}={self.options[name]}" for name in _SHOWN_OPTIONS if name in self.options]
        return f"Scan of {self.session.name}: {', '.join(parts)}"

    def _given(self) -> dict[str, object]:
        where = self.conditions[0] if len(self.conditions) == 1 else "\nAND ".join(f"({c}\n)" for c in self.conditions)
        return {
            **self.options,
            "columns": self.columns or None,
            "where": where or None,
            "limit": self.max_rows,
        }


def _require(library: str, method: str) -> None:
    try:
        import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise ModuleNotFoundError(
            f"{method} needs {library}: pip install 'penstock[{library}]'", name=library
        ) from None
