"""Random queries over three golden tables. Each is deterministic: a LIMIT follows an order of all its columns."""

from __future__ import annotations

from tests.spark.query.nested_queries import NestedQueries
from tests.spark.query.reshaping_queries import ReshapingQueries


class RandomQueries(ReshapingQueries, NestedQueries):
    """Makes queries from a seed."""

    def query(self) -> str:
        """A query."""
        plain = [self._select, self._join, self._subquery, self._common, self._union]
        shape = self.one_of([*plain, *plain, *self.reshaping(), *self.nested()])
        return str(shape())

    def _select(self) -> str:
        source = self.source()
        where = f" WHERE {self.condition(source)}" if self.chance(85) else ""
        column = self.one_of(list(source.columns))
        shapes = [
            f"SELECT {self.output(source)} FROM {self.table(source)}{where}",
            f"SELECT count(*) AS n, max({column}) AS m FROM {self.table(source)}{where}",
            f"SELECT {column}, count(*) AS n FROM {self.table(source)}{where} GROUP BY ALL HAVING count(*) > 1",
            f"SELECT DISTINCT {column} FROM {self.table(source)}{where} ORDER BY ALL LIMIT 3",
            f"SELECT '{column}' AS c, count(*) OVER (PARTITION BY {column}) AS n FROM {self.table(source)}{where}",
            f"SELECT x.c FROM (SELECT {column} AS c FROM {self.table(source)}{where}) x WHERE x.c IS NOT NULL",
        ]
        return str(self.one_of(shapes))

    def _join(self) -> str:
        left = self.source()
        right = self.source(left.table if self.chance(60) else "")
        kind = self.one_of(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        on = f"{left.alias}.id = {right.alias}.id"
        if self.chance(50):
            on += f" AND {self.condition(self.one_of([left, right]), 1, qualified=True)}"
        output = f"{left.alias}.id AS a" + (
            "" if kind.endswith(("SEMI JOIN", "ANTI JOIN")) else f", {right.alias}.p AS b"
        )
        where = self.condition(left, 1, qualified=True)
        if self.chance(50) and not kind.endswith(("SEMI JOIN", "ANTI JOIN")):
            where += f" AND {self.condition(right, 1, qualified=True)}"
        if self.chance(20):
            return f"SELECT {output} FROM {self.table(left)} {kind} {self.table(right)} USING (id) WHERE {where}"
        return f"SELECT {output} FROM {self.table(left)} {kind} {self.table(right)} ON {on} WHERE {where}"

    def _subquery(self) -> str:
        outer, inner = self.source(), self.source()
        condition = self.condition(inner, 1, qualified=self.chance(50))
        subquery = f"SELECT id FROM {self.table(inner)} WHERE {condition}"
        tests = [
            f"{outer.alias}.id IN ({subquery})",
            f"{outer.alias}.id NOT IN ({subquery})",
            f"EXISTS ({subquery} AND {inner.alias}.id = {outer.alias}.id)",
            f"NOT EXISTS ({subquery} AND {inner.alias}.id = {outer.alias}.id)",
            f"{outer.alias}.id = (SELECT max(id) FROM {self.table(inner)} WHERE {condition})",
        ]
        where = self.condition(outer, 1, qualified=True)
        return f"SELECT {self.output(outer)} FROM {self.table(outer)} WHERE {self.one_of(tests)} AND {where}"

    def _common(self) -> str:
        source = self.source()
        name = self.one_of([source.table, "y"])
        definition = f"SELECT id, p FROM {self.table(source)} WHERE {self.condition(source, 1)}"
        return (
            f"WITH {name} AS ({definition}) SELECT * FROM {name} UNION ALL "
            f"SELECT b.id, b.p FROM {name} a JOIN {name} b ON a.id = b.id"
        )

    def _union(self) -> str:
        one, other = self.source(), self.source()
        kind = self.one_of(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        return (
            f"SELECT id FROM {self.table(one)} WHERE {self.condition(one)} {kind} "
            f"SELECT id FROM {self.table(other)} WHERE {self.condition(other)} ORDER BY ALL LIMIT 7"
        )
