"""One interface over the engines: a table as the engine reads it, a frame of the same rows in memory, and queries."""

from __future__ import annotations

import datetime
import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Protocol

import pyarrow as pa

from tests.engines.queries import Both, Compare, Condition, Either, IsNull, Not, OneOf, Query, Remainder
from tests.engines.written_table import TYPES

OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Engine(Protocol):
    """An engine."""

    def table(self, path: Any, **options: object) -> Any:
        """The table as this engine reads it through Penstock."""

    def memory(self, rows: pa.Table) -> Any:
        """The rows as a frame of this engine that knows nothing of Penstock."""

    def run(self, frame: Any, query: Query) -> pa.Table:
        """The result of the query."""

    def all_rows(self, frame: Any) -> pa.Table:
        """All rows of the frame."""


def rows_of(table: pa.Table) -> Counter[str]:
    """The rows with their multiplicity, whatever their order and Arrow's width of offsets."""
    return Counter(repr(row) for row in table.to_pylist())


class Polars:
    """Polars, by its in-memory or its streaming engine."""

    def __init__(self, engine: str = "in-memory") -> None:
        """`engine`: that of `collect`."""
        self._engine = engine

    def table(self, path: Any, **options: object) -> Any:
        from penstock.polars import scan

        return scan(path, **options)

    def memory(self, rows: pa.Table) -> Any:
        import polars as pl

        return pl.from_arrow(rows).lazy()

    def run(self, frame: Any, query: Query) -> pa.Table:
        if query.head is not None:
            frame = frame.head(query.head)
        if query.condition is not None:
            frame = frame.filter(self._expression(query.condition))
        frame = frame.select(query.columns)
        return self.all_rows(frame if query.limit is None else frame.head(query.limit))

    def all_rows(self, frame: Any) -> pa.Table:
        return frame.collect(engine=self._engine).to_arrow()

    def _expression(self, condition: Condition) -> Any:
        import polars as pl

        def column(path: tuple[str, ...]) -> Any:
            return pl.col(path[0]) if len(path) == 1 else pl.col(path[0]).struct.field(path[1])

        match condition:
            case Compare(path, op, value):
                return OPERATORS[op](column(path), pl.lit(value))
            case OneOf(path, values):
                return column(path).is_in(list(values))
            case IsNull(path):
                return column(path).is_null()
            case Remainder(path, divisor):
                return column(path) % divisor == 1
            case Not(term):
                return ~self._expression(term)
            case Both(left, right):
                return self._expression(left) & self._expression(right)
            case Either(left, right):
                return self._expression(left) | self._expression(right)


class DuckDB:
    """DuckDB. Its results of timestamps are in the connection's time zone."""

    def __init__(self) -> None:
        """A connection of its own."""
        import duckdb

        self._tables = 0

        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")

    def table(self, path: Any, **options: object) -> Any:
        from penstock.duckdb import relation

        return relation(self.connection, path, **options)

    def memory(self, rows: pa.Table) -> Any:
        """A table of DuckDB: it applies conditions to Arrow data with PyArrow."""
        self._tables += 1
        name = f"own{self._tables}"
        self.connection.from_arrow(rows).create(name)
        return self.connection.table(name)

    def run(self, frame: Any, query: Query) -> pa.Table:
        if query.condition is not None:
            frame = frame.filter(self.sql(query.condition))
        frame = frame.project(", ".join(map(_quoted, query.columns)))
        return self.all_rows(frame if query.limit is None else frame.limit(query.limit))

    def all_rows(self, frame: Any) -> pa.Table:
        return frame.to_arrow_table()

    def sql(self, condition: Condition) -> str:
        """As SQL. Literals have the column's type: otherwise DuckDB casts the column and pushes nothing."""
        match condition:
            case Compare(path, op, value):
                return f"({_path(path)} {op} {_sql_literal(path, value)})"
            case OneOf(path, values):
                return f"({_path(path)} IN ({', '.join(_sql_literal(path, value) for value in values)}))"
            case IsNull(path):
                return f"({_path(path)} IS NULL)"
            case Remainder(path, divisor):
                return f"({_path(path)} % {divisor} = 1)"
            case Not(term):
                return f"(NOT {self.sql(term)})"
            case Both(left, right):
                return f"({self.sql(left)} AND {self.sql(right)})"
            case Either(left, right):
                return f"({self.sql(left)} OR {self.sql(right)})"


class Daft:
    """Daft, by its native runner."""

    def table(self, path: Any, **options: object) -> Any:
        from penstock.daft import read

        return read(path, **options)

    def memory(self, rows: pa.Table) -> Any:
        import daft

        return daft.from_arrow(rows)

    def run(self, frame: Any, query: Query) -> pa.Table:
        if query.condition is not None:
            frame = frame.where(self._expression(query.condition))
        frame = frame.select(*query.columns)
        return self.all_rows(frame if query.limit is None else frame.limit(query.limit))

    def all_rows(self, frame: Any) -> pa.Table:
        return frame.to_arrow()

    def _expression(self, condition: Condition) -> Any:
        import daft

        def column(path: tuple[str, ...]) -> Any:
            return daft.col(path[0]) if len(path) == 1 else daft.col(path[0])[path[1]]

        match condition:
            case Compare(path, op, value):
                return OPERATORS[op](column(path), daft.lit(value))
            case OneOf(path, values):
                return column(path).is_in(list(values))
            case IsNull(path):
                return column(path).is_null()
            case Remainder(path, divisor):
                return column(path) % divisor == 1
            case Not(term):
                return ~self._expression(term)
            case Both(left, right):
                return self._expression(left) & self._expression(right)
            case Either(left, right):
                return self._expression(left) | self._expression(right)


class Ray:
    """Ray Data, in a cluster that the suite has started."""

    def table(self, path: Any, **options: object) -> Any:
        from penstock.ray import read

        return read(path, **options)

    def memory(self, rows: pa.Table) -> Any:
        import ray.data

        return ray.data.from_arrow(rows)

    def run(self, frame: Any, query: Query) -> pa.Table:
        if query.condition is not None:
            frame = frame.filter(expr=self.expression(query.condition))
        frame = frame.select_columns(list(query.columns))
        return self.all_rows(frame if query.limit is None else frame.limit(query.limit))

    def all_rows(self, frame: Any) -> pa.Table:
        import ray

        blocks = [block for block in ray.get(list(frame.to_arrow_refs())) if block.num_columns]
        return pa.concat_tables(blocks) if blocks else pa.table({})

    def expression(self, condition: Condition) -> Any:
        """The condition as an expression."""
        from ray.data.expressions import col, lit

        match condition:
            case Compare((name,), op, value):
                return OPERATORS[op](col(name), lit(value))
            case OneOf((name,), values):
                return col(name).is_in(list(values))
            case IsNull((name,)):
                return col(name).is_null()
            case Remainder((name,), divisor):
                return col(name) % divisor == 1
            case Not(term):
                return ~self.expression(term)
            case Both(left, right):
                return self.expression(left) & self.expression(right)
            case Either(left, right):
                return self.expression(left) | self.expression(right)
            case Compare(path, op, value):
                return OPERATORS[op](col(path[0]).struct[path[1]], lit(value))
            case IsNull(path):
                return col(path[0]).struct[path[1]].is_null()
        raise AssertionError(condition)


def engine_named(name: str) -> Engine:
    """The engine of this name."""
    match name:
        case "polars":
            return Polars()
        case "polars-streaming":
            return Polars("streaming")
        case "duckdb":
            return DuckDB()
        case "daft":
            return Daft()
    return Ray()


def _path(path: tuple[str, ...]) -> str:
    return ".".join(map(_quoted, path))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_literal(path: tuple[str, ...], value: Any) -> str:
    kind = TYPES.get(path[0])
    match value:
        case bool():
            return str(value).upper()
        case float():
            text = repr(value) if math.isfinite(value) else f"'{value}'"
            return f"{text}::{'FLOAT' if kind == pa.float32() else 'DOUBLE'}"
        case Decimal():
            return f"{value}::DECIMAL(10, 2)"
        case datetime.datetime():
            return f"TIMESTAMPTZ '{value.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case str():
            escaped = value.replace("'", "''")
            return f"'{escaped}'"
    return str(value)
