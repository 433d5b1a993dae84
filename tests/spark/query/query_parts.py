"""Parts of random queries over golden tables: sources, names, conditions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Literals = dict[str, dict[str, list[str]]]
"""Table -> column -> literals of the column's type, as SQL."""


def literals_of(rows: pa.Table) -> dict[str, list[str]]:
    """Some literals for each plain column: values of the table, and values between and beyond them."""
    result = {}
    for field in rows.schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            continue
        values = sorted({value for value in rows[field.name].to_pylist() if value is not None}, key=str)
        some = [*values[:: max(1, len(values) // 4)], *values[-1:]]
        match str(field.type):
            case "string":
                result[field.name] = [
                    f"'{value}'" for value in some if value.isprintable() and not set(value) & set("'\\")
                ] + ["'m'", "''"]
            case "bool":
                result[field.name] = ["true", "false"]
            case "date32[day]":
                result[field.name] = [f"DATE '{value}'" for value in some] + ["'2000-01-01'"]
            case "timestamp[us, tz=UTC]":
                result[field.name] = [f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'" for value in some] + ["'2011-01-01'"]
            case "timestamp[us]":
                result[field.name] = [f"TIMESTAMP_NTZ '{value:%Y-%m-%d %H:%M:%S.%f}'" for value in some]
            case "int32" | "int64" | "float" | "double":
                result[field.name] = [str(value) for value in some] + ["0", "-1", "1.5"]
            case decimal if decimal.startswith("decimal"):
                result[field.name] = [f"{value:f}" for value in some] + ["0", "1.5"]
    return result


@dataclass(frozen=True)
class Source:
    """A table in a FROM clause."""

    table: str
    alias: str
    columns: dict[str, list[str]]


class QueryParts:
    """Makes parts of queries from a seed."""

    def __init__(self, literals: Literals, seed: int) -> None:
        self.literals, self.random = literals, random.Random(seed)
        self._aliases = 0

    def one_of(self, choices: Sequence[Any]) -> Any:
        """One of the choices."""
        return self.random.choice(choices)

    def chance(self, percent: int) -> bool:
        """True in this percentage of the calls."""
        return self.random.randrange(100) < percent

    def source(self, table: str = "") -> Source:
        """An occurrence of a table, of `table` if given."""
        table = table or self.one_of(list(self.literals))
        self._aliases += 1
        return Source(table, f"x{self._aliases}", self.literals[table])

    def table(self, source: Source) -> str:
        """The occurrence in a FROM clause."""
        name = self.one_of([source.table, source.table.upper(), f"`{source.table}`", f"{source.table} /* other */"])
        name = f"({name})" if self.chance(10) else name
        return f"{name} {self.one_of(['', 'AS '])}{source.alias}"

    def name(self, source: Source, column: str) -> str:
        """The name of a column, as a query may write it."""
        return self.one_of([column, f"{source.alias}.{column}", f"`{column}`"])

    def atom(self, source: Source, *, qualified: bool = False, of: Sequence[str] = ()) -> str:
        """A condition on one column, of `of` if given, without AND and OR."""
        column = self.one_of(list(of or source.columns))
        name = f"{source.alias}.{column}" if qualified else self.name(source, column)
        values = source.columns[column]
        value, other = self.one_of(values), self.one_of(values)
        operator = self.one_of(["=", "<>", "<", "<=", ">", ">="])
        atoms = [
            f"{name} {operator} {value}",
            f"{value} {operator} {name}",
            f"{name} IN ({value}, {other})",
            f"{name} NOT IN ({value}, {other})",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} BETWEEN {value} AND {other}",
            f"{name} <=> {value}",
            f"coalesce({name} = {value}, true)",
            f"CASE WHEN {name} > {value} THEN true END",
        ]
        if value.startswith("'") and len(value) > 2 and column not in ("da", "tz", "d", "et"):
            text = value[1:-1]
            atoms += [
                f"{name} LIKE '{text[:2]}%'",
                f"{name} NOT LIKE '{text[:1]}%'",
                f"{name} LIKE '%{text[-1:]}%'",
                f"{name} NOT LIKE '_{text[1:]}'",
                f"upper({name}) = {value}",
            ]
        if values == ["true", "false"]:
            return str(self.one_of([name, f"{name} = {value}", f"NOT {name}"]))
        return str(self.one_of(atoms))

    def condition(self, source: Source, depth: int = 2, *, qualified: bool = False) -> str:
        """A condition."""
        if depth == 0 or self.chance(30):
            return self.atom(source, qualified=qualified)
        one = self.condition(source, depth - 1, qualified=qualified)
        other = self.condition(source, depth - 1, qualified=qualified)
        return str(self.one_of([f"{one} AND {other}", f"({one} OR {other})", f"NOT ({one})", f"{one} -- {other}\n"]))

    def output(self, source: Source) -> str:
        """The columns of a SELECT."""
        if self.chance(10):
            return "*"
        columns = self.random.sample(list(source.columns), min(len(source.columns), self.random.randint(1, 3)))
        return ", ".join(f"{source.alias}.{column} AS c{place}" for place, column in enumerate(columns))

    def literal(self, source: Source, column: str) -> str:
        """A literal of the column's type."""
        return str(self.one_of(source.columns[column]))

    def alike(self, source: Source) -> list[str]:
        """Two or more columns whose literals have the same form."""
        forms: dict[str, list[str]] = {}
        for column, values in source.columns.items():
            forms.setdefault(_form(values[0]), []).append(column)
        return list(self.one_of([columns for columns in forms.values() if len(columns) > 1]))


def _form(literal: str) -> str:
    return literal.partition("'")[0] if "'" in literal else str(literal.isalpha())
