"""Reads tasks in threads: each thread takes the next task, and its batches wait for the consumer.

Threads, and not processes: Arrow's decoders and the compiled kernels release the interpreter's lock, and no batch is
copied (docs/development/performance.md has the measurements).
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import field
from types import TracebackType
from typing import Final

import pyarrow as pa

from penstock.engine.parallel.waiting_batches import WaitingBatches
from penstock.engine.read_tasks import OpenedRead, ReadTask
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.reports import SplitReport
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.value_classes import dataclass

WAITING_BYTES: Final = 32 << 20
"""The most bytes of decoded batches that wait for the consumer. A batch has one or two MiB, small splits less."""
TASKS_AHEAD: Final = 64
"""The most tasks that are being read or wait. Small splits need more than one each, so that a thread that waits for the
interpreter's lock does not stop the others."""


MAX_THREADS: Final = 4
"""The most threads that are chosen. More are used if they are requested."""


SMALL_SPLIT_BYTES: Final = 1 << 20
"""Splits of local files that are smaller on average are not read side by side: opening them is Python's work, which
holds the interpreter's lock. On a remote store, threads wait for requests instead."""


def threads_of(options: ParsedOptions, opened: OpenedRead, cpus: int, *, ahead: bool = False) -> int:
    """The number of reader threads for these options; 0: the caller's thread reads. Never more than splits.

    Not requested: one for each CPU, up to MAX_THREADS; none for a single split and for small splits of local files,
    but one if the caller wants to be read `ahead`; none for a limit that one batch may satisfy, because threads would
    read ahead of it.
    """
    splits = opened.splits
    if options.threads:
        return 0 if options.threads == 1 else min(options.threads, splits)
    if options.limit is not None and options.limit <= options.batch_rows:
        return 0
    threads = min(splits, cpus, MAX_THREADS)
    if threads > 1 and opened.size_bytes < splits * SMALL_SPLIT_BYTES and opened.is_local:
        threads = 1
    return threads if threads > 1 or ahead else 0


class ThreadedRead:
    """A read of tasks in `threads` threads, which start with the first batch. One consumer."""

    def __init__(
        self,
        tasks: Iterator[ReadTask],
        threads: int,
        *,
        ordered: bool,
        on_report: Callable[[SplitReport], None] | None = None,
    ) -> None:
        """`on_report` is called from the threads, for one report at a time."""
        self._waiting = WaitingBatches(
            ordered=ordered, most_bytes=WAITING_BYTES, most_tasks=max(TASKS_AHEAD, 2 * threads)
        )
        self._tasks, self._count, self._on_report = tasks, threads, on_report
        self._next_task, self._report_lock = threading.Lock(), threading.Lock()

    @property
    def done(self) -> int:
        """The number of tasks whose batches were all returned."""
        return self._waiting.done

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The batches of all tasks. Raises the error of a task once: ordered after the batches before it, else at once.

        When the generator ends, fails or is closed, all threads have ended and all files are closed. Closing waits for
        the step that each thread is in: a batch, or the log of a split.
        """
        threads = _Threads(self._waiting)
        try:
            threads.start(self._read, self._count)
            while (batch := self._waiting.take()) is not None:
                yield batch
                threads.check_process()
        finally:
            threads.end()

    def _read(self, stop: threading.Event) -> None:
        """One thread: reads tasks until none is needed."""
        while (admitted := self._admitted()) is not None and self._read_task(*admitted, stop):
            pass

    def _admitted(self) -> tuple[int, ReadTask] | None:
        """The next task and its position, when it may be read; None: no further task is needed."""
        with self._next_task:  # so that positions are in the order of tasks
            position = self._waiting.admit()
            if position is None:
                return None
            with _FailureTo(self._waiting, position):
                if (task := next(self._tasks, None)) is not None:
                    return position, task
                self._waiting.no_task(position)
        return None

    def _read_task(self, position: int, task: ReadTask, stop: threading.Event) -> bool:
        """Whether the task was read to its end."""
        with (
            _FailureTo(self._waiting, position),
            closing(task.batches(on_report=self._report, stop=stop)) as batches,
        ):
            for batch in batches:
                if not self._waiting.put(position, batch):
                    return False
            self._waiting.end(position)
            return True
        return False

    def _report(self, report: SplitReport) -> None:
        if self._on_report is not None:
            with self._report_lock:
                self._on_report(report)


@dataclass(frozen=True, slots=True)
class _FailureTo:
    """A block whose failure becomes that of the task at `position`: the consumer raises it, of whatever class."""

    waiting: WaitingBatches
    position: int

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            self.waiting.fail(self.position, error)
        return error is not None


@dataclass(eq=False)
class _Threads:
    """The threads of one read, and how they end. They are daemons: a reader that is still held when the interpreter
    exits must not block it, so they are ended there."""

    waiting: WaitingBatches
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    process: int = field(default_factory=os.getpid)

    def start(self, read: Callable[[threading.Event], None], count: int) -> None:
        """Starts the threads with the log context of the caller."""
        _live.add(self)
        for number in range(count):
            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(read, self.stop), name=f"penstock-read-{number}", daemon=True)
            thread.start()
            self.threads.append(thread)

    def check_process(self) -> None:
        """ConfigurationError in a forked child: it has no such threads, and would wait for ever."""
        if os.getpid() != self.process:
            raise ConfigurationError(
                f"a read began in threads of process {self.process}, and continued in its fork {os.getpid()}, which "
                "has no such threads: begin the read in the child, or read with threads=1"
            )

    def end(self) -> None:
        """Stops the threads and waits for them. Also called by the garbage collector, in any thread.

        A thread of this read does not wait: it may hold a lock for which another one waits.
        """
        if os.getpid() != self.process:  # a forked child has no such threads, and may not use their locks
            return
        _live.discard(self)
        self.stop.set()
        self.waiting.stop()
        if threading.current_thread() not in self.threads:
            for thread in self.threads:
                thread.join()


_live: weakref.WeakSet[_Threads] = weakref.WeakSet()


def _end_all() -> None:
    for threads in list(_live):
        threads.end()


atexit.register(_end_all)
