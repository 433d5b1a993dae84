"""Occurrences of a table in one query read one state of it, although commits complete while they are planned."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from penstock import spark as penstock_spark
from penstock.engine.spark.query import sql as sql_module
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.run import serve
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import Plan
from tests.spark.slices.column_types import META
from tests.spark.slices.crafted_table import CraftedTable

ROWS = 20
QUERY = "SELECT a.id, b.id FROM t a FULL JOIN t b ON a.id = b.id AND a.n >= 0 AND b.m >= 0"
"""Its scans of t read different columns. Each row of one has its row of the other, unless they read two states."""


class BusyTable:
    """A table to which a commit of ROWS rows is added after each plan of it in this process."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plans = 0
        self._commits = 0
        self._crafted = CraftedTable(folder / "t", {"id": "string", "n": "long", "m": "long"})
        self.path = str(self._crafted.path)
        self._commit()
        planned = EmbeddedEnumerator.plan

        def plan(enumerator: EmbeddedEnumerator, request: PlanRequest) -> Plan:
            result = planned(enumerator, request)
            self.plans += 1
            self._commit()
            return result

        monkeypatch.setattr(EmbeddedEnumerator, "plan", plan)

    def _commit(self) -> None:
        self._commits += 1
        ids = [f"k{self._commits}-{place}" for place in range(ROWS)]
        meta = {name: ["m"] * ROWS for name in META}
        self._crafted.commit(("", pa.table({**meta, "id": ids, "n": list(range(ROWS)), "m": [0] * ROWS})))


@pytest.fixture
def busy(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> BusyTable:
    """The table."""
    return BusyTable(tmp_path, monkeypatch)


def unmatched(rows: list[Row]) -> list[tuple[object, ...]]:
    """The rows in which one side of the join is null."""
    return [tuple(row) for row in rows if None in tuple(row)]


@pytest.mark.parametrize(("deployment", "native"), [("embedded", "on"), ("server", "on"), ("server", "off")])
def test_occurrences_that_need_different_columns(
    spark: SparkSession, busy: BusyTable, deployment: str, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan for each occurrence, and one for both because the first two show two states."""
    with serve({"t": busy.path}, "127.0.0.1:0") as running:
        server = running.address if deployment == "server" else None
        tables = {"t": "t" if server else busy.path}
        options = {"nativeParquet": native}
        rows = penstock_spark.sql(spark, QUERY, tables, server=server, options=options).collect()
        assert unmatched(rows) == []
        assert (len(rows), busy.plans) == (3 * ROWS, 3)
        monkeypatch.setattr(sql_module._Running, "_of_one_state", lambda _, whole, narrow: narrow)
        rows = penstock_spark.sql(spark, QUERY, tables, server=server, options=options).collect()
        assert len(unmatched(rows)) == ROWS, "without it the occurrences read two states"


def test_occurrences_that_need_different_rows(spark: SparkSession, busy: BusyTable) -> None:
    """The scan that they share has the rows of all of them."""
    query = (
        "SELECT (SELECT count(*) FROM t WHERE n < 3), (SELECT sum(n) FROM t WHERE n = 7), count(*) FROM t WHERE n > 17"
    )
    row = penstock_spark.sql(spark, query, {"t": busy.path}).collect()[0]
    assert busy.plans == 4
    assert tuple(row) == (3 * 4, 7 * 4, 2 * 4)


def test_scan_that_has_the_columns_of_all(spark: SparkSession, busy: BusyTable) -> None:
    """It is the first plan: no other one is made."""
    query = "SELECT a.id, b.id FROM t a FULL JOIN t b ON a.id = b.id AND a.n >= 0"
    rows = penstock_spark.sql(spark, query, {"t": busy.path}).collect()
    assert unmatched(rows) == []
    assert (len(rows), busy.plans) == (ROWS, 2)
