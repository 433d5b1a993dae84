"""Tables for Penstock and as views of plain Spark, and the answers of both to a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock import spark as penstock_spark
from penstock.engine.spark.schema.types import spark_schema
from tests.spark.query.query_parts import Literals, literals_of

CASES = {"orders": "A_fuzz_event_long_s1_v9_h120", "items": "B_v6_inc_mor", "types": "A_types_v9_h120"}
SETTINGS = {"spark.sql.adaptive.enabled": "false"}
SESSIONS = [
    {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"},
    {"spark.sql.session.timeZone": "America/New_York", "spark.sql.ansi.enabled": "false"},
]


class Tables:
    """The tables for Penstock, and as views of their rows in a session of their own."""

    def __init__(self, spark: SparkSession, golden: Any) -> None:
        self.spark, self.plain = spark, spark.newSession()
        self.paths = {name: str(golden.table(case)) for name, case in CASES.items()}
        self.literals: Literals = {}
        for name, case in CASES.items():
            rows = golden.expected(case, "snapshot")
            # Without a schema, Spark would read a TIMESTAMP_NTZ as a TIMESTAMP.
            self.plain.createDataFrame(rows, spark_schema(rows.schema)).createOrReplaceTempView(name)
            self.literals[name] = literals_of(rows)

    def set(self, settings: dict[str, str]) -> None:
        """Changes the settings of both sessions."""
        for name, value in settings.items():
            self.spark.conf.set(name, value)
            self.plain.conf.set(name, value)

    def sql(self, query: str, **more: Any) -> DataFrame:
        """The query through Penstock, which reads every file itself, so that its bytes can be counted."""
        return penstock_spark.sql(self.spark, query, self.paths, **{"options": {"nativeParquet": "off"}, **more})


def rows(df: DataFrame) -> Counter[str]:
    """Rows as a multiset."""
    return Counter(repr(tuple(row)) for row in df.collect())


def answered(sql: Callable[[str], DataFrame], query: str) -> tuple[Counter[str] | str, DataFrame | None]:
    """The rows of a query and its DataFrame, or the condition of Spark's error."""
    try:
        df = sql(query)
        return rows(df), df
    except PySparkException as error:
        return str(error.getCondition()), None
