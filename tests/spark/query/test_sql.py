"""`penstock.spark.sql`: the rows of plain Spark over the rows that Hudi returned, from scans that read less."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock import spark as penstock_spark
from penstock.engine.spark.query import conditions
from penstock.errors import ConfigurationError
from tests.spark.query.both_tables import CASES, SESSIONS, Tables, answered, rows
from tests.spark.query.random_queries import RandomQueries


@cache
def most_bytes(tables: Tables) -> int:
    """The bytes that a scan of the largest table sends to Spark."""
    return max(bytes_of(tables, [f"SELECT * FROM {name}" for name in CASES]))


def sent(df: DataFrame) -> Iterator[int]:
    """For each scan, the bytes that Python has sent to Spark up to its end: Spark 4.3 counts them over all queries."""

    def counts(plan: Any) -> Iterator[int]:
        if plan.getClass().getSimpleName() == "BatchScanExec":
            yield int(plan.metrics().apply("pythonDataReceived").value())
        for place in range(plan.children().size()):
            yield from counts(plan.children().apply(place))

    plan = df._jdf.queryExecution().executedPlan()  # type: ignore[operator]
    subqueries = plan.subqueriesAll()
    for each in [plan, *(subqueries.apply(place) for place in range(subqueries.size()))]:
        yield from counts(each)


def received(df: DataFrame) -> int:
    """The bytes that Python has sent to Spark up to the last action of `df`."""
    return max(sent(df))


def bytes_of(tables: Tables, queries: Iterable[str]) -> list[int]:
    """For each query the bytes that its scans send to Spark."""
    nothing = tables.sql("SELECT id FROM orders WHERE v < 0")
    assert nothing.collect() == []
    counts = [received(nothing)]
    for query in queries:
        df = tables.sql(query)
        df.collect()
        counts.append(received(df))
    return [count - before for before, count in itertools.pairwise(counts)]


FIXED = [
    "SELECT id, v FROM orders WHERE v > 2000 AND p = 'b'",
    "SELECT * FROM types WHERE tz >= TIMESTAMP '2008-02-17 13:38:34.965180' AND da < '2022-06-05'",
    "WITH orders AS (SELECT id, ts FROM orders WHERE v > 2000) SELECT o.id, i.name FROM orders o LEFT JOIN items i "
    "ON o.ts = i.ts AND i.v > 60 WHERE i.v IS NULL",
    "SELECT a.id FROM orders a FULL JOIN orders b ON a.id = b.id AND a.v > 5000 WHERE a.v IS NULL OR a.v > 2000",
    "FROM orders |> WHERE v > 2000 |> SELECT id",
    "WITH orders AS (SELECT * FROM orders WHERE p = 'b') FROM orders |> WHERE v > 2000 |> SELECT id",
    "TABLE items",
    "SELECT x.* FROM (orders) x WHERE x.v > 2000",
    "SELECT id, v FROM orders PIVOT (count(v) FOR p IN ('a' AS v)) WHERE v = 1",
    "SELECT id, v, name FROM orders UNPIVOT (v FOR name IN (v AS b, ts AS a)) WHERE v > 2000 AND name = 'a'",
]


@pytest.mark.parametrize(("query", "session"), [(query, place % 2) for place, query in enumerate(FIXED)])
@pytest.mark.sampled(2)
def test_query_gives_the_rows_of_plain_spark(tables: Tables, query: str, session: int) -> None:
    tables.set(SESSIONS[session])
    expected = rows(tables.plain.sql(query))
    assert rows(tables.sql(query)) == expected
    assert rows(tables.sql(query, options={})) == expected, "with Spark's own Parquet reader"
    assert expected
    assert not [view for view in tables.spark.catalog.listTables() if view.name.startswith("_pyspark")]


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
@pytest.mark.sampled(1)
def test_random_queries_give_the_rows_of_plain_spark_from_fewer_bytes(tables: Tables, seed: int) -> None:
    tables.set(SESSIONS[seed % len(SESSIONS)])
    queries = RandomQueries(tables.literals, seed)
    most = most_bytes(tables)
    before = tables.sql("SELECT id FROM orders WHERE v < 0")
    assert before.collect() == []
    last = received(before)
    size = scans = 0
    for _ in range(4):
        query = queries.query()
        actual, df = answered(tables.sql, query)
        assert actual == answered(tables.plain.sql, query)[0], query
        if df is not None and (counts := list(sent(df))):
            assert max(counts) - last <= len(counts) * most, query
            size, scans = size + max(counts) - last, scans + len(counts)
            last = max(counts)
        natively, df = answered(partial(tables.sql, options={}), query)
        assert actual == natively, query
        last = last if df is None else max(last, *sent(df), 0)
    assert size < scans * most


def test_scan_sends_fewer_bytes(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.set(SESSIONS[0])
    queries = {
        "all": "SELECT * FROM orders",
        "columns": "SELECT id, v FROM orders",
        "rows": "SELECT * FROM orders WHERE v > 5000",
        "both": "SELECT id FROM orders WHERE v > 5000",
        "half": "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id WHERE a.v > 5000 AND b.p = 'b'",
    }

    def sizes() -> dict[str, int]:
        return dict(zip(queries, bytes_of(tables, queries.values()), strict=True))

    narrow = sizes()
    assert narrow["both"] < narrow["columns"] < narrow["all"]
    assert narrow["both"] < narrow["rows"] < narrow["all"]
    with monkeypatch.context() as patched:  # without it the bytes are those of the whole tables
        patched.setattr(conditions, "narrowed", lambda *_: {})
        whole = sizes()
    assert whole["all"] == narrow["all"] == whole["columns"] == whole["rows"] == whole["both"]
    assert narrow["half"] < whole["half"] == 2 * whole["all"]


def test_wrongly_narrowed_scan_is_detected(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative control: with a filter that removes too much the rows differ."""
    tables.set(SESSIONS[0])
    query = "SELECT id FROM orders WHERE v > 2000 OR upper(p) = 'A'"
    expected = rows(tables.plain.sql(query))
    assert rows(tables.sql(query)) == expected
    with monkeypatch.context() as patched:
        patched.setattr(
            conditions, "narrowed", lambda analysis, *_: dict.fromkeys(analysis.occurrences, ((), "v > 2000"))
        )
        assert rows(tables.sql(query)) != expected


def test_time_travel_parameters_and_a_server(tables: Tables, server: Any, golden: Any) -> None:
    case = CASES["orders"]
    time = next(query for query in golden.case(case)["queries"] if query["as_of"] and not query["error"])
    query = f"SELECT o.id, n.id FROM orders VERSION AS OF {time['as_of']} o RIGHT JOIN orders n ON o.id = n.id"
    of_server = penstock_spark.sql(
        tables.spark, f"{query} WHERE n.v > :low", {"orders": case}, server=server.address, args={"low": 2000}
    )
    then = golden.expected(case, time["id"])["id"].to_pylist()
    now = golden.expected(case, "snapshot").select(["id", "v"]).to_pylist()
    assert rows(of_server) == Counter(
        repr((row["id"] if row["id"] in then else None, row["id"])) for row in now if row["v"] > 2000
    )
    explained = penstock_spark.explain(of_server)
    assert f"table {case} of server {server.address}\n  range: snapshot as of {time['as_of']}" in explained


def test_explain_names_what_reached_each_scan(tables: Tables) -> None:
    tables.set(SESSIONS[0])
    df = tables.sql("SELECT id FROM orders WHERE v > 5 AND upper(p) = 'A' AND id IN (SELECT id FROM items)")
    orders, items = penstock_spark.explain(df).split("table ")[1:]
    assert orders.startswith(f"{tables.paths['orders']}\n  range: snapshot up to 2026")
    assert re.search(
        r" bytes\n  columns: id, p, v\n  filter: `v` > 5\n  readers: Spark 0 files, Pen.* \d+ splits\n$", orders
    )
    assert re.search(r" bytes\n  columns: id, v, p\n  filter: none\n  readers: Spark 0 files, Pen.* \d+ splits$", items)
    types = penstock_spark.explain(tables.sql("SELECT id FROM types", options={"query": "read_optimized"}))
    assert types.count("table ") == 1
    assert re.search(r"columns: id\n  filter: none\n  readers: Spark [1-9]\d* files, Penstock \d+ splits$", types)
    with pytest.raises(ConfigurationError, match="reads no Penstock table"):
        penstock_spark.explain(tables.spark.range(3))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT nosuch FROM orders", "UNRESOLVED_COLUMN.*Did you mean one of the following.*`ts`"),
        ("SELECT nosuch(id) FROM orders", "UNRESOLVED_ROUTINE"),
        ("SELECT id FROM nosuch", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT id FROM orders WHERE (", r"PARSE_SYNTAX_ERROR.*\(line 1, pos 28\)"),
        ("FROM orders |> WHERE (", r"PARSE_SYNTAX_ERROR.*\(line 1, pos 22\)"),
        ("SELECT id FROM orders VERSION AS OF 5", "option asOf: got '5'"),
    ],
)
@pytest.mark.sampled(2)
def test_spark_names_what_is_wrong(tables: Tables, query: str, text: str) -> None:
    with pytest.raises(PySparkException, match=text):
        tables.sql(query)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("INSERT INTO x SELECT id FROM orders", "runs queries: got 'INSERT'"),
        ("SELECT 'orders FROM orders", "cannot read the query: ' at character 8 has no end"),
        ("SELECT id FROM orders TIMESTAMP AS OF now()", "expected VERSION AS OF an instant"),
        ("", "runs queries: got ''"),
    ],
)
def test_errors_name_what_is_wrong(tables: Tables, query: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        tables.sql(query)


def test_option_that_the_query_determines(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match=r"option Limit of penstock.*: it would count rows"):
        penstock_spark.sql(spark, "SELECT 1", {}, options={"Limit": "3"})


def test_table_name_that_is_no_identifier(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match=r"the name 'a\.\.b' is no identifier"):
        penstock_spark.sql(spark, "SELECT 1", {"a..b": "/nowhere"})
