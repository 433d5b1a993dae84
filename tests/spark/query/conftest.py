"""The tables of the random queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.query.both_tables import SESSIONS, SETTINGS, Tables


@pytest.fixture(scope="module")
def tables(spark: SparkSession, golden: Any) -> Iterator[Tables]:
    """The tables; the settings of the session are as before afterwards."""
    names = [*SETTINGS, *SESSIONS[0], "spark.sql.caseSensitive"]
    before = {name: spark.conf.get(name) for name in names}
    tables = Tables(spark, golden)
    tables.set(SETTINGS)
    yield tables
    for name, value in before.items():
        if value is not None:
            spark.conf.set(name, value)
