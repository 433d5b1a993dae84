"""What each occurrence of a table in a query reads, and how the query's text changes."""

from __future__ import annotations

import pytest
from pyspark.sql import types as st

from penstock.engine.spark.query.column_tree import name_of
from penstock.engine.spark.query.conditions import narrowed
from penstock.engine.spark.query.handed_down import SessionRules
from penstock.engine.spark.query.lexer import tokens_of
from penstock.engine.spark.query.occurrences import Analysis, analysis_of
from penstock.engine.spark.query.rewrite import rewritten, with_definitions
from penstock.errors import ConfigurationError

LONG = st.LongType()
ORDERS = st.StructType(
    [
        st.StructField("id", LONG),
        st.StructField("amount", LONG),
        st.StructField("customer", LONG),
        st.StructField("at", st.TimestampType()),
        st.StructField("item", st.StructType([st.StructField("price", LONG)])),
        st.StructField("open", st.BooleanType()),
    ]
)
CUSTOMERS = st.StructType([st.StructField("key", LONG), st.StructField("Name", st.StringType())])
SCHEMAS = {"orders": ORDERS, "customers": CUSTOMERS, "shop.orders": ORDERS, "`odd name`": ORDERS}
ALL = ()


def analysis(query: str, *, case_sensitive: bool = False) -> Analysis | None:
    """The analysis of a query over the tables of SCHEMAS."""
    names = {parsed.parts: name for name in SCHEMAS if (parsed := name_of(name)) is not None}
    return analysis_of(query, tokens_of(query), names, case_sensitive=case_sensitive)


def reads(query: str, rules: SessionRules | None = None) -> list[tuple[str, tuple[str, ...], str]]:
    """(table, columns, where) of each occurrence."""
    rules = rules or SessionRules()
    analyzed = analysis(query, case_sensitive=rules.case_sensitive)
    assert analyzed is not None
    schemas = {occurrence: SCHEMAS[occurrence.key] for occurrence in analyzed.occurrences}
    scans = narrowed(analyzed, tokens_of(query), schemas, rules)
    return [(occurrence.key, *scans[occurrence]) for occurrence in analyzed.occurrences]


def text(query: str) -> str:
    """The query with a field for each occurrence, t0 first."""
    analyzed = analysis(query)
    assert analyzed is not None
    return rewritten(
        query, analyzed, {occurrence: f"t{place}" for place, occurrence in enumerate(analyzed.occurrences)}
    )


@pytest.mark.parametrize(
    ("query", "columns", "where"),
    [
        ("SELECT id FROM orders WHERE amount > 5", ("id", "amount"), "`amount` > 5"),
        ("SELECT o.id FROM orders o WHERE o.amount > 5 AND o.id < o.amount", ("id", "amount"), "`amount` > 5"),
        ("SELECT ID FROM Orders AS O WHERE o.AMOUNT > 5", ("id", "amount"), "`amount` > 5"),
        ("SELECT count(*) FROM orders", ("open",), ""),
        ("SELECT count(1) FROM orders WHERE id IS NOT NULL", ("id",), "(NOT `id` IS NULL)"),
        ("SELECT amount * 2 FROM orders", ("amount",), ""),
        ("SELECT o.item.price FROM orders o WHERE item.price > 1", ("item",), "`item`.`price` > 1"),
        ("SELECT orders.id FROM orders WHERE orders.open", ("id", "open"), "`open` = TRUE"),
        ("SELECT id /* amount */ FROM orders -- WHERE amount > 5\n WHERE id = 1", ("id",), "`id` = 1"),
        ("SELECT 'amount' AS x, id FROM orders WHERE 'customer' = 'at' OR id = 1", ("id",), ""),
        ("SELECT id FROM orders WHERE amount > :low AND id = 3", ("id", "amount"), "`id` = 3"),
        ("SELECT id FROM orders GROUP BY id HAVING id > 5", ("id",), ""),
        ("SELECT id, sum(amount) s FROM orders WHERE id > 5 GROUP BY ALL", ("id", "amount"), "`id` > 5"),
        ("SELECT id, lag(amount) OVER (PARTITION BY customer ORDER BY id) FROM orders WHERE id > 5",
         ("id", "amount", "customer"), "`id` > 5"),
        ("SELECT id FROM orders WHERE id > 5 QUALIFY row_number() OVER (ORDER BY amount) = 1",
         ("id", "amount"), "`id` > 5"),
        ("SELECT DISTINCT id FROM orders WHERE id > 5 ORDER BY amount LIMIT 3", ("id", "amount"), "`id` > 5"),
        ("SELECT * FROM (SELECT id FROM orders WHERE id > 5) x WHERE id < 9", ("id",), "`id` > 5"),
        ("WITH x AS (SELECT id FROM orders WHERE id > 5) SELECT * FROM x", ("id",), "`id` > 5"),
        ("SELECT /*+ REPARTITION(3, `amount`), BROADCAST(orders) */ id FROM orders", ("id", "amount"), ""),
        ("SELECT /*+ BROADCAST(orders) */ * FROM orders", ALL, ""),
        ("SELECT * FROM orders WHERE id > 5", ALL, "`id` > 5"),
        ("SELECT o.* FROM orders o", ALL, ""),
        ("SELECT id FROM (SELECT * FROM orders)", ALL, ""),
        ("SELECT struct(*) FROM orders", ALL, ""),
        ("SELECT count(DISTINCT *) FROM orders", ALL, ""),
        ("SELECT * EXCEPT (id) FROM orders", ALL, ""),
        ("SELECT x FROM orders AS o(x, y, z) WHERE x > 5", ALL, ""),
        ("SELECT x.* FROM (orders) x", ALL, ""),
        ("SELECT x.b FROM ((orders) y) AS x(a, b, c, d, e, f) WHERE x.b > 5", ALL, ""),
        ("SELECT x.id FROM (other JOIN orders o ON o.id = other.id) x WHERE x.amount > 5", ALL, ""),
        ("SELECT o.id FROM other c LEFT JOIN (orders o JOIN other d) ON c.id = o.amount", ("id", "amount"), ""),
        ("SELECT id FROM orders PIVOT (sum(amount) FOR customer IN (1, 2))", ALL, ""),
        ("SELECT * FROM orders PIVOT (sum(id) AS amount FOR customer IN (1)) WHERE amount > 5", ALL, ""),
        ("SELECT * FROM orders UNPIVOT (amount FOR name IN (id, customer)) WHERE amount > 5", ALL, ""),
        ("SELECT id FROM orders TABLESAMPLE (10 PERCENT) WHERE id > 5", ("id",), ""),
        ("SELECT id, rand() FROM orders WHERE id > 5", ("id",), ""),
        ("SELECT IDENTIFIER('amount') FROM orders WHERE id > 5", ALL, "`id` > 5"),
        ("SELECT id FROM orders LATERAL VIEW explode(array(1)) e AS x WHERE id > 5 AND x > 1", ("id",), "`id` > 5"),
        ("SELECT id FROM shop.orders WHERE id > 5", ("id",), "`id` > 5"),
        ("SELECT id FROM `odd name` WHERE id > 5", ("id",), "`id` > 5"),
        ("SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM other WHERE amount > 5)", ("id", "amount"), ""),
    ],
)  # fmt: skip
def test_single_occurrence(query: str, columns: tuple[str, ...], where: str) -> None:
    ((_, *read),) = reads(query)
    assert read == [columns, where]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT a.id, b.amount FROM orders a JOIN orders b ON a.id = b.customer WHERE a.amount > 1 AND b.id > 2",
            [(("id", "amount"), "`amount` > 1"), (("id", "amount", "customer"), "`id` > 2")],
        ),
        ("SELECT 1 FROM orders a, orders b WHERE a.id = 1 AND id = 2", [(("id",), "`id` = 1"), (("id",), "")]),
        (
            "SELECT a.id FROM orders a LEFT JOIN customers c ON a.customer = c.key AND c.key > 3 AND a.id > 9 "
            "WHERE a.id > 1 AND c.name = 'x'",
            [(("id", "customer"), "`id` > 1"), (("key", "Name"), "`key` > 3")],
        ),
        (
            "SELECT a.id FROM orders a RIGHT JOIN customers c ON a.customer = c.key AND a.id = 5 WHERE a.id > 1",
            [(("id", "customer"), ""), (("key",), "")],
        ),
        (
            "SELECT a.id FROM orders a FULL JOIN customers c ON a.customer = c.key WHERE a.id IS NULL",
            [(("id", "customer"), ""), (("key",), "")],
        ),
        (
            "SELECT id FROM orders LEFT ANTI JOIN customers ON customer = key AND key > 3 WHERE id > 1",
            [(("id", "customer"), "`id` > 1"), (("key",), "`key` > 3")],
        ),
        (
            "SELECT o.id FROM customers c LEFT JOIN (orders o JOIN orders p ON o.id = p.id AND p.id > 3) "
            "ON c.key = o.id WHERE p.id IS NULL",
            [(("key",), ""), (("id",), ""), (("id",), "")],
        ),
        (
            "SELECT o.id FROM orders o JOIN orders p USING (id) WHERE id > 3 AND o.amount > 1",
            [(("id", "amount"), "`amount` > 1"), (("id",), "")],
        ),
        (
            "SELECT * FROM orders NATURAL JOIN customers WHERE id > 3",
            [(ALL, ""), (ALL, "")],
        ),
        (
            "SELECT id FROM orders WHERE id > 1 UNION ALL SELECT key FROM customers WHERE key < 3",
            [(("id",), "`id` > 1"), (("key",), "`key` < 3")],
        ),
        (
            "SELECT id FROM orders o WHERE id > 1 AND o.customer NOT IN (SELECT key FROM customers c WHERE c.key > o.id"
            " AND key > 5)",
            [(("id", "customer"), "`id` > 1"), (("key",), "`key` > 5")],
        ),
        (
            "WITH orders AS (SELECT id FROM orders WHERE id > 1) SELECT id FROM orders WHERE id < 5",
            [(("id",), "`id` > 1")],
        ),
        (
            "WITH a AS (SELECT id FROM orders), orders AS (SELECT id FROM a), c AS (SELECT id FROM orders) "
            "SELECT id FROM c, orders",
            [(("id",), "")],
        ),
        (
            "SELECT id FROM orders WHERE id IN (WITH orders AS (SELECT 1 AS id) SELECT id FROM orders)",
            [(("id",), "")],
        ),
        ("SELECT customers.* FROM orders, customers", [(("open",), ""), (ALL, "")]),
        (
            "SELECT id FROM orders, LATERAL (SELECT key FROM customers WHERE key = id AND key > 3) WHERE id > 2",
            [(("id",), "`id` > 2"), (("key",), "`key` > 3")],
        ),
        ("SELECT orders FROM other AS orders", []),
        ("SELECT 1 FROM other.orders", []),
    ],
)
def test_several_occurrences(query: str, expected: list[tuple[tuple[str, ...], str]]) -> None:
    assert [read[1:] for read in reads(query)] == expected


def test_alias_of_parentheses_hides_the_name_of_an_outer_table() -> None:
    query = "SELECT (SELECT max(o.amount) FROM (orders) o) FROM orders o"
    assert [columns for _, columns, _ in reads(query)] == [ALL, ("amount",)], "else o.amount is the outer column"


def test_names_that_are_patterns_read_every_column() -> None:
    query, rules = "SELECT `(id|amount)` FROM orders WHERE id > 5", SessionRules(pattern_names=True)
    assert reads(query) == [("orders", ("id",), "`id` > 5")]
    assert reads(query, rules) == [("orders", ALL, "`id` > 5")]
    assert reads("SELECT amount FROM orders WHERE id > 5", rules) == [("orders", ("id", "amount"), "`id` > 5")]


def test_reserved_word_is_no_column() -> None:
    schema = st.StructType([st.StructField("user", st.StringType()), st.StructField("id", LONG)])
    query = "SELECT id FROM orders WHERE user = 'ada' AND id > 5"
    analyzed = analysis(query)
    assert analyzed is not None
    (occurrence,) = analyzed.occurrences
    where = {}
    for reserved in (False, True):
        rules = SessionRules(reserved_words=reserved)
        where[reserved] = narrowed(analyzed, tokens_of(query), {occurrence: schema}, rules)[occurrence][1]
    assert where == {False: "`user` = 'ada' AND `id` > 5", True: ""}


def test_case_sensitive_names() -> None:
    rules = SessionRules(case_sensitive=True)
    assert reads("SELECT ID FROM orders WHERE id > 1 AND ID > 2", rules) == [("orders", ("id",), "`id` > 1")]
    assert reads("SELECT id FROM Orders", rules) == []
    assert len(reads("WITH Orders AS (SELECT 1) SELECT id FROM orders", rules)) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM orders", "SELECT id FROM {t0} AS orders"),
        ("SELECT id FROM `orders` -- orders", "SELECT id FROM {t0} AS `orders` -- orders"),
        ("SELECT id FROM orders o, Orders", "SELECT id FROM {t0} o, {t1} AS Orders"),
        ("SELECT '{orders}' FROM orders AS o", "SELECT '{{orders}}' FROM {t0} AS o"),
        ("SELECT id FROM/**/orders/**/WHERE id=1", "SELECT id FROM/**/{t0} AS orders/**/WHERE id=1"),
        (
            "SELECT shop.orders.id, shop.orders.* FROM shop.orders WHERE Shop . orders.id = 1",
            "SELECT orders.id, orders.* FROM {t0} AS orders WHERE orders.id = 1",
        ),
        (
            "SELECT id FROM orders VERSION AS OF 20260131235959000 WHERE id = 1",
            "SELECT id FROM {t0}  AS orders WHERE id = 1",
        ),
        (
            "SELECT id FROM orders FOR SYSTEM_TIME AS OF '2026-01-31' AS o JOIN orders TIMESTAMP AS OF TIMESTAMP"
            " '2026-01-31' p",
            "SELECT id FROM {t0}  AS o JOIN {t1}  p",
        ),
        (
            "SELECT id FROM orders TABLESAMPLE (10 PERCENT) REPEATABLE (3) WHERE id = 1",
            "SELECT id FROM {t0} TABLESAMPLE (10 PERCENT) REPEATABLE (3) AS orders WHERE id = 1",
        ),
        ("SELECT /*+ BROADCAST(orders) */ id FROM orders", "SELECT /*+ BROADCAST(orders) */ id FROM {t0} AS orders"),
    ],
)
def test_text_changes_only_at_the_tables(query: str, expected: str) -> None:
    assert text(query) == expected


def test_time_travel_becomes_an_option() -> None:
    rules = SessionRules(instant_of=lambda _: 1_769_817_600_000_000)
    analyzed = analysis(
        "SELECT 1 FROM orders VERSION AS OF '20260131235959', orders TIMESTAMP AS OF '2026-01-31', "
        "orders FOR TIMESTAMP AS OF TIMESTAMP '2026-01-31', "
        "orders TIMESTAMP AS OF TIMESTAMP '2026-01-31 01:00:00+01:00'"
    )
    assert analyzed is not None
    times = [occurrence.as_of.option(rules) for occurrence in analyzed.occurrences if occurrence.as_of]
    assert times == ["20260131235959", "2026-01-31", "2026-01-31T00:00:00Z", "2026-01-31T00:00:00Z"]


def test_time_travel_in_the_sessions_zone_is_refused_where_the_zone_may_change() -> None:
    analyzed = analysis("SELECT 1 FROM orders TIMESTAMP AS OF TIMESTAMP '2026-01-31'")
    assert analyzed is not None
    assert analyzed.occurrences[0].as_of is not None
    with pytest.raises(ConfigurationError, match="in Spark Connect with its zone"):
        analyzed.occurrences[0].as_of.option(SessionRules())


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM orders VERSION AS OF 1 + 1",
        "SELECT id FROM orders TIMESTAMP AS OF now() - INTERVAL 1 DAY",
        "SELECT id FROM orders TIMESTAMP AS OF :time",
    ],
)
def test_time_travel_without_a_literal_is_an_error(query: str) -> None:
    with pytest.raises(ConfigurationError, match="expected VERSION AS OF an instant"):
        analysis(query)


@pytest.mark.parametrize(
    "query", ["INSERT INTO x SELECT id FROM orders", "WITH a AS (SELECT 1) INSERT INTO x SELECT 1"]
)
def test_statement_that_is_no_query_is_an_error(query: str) -> None:
    with pytest.raises(ConfigurationError, match="runs queries: got INSERT"):
        analysis(query)


@pytest.mark.parametrize(
    "query",
    [
        "FROM orders |> WHERE id = 1",
        "FROM orders SELECT id WHERE id = 1 SELECT amount",
        "TABLE orders",
        "SELECT * FROM f(TABLE(orders))",
        "SELECT id FROM",
        "SELECT id FROM orders WHERE (",
    ],
)
def test_query_that_cannot_be_analyzed(query: str) -> None:
    assert analysis(query) is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("TABLE orders", "WITH `orders` AS (SELECT * FROM {t0}) TABLE orders"),
        ("WITH x AS (TABLE orders) TABLE x",
         "WITH `orders` AS (SELECT * FROM {t0}) (WITH x AS (TABLE orders) TABLE x)"),
        ("WITH orders AS (TABLE orders) TABLE orders /* {} */ ; -- x",
         "WITH `orders` AS (SELECT * FROM {t0}) (WITH orders AS (TABLE orders) TABLE orders) /* {{}} */ ; -- x"),
    ],
)  # fmt: skip
def test_query_that_cannot_be_analyzed_defines_its_tables(query: str, expected: str) -> None:
    assert with_definitions(query, tokens_of(query), {"`orders`": "t0"}) == expected
