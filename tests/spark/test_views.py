"""`penstock.spark.create_views`: all tables of a folder or of a server, and those that fail."""

from __future__ import annotations

import pathlib
import shutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.enumerator.server.run import serve
from penstock.spark import create_views

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
GOOD = ("A_fuzz_event_long_s1_v9_h120", "B_v6_inc_mor")


@pytest.fixture
def lake(golden: Any, tmp_path: pathlib.Path) -> pathlib.Path:
    """Two tables, one table without its properties, and a folder that is no table."""
    for case in GOOD:
        golden.copy(case, tmp_path)
    shutil.copytree(tmp_path / GOOD[0], tmp_path / "bad-table")
    (tmp_path / "bad-table" / ".hoodie" / "hoodie.properties").unlink()
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_every_table_of_a_folder_becomes_a_view_and_a_bad_one_harms_none(
    session: SparkSession, lake: pathlib.Path, golden: Any, rows_of: RowsOf, caplog: pytest.LogCaptureFixture
) -> None:
    views = create_views(session, lake)
    assert dict(views.created) == {case: str(lake / case) for case in GOOD}
    assert views.failed.keys() == {"bad-table"}
    assert "hoodie.properties" in views.failed["bad-table"]
    assert "Traceback" not in views.failed["bad-table"]
    assert "table bad-table has no view" in caplog.text
    for view, case in zip(views.created, GOOD, strict=True):
        assert rows_of(session.sql(f"SELECT * FROM {view}")) == rows_of(golden.expected(case, "snapshot"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("session", ["classic"], indirect=True)
def test_name_in_use_stays_as_it_is(session: SparkSession, lake: pathlib.Path) -> None:
    mine, table = GOOD
    session.range(3).createOrReplaceTempView(mine)
    session.sql(f"CREATE TABLE {table} USING parquet AS SELECT 1 AS a")
    views = create_views(session, lake)
    assert views.created == {}
    assert "a temporary view" in views.failed[mine]
    assert "the current database has a table or view" in views.failed[table]
    assert (session.table(mine).count(), session.table(table).count()) == (3, 1)

    again = create_views(session, lake, replace=True, columns=["_hoodie_record_key"])
    assert again.created.keys() == {mine}  # replaces a view, hides no table
    assert session.table(mine).columns == ["_hoodie_record_key"]
    prefixed = create_views(session, lake, prefix="lake_", names={table: "other"})
    assert prefixed.created.keys() == {f"lake_{mine}", "other"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("session", ["classic"], indirect=True)
def test_every_table_of_a_server_becomes_a_view(
    session: SparkSession, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    tables = {"sales.orders": str(golden.table(GOOD[0])), "gone": str(tmp_path / "gone")}
    with serve(tables, "127.0.0.1:0") as server:
        views = create_views(session, server.address, where="id > 'id-020'")
        assert dict(views.created) == {"sales_orders": "sales.orders"}
        assert views.failed.keys() == {"gone"}
        expected = [key for key in golden.expected(GOOD[0], "snapshot")["id"].to_pylist() if key > "id-020"]
        assert Counter(row.id for row in session.table("sales_orders").collect()) == Counter(expected)
