"""Random queries over three golden tables. Each is deterministic: a LIMIT follows an order of all its columns."""

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


class RandomQueries:
    """Makes queries from a seed."""

    def __init__(self, literals: Literals, seed: int) -> None:
        self._literals, self._random = literals, random.Random(seed)
        self._aliases = 0

    def query(self) -> str:
        """A query."""
        make = self._one_of([self._select, self._join, self._subquery, self._common, self._union])
        text: str = make()
        return text

    def _one_of(self, choices: Sequence[Any]) -> Any:
        return self._random.choice(choices)

    def _chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def _source(self, table: str = "") -> Source:
        table = table or self._one_of(list(self._literals))
        self._aliases += 1
        return Source(table, f"x{self._aliases}", self._literals[table])

    def _from(self, source: Source) -> str:
        name = self._one_of([source.table, source.table.upper(), f"`{source.table}`", f"{source.table} /* other */"])
        return f"{name} {self._one_of(['', 'AS '])}{source.alias}"

    def _name(self, source: Source, column: str) -> str:
        return self._one_of([column, f"{source.alias}.{column}", f"`{column}`"])

    def _atom(self, source: Source, *, qualified: bool = False) -> str:
        column = self._one_of(list(source.columns))
        name = f"{source.alias}.{column}" if qualified else self._name(source, column)
        values = source.columns[column]
        value, other = self._one_of(values), self._one_of(values)
        operator = self._one_of(["=", "<>", "<", "<=", ">", ">="])
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
            return str(self._one_of([name, f"{name} = {value}", f"NOT {name}"]))
        return str(self._one_of(atoms))

    def _condition(self, source: Source, depth: int = 2, *, qualified: bool = False) -> str:
        if depth == 0 or self._chance(30):
            return self._atom(source, qualified=qualified)
        one = self._condition(source, depth - 1, qualified=qualified)
        other = self._condition(source, depth - 1, qualified=qualified)
        return str(self._one_of([f"{one} AND {other}", f"({one} OR {other})", f"NOT ({one})", f"{one} -- {other}\n"]))

    def _output(self, source: Source) -> str:
        if self._chance(10):
            return "*"
        columns = self._random.sample(list(source.columns), min(len(source.columns), self._random.randint(1, 3)))
        return ", ".join(f"{source.alias}.{column} AS c{place}" for place, column in enumerate(columns))

    def _select(self) -> str:
        source = self._source()
        where = f" WHERE {self._condition(source)}" if self._chance(85) else ""
        column = self._one_of(list(source.columns))
        shapes = [
            f"SELECT {self._output(source)} FROM {self._from(source)}{where}",
            f"SELECT count(*) AS n, max({column}) AS m FROM {self._from(source)}{where}",
            f"SELECT {column}, count(*) AS n FROM {self._from(source)}{where} GROUP BY ALL HAVING count(*) > 1",
            f"SELECT DISTINCT {column} FROM {self._from(source)}{where} ORDER BY ALL LIMIT 3",
            f"SELECT '{column}' AS c, count(*) OVER (PARTITION BY {column}) AS n FROM {self._from(source)}{where}",
            f"SELECT x.c FROM (SELECT {column} AS c FROM {self._from(source)}{where}) x WHERE x.c IS NOT NULL",
        ]
        return str(self._one_of(shapes))

    def _join(self) -> str:
        left = self._source()
        right = self._source(left.table if self._chance(60) else "")
        kind = self._one_of(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        on = f"{left.alias}.id = {right.alias}.id"
        if self._chance(50):
            on += f" AND {self._condition(self._one_of([left, right]), 1, qualified=True)}"
        output = f"{left.alias}.id AS a" + (
            "" if kind.endswith(("SEMI JOIN", "ANTI JOIN")) else f", {right.alias}.p AS b"
        )
        where = self._condition(left, 1, qualified=True)
        if self._chance(50) and not kind.endswith(("SEMI JOIN", "ANTI JOIN")):
            where += f" AND {self._condition(right, 1, qualified=True)}"
        if self._chance(20):
            return f"SELECT {output} FROM {self._from(left)} {kind} {self._from(right)} USING (id) WHERE {where}"
        return f"SELECT {output} FROM {self._from(left)} {kind} {self._from(right)} ON {on} WHERE {where}"

    def _subquery(self) -> str:
        outer, inner = self._source(), self._source()
        condition = self._condition(inner, 1, qualified=self._chance(50))
        subquery = f"SELECT id FROM {self._from(inner)} WHERE {condition}"
        tests = [
            f"{outer.alias}.id IN ({subquery})",
            f"{outer.alias}.id NOT IN ({subquery})",
            f"EXISTS ({subquery} AND {inner.alias}.id = {outer.alias}.id)",
            f"NOT EXISTS ({subquery} AND {inner.alias}.id = {outer.alias}.id)",
            f"{outer.alias}.id = (SELECT max(id) FROM {self._from(inner)} WHERE {condition})",
        ]
        where = self._condition(outer, 1, qualified=True)
        return f"SELECT {self._output(outer)} FROM {self._from(outer)} WHERE {self._one_of(tests)} AND {where}"

    def _common(self) -> str:
        source = self._source()
        name = self._one_of([source.table, "y"])
        definition = f"SELECT id, p FROM {self._from(source)} WHERE {self._condition(source, 1)}"
        return (
            f"WITH {name} AS ({definition}) SELECT * FROM {name} UNION ALL "
            f"SELECT b.id, b.p FROM {name} a JOIN {name} b ON a.id = b.id"
        )

    def _union(self) -> str:
        one, other = self._source(), self._source()
        kind = self._one_of(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        return (
            f"SELECT id FROM {self._from(one)} WHERE {self._condition(one)} {kind} "
            f"SELECT id FROM {self._from(other)} WHERE {self._condition(other)} ORDER BY ALL LIMIT 7"
        )
