"""Spark in this process, for a short run on one machine: a session, and what the source returned as Arrow.

For `penstock demo` and for trying things out; a real job brings its own session. Not here: the source itself.
"""

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
from penstock.table.storage.filesystem import redacted_uri

FORMAT: Final = "penstock"
STREAM_TIMEOUT_S: Final = 120


class LocalSpark:
    """A local session with two task threads in UTC; what the JVM and its workers print goes to a file."""

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
        """A batch read. `table` is a path, or a name that the server of `options` serves."""
        with _told_briefly():
            return self._session.read.format(FORMAT).options(**options).load(table).toArrow()

    def micro_batches(self, table: str, options: Mapping[str, str]) -> list[pa.Table]:
        """A stream from its start to the newest commit, then its end: the rows of each micro-batch, in order."""
        taken: list[pa.Table] = []

        def take(batch: DataFrame, number: int) -> None:
            if number != len(taken):
                raise InvariantViolation(f"micro-batch {number} came after {len(taken)} others")
            taken.append(batch.toArrow())

        with _told_briefly():
            self._run_stream(table, options, take)
        return taken

    def stop(self) -> None:
        """Ends the session and its JVM's work."""
        self._session.stop()

    def _run_stream(self, table: str, options: Mapping[str, str], take: Callable[[DataFrame, int], None]) -> None:
        source = self._session.readStream.format(FORMAT).options(**options).load(table)
        writer = source.writeStream.foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._folder / "checkpoint")).start()
        if not query.awaitTermination(STREAM_TIMEOUT_S):
            query.stop()
            raise PenstockError(f"the stream of {redacted_uri(table)} did not end within {STREAM_TIMEOUT_S} s")


@contextmanager
def _told_briefly() -> Iterator[None]:
    """What Spark raises inside, as one line without the JVM's stack."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PenstockError(f"Spark failed: {' '.join(str(error).split())[:800]}") from error


@contextmanager
def _stderr_to(file: pathlib.Path) -> Iterator[None]:
    """What is started inside writes its stderr to the file; this process's own stderr comes back afterwards."""
    sys.stderr.flush()
    kept = os.dup(2)
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(opened, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(opened)
