"""The stream reader. An offset is a point of the stream, and determines the micro-batch before it.

Combines `offsets`, `progress` and `schema.monitor` with the clock and the enumerator. A restart needs no state of the
process: the offset alone determines the plan. The reader of a stream that is refused is `RefusedStreamReader`.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.engine.connect import embedded_enumerator, enumerator_for, open_tables
from penstock.engine.requests.batch import check_order
from penstock.engine.requests.stream import (
    check_stream_options,
    stream_limits,
    stream_scope,
    stream_start,
)
from penstock.engine.spark.load import Loaded, resolved
from penstock.engine.spark.planning import plan_slots
from penstock.engine.spark.schema.changes import SchemaChange
from penstock.engine.spark.schema.monitor import FixedSchema, SchemaMonitor
from penstock.engine.spark.stream.lost_batches import remaining_batch
from penstock.engine.spark.stream.progress import StreamProgress
from penstock.engine.spark.task.input_partitions import MarkerSlot, Slot
from penstock.engine.spark.task.reader import SlotReader
from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.engine.stream_offsets import Offset, ScopeId, continued, offset_of, point_of, scope_id
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError, PenstockError, PositionExpired, TableNotFound
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import NO_LIMITS, Changes, RoundLimits
from penstock.proto.model.reports import TableDescription
from penstock.proto.model.streams import CommitsBatch, NextBatch, NoBatch, StreamPoint, StreamScope, batch_request
from penstock.proto.retry import Retry
from penstock.table.storage.uris import redacted_uri

log = logging.getLogger("penstock.engine.spark")


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table batch by batch, each once. The checkpoint is the only state."""

    def __init__(
        self,
        load: Loaded,
        schema: StructType,
        *,
        whole_schema: bool = False,
        enumerator: Enumerator | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] | None = None,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        """`whole_schema`: the schema is that of load(), which neither `columns` nor `.schema()` restricted.

        ConfigurationError: options that exclude each other, a schema that lacks what they need.
        """
        check_stream_options(load.options)
        if load.options.on_new_columns == "fail" and not whole_schema:
            raise ConfigurationError(
                "option onNewColumns=fail needs the schema of load(), which tells new columns from columns that were "
                "not asked for: got .schema(), or a table of Spark's catalog, whose schema is stored; load the table "
                "by its path or name, or leave onNewColumns out"
            )
        self._whole_schema = whole_schema
        self._load, self._reading = resolved(load, schema, narrows=True)
        self._initial: Offset | None = None
        self._retry = Retry(policy=load.options.retry, now_ms=lambda: clock() * 1000, wait=pause or time.sleep)
        self._given, self._reads = enumerator, None
        if not enumerator and not load.options.server:
            self._reads = open_tables(mergers=load.options.mergers)
        self._end_watch: Callable[[], None] = lambda: None
        self._new_id = new_id
        self._limits, self._takes_all = stream_limits(load.options), False
        self._progress = StreamProgress(
            self._next_batch, clock, pause or time.sleep, load.options.idle_timeout_us, pause or self._pause
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Spark pickles the reader into every task, which needs only the SlotReader."""
        return (SlotReader, (self._reading,))

    @hidden_traceback()
    def initialOffset(self) -> Offset:
        """The start of a new query: a snapshot of the table now, or the option `after`.

        Spark calls it twice and uses the second result, so the result of a reader never changes.
        """
        if self._initial is None:
            point = self._retry.call(self._first_point)
            self._progress.begin(point)
            self._initial = offset_of(point, self._scope_id, self._scope.upto)
        return self._initial

    @hidden_traceback()
    def getDefaultReadLimit(self) -> ReadLimit:
        """Any limit but ReadAllAvailable if the options limit or align a micro-batch: Spark itself passes
        ReadAllAvailable for Trigger.Once, and `latestOffset` has to distinguish the two. The reader does not use the
        numbers."""
        limits = self._limits
        if limits.max_rows:
            return ReadMaxRows(limits.max_rows)
        if limits.max_bytes:
            return ReadMaxBytes(limits.max_bytes)
        aligned = 2**31 - 1 if self._load.options.align_with else 0
        max_files = limits.max_files or limits.max_commits or aligned
        return ReadMaxFiles(max_files) if max_files else ReadAllAvailable()

    @hidden_traceback()
    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the newest position as the end of the run; for a hybrid stream the end of its topic."""
        if self._load.options.hybrid is not None:
            self._progress.pin_to_topic()
        else:
            self._progress.pin(self._newest)

    @hidden_traceback()
    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """The end of the next micro-batch; `start` itself, text for text, when there is nothing new.

        Errors: `Enumerator.next_batch`; SchemaMismatch when the table no longer fits the stream's schema, or has new
        columns at which the stream stops.
        """
        begin = self.initialOffset() if start is None else start
        point = continued(begin, point_of(begin, self._scope_id), self._scope.upto)
        self._takes_all = isinstance(limit, ReadAllAvailable)
        limits = NO_LIMITS if self._takes_all else self._limits
        batch = self._readable_batch(point, limits)
        if batch.lost:
            log.warning("table %s: rows were lost: %s", redacted_uri(self._load.table), batch.lost)
        return begin if batch.point == point else offset_of(batch.point, self._scope_id, self._scope.upto)

    @hidden_traceback()
    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> list[InputPartition]:
        """The slots of the micro-batch that ends at `end`, planned again at each call; [] if it is `start`."""
        before, point = point_of(start, self._scope_id), point_of(end, self._scope_id)
        if before == point:
            return []
        if end.get("version") == 1:  # has only a position
            point = replace(point, content=CommitsBatch(before.progress.position))
        try:
            slots = self._retry.call(lambda: self._slots(point))
        except PositionExpired as error:
            remaining = self._retry.call(partial(remaining_batch, self._enumerator, self._scope, before, point, error))
            log.warning(
                "table %s: the micro-batch up to %s can no longer be planned as it was; the stream continues with "
                "the rest of it (onLostRange): %s",
                redacted_uri(self._load.table),
                point.progress.position,
                error,
            )
            slots = self._retry.call(lambda: self._slots(remaining))
        return [InputPartition(slot) for slot in slots]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slot, the same in every attempt of the task."""
        return SlotReader(self._reading).read(partition)

    def commit(self, end: Offset) -> None:
        """Nothing to do: Spark's checkpoint is the only state."""

    def stop(self) -> None:
        """Ends the watch of the table. Connections belong to the process, a server's plans to their time to live."""
        self._end_watch()

    @cached_property
    def _enumerator(self) -> Enumerator:
        """Created on first use, in the driver: the copies of this reader in tasks never use it."""
        options = self._load.options
        if self._reads is None:
            return self._given or enumerator_for(options.server, options.access)
        from penstock.enumerator.tables.inotify import open_inotify

        self._end_watch = self._reads.follow_changes(open_inotify)
        return embedded_enumerator(self._reads)

    def _pause(self, seconds: float) -> None:
        """Waits before the next look at the table; without a server no longer than until its local timeline changes."""
        if self._reads is None:
            time.sleep(seconds)
        else:
            self._reads.wait_for_change(self._load.table, seconds)

    @cached_property
    def _scope(self) -> StreamScope:
        """Options checked against the table, on first use in this process."""
        scope = stream_scope(self._load.table, self._load.options, self._describe)
        return replace(scope, request=replace(scope.request, of_stream=self._new_id()))

    @cached_property
    def _scope_id(self) -> ScopeId:
        return scope_id(self._scope)

    @cached_property
    def _schemas(self) -> SchemaMonitor:
        query = self._scope.request.query
        fixed = FixedSchema(
            columns=self._reading.schema,
            changes=query.format if isinstance(query, Changes) else None,
            completion_time=self._scope.request.completion_time,
            is_whole=self._whole_schema,
            fails_on_new=self._load.options.on_new_columns == "fail",
        )
        return SchemaMonitor(self._load.table, fixed)

    def _slots(self, point: StreamPoint) -> list[Slot]:
        """The slots of the micro-batch, with a marker row if the watermark moves without rows, and at the end of the
        stream."""
        scope, options = self._scope, self._load.options
        watermark = point.watermark
        slots: list[Slot] = []
        request = batch_request(scope, point)
        if request is not None:
            slots = plan_slots(
                self._enumerator,
                options.server,
                request,
                self._reading.schema,
                options.access,
                narrows=True,
                watermark_us=watermark.at_us if scope.rule is not None else None,
            )
        alone = isinstance(point.content, NoBatch)
        if scope.rule is not None and watermark.at_us is not None and (alone or point.ended):
            slots.append(MarkerSlot(watermark))
        return slots

    def _readable_batch(self, start: StreamPoint, limits: RoundLimits) -> NextBatch:
        """The next batch if it can be read with the stream's schema, else the batch up to the next commit if that
        can."""
        try:
            batch = self._progress.advance(start, limits)
            broken = self._broken(batch)
            if not broken:
                self._schemas.check_new_columns(batch.schema_json, start.progress.position)
                return batch
        except ConfigurationError as error:
            self._check_now(start, error, only=limits.max_commits == 1)
        step = replace(limits, max_commits=1)
        try:
            batch = self._progress.within_target(start, step)
        except ConfigurationError as error:
            self._check_now(start, error, only=True)
            raise
        broken = self._broken(batch)
        if broken:
            raise self._schemas.mismatch(broken, start.progress.position, batch.point.progress.position)
        self._schemas.check_new_columns(batch.schema_json, start.progress.position)
        return batch

    def _broken(self, batch: NextBatch) -> tuple[SchemaChange, ...]:
        """Why the batch cannot be read under the stream's schema; () if it can. A batch after the hand-over has no
        commit whose schema could differ: its plan is checked (`casting`)."""
        return () if batch.point.progress.kafka is not None else self._schemas.breaking_changes(batch.schema_json)

    def _check_now(self, start: StreamPoint, error: ConfigurationError, *, only: bool) -> None:
        """A batch could not be planned: raises SchemaMismatch if the table's schema breaks the stream's now and nothing
        smaller can be planned (`only`); any other error as it is."""
        broken = self._schemas.breaking_changes(self._describe().schema_json)
        if not broken:
            raise error
        if start.progress.kafka is not None:
            raise self._schemas.mismatch(broken, start.progress.position, None) from error
        if only:
            end = self._retry.call(
                lambda: self._enumerator.newest_position(self._load.table, start.progress.position, 1)
            )
            raise self._schemas.mismatch(broken, start.progress.position, end) from error

    def _next_batch(self, point: StreamPoint, limits: RoundLimits, target: Position | None) -> NextBatch:
        alignment = None if self._takes_all else self._scope.alignment
        scope = replace(self._scope, limits=limits, target=target, alignment=alignment)
        return self._retry.call(lambda: self._enumerator.next_batch(scope, point))

    def _newest(self) -> Position:
        try:
            return self._retry.call(lambda: self._enumerator.newest_position(self._load.table))
        except TableNotFound:
            return EARLIEST

    def _first_point(self) -> StreamPoint:
        table, options, scope = self._load.table, self._load.options, self._scope
        point = self._enumerator.start_stream(scope, stream_start(table, options, self._describe))
        if scope.upto is not None:
            check_order(table, options, point.progress.position, scope.upto)
        return point

    def _describe(self) -> TableDescription:
        return self._retry.call(lambda: self._enumerator.describe_table(self._load.table))


class RefusedStreamReader(DataSourceStreamReader):
    """Raises `error` in each step that plans or reads; `commit` and `stop` do nothing.

    If `streamReader` itself raises, PySpark stops a reader that it never assigned, and reports that failure only
    (pyspark.sql.streaming.python_streaming_source_runner).
    """

    def __init__(self, error: PenstockError) -> None:
        self.error = error

    @hidden_traceback()
    def initialOffset(self) -> NoReturn:
        """Raises the error."""
        raise self.error

    @hidden_traceback()
    def latestOffset(self, start: object = None, limit: object = None) -> NoReturn:
        """Raises the error."""
        raise self.error

    @hidden_traceback()
    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        """Raises the error."""
        raise self.error

    @hidden_traceback()
    def read(self, partition: InputPartition) -> NoReturn:
        """Raises the error."""
        raise self.error
