"""Frames of `penstock.spark.table`, beside the source that reads every file itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import spark as penstock_spark


@pytest.fixture
def table(spark: SparkSession) -> Callable[..., DataFrame]:
    """`penstock.spark.table` of the run's session."""
    return lambda path, *args, **options: penstock_spark.table(spark, str(path), *args, **options)


@pytest.fixture
def penstock_reads(spark: SparkSession) -> Callable[..., DataFrame]:
    """The table as Penstock's own reader returns it, which uses no Parquet reader of Spark."""
    return lambda path, **options: spark.read.format("penstock").options(**options).load(str(path))


@pytest.fixture
def exact() -> Callable[[DataFrame], Counter[str]]:
    """Rows as a multiset of texts, which tell NaN, 0.0 and -0.0 apart."""

    def rows(frame: DataFrame) -> Counter[str]:
        return Counter(map(repr, frame.toArrow().to_pylist()))

    return rows


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets a setting of the session until the test ends."""
    before: dict[str, str | None] = {}

    def set_one(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield set_one
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
