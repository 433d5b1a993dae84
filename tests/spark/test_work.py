"""A Spark job whose tasks are members of a worker group."""

from __future__ import annotations

import pathlib

import pytest
from pyspark.sql import SparkSession

import penstock.spark
from penstock.proto.errors import ConfigurationError
from tests.served_services import SERVICES, instants, served, written
from tests.unit.engine.write.service.coordinated import ids


def test_tasks_carry_out_what_is_due(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    tables = {name: written(tmp_path / name) for name in ("t", "u")}
    before = {name: ids(path) for name, path in tables.items()}
    with served(tables, SERVICES) as server:
        result = penstock.spark.work(spark, server.address, tasks=2, services=["compact"])
    assert result.failed == 0
    assert result.done >= 4, "a plan and a compaction of each table"
    for name, path in tables.items():
        assert instants(path, ".commit")
        assert ids(path) == before[name]


def test_number_of_tasks_is_checked(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="tasks: got 0"):
        penstock.spark.work(spark, "127.0.0.1:1", tasks=0)
