"""Penstock's write from Spark with one object per record between its steps, to measure what rows of Spark save.

Steps, file groups and files are those of `penstock.spark.write`, and each step decides with the same code. But a row
leaves each step as a Python object, which Spark pickles, keeps, shuffles and unpickles.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, Final

import pyarrow as pa
from pyspark import RDD, TaskContext

from penstock.engine.spark.write.columns import DATA, PARTITION, ROWS_OF_PARTITION, SLOT, SPREAD_OF_KEY
from penstock.engine.spark.write.file_groups import GroupWriter
from penstock.engine.spark.write.input import data_columns
from penstock.engine.spark.write.rows import task_table
from penstock.engine.spark.write.tagging import Tagging
from penstock.engine.spark.write.write import planned_write
from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.index.group_plan import CountedRows, Route, plan_groups
from penstock.engine.write.index.index_choice import BucketIndex
from penstock.engine.write.planned_write import PlannedWrite, WriteOptions
from penstock.engine.write.results import WriteResult
from penstock.table.timeline.commits import WriteStat
from penstock.writer.index.slices import GroupWrite
from penstock.writer.rows.write_schema import WriteSchema
from penstock.writer.transaction.attempt_files import open_for_attempts, remove_unreported_files
from penstock.writer.transaction.transaction import Transaction

CHUNK: Final = 10_000
"""Rows that a step converts at once, as Spark does for Arrow."""


@dataclass(frozen=True, slots=True)
class Record:
    """A row between the steps."""

    partition: str
    """Its partition path."""
    slot: int
    """Its bucket."""
    number: int
    """Its number in the data frame."""
    is_data: bool
    """Whether it is no delete."""
    spread: int
    """The hash of its key."""
    values: tuple[Any, ...]
    """Its columns."""


@dataclass(frozen=True, slots=True)
class ObjectRows:
    """The tagged rows. `WriteRows`, for a table with a bucket index."""

    planned: PlannedWrite
    """The write."""
    columns: pa.Schema
    """The columns of the data."""
    tagged: RDD[Record]
    """The rows with their tags, which Spark keeps."""
    counted: Sequence[CountedRows]
    """How many there are."""

    @property
    def is_empty(self) -> bool:
        """As `WriteRows`."""
        return not self.counted

    @property
    def num_rows(self) -> int:
        """As `WriteRows`."""
        return sum(one.rows for one in self.counted)

    @property
    def partitions(self) -> Sequence[str]:
        """As `WriteRows`."""
        return sorted({one.partition for one in self.counted})

    def schema(self, current: CurrentTable) -> WriteSchema:
        """As `WriteRows`."""
        return self.planned.preparation.rows(current, self.columns.empty_table())[0]

    def write_groups(
        self, begun: Transaction, current: CurrentTable, schema: WriteSchema
    ) -> Iterator[tuple[GroupWrite, WriteStat | None]]:
        """As `WriteRows`."""
        with open_for_attempts(begun.storage, begun.requested_time):
            plan = plan_groups(self.planned.assigner, current, self.counted)
            writer = GroupWriter(
                table=task_table(self.planned, current),
                schema=schema,
                instant=begun.requested_time,
                writes=plan.writes,
                salt=secrets.randbelow(1 << 31),
            )
            grouped = self.tagged.map(grouping(plan.routes)).partitionBy(len(plan.writes), lambda group: group)
            written = dict(grouped.mapPartitions(writing(writer, self.columns)).collect())
        stats = [stat for stat in written.values() if stat is not None]
        remove_unreported_files(
            begun.storage, begun.requested_time, [(stat.path, stat.file_size_bytes) for stat in stats]
        )
        for number in sorted(written):
            yield plan.writes[number], written[number]


def write_objects(df: Any, path: str, operation: str) -> WriteResult:
    """`penstock.spark.write` with one object per record."""
    planned = planned_write(path, WriteOptions(operation=operation))
    columns = data_columns(df, planned)
    assert isinstance(planned.assigner.index, BucketIndex), planned.assigner.index
    tagging = Tagging(task_table(planned, planned.early), planned.assigner.index, False)
    tagged: RDD[Record] = df.select(*columns.names).rdd.mapPartitionsWithIndex(tagging_of(tagging, columns)).persist()
    try:
        counts = tagged.mapPartitions(counts_of).reduceByKey(lambda one, other: one + other, 1).collect()
        counted = [
            CountedRows(partition=partition, slot=slot, rows=rows, data_rows=rows) for (partition, slot), rows in counts
        ]
        return planned.run(ObjectRows(planned, columns, tagged, counted))
    finally:
        tagged.unpersist()


def tagging_of(tagging: Tagging, columns: pa.Schema) -> Callable[[int, Iterable[Any]], Iterator[Record]]:
    """The first step."""

    def tag(partition: int, rows: Iterable[Any]) -> Iterator[Record]:
        remaining, first = iter(rows), 0
        while chunk := list(islice(remaining, CHUNK)):
            tagged = tagging.tagged(pa.Table.from_batches([batch_of(chunk, columns)]), first)
            tags = [tagged.field(name).to_pylist() for name in (PARTITION, SLOT, DATA, SPREAD_OF_KEY)]
            numbers = range(partition * ROWS_OF_PARTITION + first, partition * ROWS_OF_PARTITION + first + len(chunk))
            for values, number, path, slot, is_data, spread in zip(chunk, numbers, *tags, strict=True):
                yield Record(path, slot, number, is_data, spread, tuple(values))
            first += len(chunk)

    return tag


def counts_of(records: Iterable[Record]) -> Iterator[tuple[tuple[str, int], int]]:
    """The rows of a task by partition and slot."""
    yield from Counter((record.partition, record.slot) for record in records).items()


def grouping(routes: Sequence[Route]) -> Callable[[Record], tuple[int, Record]]:
    """The function that gives each row the number of its file group."""
    groups = {(route.partition, route.slot): route for route in routes}

    def grouped(record: Record) -> tuple[int, Record]:
        route = groups[record.partition, record.slot]
        return route.groups[sum(limit <= record.spread for limit in route.limits)], record

    return grouped


def writing(
    writer: GroupWriter, columns: pa.Schema
) -> Callable[[Iterable[tuple[int, Record]]], Iterator[tuple[int, WriteStat | None]]]:
    """The last step."""

    def write(rows: Iterable[tuple[int, Record]]) -> Iterator[tuple[int, WriteStat | None]]:
        context = TaskContext.get()
        ordered = sorted(rows, key=lambda row: (row[0], row[1].number))
        for number, group in groupby(ordered, key=lambda row: row[0]):
            records = iter([record.values for _, record in group])
            batches = []
            while chunk := list(islice(records, CHUNK)):
                batches.append(batch_of(chunk, columns))
            yield (
                number,
                writer.write(number, pa.Table.from_batches(batches), context.taskAttemptId() if context else 0),
            )

    return write


def batch_of(rows: Sequence[Sequence[Any]], columns: pa.Schema) -> pa.RecordBatch:
    """Rows as Arrow's columns."""
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)
