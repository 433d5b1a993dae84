"""A local Spark session in this process that returns rows as Arrow, for `penstock demo` and experiments."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.spark import interpreter
from penstock.engine.spark.source import register
from penstock.proto.errors import InvariantViolation, PenstockError
from penstock.table.storage.uris import redacted_uri

FORMAT: Final = "penstock"
STREAM_TIMEOUT_S: Final = 120


class LocalSpark:
    """A local session with two task threads, in UTC. The stderr of the JVM and its workers goes to a file."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = interpreter.command(), sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.Builder().master("local[2]").appName("penstock")
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        with _stderr_to(folder / "spark.log"):
            self._session = builder.getOrCreate()
        self._session.sparkContext.setLogLevel("OFF")
        register(self._session)

    def rows(self, table: str, options: Mapping[str, str]) -> pa.Table:
        """The rows of a batch read. `table`: a path, or a name that the server in `options` serves."""
        with _spark_errors():
            return self._session.read.format(FORMAT).options(**options).load(table).toArrow()

    def micro_batches(self, table: str, options: Mapping[str, str]) -> list[pa.Table]:
        """Runs a stream to the newest commit. Returns the rows of each micro-batch, in order."""
        batches: list[pa.Table] = []

        def collect(batch: DataFrame, number: int) -> None:
            if number != len(batches):
                raise InvariantViolation(f"micro-batch {number} followed {len(batches)} others")
            batches.append(batch.toArrow())

        with _spark_errors():
            self._run_stream(table, options, collect)
        return batches

    def stop(self) -> None:
        """Stops the session."""
        self._session.stop()

    def _run_stream(self, table: str, options: Mapping[str, str], collect: Callable[[DataFrame, int], None]) -> None:
        source = self._session.readStream.format(FORMAT).options(**options).load(table)
        writer = source.writeStream.foreachBatch(collect).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._folder / "checkpoint")).start()
        if not query.awaitTermination(STREAM_TIMEOUT_S):
            query.stop()
            raise PenstockError(f"the stream of {redacted_uri(table)} did not end within {STREAM_TIMEOUT_S} s")


@contextmanager
def _spark_errors() -> Iterator[None]:
    """Converts the errors of Spark to PenstockError, on one line without the stack of the JVM."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PenstockError(f"Spark failed: {' '.join(str(error).split())[:800]}") from error


@contextmanager
def _stderr_to(file: pathlib.Path) -> Iterator[None]:
    """Redirects stderr to the file; processes started in the block inherit it. Restores stderr of this process at the
    end."""
    sys.stderr.flush()
    stderr_copy = os.dup(2)
    log_file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(log_file, 2)
        yield
    finally:
        os.dup2(stderr_copy, 2)
        os.close(stderr_copy)
        os.close(log_file)
