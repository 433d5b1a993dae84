"""A range of columns that were dropped later is read with the schema at the range's end."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.proto.errors import ConfigurationError

pytestmark = pytest.mark.golden

CASE = "A_evo_on_read_v9_h120"
RENAMED = "20261120214442766"
"""The completion time of the instant that renamed b to b2."""
BEFORE = "20261120214441471"


def ids(golden: Any, query: str, upto: str, column: str) -> dict[str, Any]:
    read = penstock.read(golden.table(CASE), query=query, after="earliest", upto=upto, columns=["id", column])
    return {row["id"]: row[column] for row in read.read_all().to_pylist()}


@pytest.mark.parametrize("query", ["incremental", "cdc"])
def test_column_that_was_renamed_later(golden: Any, query: str) -> None:
    old, new = ids(golden, query, BEFORE, "b"), ids(golden, query, BEFORE, "b2")
    assert old == new, "the same column, by its id"
    assert len(old) == 12
    assert None not in old.values()


@pytest.mark.parametrize("column", ["b", "nosuch"])
def test_column_missing_at_the_end_of_the_range_is_refused(golden: Any, column: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{column}"):
        ids(golden, "incremental", RENAMED, column)


@pytest.mark.parametrize("case", [f"D_evolved_{kind}_v{version}" for kind in ("cow", "mor") for version in (6, 9)])
@pytest.mark.parametrize("query", ["incremental", "cdc"])
def test_range_has_the_newest_schema_whatever_its_end(golden: Any, case: str, query: str) -> None:
    """As in Hudi 1.2.0: chained ranges have one schema. Time travel has the schema of its instant."""
    first, second = ((requested, completed) for requested, completed, _ in golden.case(case)["instants"][:2])
    table = golden.table(case)
    ranges = [
        penstock.read(table, query=query, **more).schema
        for more in ({"after": "earliest", "upto": first[1] or first[0]}, {"after": first[1] or first[0]})
    ]
    assert ranges[0] == ranges[1]
    newest = penstock.read(table).schema
    assert list(ranges[0])[: len(newest)] == list(newest)
    assert golden.expected(case, "inc_01").column_names == newest.names
    assert golden.expected(case, "inc_use_end").column_names == newest.names, "an option of Hudi that 1.2.0 ignores"
    as_of = penstock.read(table, as_of=second[0]).schema
    assert set(newest.names) - set(as_of.names) == {"w"} and as_of.field("v").type != newest.field("v").type
