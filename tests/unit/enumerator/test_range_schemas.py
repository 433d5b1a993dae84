"""A range whose columns the table has no more is read with the schema that it had at the range's end."""

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
def test_a_column_that_was_renamed_since(golden: Any, query: str) -> None:
    old, new = ids(golden, query, BEFORE, "b"), ids(golden, query, BEFORE, "b2")
    assert old == new, "the same column, by its id"
    assert len(old) == 12
    assert None not in old.values()


@pytest.mark.parametrize("column", ["b", "nosuch"])
def test_a_column_that_the_end_does_not_have_either(golden: Any, column: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{column}"):
        ids(golden, "incremental", RENAMED, column)
