"""A golden table, opened by path and through a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.run import serve_enumerator

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

CASE = "A_evo_add_column_v9_h120"
"""A merge-on-read table whose first commit lacks the columns n1 and n2."""


@pytest.fixture
def path(golden: GoldenTables) -> str:
    """The path of the table."""
    return str(golden.table(CASE))


@pytest.fixture
def partitioned(golden: GoldenTables) -> str:
    """The path of a table of two partitions, with logs on some base files."""
    return str(golden.table("A_compaction_then_updates_v9_h120"))


@pytest.fixture(params=["path", "server"])
def opened(request: pytest.FixtureRequest, path: str) -> Iterator[penstock.Table]:
    """The table, opened by its path and by its name at a server."""
    if request.param == "path":
        yield penstock.open_table(path)
        return
    with serve_enumerator(EmbeddedEnumerator({"t": path}), "127.0.0.1:0") as server:
        yield penstock.open_table("t", server=server.address)
