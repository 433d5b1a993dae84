"""The rows of a data frame on their way into the files of a table: the steps of a write, as the driver orders them.

tag: each row gets its partition, and its bucket or key; the result is kept, so that the data frame is evaluated once.
locate: with an index of keys, the stored keys of the rows' partitions are joined. count: rows by partition and slot say
which file groups there will be. write: the rows of each group go into one task, which writes its files.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from penstock.engine.spark.write.columns import (
    ALL_TAGS,
    COPIES,
    DATA,
    GROUP,
    GROUPS,
    KEY,
    LIMITS,
    PARTITION,
    ROW,
    SLOT,
    SPREAD_OF_KEY,
    STORED_KEY_TYPES,
    TAG_TYPES,
)
from penstock.engine.spark.write.file_groups import REPORT_TYPES, GroupWriter, stat_of, write_file_groups
from penstock.engine.spark.write.input import quoted
from penstock.engine.spark.write.stored_keys import read_stored_keys
from penstock.engine.spark.write.tagging import Tagging, tag_rows
from penstock.engine.spark.write.task_table import TaskTable, errors_of_tasks
from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.index.group_plan import NEW, CountedRows, GroupPlan, plan_groups
from penstock.engine.write.index.index_choice import KeyIndex
from penstock.engine.write.planned_write import PlannedWrite
from penstock.proto.errors import InvariantViolation
from penstock.table.timeline.commits import WriteStat
from penstock.writer.index.slices import GroupWrite
from penstock.writer.rows.write_schema import WriteSchema
from penstock.writer.transaction.attempt_files import open_for_attempts, remove_unreported_files
from penstock.writer.transaction.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("penstock.engine.spark")

_MAX_TASKS: Final = 2000
"""Tasks that write; with more file groups than that, a task writes several, one after the other."""


@dataclass(frozen=True, slots=True)
class SparkRows:
    """The tagged rows of a data frame. `WriteRows`."""

    planned: PlannedWrite
    """The write."""
    columns: pa.Schema
    """The columns of the data."""
    tagged: DataFrame
    """The rows with their tags. Spark keeps them, and never computes them again."""
    counted: Sequence[CountedRows]
    """How many there are."""

    @property
    def is_empty(self) -> bool:
        """As `WriteRows`."""
        return not self.counted

    @property
    def num_rows(self) -> int:
        """The rows of the data frame."""
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
        """As `WriteRows`. Errors of tasks too."""
        instant, storage = begun.requested_time, begun.storage
        written: dict[int, WriteStat | None] = {}
        with open_for_attempts(storage, instant), errors_of_tasks(), self._located(current) as located:
            counted = self.counted if located is self.tagged else counted_rows(located)
            plan = plan_groups(self.planned.assigner, current, counted)
            writer = GroupWriter(
                table=task_table(self.planned, current),
                schema=schema,
                instant=instant,
                writes=plan.writes,
                salt=secrets.randbelow(1 << 31),
            )
            if plan.writes:
                written = self._written(located, plan, writer, _routed_rows(plan, counted))
        stats = [stat for stat in written.values() if stat is not None]
        files = [(stat.path, stat.file_size_bytes) for stat in stats]
        files += [item for stat in stats for item in stat.change_logs.items()]
        begun.refuse_ended()
        remove_unreported_files(storage, instant, files)
        for number in sorted(written):
            yield plan.writes[number], written[number]

    @contextlib.contextmanager
    def _located(self, current: CurrentTable) -> Iterator[DataFrame]:
        """The rows with the slots of their keys, and whether a base file has their key in several rows. A row stands
        once for each slice that has its key, as an insert may have repeated it."""
        planned = self.planned
        if not isinstance(planned.assigner.index, KeyIndex) or not planned.operation.searches_keys:
            yield self.tagged
            return
        searched = [
            (slot, item) for partition in self.partitions for slot, item in enumerate(current.slices.of(partition))
        ]
        if not searched:
            yield self.tagged
            return
        spark = self.tagged.sparkSession
        table = task_table(planned, current, reads_logs=True)
        places = spark.range(0, len(searched), 1, min(len(searched), _MAX_TASKS))
        stored = places.mapInArrow(read_stored_keys(table, searched), STORED_KEY_TYPES)
        joined = self.tagged.drop(SLOT).join(stored, [PARTITION, KEY], "left")
        located = joined.withColumn(SLOT, F.coalesce(SLOT, F.lit(NEW))).drop(KEY)
        located = located.persist()  # a cache: the join of rows that are kept has the same result each time
        with released(located.unpersist, planned.settings.where):
            yield located

    def _written(
        self, located: DataFrame, plan: GroupPlan, writer: GroupWriter, expected_rows: int
    ) -> dict[int, WriteStat | None]:
        """Writes the groups: number -> what was written."""
        tasks = min(len(plan.writes), _MAX_TASKS)
        rows = (
            _with_groups(located, plan)
            .select(GROUP, ROW, *map(quoted, self.columns.names))
            .repartitionById(tasks, F.col(GROUP) % tasks)
            .sortWithinPartitions(GROUP, ROW)  # Spark's sort spills; Arrow's would copy the rows of a group
            .drop(ROW)
        )
        reports = rows.mapInArrow(write_file_groups(writer), REPORT_TYPES).collect()
        written = {report["number"]: stat_of(report["stat"]) for report in reports}
        got_rows = sum(report["rows"] for report in reports)
        if len(written) != len(reports) or got_rows != expected_rows:
            raise InvariantViolation(
                f"{self.planned.settings.where}: tasks wrote {got_rows} rows in {len(reports)} file groups, of which "
                f"{len(written)} are distinct; expected {expected_rows} rows: nothing was written"
            )
        return written


@contextlib.contextmanager
def tagged_rows(planned: PlannedWrite, frame: DataFrame, columns: pa.Schema) -> Iterator[SparkRows]:
    """The rows of a data frame, which is evaluated here, once: Spark keeps its result while the block runs, and an
    executor that is lost with a part of it ends the write. `columns` are those of the frame.

    Errors of the frame, and of rows that cannot be written.
    """
    searches = isinstance(planned.assigner.index, KeyIndex) and planned.operation.searches_keys
    tagging = Tagging(task_table(planned, planned.early), planned.assigner.index, searches)
    names = planned.preparation.checked_columns(planned.early, columns)
    types = ", ".join([TAG_TYPES, *([f"{KEY} string"] if searches else [])])
    tag = arrow_udf(tag_rows(tagging, names), types)  # type: ignore[call-overload]  # its stubs lack type hints
    numbered = frame.withColumn(ROW, F.monotonically_increasing_id())
    tags = numbered.withColumn(ALL_TAGS, tag(ROW, *map(quoted, names)))
    with errors_of_tasks():
        tagged = tags.select(f"{ALL_TAGS}.*", ROW, *map(quoted, columns.names)).localCheckpoint()
    java: Any = tagged._jdf
    # else Spark keeps the rows until the JVM collects them
    with released(lambda: java.queryExecution().logical().rdd().unpersist(False), planned.settings.where):
        with errors_of_tasks():
            counted = counted_rows(tagged)
        yield SparkRows(planned, columns, tagged, counted)


@contextlib.contextmanager
def released(release: Callable[[], object], where: str) -> Iterator[None]:
    """Calls `release`, which frees rows that Spark keeps, at the end of the block. Its error is logged: the write has
    completed, or has an error of its own."""
    try:
        yield
    finally:
        try:
            release()
        except Exception as error:  # noqa: BLE001 - py4j's, such as for a session that has stopped
            log.warning("%s: Spark keeps rows of the write until it ends: %s", where, str(error)[:300])


def counted_rows(frame: DataFrame) -> list[CountedRows]:
    """The rows by partition and slot."""
    copies = F.max(COPIES) if COPIES in frame.columns else F.lit(False)
    counts = frame.groupBy(PARTITION, SLOT).agg(
        F.count("*").alias("rows"), F.sum(F.col(DATA).cast("long")).alias("data_rows"), copies.alias("copies")
    )
    return [
        CountedRows(
            partition=row[PARTITION],
            slot=row[SLOT],
            rows=row["rows"],
            data_rows=row["data_rows"],
            has_copies=bool(row["copies"]),
        )
        for row in counts.collect()
    ]


def task_table(planned: PlannedWrite, current: CurrentTable, *, reads_logs: bool = False) -> TaskTable:
    """The table as tasks need it."""
    return TaskTable(
        path=planned.storage.base_path,
        settings=planned.settings,
        operation=planned.operation,
        record=current.record,
        scan=current.scan if reads_logs else None,
        splits=current.splits if reads_logs else {},
    )


def _with_groups(rows: DataFrame, plan: GroupPlan) -> DataFrame:
    """The rows that have a route, with the number of their group."""
    of_one = all(len(route.groups) == 1 for route in plan.routes)  # then no row needs a search
    columns = {
        PARTITION: pa.array([route.partition for route in plan.routes], pa.string()),
        SLOT: pa.array([route.slot for route in plan.routes], pa.int32()),
    }
    if of_one:
        columns[GROUP] = pa.array([route.groups[0] for route in plan.routes], pa.int32())
    else:
        columns[GROUPS] = pa.array([route.groups for route in plan.routes], pa.list_(pa.int32()))
        columns[LIMITS] = pa.array([route.limits for route in plan.routes], pa.list_(pa.int32()))
    routes = F.broadcast(rows.sparkSession.createDataFrame(pa.table(columns)))
    routed = rows.join(routes, [PARTITION, SLOT])
    if of_one:
        return routed
    passed = F.filter(LIMITS, lambda limit: limit <= F.col(SPREAD_OF_KEY))
    return routed.withColumn(GROUP, F.element_at(GROUPS, F.size(passed) + 1))


def _routed_rows(plan: GroupPlan, counted: Sequence[CountedRows]) -> int:
    routed = {(route.partition, route.slot) for route in plan.routes}
    return sum(one.rows for one in counted if (one.partition, one.slot) in routed)
