"""Filters as Spark columns, and the `where` that each gives, for classic sessions and for Spark Connect.

As a program: prints the `where` that each filter gives in Spark Connect, as JSON. In a process of its own, because the
first import of Spark Connect decides whether its functions exist.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyspark.sql import types as st

FILTERS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda F: F.col("i") > 5, "`i` > 5"),
    (lambda F: F.lit(5) < F.col("i"), "`i` > 5"),
    (lambda F: ~(F.col("bo") == True), "(NOT `bo` = TRUE)"),  # noqa: E712
    (lambda F: F.col("bo") & (F.col("l") <= 2**40), "`bo` = TRUE AND `l` <= 1099511627776"),
    (lambda F: F.col("i").isin(5, 1724117817), "`i` IN (5, 1724117817)"),
    (lambda F: F.col("i").isNull() | F.col("d").isNotNull(), "(`i` IS NULL OR (NOT `d` IS NULL))"),
    (lambda F: F.col("p").startswith("x"), "`p` LIKE 'x%'"),
    (lambda F: F.col("p").like("x%"), "`p` LIKE 'x%'"),
    (lambda F: F.col("i").between(-5, 5), "`i` >= -5 AND `i` <= 5"),
    (lambda F: F.col("da") > dt.date(2000, 1, 2), "`da` > DATE '2000-01-02'"),
    (
        lambda F: F.col("tz") > F.lit(dt.datetime(2000, 1, 2, tzinfo=dt.UTC)),
        "`tz` > TIMESTAMP '2000-01-02 00:00:00.000000Z'",
    ),
    (lambda F: F.col("d2") < F.lit(Decimal("161700.24")), "`d2` < 161700.24"),
    (lambda F: F.col("d") < 0.1, "`d` < 0.1"),
    (lambda F: F.col("`st`.a") == 1, "`st`.`a` = 1"),
    (lambda F: (F.upper("p") == "X") & (F.col("i") > 5), "`i` > 5"),
    (lambda F: (F.upper("p") == "X") | (F.col("i") > 5), ""),
    (lambda F: F.col("i").eqNullSafe(5), ""),
    (lambda F: F.col("i") == F.lit(None), ""),
    (lambda F: F.col("i").cast("string") == "5", ""),
    (lambda F: F.expr("i > 5"), ""),
    (lambda F: F.col("p").endswith("x"), ""),
]


SCHEMA = st.StructType(
    [
        st.StructField("p", st.StringType()),
        st.StructField("i", st.IntegerType()),
        st.StructField("l", st.LongType()),
        st.StructField("d", st.DoubleType()),
        st.StructField("d2", st.DecimalType(9, 2)),
        st.StructField("bo", st.BooleanType()),
        st.StructField("da", st.DateType()),
        st.StructField("tz", st.TimestampType()),
        st.StructField("st", st.StructType([st.StructField("a", st.IntegerType())])),
    ]
)


if __name__ == "__main__":
    from pyspark.sql.connect.functions import builtin

    from penstock.engine.spark.query.column_tree import expression_of
    from penstock.engine.spark.query.expressions import conjuncts
    from penstock.engine.spark.query.handed_down import SessionRules
    from penstock.engine.spark.query.narrowing import where_of_all

    trees = [expression_of(filter_of(builtin)) for filter_of, _ in FILTERS]
    print(json.dumps([where_of_all(list(conjuncts(tree)), SCHEMA, SessionRules()) for tree in trees]))
