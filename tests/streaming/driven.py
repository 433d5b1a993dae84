"""Runs a stream over recorded timelines, step by step, and records each of its micro-batches.

Decides when commits are revealed and when the query stops and starts; reads Spark's checkpoint and progress.
`reference_model` has the expected results, `cases` the cases.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.progress import PROGRESS_S
from tests.streaming.trail import NOWHERE, Leg, Mark

NEVER = Mark(NOWHERE, None, None, False)


@dataclass(frozen=True, slots=True)
class Live:
    """A table with another writer; the test reveals no commits."""

    path: pathlib.Path


class SinkFailed(Exception):
    """The planned failure of a sink."""


@dataclass(slots=True)
class Sink:
    """Collects the rows of each micro-batch; fails once after its rows, if requested."""

    tables: dict[int, pa.Table] = field(default_factory=dict)
    fails: bool = False

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        rows = frame.toArrow()
        if batch_id in self.tables:
            assert rows.num_rows == self.tables[batch_id].num_rows, f"micro-batch {batch_id} is another one now"
        self.tables[batch_id] = rows
        if self.fails:
            self.fails = False
            raise SinkFailed("the sink fails on purpose")


class Driven:
    """One query over one or two tables (`recorded.View`, or Live), from its first micro-batch on, across restarts."""

    def __init__(
        self,
        spark: SparkSession,
        views: Sequence[Any],
        built: Callable[..., DataFrame],
        folder: pathlib.Path,
        options: Sequence[dict[str, str]],
        targets: Sequence[str] | None = None,
    ) -> None:
        """`targets`: the arguments of `load()`, if they are not the tables' paths."""
        self._targets = targets or [str(view.path) for view in views]
        self._spark, self._views, self._built, self._options = spark, views, built, options
        self._checkpoint = folder / "checkpoint"
        self.sink = Sink()
        self.restarts: set[int] = set()
        self.dropped: dict[int, int] = {}
        self._query: StreamingQuery | None = None
        self._is_restless = any("idleTimeout" in arguments for arguments in options)
        self._ends: list[int] = []
        """The last micro-batch of each step."""
        self._steps: list[tuple[int, ...]] = []

    def start(self) -> None:
        """Starts the query, from its checkpoint if there is one."""
        streams = [
            self._spark.readStream.format("penstock").options(**options).load(target)
            for target, options in zip(self._targets, self._options, strict=True)
        ]
        frame = self._built(self._spark, *streams)
        self._query = (
            frame.writeStream.foreachBatch(self.sink).option("checkpointLocation", str(self._checkpoint)).start()
        )

    def reveal(self, steps: Sequence[int]) -> None:
        """Reveals some commits of each table, and waits until all of them are read."""
        for view, step in zip(self._views, steps, strict=True):
            view.reveal(step)
        expected = [view.recorded.known(view.step)[-1].order_key for view in self._views]
        self._wait(lambda: all(mark.has_passed(key) for mark, key in zip(self._now(), expected, strict=True)))
        self._settle(tuple(steps))

    def run_to_the_end(self, step: int) -> None:
        """Runs a stream with `upto` to its end, over tables with some commits revealed."""
        self._wait(lambda: all(mark.is_end for mark in self._now()))
        self._settle((step,) * len(self._views))

    def wait_for_rows(self) -> None:
        """Waits for the first micro-batch."""
        self._wait(lambda: 0 in self.sink.tables)

    def catch_up(self, order_key: str) -> None:
        """Waits until some commits of a table with a live writer are read."""
        self._wait(lambda: self._now()[0].has_passed(order_key))
        self._settle((0,))

    def wait_for_idle_timeout(self) -> None:
        """Waits until each source's watermark advances without data."""
        before = self._now()
        self._wait(lambda: all(new.at_us > old.at_us for new, old in zip(self._now(), before, strict=True)))

    def fail_and_restart(self, steps: Sequence[int]) -> None:
        """Like `reveal`, but the sink fails in the first micro-batch of the step, and the query is started again."""
        self.sink.fails = True
        with pytest.raises(StreamingQueryException, match="on purpose"):
            self._reveal_until_it_fails(steps)
        self._note()
        self.restarts.add(self.last() + 1)
        self.start()
        self.reveal(steps)

    def restart(self) -> None:
        """Stops the query and starts it again."""
        self.stop()
        self.restarts.add(self.last() + 1)
        self.start()

    def stop(self) -> None:
        """Stops the query."""
        if self._query is not None:
            self._query.stop()
            self._note()

    def last(self) -> int:
        """The last completed micro-batch."""
        return max((int(path.name) for path in (self._checkpoint / "commits").glob("[0-9]*")), default=-1)

    def marks(self, batch: int) -> list[Mark]:
        """The position of each source after a micro-batch."""
        lines = self._log(batch)[2:]
        return [NEVER if line == "-" else Mark.of_offset(json.loads(line)) for line in lines]

    def evicted_at_ms(self, batch: int) -> int:
        """Spark's watermark for eviction in a micro-batch."""
        return int(json.loads(self._log(batch)[1])["batchWatermarkMs"])

    def legs(self, source: int) -> list[Leg]:
        """The part of each micro-batch that comes from a source."""
        batches, before = [], NEVER
        for batch in range(self.last() + 1):
            after = self.marks(batch)[source]
            if batch == 0:
                before = Mark(after.place, 0, None, False) if after.done is not None else NEVER
            batches.append(Leg(before, after, self._step_of(batch)[source]))
            before = after
        return batches

    @property
    def ends(self) -> list[int]:
        """The last micro-batch of each step, after which no data was left."""
        return [] if self._is_restless else self._ends

    def _step_of(self, batch: int) -> tuple[int, ...]:
        reached = zip(self._ends, self._steps, strict=True)
        return next((steps for end, steps in reached if batch <= end), self._steps[-1])

    def _log(self, batch: int) -> list[str]:
        return (self._checkpoint / "offsets" / str(batch)).read_text().splitlines()

    def _now(self) -> list[Mark]:
        last = self.last()
        return self.marks(last) if last >= 0 else [NEVER] * len(self._views)

    def _reveal_until_it_fails(self, steps: Sequence[int]) -> None:
        for view, step in zip(self._views, steps, strict=True):
            view.reveal(step)
        assert self._query is not None
        assert not self._query.awaitTermination(PROGRESS_S), "the sink was not asked to fail"
        raise AssertionError("the query ended by itself")

    def _settle(self, steps: tuple[int, ...]) -> None:
        """Waits for the end of a step: with an idle table the first micro-batch with all data, otherwise also the one
        without data."""
        assert self._query is not None
        if not self._is_restless:
            self._query.processAllAvailable()
        self._ends.append(self.last())
        self._steps.append(steps)

    def _note(self) -> None:
        """Records the number of dropped rows."""
        assert self._query is not None
        for progress in self._query.recentProgress:
            lost = sum(int(operator["numRowsDroppedByWatermark"]) for operator in progress["stateOperators"])
            self.dropped[progress["batchId"]] = max(lost, self.dropped.get(progress["batchId"], 0))

    def _wait(self, until: Callable[[], Any]) -> None:
        """Waits for a condition while the query runs."""
        give_up = time.monotonic() + PROGRESS_S
        assert self._query is not None
        while not until():
            assert not self._query.awaitTermination(0.05), "the query ended by itself"
            assert time.monotonic() < give_up, f"the stream stands at {self._now()}"
