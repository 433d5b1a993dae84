"""Random queries whose clauses make other columns, often with the names of the table's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.spark.query.query_parts import QueryParts, Source


class ReshapingQueries(QueryParts):
    """Makes them from a seed."""

    def reshaping(self) -> list[Callable[[], str]]:
        """The shapes."""
        return [
            self._pivot,
            self._unpivot,
            self._view,
            self._pipe,
            self._renamed,
            self._grouped,
            self._star,
            self._window,
        ]

    def _new_name(self, alike: Sequence[str]) -> str:
        """A name for a new column: that of a column of its type, or another one."""
        return str(self.one_of([*alike, *alike, "c1", "c2"]))

    def _pivot(self) -> str:
        source = self.source()
        alike = self.alike(source)
        value = self.one_of(alike)
        key = self.one_of([column for column in source.columns if column != value])
        one, other = self._new_name(alike), self._new_name(alike)
        keys = f"{self.literal(source, key)} AS {one}, {self.literal(source, key)} AS {other}"
        pivot = f"PIVOT (max({value}) FOR {key} IN ({keys}))"
        inner = f"(SELECT {value}, {key}, id FROM {self.table(source)} WHERE {self.condition(source, 1)})"
        others = [column for column in source.columns if column not in (one, other)]
        where = self.one_of(
            [
                f"{one} >= {self.literal(source, value)}",
                f"{one} < {self.literal(source, one if one in source.columns else value)}",
                f"{other} IS NOT NULL",
                self.atom(source, of=others),
            ]
        )
        start = self.one_of([source.table, f"{source.table} AS {source.alias}", inner])
        return f"SELECT {self.one_of(['*', one, f'{one}, {other}'])} FROM {start} {pivot} WHERE {where}"

    def _unpivot(self) -> str:
        source = self.source()
        columns = self.alike(source)[:3]
        texts = [column for column, values in source.columns.items() if values[0].startswith("'")]
        value, name = self._new_name(columns), self._new_name(texts)
        nulls = self.one_of(["", "INCLUDE NULLS"])
        unpivot = f"UNPIVOT {nulls} ({value} FOR {name} IN ({', '.join(columns)}))"
        where = self.one_of(
            [
                f"{value} > {self.literal(source, columns[0])}",
                f"{name} = '{columns[0]}'",
                self.atom(source, of=[column for column in source.columns if column not in (value, name)]),
            ]
        )
        return f"SELECT {self.one_of(['*', value, f'{name}, {value}'])} FROM {source.table} {unpivot} WHERE {where}"

    def _view(self) -> str:
        source = self.source()
        alike = self.alike(source)
        column, new = self.one_of(alike), self._new_name(alike)
        alias = self.one_of(["g", *list(source.columns)[:2]])
        of = self.one_of([f"array({column}, {self.literal(source, column)})", f"array({source.alias}.{column}, NULL)"])
        view = f"LATERAL VIEW {self.one_of(['', 'OUTER'])} explode({of}) {alias} AS {new}"
        where = self.one_of([f"{new} = {self.literal(source, column)}", f"{alias}.{new} IS NULL", self.atom(source)])
        more = self.condition(source, 1, qualified=True)
        return f"SELECT {source.alias}.id, {alias}.{new} FROM {self.table(source)} {view} WHERE {where} AND {more}"

    def _pipe(self) -> str:
        source = self.source()
        column, other = self.random.sample(self.alike(source), 2)
        atom = f"{column} >= {self.literal(source, column)}"
        steps = [
            f"WHERE {self.condition(source, 1)}",
            f"SELECT {column} AS {other}, id AS k |> WHERE {other} < {self.literal(source, column)}",
            f"SET {column} = {other} |> WHERE {atom}",
            f"EXTEND {column} AS c1 |> WHERE c1 = {self.literal(source, column)}",
            f"AGGREGATE count(*) AS {other} GROUP BY {column} |> WHERE {atom}",
            f"RENAME {column} AS c1 |> WHERE c1 IS NOT NULL",
            f"DROP {column}",
            f"AS y |> WHERE y.{atom}",
            f"WHERE {atom} |> SELECT {column} |> ORDER BY {column} |> LIMIT 3",
            f"WHERE {atom} |> SELECT {column} |> UNION ALL (SELECT {column} FROM {source.table})",
        ]
        chosen = " |> ".join(self.random.sample(steps, self.random.randint(1, 2)))
        return f"FROM {self.table(source)} |> {chosen}"

    def _renamed(self) -> str:
        """Aliases that are names of other columns, and of other tables."""
        source = self.source()
        column, other = self.random.sample(self.alike(source), 2)
        value = self.literal(source, column)
        odd = Source(source.table, column, source.columns)
        table = f"{source.table} {self.one_of(['', 'AS '])}{odd.alias}"
        where = self.condition(odd, 1, qualified=True)
        swapped = f"SELECT {column} AS {other}, {other} AS {column} FROM {self.table(source)}"
        shapes = [
            f"SELECT {column} AS {other}, id FROM {self.table(source)} WHERE {other} >= {value} ORDER BY {other}, id",
            f"SELECT {other} FROM ({swapped} WHERE {column} >= {value}) WHERE {other} <= {self.literal(source, other)}",
            f"WITH y AS ({swapped}) SELECT a.{column} FROM y a JOIN {source.table} b ON a.{column} = b.{column} "
            f"WHERE b.{other} <= {value}",
            f"SELECT {odd.alias}.{other} FROM {table} WHERE {where}",
            f"SELECT {odd.alias}.id, b.id FROM {table} LEFT JOIN {source.table} b ON {odd.alias}.id = b.id AND "
            f"b.{other} > {value} WHERE {where}",
            f"SELECT coalesce({column}) AS {column}, count(*) AS {other} FROM {self.table(source)} "
            f"WHERE {other} IS NOT NULL GROUP BY {column} HAVING count(*) > 1",
            f"SELECT * FROM {source.table} AS y({', '.join(reversed(source.columns))}) WHERE y.{column} IS NOT NULL",
            f"SELECT size(filter(array({column}), {other} -> {other} >= {value})) AS n FROM {self.table(source)} "
            f"WHERE exists(array({column}), {other} -> {other} > {value})",
        ]
        return str(self.one_of(shapes))

    def _grouped(self) -> str:
        source = self.source()
        column, other = self.random.sample(list(source.columns), 2)
        atom, where = self.atom(source), self.condition(source, 1)
        shapes = [
            f"SELECT count(*) FILTER (WHERE {atom}) AS n, count(*) AS m FROM {self.table(source)} WHERE {where}",
            f"SELECT {column}, {other}, count(*) AS n FROM {self.table(source)} WHERE {where} "
            f"GROUP BY {self.one_of(['ROLLUP', 'CUBE'])} ({column}, {other})",
            f"SELECT {column} IS NULL, count(*) AS n FROM {self.table(source)} WHERE {where} "
            f"GROUP BY GROUPING SETS (({column}), ()) HAVING {column} IS NULL",
            f"SELECT {column}, max({other}) AS {other} FROM {self.table(source)} WHERE {where} GROUP BY 1 "
            f"HAVING max({other}) >= {self.literal(source, other)}",
            f"SELECT count(DISTINCT {column}, {other}) AS n, min({other}) FROM {self.table(source)} WHERE {atom}",
        ]
        return str(self.one_of(shapes))

    def _star(self) -> str:
        source = self.source()
        column = self.one_of(list(source.columns))
        where = self.condition(source, 1)
        stars = [
            "*",
            f"{source.alias}.*",
            f"* EXCEPT ({column})",
            f"{column} AS c, *",
            f"struct({source.alias}.*).{column}",
            f"IDENTIFIER('{column}')",
            f"count(*) OVER () AS n, {source.alias}.{column}",
        ]
        return f"SELECT {self.one_of(stars)} FROM {self.table(source)} WHERE {where}"

    def _window(self) -> str:
        source = self.source()
        column, other = self.random.sample(list(source.columns), 2)
        numbers = [name for name, values in source.columns.items() if values[0].lstrip("-")[:1].isdigit()]
        new = self._new_name(numbers)
        over = f"OVER (PARTITION BY {column} ORDER BY {other}, id)"
        function = self.one_of([f"rank() {over}", f"count(*) {over}", f"count({other}) OVER (PARTITION BY {column})"])
        inner = f"SELECT id, {function} AS {new} FROM {self.table(source)} WHERE {self.condition(source, 1)}"
        outer = self.one_of([f"{new} = 1", f"{new} >= 2", f"y.id >= {self.literal(source, 'id')}"])
        return f"SELECT * FROM ({inner}) y WHERE {outer}"
