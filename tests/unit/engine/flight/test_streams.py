"""Open streams: limits, idle streams, clients that go, parts of batches."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.engine.flight import streams as module
from penstock.engine.flight.streams import OpenStreams, Stream, parts_of
from penstock.proto.errors import Overloaded, StorageError


class Files:
    """A source of three batches of two rows, which counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def batches(self, error: Exception | None = None) -> Generator[pa.RecordBatch, None, None]:
        try:
            for first in range(0, 6, 2):
                yield pa.record_batch({"n": pa.array([first, first + 1])})
            if error is not None:
                raise error
        finally:
            self.closed += 1


class Ends:
    """The ends of streams: (rows, error)."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []

    def __call__(self, stream: Stream, error: BaseException | None) -> None:
        self.seen.append((stream.rows, "" if error is None else str(error)))


@pytest.fixture
def seconds() -> list[float]:
    """A clock: its first item is the time."""
    return [100.0]


@pytest.fixture
def opened(seconds: list[float]) -> OpenStreams:
    """At most two open streams in three calls, idle after 10 seconds."""
    return OpenStreams(2, 3, 10.0, lambda: seconds[0])


def test_stream_to_its_end(opened: OpenStreams) -> None:
    files, ends = Files(), Ends()
    stream = opened.open(files.batches(), threading.Event(), ends)
    assert [batch.column(0).to_pylist() for batch in stream] == [[0, 1], [2, 3], [4, 5]]
    assert (files.closed, ends.seen, opened.open_count) == (1, [(6, "")], 0)
    assert list(stream) == []
    assert ends.seen == [(6, "")]


def test_error_of_the_reader_reaches_the_client_and_the_log(opened: OpenStreams) -> None:
    files, ends = Files(), Ends()
    stream = opened.open(files.batches(StorageError("the disk is gone")), threading.Event(), ends)
    for _ in range(3):
        next(stream)
    with pytest.raises(fl.FlightUnavailableError, match="STORAGE: the disk is gone"):
        next(stream)
    assert (files.closed, ends.seen, opened.open_count) == (1, [(6, "the disk is gone")], 0)


def test_client_that_goes_releases_files(opened: OpenStreams) -> None:
    files, ends = Files(), Ends()
    stream = opened.open(files.batches(), threading.Event(), ends)
    next(stream)
    assert (files.closed, opened.open_count) == (0, 1)
    del stream
    gc.collect()
    assert (files.closed, opened.open_count) == (1, 0)
    assert ends.seen == [(2, "the client left before the end")]


def test_client_that_goes_before_the_first_batch(opened: OpenStreams) -> None:
    ends = Ends()
    stream = opened.open(Files().batches(), threading.Event(), ends)
    del stream
    gc.collect()
    assert (opened.open_count, ends.seen) == (0, [(0, "the client left before the end")])


def test_files_that_cannot_be_closed_end_no_other_stream(opened: OpenStreams, seconds: list[float]) -> None:
    def failing() -> Generator[pa.RecordBatch, None, None]:
        try:
            while True:
                yield pa.record_batch({"n": pa.array([1])})
        finally:
            raise OSError("close failed")

    files, ends = Files(), Ends()
    streams = [opened.open(failing(), threading.Event(), ends), opened.open(files.batches(), threading.Event(), ends)]
    for stream in streams:
        next(stream)
    seconds[0] += 10_000
    opened.close_idle()
    assert files.closed == 1 and len(ends.seen) == 2


def test_limit_of_open_streams(opened: OpenStreams) -> None:
    first, second = (opened.open(Files().batches(), threading.Event(), Ends()) for _ in range(2))
    with pytest.raises(Overloaded, match="2 streams are open, at most 2"):
        opened.open(Files().batches(), threading.Event(), Ends())
    list(first)
    third = opened.open(Files().batches(), threading.Event(), Ends())
    assert opened.open_count == 2
    del second, third


def test_idle_stream_is_closed(opened: OpenStreams, seconds: list[float]) -> None:
    files, ends = Files(), Ends()
    stream = opened.open(files.batches(), threading.Event(), ends)
    next(stream)
    seconds[0] += 9.9
    opened.close_idle()
    assert (files.closed, opened.open_count) == (0, 1)
    next(stream)
    seconds[0] += 9.9
    opened.close_idle()
    assert opened.open_count == 1, "the second batch is the newest"
    seconds[0] += 0.1
    opened.close_idle()
    assert (files.closed, opened.open_count) == (1, 0)
    with pytest.raises(fl.FlightUnavailableError, match="requested no batch for 10 s"):
        next(stream)
    assert len(ends.seen) == 1


def test_closed_streams_in_progress_are_limited_too(opened: OpenStreams, seconds: list[float]) -> None:
    """Their clients neither read nor go, so that gRPC keeps their threads."""
    stalled = [opened.open(Files().batches(), threading.Event(), Ends()) for _ in range(2)]
    seconds[0] += 10
    opened.close_idle()
    stalled.append(opened.open(Files().batches(), threading.Event(), Ends()))
    with pytest.raises(Overloaded, match="in 3 calls, at most 3"):
        opened.open(Files().batches(), threading.Event(), Ends())
    stalled.clear()
    gc.collect()
    assert opened.open(Files().batches(), threading.Event(), Ends()).is_open


def test_stream_that_is_being_read_is_not_idle(opened: OpenStreams, seconds: list[float]) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def slow() -> Generator[pa.RecordBatch, None, None]:
        reading.set()
        go_on.wait(30)
        yield pa.record_batch({"n": pa.array([1])})

    stream = opened.open(slow(), threading.Event(), Ends())
    batches: list[Any] = []
    thread = threading.Thread(target=lambda: batches.append(next(stream)))
    thread.start()
    assert reading.wait(30)
    seconds[0] += 1000
    opened.close_idle()
    assert stream.is_open
    go_on.set()
    thread.join(30)
    assert len(batches) == 1


def test_server_that_stops(opened: OpenStreams) -> None:
    files = Files()
    stream = opened.open(files.batches(), threading.Event(), Ends())
    next(stream)
    opened.refuse()
    with pytest.raises(StorageError, match="the server is stopping"):
        opened.open(Files().batches(), threading.Event(), Ends())
    next(stream)
    opened.close_all(1.0)
    assert files.closed == 1
    with pytest.raises(fl.FlightUnavailableError, match="the server is stopping: request the flight again"):
        next(stream)


def test_server_that_stops_ends_retries(opened: OpenStreams) -> None:
    """The storage fails, and the read waits for its next attempt until the stream is stopped."""
    stop, reading = threading.Event(), threading.Event()

    def retried() -> Generator[pa.RecordBatch, None, None]:
        reading.set()
        assert stop.wait(60)
        raise StorageError("the disk is gone")
        yield

    ends = Ends()
    stream = opened.open(retried(), stop, ends)
    errors: list[BaseException] = []

    def read() -> None:
        try:
            next(stream)
        except fl.FlightError as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert reading.wait(30)
    opened.close_all(30.0)
    thread.join(30)
    assert not stream.is_open and len(errors) == len(ends.seen) == 1


def test_server_that_stops_does_not_wait_for_storage_that_does_not_answer(
    opened: OpenStreams, caplog: pytest.LogCaptureFixture
) -> None:
    reading, answers = threading.Event(), threading.Event()

    def hanging() -> Generator[pa.RecordBatch, None, None]:
        reading.set()
        answers.wait(60)
        yield pa.record_batch({"n": pa.array([1])})

    stream = opened.open(hanging(), threading.Event(), Ends())
    thread = threading.Thread(target=lambda: next(stream))
    thread.start()
    assert reading.wait(30)
    files = Files()
    other = opened.open(files.batches(), threading.Event(), Ends())
    opened.close_all(0.0)
    assert stream.is_open and not other.is_open
    assert "a stream is not closed: its storage did not answer for 0 s" in caplog.text
    answers.set()
    thread.join(30)


@pytest.mark.parametrize("limit", [1, 7, 8, 9, 79, 80, 81, 1000])
def test_parts_of_a_batch(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", limit)
    batch = pa.record_batch({"n": pa.array(range(10), pa.int64())})
    parts = parts_of(batch)[::-1]
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))
    assert all(part.num_rows == 1 or part.nbytes <= limit for part in parts)
    assert all(part.num_rows for part in parts)


def test_empty_batch_is_one_part() -> None:
    batch = pa.record_batch({"n": pa.array([], pa.int64())})
    assert parts_of(batch) == [batch]


def test_long_row_among_short_ones_does_not_make_a_long_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 1000)
    batch = pa.record_batch({"s": ["x" * 5000, *["y" * 400] * 10, "z" * 900, *["y" * 10] * 500]})
    parts = parts_of(batch)[::-1]
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))
    assert [part.num_rows for part in parts if part.nbytes > 1000] == [1]
    assert len(parts) < 40
