"""The single Spark session of a test run, for every suite that needs Java, and the Spark Connect server in its JVM."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from penstock.engine.spark import interpreter
from tests.histories.hook import recording

STARTS = 4


def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2,4]: two cores, and a task may fail three times before its job does. The JVM compiles with C1 only,
    because it ends before C2 would pay off. Spark's Python processes are `penstock-python`, which start faster."""
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "PENSTOCK_HISTORY")
    before = {name: os.environ.pop(name, None) for name in names}
    repository = str(pathlib.Path(__file__).resolve().parents[1])  # Python workers import functions that tests define
    python_path = [repository, *filter(None, [before["PYTHONPATH"]])]
    os.environ.update(PYSPARK_PYTHON=interpreter.command(), PYTHONPATH=os.pathsep.join(python_path))
    os.environ.update(recording().environment())  # also if a test that is not recorded starts the session
    builder = (
        SparkSession.builder.master("local[2,4]")
        .appName("penstock-tests")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.timeType.enabled", "true")
        .config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.connect.grpc.binding.port", "0")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    spark = _started(builder)
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def start_connect_server(spark: SparkSession) -> str:
    """Starts Spark's own Connect server in the JVM of the session, which takes a second and not another JVM. Returns
    its URL. Clients have sessions of their own."""
    jvm: Any = spark.sparkContext._jvm
    service = getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$").__getattr__("MODULE$")
    if not service.started():
        service.start(spark.sparkContext._jsc.sc())
    return f"sc://127.0.0.1:{service.localPort()}"


def _started(builder: SparkSession.Builder) -> SparkSession:
    """Starts the session. PySpark forks for its JVM. If gRPC is in use (clients of other tests), it restarts its
    threads in the child between fork and exec, and one child in twenty crashes (measured with grpcio 1.85.1)."""
    for _ in range(STARTS - 1):
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
    return builder.getOrCreate()
