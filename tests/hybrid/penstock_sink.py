"""The process that writes a topic into a table by `penstock.spark.sink`, and the tables that it writes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import random
import sys
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pytest

import penstock
from tests.interop.hudi_process import REPOSITORY, fetch_jars
from tests.interop.peer_process import PeerProcess

KAFKA_SOURCE: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""Spark's Kafka source, and its dependencies. The release of the oldest supported PySpark runs in all later ones."""
CACHE: Final = REPOSITORY / ".cache" / "spark-kafka-source"
SCHEMA: Final = pa.schema(
    {
        "id": pa.string(),
        "region": pa.string(),
        "ts": pa.int64(),
        "n": pa.int64(),
        "at": pa.timestamp("us", "UTC"),
        "amount": pa.float64(),
        "note": pa.string(),
        "_hoodie_is_deleted": pa.bool_(),
    }
)


class PenstockSink(PeerProcess):
    """Spark with Penstock, in one JVM."""

    def run_sink(self, table: pathlib.Path, **request: Any) -> None:
        """A streaming query up to the end of the topic (`penstock_sink_process.run_sink`)."""
        self._ask({"do": "run_sink", "path": str(table), **request})


def create_table(table: pathlib.Path, rng: random.Random, *, upserts: bool) -> dict[str, Any]:
    """An empty table for rows of `topic_records`, and the arguments of the sink. `upserts`: merge-on-read, ordered by
    `ts`; otherwise a row for each record, whose key is `n`."""
    index = rng.choice(("bucket", "simple"))
    schema = SCHEMA if upserts else SCHEMA.remove(SCHEMA.get_field_index("_hoodie_is_deleted"))
    penstock.create_table(
        str(table),
        schema,
        record_key="id" if upserts else "n",
        partition_by="region",
        ordering="ts" if upserts else (),
        table_type="merge_on_read" if upserts or rng.random() < 0.5 else "copy_on_write",
        index=index,
        buckets=2 if index == "bucket" else None,
    )
    return {"operation": "upsert" if upserts else "insert", "index": index, "buckets": 2 if index == "bucket" else None}


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[PenstockSink]:
    """The running process. In CI a failed start is an error; elsewhere the test is skipped with the reason."""
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            jars = fetch_jars(KAFKA_SOURCE, CACHE)
        command = [sys.executable, "-P", "-m", "tests.hybrid.penstock_sink_process", ",".join(map(str, jars))]
        peer = PenstockSink(command, folder, str(REPOSITORY))
        peer.started()
    except (RuntimeError, OSError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no Spark with a Kafka source: {str(error)[-300:]}")
    try:
        yield peer
    finally:
        peer.stop()
