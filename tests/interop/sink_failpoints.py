"""Failpoints in the tasks of a write from Spark: attempts that raise, end their process, or are so slow that Spark
starts a second attempt beside them.

Executors import this module. A seed, the micro-batch and the number of the task decide, so that a repeated task does
the same; second attempts do no harm. Each kind of harm is in every run (PLANNED).
"""

from __future__ import annotations

import os
import pathlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa
from pyspark import TaskContext

from penstock.engine.spark.write.file_groups import GroupWriter
from penstock.table.timeline.commits import WriteStat

NOTES: Final = "attempts"
"""The folder of the notes."""
STAYS_S: Final = 20.0
"""An attempt waits no longer for a second one, which may have lost its executor."""


class Harm(StrEnum):
    """RAISE: an error. EXIT: the end of the Python worker. STAY: the attempt waits until a second one has begun, and
    goes on beside it."""

    RAISE = "raise"
    EXIT = "exit"
    STAY = "stay"


WEIGHTS: Final = {Harm.RAISE: 0.012, Harm.EXIT: 0.008, Harm.STAY: 0.03}
"""How often a failpoint does harm. A micro-batch passes about twenty."""
PLANNED: Final = {
    ("upserts group ends", 1): Harm.STAY,
    ("inserts task ends", 1): Harm.STAY,
    ("upserts task begins", 2): Harm.RAISE,
    ("inserts task begins", 2): Harm.EXIT,
}
"""What happens to the first task, or file group, of a micro-batch at a place, whatever the seed is."""


@dataclass(frozen=True, slots=True)
class Failpoint:
    """A place in a task."""

    folder: str
    """Where the notes are."""
    seed: int
    """Decides which tasks are harmed."""
    place: str
    """The name of the stream and of the place."""

    def harm(self, batch: int, number: int) -> Harm | None:
        """What happens to the first attempt at the task `number` of a micro-batch."""
        if number == 0 and (self.place, batch) in PLANNED:
            return PLANNED[self.place, batch]
        rng = random.Random(f"{self.seed} {self.place} {batch} {number}")
        kinds: list[Harm | None] = [*WEIGHTS, None]
        return rng.choices(kinds, [*WEIGHTS.values(), 1 - sum(WEIGHTS.values())])[0]

    def reached(self, number: int | None = None) -> None:
        """Does the harm. `number`: that of a file group; by default that of the task."""
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        harm = self.harm(batch, context.partitionId() if number is None else number)
        if harm is None:
            return
        application = pathlib.Path.cwd().parent.name
        task = f"{self.place}-{application}-{context.stageId()}-{context.partitionId()}-{number}"
        if context.attemptNumber() == 0:
            self._note(f"{harm}.{task}")
            self._do(harm, task)
        elif harm is Harm.STAY:
            self._note(f"second.{task}")

    def _do(self, harm: Harm, task: str) -> None:
        match harm:
            case Harm.RAISE:
                raise RuntimeError("a task fails on purpose")
            case Harm.EXIT:
                os._exit(1)
            case Harm.STAY:
                give_up = time.monotonic() + STAYS_S
                while time.monotonic() < give_up:
                    if (pathlib.Path(self.folder) / NOTES / f"second.{task}").exists():
                        self._note(f"both.{task}")
                        return
                    time.sleep(0.02)

    def _note(self, name: str) -> None:
        (pathlib.Path(self.folder) / NOTES / name).touch()


def noted(folder: pathlib.Path, kind: str) -> int:
    """How many notes there are of a kind: of a harm, or `both`: two attempts ran at the same time."""
    return sum(1 for _ in (folder / NOTES).glob(f"{kind}.*"))


def harmed_rows(before: Failpoint, after: Failpoint) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of `DataFrame.mapInArrow` that returns the rows, with a failpoint at both ends of the task."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before.reached()
        yield from batches
        after.reached()

    return rows


class HarmedWriter(GroupWriter):
    """A writer of file groups with a failpoint before and after each file. The notes are beside the table."""

    __slots__ = ()

    def write(self, number: int, data: pa.Table, attempt: int) -> WriteStat | None:
        """As `GroupWriter`."""
        folder, seed = str(pathlib.Path(self.table.path).parent), int(os.environ["PENSTOCK_FAILPOINTS"])
        Failpoint(folder, seed, "upserts group begins").reached(number)
        stat = GroupWriter.write(self, number, data, attempt)
        Failpoint(folder, seed, "upserts group ends").reached(number)
        return stat
