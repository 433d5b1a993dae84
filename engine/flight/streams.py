"""Open streams of a server: their number is limited, and a stream that its client does not read is closed.

A stream is open from its call until it ends, its client goes, or no batch was requested for the idle time. Then its
files are closed. gRPC cannot end a call whose client neither reads nor goes: such a call keeps a thread and one batch
until the client goes, and counts against the limit of calls.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from typing import Final
from weakref import WeakSet

import pyarrow as pa

from penstock.engine.flight.errors import with_flight_errors
from penstock.proto.errors import Overloaded, PenstockError, StorageError

log = logging.getLogger("penstock.engine.flight")

MAX_BATCH_BYTES: Final = 3 << 20
"""The size above which a batch is sent in parts: many clients of gRPC accept messages of up to 4 MiB by default."""


class Stream:
    """The batches of one stream, as an iterator. One thread iterates; any thread may close."""

    def __init__(
        self,
        batches: Generator[pa.RecordBatch, None, None],
        stop: threading.Event,
        clock_s: Callable[[], float],
        on_end: Callable[[Stream, BaseException | None], None],
    ) -> None:
        """`stop` ends the retries of `batches`. `on_end` is called once, with the error that ended the stream, or
        None."""
        self.rows = self.bytes = 0
        self.begin_s = clock_s()
        self._batches, self._stop = batches, stop
        self._clock_s, self._on_end = clock_s, on_end
        self._lock = threading.Lock()
        self._parts: list[pa.RecordBatch] = []
        self._error: BaseException | None = None
        self._is_open = True
        self._since_s = self.begin_s

    @property
    def is_open(self) -> bool:
        """Whether its files may be open."""
        return self._is_open

    def __iter__(self) -> Stream:
        return self

    @with_flight_errors
    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            if not self._is_open:
                raise StopIteration if self._error is None else self._error
            try:
                if not self._parts:
                    self._parts = parts_of(next(self._batches))
            except BaseException as error:
                self._end(None if isinstance(error, StopIteration) else error)
                raise
            part = self._parts.pop()
            self.rows += part.num_rows
            self.bytes += part.nbytes
            self._since_s = self._clock_s()
            return part

    def stop(self) -> None:
        """Ends the retries of a batch that is being read."""
        self._stop.set()

    def close(self, error: PenstockError, wait_s: float) -> bool:
        """Closes the files; the client's next request raises `error`. Waits `wait_s` seconds for a batch that is being
        read; False: it is still being read, and nothing is closed."""
        if not self._lock.acquire(timeout=max(wait_s, 0.0)):
            return False
        try:
            self._end(error)
        finally:
            self._lock.release()
        return True

    def close_if_idle(self, idle_s: float) -> None:
        """Closes the stream if no batch was requested for `idle_s` seconds."""
        if not self._lock.acquire(blocking=False):
            return  # a batch is being read
        try:
            if self._clock_s() - self._since_s >= idle_s:
                self._end(StorageError(f"the stream was closed: its client requested no batch for {idle_s:g} s"))
        finally:
            self._lock.release()

    def _end(self, error: BaseException | None) -> None:
        if self._is_open:
            self._is_open, self._error, self._parts = False, error, []
            try:
                self._batches.close()
            except Exception:  # the client has its answer, and other streams go on
                log.exception("a stream was not closed cleanly")
            self._on_end(self, error)

    def __del__(self) -> None:
        self._end(StorageError("the client left before the end"))  # pyarrow drops the iterator when the call is over


class OpenStreams:
    """The open streams of a server. Any thread."""

    def __init__(self, most: int, most_calls: int, idle_s: float, clock_s: Callable[[], float]) -> None:
        """At most `most` streams are open, and at most `most_calls` calls in progress. `clock_s`: a monotonic clock."""
        self._most, self._most_calls, self._idle_s, self._clock_s = most, most_calls, idle_s, clock_s
        self._lock = threading.Lock()
        self._streams: WeakSet[Stream] = WeakSet()
        self._stopping = False

    def open(
        self,
        batches: Generator[pa.RecordBatch, None, None],
        stop: threading.Event,
        on_end: Callable[[Stream, BaseException | None], None],
    ) -> Stream:
        """A new stream of a generator that has not started; `stop` ends its retries. Overloaded: a limit is reached;
        StorageError: the server is stopping."""
        with self._lock:
            if self._stopping:
                raise StorageError("the server is stopping: request the stream from another one, or later")
            calls, open_streams = len(self._streams), self.open_count
            if open_streams >= self._most or calls >= self._most_calls:
                raise Overloaded(
                    f"{open_streams} streams are open, at most {self._most} (`penstock flight --streams`), in {calls} "
                    f"calls, at most {self._most_calls} (limits.calls): read fewer streams at once, or retry later"
                )
            stream = Stream(batches, stop, self._clock_s, on_end)
            self._streams.add(stream)
            return stream

    @property
    def open_count(self) -> int:
        """The number of open streams."""
        return sum(stream.is_open for stream in list(self._streams))

    def close_idle(self) -> None:
        """Closes the streams from which no batch was requested for the idle time."""
        for stream in list(self._streams):
            stream.close_if_idle(self._idle_s)

    def refuse(self) -> None:
        """Opens no stream from now on."""
        with self._lock:
            self._stopping = True

    def close_all(self, wait_s: float) -> None:
        """Closes every stream; its client gets a StorageError. Waits `wait_s` seconds for batches that are being read:
        a stream whose storage does not answer stays open."""
        streams = list(self._streams)
        for stream in streams:
            stream.stop()
        end_s = self._clock_s() + wait_s
        for stream in streams:
            error = StorageError("the server is stopping: request the flight again")
            if not stream.close(error, end_s - self._clock_s()):
                log.warning("a stream is not closed: its storage did not answer for %g s", wait_s)


def parts_of(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The batch as parts of MAX_BATCH_BYTES at most, in reverse order. A larger row is a part of its own."""
    size = batch.nbytes
    if size <= MAX_BATCH_BYTES or batch.num_rows <= 1:
        return [batch]
    rows = max(1, batch.num_rows * MAX_BATCH_BYTES // size)
    begins = reversed(range(0, batch.num_rows, rows))
    return [part for begin in begins for part in parts_of(batch.slice(begin, rows))]
