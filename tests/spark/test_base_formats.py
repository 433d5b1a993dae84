"""Spark returns the rows of Hudi for base files in ORC and Lance, which a child of the process of a task reads."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.golden.changes import hudi_changes, lost_decimals

CASES = ("F_orc_mor_v6", "F_orc_cow_v9", "H_lance_mor_v6", "H_lance_cow_v9", "H_lance_vectors_mor_v9")


@pytest.mark.parametrize("case", CASES)
def test_rows_equal_hudi(spark: SparkSession, golden: Any, rows_of: Any, case: str) -> None:
    expected = rows_of(golden.expected(case, "snapshot"))
    assert expected.total() > 1
    assert rows_of(spark.read.format("penstock").load(str(golden.table(case)))) == expected


def test_changes_of_a_table_in_lance(spark: SparkSession, golden: Any, rows_of: Any) -> None:
    case = "H_lance_cdc_v9"
    reader = spark.read.format("penstock").options(query="cdc", after="earliest", cdcFormat="hudi")
    read = reader.load(str(golden.table(case))).toArrow()
    expected = golden.expected(case, "cdc_all")
    lost = lost_decimals(expected)
    assert expected.num_rows > 1
    assert hudi_changes(read, lost) == hudi_changes(expected, lost)
