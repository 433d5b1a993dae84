"""Spark on tables in an object store, with the programs for a local disk. Only the environment of the session's start
has the endpoint and the credentials; the driver's Python reads without them."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.engine.spark.source import PenstockDataSource
from tests.faults.served import Served, differing, until
from tests.s3.bucket import BUCKET, SECRET, USER
from tests.s3.fault_schedule import FaultSchedule, growing
from tests.s3.s3_proxy import Fault

pytestmark = [
    pytest.mark.ops,
    pytest.mark.spark,
    pytest.mark.golden,
    pytest.mark.timeout(900),
    # py4j and pyspark close their sockets when they are collected
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
MERGED = "A_merge_event_long_v9_h120"
LOGGED = "B_v9_cdc_mor_data_before"
"""Merge on read, with a log of changes."""
DEPLOYMENTS = ("embedded", "server")
CHANGES = {"query": "cdc", "cdcFormat": "hudi", "after": "earliest"}


def rows(table: pa.Table) -> Counter[str]:
    """As a multiset."""
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


@contextmanager
def reached(
    deployment: str, uri: str, folder: pathlib.Path, operators: dict[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """(the loaded path, its options): the URI, or the table's name on a server. The server is a process with the
    proxy's environment variables."""
    if deployment == "embedded":
        yield uri, {}
        return
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name, value in operators.items():
            patch.setenv(name, value)
        server = stack.enter_context(Served(folder, uri))
        patch.undo()
        yield "t", {"server": server.address}


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_spark_reads_the_batches_of_the_local_table(
    cluster: SparkSession,
    front: Any,
    operators: dict[str, str],
    upload: Callable[[str], str],
    golden: Any,
    tmp_path: pathlib.Path,
    deployment: str,
) -> None:
    """A snapshot, and all changes, of a merge-on-read table."""
    assert not os.environ.keys() & operators.keys() - {"AWS_EC2_METADATA_DISABLED"}
    front.fresh()
    with reached(deployment, upload(LOGGED), tmp_path, operators) as (table, server):
        for options in ({}, CHANGES):
            there = cluster.read.format("penstock").options(**options, **server).load(table).toArrow()
            here = penstock.read(str(golden.table(LOGGED)), **options).read_all()
            assert there.schema.names == here.schema.names
            assert rows(there) == rows(here) and there.num_rows > 5
    assert front.counts["get"] and front.counts["list"]


def test_spark_plan_and_tasks_hold_no_credential(
    cluster: SparkSession, proxy: Any, upload: Callable[[str], str], golden: Any
) -> None:
    """Credentials in a URI are used only for planning: data pickled into tasks has none, and tasks use their own."""
    uri = upload(MERGED).replace("s3://", f"s3://{USER}:{SECRET}@")
    frame = cluster.read.format("penstock").load(uri)
    assert frame.count() == golden.expected(MERGED, "snapshot").num_rows
    reader = PenstockDataSource({"path": uri}).reader(frame.schema)
    slots = reader.partitions()
    assert slots
    serialized = [pickle.dumps((reader, slots)), repr(slots).encode(), frame._jdf.queryExecution().toString().encode()]
    assert f"{BUCKET}/{MERGED}".encode() in serialized[0]
    assert not [text for text in serialized if SECRET.encode() in text]


class Following:
    """A stream to files, restarted after each storage error, as by a supervisor."""

    def __init__(self, source: DataFrame, folder: pathlib.Path) -> None:
        self._writer = source.writeStream.format("parquet").option("path", str(folder / "out"))
        self._writer.option("checkpointLocation", str(folder / "checkpoint"))
        self._log = folder / "out" / "_spark_metadata"
        self._query = self._writer.start()
        self.failures = 0

    def rows(self) -> list[pa.RecordBatch]:
        """Rows of the files that the sink's log lists."""
        lines = [line for file in sorted(self._log.glob("[0-9]*")) for line in file.read_text().splitlines()[1:]]
        files = [urllib.parse.urlsplit(json.loads(line)["path"]).path for line in lines]
        return [batch for file in files for batch in pq.read_table(file).to_batches()]

    def restart(self) -> bool:
        """Starts the stream (again). It must have ended with a retryable storage error."""
        if not self._query.isActive:
            error = str(self._query.exception())
            assert "StorageError" in error, error
            self.failures += 1
            self._query = self._writer.start()
        return True

    def stop(self) -> None:
        """Stops the stream."""
        self._query.stop()


def test_fault_19_spark_stream_over_a_faulty_store_has_the_exact_rows(
    cluster: SparkSession, front: Any, store: str, golden: Any, tmp_path: pathlib.Path
) -> None:
    """The planner and the tasks use the proxy; commits arrive meanwhile; one request in 19 fails."""
    with growing(golden, store, tmp_path) as (uri, arrive):
        front.fresh()
        stream = Following(cluster.readStream.format("penstock").options(**CHANGES).load(uri), tmp_path)
        front.fresh(FaultSchedule(19))
        try:
            until(lambda: stream.restart() and stream.rows(), "the stream has what is there", 120)
            before = len(stream.rows())
            arrive()
            until(
                lambda: stream.restart() and len(stream.rows()) > before and not differing(golden, stream.rows()),
                "the stream has the rest",
                120,
            )
        finally:
            stream.stop()
        seen, requests = dict(front.faults), front.counts.total()
        front.fresh()
    print("faults", seen, "of", requests, "requests; restarts", stream.failures)
    assert seen.keys() >= {Fault.SLOW_DOWN, Fault.CUT}
    left = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert left and not [text for text in left if SECRET.encode() in text]
