"""A batch read returns the golden rows however Spark scans it: with repeated, partial, failed and parallel scans, with
and without a server."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

KEY = "_hoodie_record_key"

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]


@pytest.fixture
def snapshot(source: Any, golden: Any, rows_of: RowsOf) -> Counter[Any]:
    """The rows that Hudi returned for the table."""
    return rows_of(golden.expected(source.case, "snapshot"))


def test_snapshot_equals_hudi(source: Any, snapshot: Counter[Any], rows_of: RowsOf) -> None:
    assert rows_of(source.read()) == snapshot


def test_count_twice_on_the_same_dataframe(source: Any, snapshot: Counter[Any], rows_of: RowsOf) -> None:
    frame = source.read()
    assert [frame.count(), frame.count()] == [snapshot.total()] * 2
    assert rows_of(frame) == snapshot


def test_union_of_a_dataframe_with_itself(source: Any, snapshot: Counter[Any], rows_of: RowsOf) -> None:
    frame = source.read()
    assert rows_of(frame.union(frame)) == snapshot + snapshot


def test_order_by_scans_twice(source: Any, snapshot: Counter[Any], rows_of: RowsOf) -> None:
    rows = source.read().orderBy(F.col(KEY).desc()).toArrow()
    assert rows[KEY].to_pylist() == sorted(rows[KEY].to_pylist(), reverse=True)
    assert rows_of(rows) == snapshot


def test_repartition_by_range_scans_twice(source: Any, snapshot: Counter[Any], rows_of: RowsOf) -> None:
    assert rows_of(source.read().repartitionByRange(2, KEY)) == snapshot


def test_failed_task_is_retried_with_all_rows(
    source: Any, snapshot: Counter[Any], rows_of: RowsOf, tmp_path: pathlib.Path
) -> None:
    """The first attempt of a task fails in its second split; the next one must return all rows of the slot again."""
    folder = str(tmp_path)

    def fails_once(file: str) -> str:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            first = pathlib.Path(folder, f"{context.partitionId()}.first")
            if not first.exists():
                first.write_text(file)
            elif first.read_text() != file:
                pathlib.Path(folder, f"{context.partitionId()}.died").touch()
                raise RuntimeError("the first attempt fails on purpose")
        return file

    dying = F.udf(fails_once, "string", useArrow=False)
    frame = source.read(slots="2").withColumn("_hoodie_file_name", dying("_hoodie_file_name"))
    assert rows_of(frame) == snapshot
    assert list(tmp_path.glob("*.died")), "no task failed"


@pytest.mark.parametrize("tasks", [1, 2])
def test_coalesce_reads_several_slots_in_one_task(
    source: Any, snapshot: Counter[Any], rows_of: RowsOf, tasks: int
) -> None:
    frame = source.read(slots="3").coalesce(tasks)
    assert frame.rdd.getNumPartitions() == tasks
    assert rows_of(frame) == snapshot


def test_take_one_then_count(source: Any, snapshot: Counter[Any], rows_of: RowsOf) -> None:
    frame = source.read()
    assert len(frame.take(1)) == 1
    assert frame.count() == snapshot.total()
    assert rows_of(frame) == snapshot


def test_self_join_of_two_branches(source: Any, snapshot: Counter[Any]) -> None:
    frame = source.read()
    keys = [dict(row)[KEY] for row in snapshot.elements()]
    assert len(set(keys)) == len(keys), "the table's keys are unique"
    left = frame.where(F.col(KEY) != keys[0]).select(KEY)
    right = frame.where(F.col(KEY) != keys[1]).select(KEY)
    assert left.join(right, KEY).count() == len(keys) - 2


def test_action_for_each_branch_of_a_filter(source: Any, snapshot: Counter[Any], rows_of: RowsOf) -> None:
    """No filter is pushed into the source, so a filter of one scan does not affect another."""
    frame = source.read()
    key = dict(next(iter(snapshot)))[KEY]
    assert rows_of(frame.where(F.col(KEY) == key).union(frame)).total() == snapshot.total() + 1
