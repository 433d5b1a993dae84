"""`Scan`: lazy, immutable, and the same rows by every way out."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.engine import arrow, read_tasks
from penstock.errors import ConfigurationError, SchemaMismatch
from tests.scripted_timeline import ScriptedTimeline

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def test_conditions_are_combined_whatever_the_order_of_calls(opened: penstock.Table, path: str) -> None:
    expected = rows(penstock.read(path, columns=["id"], where="(v > 3 OR id = 'k1') AND (v < 50)").read_all())
    first = opened.scan().where("v > 3 OR id = 'k1'").where("v < 50").select("id")
    other = opened.scan().where("v < 50 -- a comment").select("id", "v").select("id").where("v > 3 OR id = 'k1'")
    assert 0 < len(expected) < opened.read().read_all().num_rows
    assert rows(first.to_arrow()) == rows(other.to_arrow()) == expected


def test_conditions_have_every_form(opened: penstock.Table) -> None:
    forms: list[Any] = ["v > 3 AND v < 50", (pc.field("v") > 3) & (pc.field("v") < 50), [("v", ">", 3), ("v", "<", 50)]]
    expected, *others = [rows(opened.scan().where(form).to_arrow()) for form in forms]
    assert expected and others == [expected, expected]
    assert [rows(opened.read(where=form).read_all()) for form in forms] == [expected] * 3
    assert rows(opened.scan(where=forms[1]).to_arrow()) == expected


def test_limit_applies_after_all_conditions_and_the_least_counts(opened: penstock.Table) -> None:
    scan = opened.scan().limit(4).limit(7)
    assert scan.to_arrow().num_rows == 4
    last = max(row["v"] for row in opened.read(columns=["v"]).read_all().to_pylist())
    assert scan.where(f"v = {last}").to_arrow().num_rows == 1
    assert scan.limit(0).to_arrow().num_rows == 0
    assert scan.limit(0).to_arrow().schema == opened.schema


def test_methods_return_new_scans(opened: penstock.Table) -> None:
    scan = opened.scan()
    before = repr(scan)
    scan.select("id").where("v > 3").limit(1).as_of("2026-11-21")
    assert repr(scan) == before and scan.schema == opened.schema
    with pytest.raises(dataclasses.FrozenInstanceError):
        scan.max_rows = 3  # type: ignore[misc]


def test_nothing_is_planned_before_rows_are_requested(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []
    open_read = read_tasks.open_read

    def counted(table: str, *rest: Any) -> Any:
        planned.append(table)
        return open_read(table, *rest)

    monkeypatch.setattr(arrow, "open_read", counted)
    scan = penstock.open_table(path).scan().select("id").where("v > 3").limit(2)
    assert repr(scan) and scan.schema.names == ["id"]
    assert planned == []
    scan.to_arrow()
    assert planned == [path]


def test_every_way_out_has_the_same_rows(opened: penstock.Table) -> None:
    import polars  # late, as every engine: each process of a run collects all tests

    scan = opened.scan().select("id", "v").where("v > 3")
    expected = rows(scan.to_arrow())
    assert expected
    assert rows(pa.Table.from_batches(list(scan.to_batches()))) == expected
    assert sorted(scan.to_pandas().to_dict("records"), key=repr) == expected
    assert sorted(scan.to_polars().to_dicts(), key=repr) == expected
    assert rows(pa.table(scan)) == expected
    assert sorted(polars.DataFrame(scan).to_dicts(), key=repr) == expected
    relation = scan.to_duckdb()
    assert sorted((dict(zip(("id", "v"), row, strict=True)) for row in relation.fetchall()), key=repr) == expected


def test_relation_of_duckdb_belongs_to_the_given_connection_and_has_its_rows_each_time(opened: penstock.Table) -> None:
    import duckdb

    with duckdb.connect() as connection:
        relation = opened.scan().select("v").to_duckdb(connection)
        counts = [relation.aggregate("count(*), sum(v)").fetchall() for _ in range(2)]
        assert counts[0] == counts[1] == [(opened.read().read_all().num_rows, counts[0][0][1])]
        connection.register("r", relation.to_arrow_table())
        assert connection.sql("SELECT count(*), sum(v) FROM r").fetchall() == counts[0]


def test_arguments_of_pandas_reach_it(opened: penstock.Table) -> None:
    import pandas

    frame = opened.scan().select("v").to_pandas(types_mapper=pandas.ArrowDtype)
    assert isinstance(frame["v"].dtype, pandas.ArrowDtype)


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb"])
def test_missing_library_is_named(path: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    scan = penstock.open_table(path).scan().limit(1)
    with pytest.raises(ImportError, match=rf"to_{library} needs {library}: pip install 'penstock\[{library}\]'"):
        getattr(scan, f"to_{library}")()
    assert scan.to_arrow().num_rows == 1


def test_plan_of_a_scan_is_that_of_the_read(partitioned: str) -> None:
    table = penstock.open_table(partitioned)
    partition = table.plan().splits[0].partition.removeprefix("p=")
    scan = table.scan().where(f"p = '{partition}'").select("id")
    assert scan.plan().splits == table.plan(where=f"p = '{partition}'", columns=["id"]).splits
    assert scan.plan().schema.names == ["id"]
    assert 0 < len(scan.plan().splits) < len(table.plan().splits)


def test_scan_as_of_a_time_and_of_a_range(opened: penstock.Table, path: str) -> None:
    first = penstock.open_table(path).timeline()[0]
    assert rows(opened.scan().as_of(first.requested_time).to_arrow()) == rows(
        penstock.read(path, as_of=first.requested_time).read_all()
    )
    assert rows(opened.as_of(first.requested_time).scan().to_arrow()) == rows(
        penstock.read(path, as_of=first.requested_time).read_all()
    )
    options = {"query": "incremental", "after": str(first.order_key)}
    scan = opened.scan(**options).select("id", "v")
    assert rows(scan.to_arrow()) == rows(penstock.read(path, columns=["id", "v"], **options).read_all())
    assert "query=incremental" in repr(scan)


def test_scan_takes_the_options_of_a_read(opened: penstock.Table) -> None:
    scan = opened.scan(columns=["id", "v"], where="v > 3", limit=2).where("v < 50").select("v")
    table = scan.to_arrow()
    assert table.schema.names == ["v"] and table.num_rows == 2
    assert all(3 < row["v"] < 50 for row in table.to_pylist())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda scan: scan.select("idd"), "no column 'idd': did you mean id"),
        (lambda scan: scan.where("vv > 3"), "'vv'.*did you mean v"),
        (lambda scan: scan.where("v >"), "v >"),
        (lambda scan: scan.where("v = 1) OR (v > 0"), "v = 1"),
        (lambda scan: scan.where(3), "where is '3'"),
        (lambda scan: scan.where([("vv", "=", 3)]), "'vv'.*did you mean v"),
        (lambda scan: scan.select("id", "ID"), "twice"),
        (lambda scan: scan.select("id").select("v"), "no column 'v'"),
        (lambda scan: scan.select(), "select: got"),
        (lambda scan: scan.select(["id"]), "select: got"),
        (lambda scan: scan.limit(-1), "limit: got -1"),
        (lambda scan: scan.limit(True), "limit: got True"),
    ],
)
def test_wrong_input_is_refused_when_it_is_given(opened: penstock.Table, change: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        change(opened.scan())


def test_column_that_the_table_gains_can_be_selected(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    table = golden.copy("A_evo_add_column_v9_h120", tmp_path)
    timeline = ScriptedTimeline(table, tmp_path / "aside")
    first = timeline.data[0]
    timeline.remove_after(first)
    opened = penstock.open_table(table)
    scan = opened.scan()
    with pytest.raises(ConfigurationError, match="no column 'n1'"):
        scan.select("n1")
    timeline.give(*[path.name[:17] for path in timeline.aside.iterdir()])
    assert scan.select("n1").to_arrow().num_rows == opened.read().read_all().num_rows
    assert "n1" in repr(opened)


def test_table_without_commits_is_refused_when_it_is_read(tmp_path: pathlib.Path) -> None:
    meta = tmp_path / "t" / ".hoodie"
    (meta / "timeline").mkdir(parents=True)
    (meta / "hoodie.properties").write_text(
        "hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.type=MERGE_ON_READ\n"
    )
    table = penstock.open_table(tmp_path / "t")
    assert "columns not recorded" in repr(table) and table.timeline() == ()
    scan = table.scan().select("any").where("other = 1")
    for read in (scan.to_arrow, lambda: table.schema):
        with pytest.raises(SchemaMismatch):
            read()
