"""`make long`: many random queries, each with the rows of plain Spark.

PENSTOCK_SEED chooses the queries, and PENSTOCK_QUERIES their number. The test writes a summary to the file
PENSTOCK_NOTES, which `tools/run_long.py` adds to its record.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial

import pytest

from tests.long_record import add_to_record
from tests.spark.query.both_tables import SESSIONS, Tables, answered
from tests.spark.query.random_queries import RandomQueries

pytestmark = [pytest.mark.long, pytest.mark.timeout(6 * 3600)]

QUERIES = int(os.environ.get("PENSTOCK_QUERIES", "2000"))
FIRST = int(os.environ.get("PENSTOCK_SEED", "1")) << 24
READERS = ({"nativeParquet": "off"}, {})
"""Read options: every file by Penstock, and base files without logs by Spark."""


def report(text: str) -> None:
    """Prints a line, also in the record of the run."""
    print(text, flush=True)
    add_to_record(text)


def test_many_random_queries(tables: Tables) -> None:
    problems = []
    outcomes: Counter[str] = Counter()
    for number in range(QUERIES):
        seed = FIRST + number
        if number % 50 == 0:
            tables.set(SESSIONS[number // 50 % len(SESSIONS)])
        query = RandomQueries(tables.literals, seed).query()
        expected, _ = answered(tables.plain.sql, query)
        actual, _ = answered(partial(tables.sql, options=READERS[number % 2]), query)
        outcomes[expected if isinstance(expected, str) else "rows" if expected else "no rows"] += 1
        if actual != expected:
            problems.append(f"seed {seed}: got {str(actual)[:300]}, expected {str(expected)[:300]}: {query}")
            report(problems[-1])
    report(f"random queries: {QUERIES} from seed {FIRST}, {dict(outcomes.most_common())}, {len(problems)} problems")
    assert not problems, "\n\n".join(problems[:5])
    assert outcomes["rows"] > QUERIES / 3
