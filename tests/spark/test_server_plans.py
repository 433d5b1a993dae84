"""With a server a task neither lists nor plans: it pulls splits of a plan that the server created once."""

from __future__ import annotations

import pathlib
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.spark.source import PenstockDataSource
from penstock.enumerator.server.run import serve

CASE = "A_fuzz_event_long_s1_v9_h120"
RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]


@pytest.fixture
def moved(golden: Any, tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A copy of the table whose `.hoodie` the test may move."""
    yield golden.copy(CASE, tmp_path)


def load(spark: SparkSession, server: Any, **options: str) -> DataFrame:
    return spark.read.format("penstock").options(server=server.address, **options).load(CASE)


def test_splits_are_assigned_once_to_at_least_two_tasks(
    spark: SparkSession, server: Any, enumerator_log: Any, golden: Any, rows_of: RowsOf
) -> None:
    frame = load(spark, server, slots="3")
    assert rows_of(frame) == rows_of(golden.expected(CASE, "snapshot"))
    assert frame.count() == 41
    (opened,) = enumerator_log.events("plan opened")
    assert int(opened["slots"]) == 3
    assigned = [event for event in enumerator_log.events("split assigned") if event["plan"] == opened["plan"]]
    assert len(assigned) == int(opened["splits"]) >= 3
    assert len({event["split"] for event in assigned}) == len(assigned)
    assert len({event["slot"] for event in assigned}) >= 2


def test_tasks_report_what_they_read(spark: SparkSession, server: Any, enumerator_log: Any) -> None:
    assert load(spark, server, slots="2").count() == 41
    (opened,) = enumerator_log.events("plan opened")
    finished = {(event["slot"], event["index"]): event for event in enumerator_log.events("split finished")}
    assert len(finished) == int(opened["splits"])
    assert sum(int(event["rows"]) for event in finished.values()) == 41
    assert sum(int(event["bytes"]) for event in finished.values()) > 0


def test_planner_puts_small_splits_in_one_task(spark: SparkSession, server: Any, enumerator_log: Any) -> None:
    assert load(spark, server).rdd.getNumPartitions() == 1
    assert int(enumerator_log.events("plan opened")[0]["slots"]) == 1


@pytest.mark.parametrize("deployment", ["embedded", "server"])
def test_tasks_need_no_timeline(
    spark: SparkSession, moved: pathlib.Path, deployment: str, golden: Any, rows_of: RowsOf
) -> None:
    """The plan is created at the first action. Without `.hoodie` its tasks still finish, and a new load() fails."""
    expected = rows_of(golden.expected(CASE, "snapshot"))
    with serve({"t": str(moved)}, "127.0.0.1:0") as running:
        options = {"slots": "2", **({"server": running.address} if deployment == "server" else {})}
        reader = spark.read.format("penstock").options(**options)
        target = "t" if deployment == "server" else str(moved)
        frame = reader.load(target)
        assert frame.rdd.getNumPartitions() == 2  # plans, reads no rows
        (moved / ".hoodie").rename(moved.with_name("hoodie-away"))
        assert rows_of(frame) == expected
        assert rows_of(frame.union(frame)) == expected + expected
        with pytest.raises(PySparkException, match="TableNotFound"):
            reader.load(target).count()


def test_unknown_plan_fails_and_is_never_empty(spark: SparkSession, golden: Any) -> None:
    tables = {"t": str(golden.table(CASE))}
    with serve(tables, "127.0.0.1:0") as running:
        frame = spark.read.format("penstock").option("server", running.address).load("t")
        assert frame.count() == 41
        address = running.address
    with serve(tables, address), pytest.raises(PySparkException, match="UnknownPlan: no plan"):
        frame.count()


def test_slot_holds_only_its_number(server: Any) -> None:
    source = PenstockDataSource({"server": server.address, "path": CASE, "where": "ts > 0", "slots": "2"})
    partitions = source.reader(source.schema()).partitions()
    assert len(partitions) == 2
    for slot, partition in enumerate(partitions):
        assert (partition.value.server, partition.value.slot) == (server.address, slot)
        assert len(pickle.dumps(partition)) < 400


def test_embedded_slot_shows_no_data_and_no_where(golden: Any) -> None:
    source = PenstockDataSource({"path": str(golden.table(CASE)), "where": "ts > 7654321"})
    partitions = source.reader(source.schema()).partitions()
    assert partitions
    assert all("7654321" not in repr(partition) for partition in partitions)
