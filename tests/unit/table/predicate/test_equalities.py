"""The values to which a filter restricts a column, also against rows that match."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from penstock.reader.split.filter import evaluate
from penstock.table.predicate.equalities import equal_values
from penstock.table.predicate.parse import parse_predicate

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("day", pa.date32()),
        ("s", pa.struct([("id", pa.string())])),
    ]
)


@pytest.mark.parametrize(
    ("where", "column", "values"),
    [
        ("id = 'a'", "id", {"a"}),
        ("'a' = id", "id", {"a"}),
        ("id IN ('a', 'b')", "id", {"a", "b"}),
        ("id = 'a' OR id = 'b'", "id", {"a", "b"}),
        ("id IN ('a', 'b') AND id IN ('b', 'c')", "id", {"b"}),
        ("id = 'a' AND x > 1", "id", {"a"}),
        ("id = 'a' AND id = 'b'", "id", set()),
        ("n = 5", "n", {5}),
        ("n = 5.0", "n", {5}),
        ("n IN (5, -6)", "n", {5, -6}),
        ("n = 5.5", "n", set()),
        ("id = 'a' OR x > 1", "id", None),
        ("id = 'a' OR n = 5", "id", None),
        ("NOT id = 'a'", "id", None),
        ("NOT id != 'a'", "id", None),
        ("id != 'a'", "id", None),
        ("id LIKE 'a%'", "id", None),
        ("id IS NULL", "id", None),
        ("id >= 'a' AND id <= 'a'", "id", None),
        ("lower(id) = 'a'", "id", None),
        ("s.id = 'a'", "id", None),
        ("s.id = 'a'", "s", None),
        ("x = 5", "x", None),
        ("day = DATE '2026-01-01'", "day", None),
        ("n = 5", "id", None),
    ],
)
def test_equal_values(where: str, column: str, values: set[str | int] | None) -> None:
    assert equal_values(parse_predicate(where, SCHEMA), column) == values


def test_each_row_that_matches_has_one_of_the_values() -> None:
    luck = random.Random(27)
    rows = [
        {"id": luck.choice(["a", "b", "c", None]), "n": luck.choice([1, 2, 3, None]), "x": luck.random()}
        for _ in range(60)
    ]
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    leaves = ["id = 'a'", "id IN ('b', 'c')", "id != 'c'", "n = 2", "n IN (1, 3)", "n = 1.5", "x > 0.5", "id IS NULL"]
    restricted = 0
    for _ in range(500):
        where = luck.choice(leaves)
        for _ in range(luck.randrange(4)):
            joined = f"({where}) {luck.choice(['AND', 'OR'])} {luck.choice(leaves)}"
            where = luck.choice([joined, joined, f"NOT ({joined})"])
        predicate = parse_predicate(where, SCHEMA)
        matches = evaluate(predicate, batch).to_pylist()
        for column in ("id", "n"):
            values = equal_values(predicate, column)
            if values is not None:
                restricted += 1
                found = {row[column] for row, match in zip(rows, matches, strict=True) if match}
                assert found <= values, where
    assert restricted > 100
