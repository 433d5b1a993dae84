"""Random queries with several occurrences of tables: nested, correlated, combined."""

from __future__ import annotations

from collections.abc import Callable

from tests.spark.query.query_parts import QueryParts, Source


class NestedQueries(QueryParts):
    """Makes them from a seed."""

    def nested(self) -> list[Callable[[], str]]:
        """The shapes."""
        return [self._correlated, self._combined, self._joins, self._shadowed, self._limited]

    def _common_column(self, *sources: Source) -> str:
        common = set.intersection(*(set(source.columns) for source in sources))
        return str(self.one_of(sorted(common - {"d", "_hoodie_is_deleted"})))

    def _correlated(self) -> str:
        outer, inner = self.source(), self.source()
        column = self._common_column(outer, inner)
        tie = self.one_of([f"{inner.alias}.{column} = {outer.alias}.{column}", f"{column} = {outer.alias}.{column}"])
        condition = self.condition(inner, 1, qualified=self.chance(50))
        where = self.condition(outer, 1, qualified=self.chance(70))
        count = f"SELECT count(*) FROM {self.table(inner)} WHERE {tie} AND ({condition})"
        highest = f"SELECT max({inner.alias}.id) AS m FROM {self.table(inner)} WHERE {tie} AND ({condition})"
        third = self.source()
        deep = (
            f"SELECT 1 FROM {self.table(inner)} WHERE {tie} AND {inner.alias}.id IN "
            f"(SELECT {third.alias}.id FROM {self.table(third)} WHERE {self.condition(third, 1, qualified=True)})"
        )
        shapes = [
            f"SELECT {outer.alias}.id, ({count}) AS n FROM {self.table(outer)} WHERE {where}",
            f"SELECT {outer.alias}.id FROM {self.table(outer)} WHERE ({count}) > 1 AND {where}",
            f"SELECT {outer.alias}.id FROM {self.table(outer)} WHERE NOT EXISTS ({deep}) OR {where}",
            f"SELECT {outer.alias}.id, y.m FROM {self.table(outer)}, LATERAL ({highest}) y WHERE {where}",
            f"SELECT {outer.alias}.id, y.m FROM {self.table(outer)} LEFT JOIN LATERAL ({highest}) y WHERE {where}",
            f"SELECT CASE WHEN EXISTS ({deep}) THEN 1 ELSE 2 END AS c FROM {self.table(outer)} WHERE {where}",
        ]
        return str(self.one_of(shapes))

    def _side(self) -> str:
        source = self.source()
        columns = self.one_of(["id, p", "p AS id, id AS p", "id, 'a' AS p", "DISTINCT id, p"])
        return f"SELECT {columns} FROM {self.table(source)} WHERE {self.condition(source, 1)}"

    def _combined(self) -> str:
        """Sets of sets, with a condition on the whole."""
        kinds = ["UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL", "MINUS"]
        one, other = self.one_of(kinds), self.one_of(kinds)
        sets = self.one_of(
            [
                f"({self._side()} {one} {self._side()}) {other} {self._side()}",
                f"{self._side()} {one} ({self._side()} {other} {self._side()})",
                f"{self._side()} {one} TABLE y",
            ]
        )
        where = self.one_of(["p = 'a'", "id > 'id-014'", "p <> id", "true"])
        return f"WITH y AS ({self._side()}) SELECT id, count(*) AS p FROM ({sets}) WHERE {where} GROUP BY id"

    def _joins(self) -> str:
        """Three sources, comma joins, NATURAL, USING and joins in parentheses."""
        a, b, c = self.source(), self.source(), self.source()
        column = self._common_column(a, b, c)
        kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "LEFT SEMI JOIN"]
        one, other = self.one_of(kinds[:4]), self.one_of(kinds[:4])
        where = " AND ".join(self.condition(source, 1, qualified=True) for source in self.random.sample([a, b, c], 2))
        on = f"ON {a.alias}.{column} = {b.alias}.{column} AND {self.condition(b, 1, qualified=True)}"
        last = f"{c.alias}.{column} = {self.one_of([a, b]).alias}.{column}"
        mixed = self.one_of([f"{a.alias}.id", "count(*) AS n", f"{a.alias}.{column}, {c.alias}.id"])
        tables = [self.table(source) for source in (a, b, c)]
        shapes = [
            f"SELECT {mixed} FROM {tables[0]} {one} {tables[1]} {on} {other} {tables[2]} ON {last} WHERE {where}",
            f"SELECT {mixed} FROM {tables[0]}, {tables[1]}, {tables[2]} WHERE {a.alias}.id = {b.alias}.id AND {last} "
            f"AND {where}",
            f"SELECT {mixed} FROM {tables[2]} {other} ({tables[0]} {one} {tables[1]} {on}) ON {last} WHERE {where}",
            f"SELECT {a.alias}.id FROM {tables[0]} {one} {tables[1]} USING (id, p) WHERE p >= 'a' AND "
            f"{self.condition(a, 1, qualified=True)}",
            f"SELECT id, p FROM {a.table} NATURAL {one} {a.table} AS y WHERE {a.table}.p >= 'a'",
            f"SELECT {a.alias}.id FROM {tables[0]} LEFT SEMI JOIN {tables[1]} {on} LEFT ANTI JOIN {tables[2]} "
            f"ON {c.alias}.{column} = {a.alias}.{column} WHERE {self.condition(a, 1, qualified=True)}",
            f"SELECT y.c, {a.alias}.id FROM {tables[0]} {one} (VALUES ('a', 1), ('b', 2)) AS y(p, c) ON "
            f"{a.alias}.p = y.p WHERE {self.condition(a, 1, qualified=True)}",
        ]
        return str(self.one_of(shapes))

    def _shadowed(self) -> str:
        """Common table expressions with the names of tables, also inside of others."""
        source, other = self.source(), self.source()
        condition = self.condition(source, 1)
        named = f"{other.table} AS (SELECT id, p FROM {self.table(source)} WHERE {condition})"
        shapes = [
            f"WITH {named} SELECT * FROM {other.table} WHERE p >= 'b'",
            f"WITH y AS (WITH {named} SELECT id FROM {other.table}) SELECT y.id, {other.alias}.p FROM y JOIN "
            f"{self.table(other)} ON y.id = {other.alias}.id WHERE {other.alias}.p = 'a'",
            f"SELECT id FROM {self.table(other)} WHERE id IN (WITH {named} SELECT id FROM {other.table} WHERE p < 'b')",
            f"WITH RECURSIVE r AS (SELECT id, 1 AS n FROM {self.table(source)} WHERE {condition} UNION ALL "
            "SELECT id, n + 1 FROM r WHERE n < 3) SELECT n, count(*) AS m FROM r GROUP BY n",
            f"WITH {named}, y AS (SELECT * FROM {other.table}) SELECT count(*) AS n FROM y, {other.table}",
        ]
        return str(self.one_of(shapes))

    def _limited(self) -> str:
        """A condition around a LIMIT, an OFFSET or a DISTINCT."""
        source = self.source()
        columns = self.random.sample(list(source.columns), 2)
        inner = f"SELECT {', '.join(columns)} FROM {self.table(source)} WHERE {self.condition(source, 1)} ORDER BY ALL"
        value = self.literal(source, columns[0])
        shapes = [
            f"SELECT * FROM ({inner} LIMIT 4) WHERE {columns[0]} >= {value}",
            f"SELECT * FROM ({inner} LIMIT 4 OFFSET 2) y WHERE y.{columns[0]} <> {value}",
            f"SELECT count(*) AS n FROM {source.table} WHERE id IN (SELECT id FROM {source.table} ORDER BY id LIMIT 3) "
            f"AND {columns[0]} >= {value}",
        ]
        return str(self.one_of(shapes))
