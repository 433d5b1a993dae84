"""The stream reader: offsets are positions, a micro-batch is the range between two of them.

Shell around `offsets` and `progress`: it holds the clock and the enumerator. Nothing in the process is needed after a
restart: a plan follows from (start, end) alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.engine.enumerators import enumerator_for
from penstock.engine.requests import range_request, start_of_stream
from penstock.engine.spark.offsets import Offset, offset_of, position_of
from penstock.engine.spark.options import Loaded, wanted_columns
from penstock.engine.spark.planning import plan_slots
from penstock.engine.spark.progress import StreamProgress, with_patience
from penstock.engine.spark.tasks import SlotReading, read_partition
from penstock.proto.enumerator import Enumerator
from penstock.proto.positions import Position
from penstock.proto.queries import Latest


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table range by range, each range once.

    The cap `maxCommitsPerTrigger` travels to `latestOffset` as ReadMaxFiles, the nearest of Spark's own limits (it
    knows no commits), so that Trigger.Once, which asks for everything, gets everything.
    """

    def __init__(
        self,
        load: Loaded,
        schema: StructType,
        *,
        enumerator: Enumerator | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._load = Loaded(load.table, replace(load.options, columns=wanted_columns(schema, load.options)))
        self._reading = SlotReading(schema, None, load.options.batch_rows, load.options.event_time)
        self._initial: Offset | None = None
        self._clock, self._pause = clock, pause
        self._given = enumerator
        self._progress = StreamProgress(self._newest, clock, pause)

    def __reduce__(self) -> tuple[object, ...]:
        """What a task needs: Spark pickles the reader into every task."""
        return (PenstockStreamReader, (self._load, self._reading.schema))

    def initialOffset(self) -> Offset:
        """Where a new query starts: the option `after`, else before every instant, which loses nothing.

        Spark calls it twice and takes the second answer: it stays the same for the reader's life.
        """
        if self._initial is None:
            self._initial = offset_of(with_patience(self._first_position, self._clock, self._pause))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """The cap, for Spark to hand back to `latestOffset`."""
        cap = self._load.options.max_commits_per_trigger
        return ReadMaxFiles(cap) if cap else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the newest position as the run's end."""
        self._progress.pin()

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """The end of the next micro-batch; `start` itself, text for text, when there is nothing new."""
        begin = self.initialOffset() if start is None else start
        position = position_of(begin)
        cap = limit.max_files if isinstance(limit, ReadMaxFiles) else 0
        end = self._progress.advance(position, cap)
        return begin if end == position else offset_of(end)

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> list[InputPartition]:
        """The slots of the rows in (start, end], planned anew at each call; [] for an empty range."""
        after, upto = position_of(start), position_of(end)
        if after == upto:
            return []
        table, options = self._load.table, self._load.options
        request = range_request(table, options, after, upto)
        slots = with_patience(
            lambda: plan_slots(self._enumerator, options.server, request, self._reading.schema, options.access),
            self._clock,
            self._pause,
        )
        return [InputPartition(slot) for slot in slots]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slot; the same rows whichever attempt reads it."""
        return read_partition(partition, self._reading)

    def commit(self, end: Offset) -> None:
        """Nothing to do: Spark's checkpoint is the only memory of this door."""

    def stop(self) -> None:
        """Nothing to do: connections belong to the process, a server's plans to their time to live."""

    @cached_property
    def _enumerator(self) -> Enumerator:
        """Made when the driver first asks: the copies of this reader in the tasks never do."""
        options = self._load.options
        return self._given or enumerator_for(options.server, options.access)

    def _newest(self, after: Position | None, max_commits: int) -> Position:
        return self._enumerator.newest_position(self._load.table, after, max_commits)

    def _first_position(self) -> Position:
        table = self._load.table
        start = start_of_stream(table, self._load.options, lambda: self._enumerator.describe_table(table))
        return self._newest(None, 0) if isinstance(start, Latest) else start
