"""`ThreadedRead`: rows, errors, closing and bounds of reads in threads, with scripted tasks."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.parallel import threads as module
from penstock.engine.parallel.threads import MAX_THREADS, ThreadedRead, threads_of
from penstock.proto.errors import CorruptBlock, ServerUnavailable
from penstock.proto.logging import context_fields, log_context
from penstock.proto.options.registry import ParsedOptions


@dataclass
class Task:
    """A task with one row in each batch; `gate` is awaited before the batch `gated`, `error` follows the last batch."""

    values: list[int]
    gate: threading.Event | None = None
    gated: int = 0
    error: BaseException | None = None
    opened: int = 0
    closed: int = 0
    seen: list[dict[str, object]] = field(default_factory=list)
    size_bytes: int = 8

    def batches(self, limit: Any = None, on_report: Any = None, stop: Any = None) -> Generator[pa.RecordBatch]:
        self.opened += 1
        self.seen.append(dict(context_fields()))
        try:
            for place, value in enumerate(self.values):
                if self.gate is not None and place == self.gated:
                    self.gate.wait()
                yield pa.record_batch({"n": pa.array([value] * (self.size_bytes // 8), pa.int64())})
            if self.error is not None:
                raise self.error
            on_report(len(self.values))
        finally:
            self.closed += 1


def read(tasks: Iterator[Any], count: int = 2, *, ordered: bool = True, **more: Any) -> ThreadedRead:
    return ThreadedRead(tasks, count, ordered=ordered, **more)


def values(batches: Generator[pa.RecordBatch]) -> list[int]:
    return [batch.column(0)[0].as_py() for batch in batches]


def reader_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock-read")]


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert reader_threads() == [] and not module._live


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ordered_rows_are_those_of_one_thread(count: int) -> None:
    tasks = [Task([10 * number, 10 * number + 1]) for number in range(50)]
    reports: list[Any] = []
    reading = read(iter(tasks), count, on_report=reports.append)
    assert values(reading.batches()) == [value for task in tasks for value in task.values]
    assert reading.done == 50 and reports == [2] * 50
    assert all(task.opened == task.closed == 1 for task in tasks)


def test_forked_child_that_continues_a_read_gets_an_error() -> None:
    """In a process of its own: a fork of a process with threads may wait for a lock of a library."""
    code = """
import os, pyarrow as pa
from penstock.engine.parallel.threads import ThreadedRead
class Task:
    def batches(self, on_report, stop):
        for value in (1, 2, 3):
            yield pa.record_batch({"n": [value]})
batches = ThreadedRead(iter([Task()]), 1, ordered=True).batches()
next(batches)
child = os.fork()
if child == 0:
    try:
        next(batches)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print([batch.column(0)[0].as_py() for batch in batches])
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120, check=True)
    error, rest = done.stdout.splitlines()
    assert error.startswith("ConfigurationError a read began in threads of process ")
    assert "begin the read in the child, or read with threads=1" in error
    assert rest == "[2, 3]"


def test_first_task_that_takes_long_delays_ordered_rows_only() -> None:
    gate = threading.Event()
    tasks = [Task([0], gate=gate), Task([1]), Task([2])]
    with closing(read(iter(tasks), ordered=False).batches()) as batches:
        assert [next(batches).column(0)[0].as_py() for _ in range(2)] == [1, 2]
        gate.set()
        assert values(batches) == [0]


def test_task_that_takes_long_does_not_let_others_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_BYTES", 4096)
    monkeypatch.setattr(module, "TASKS_AHEAD", 4)
    gate, full = threading.Event(), threading.Event()
    tasks = [Task([0], gate=gate), *(Task([number] * 9, size_bytes=1024) for number in range(1, 40))]
    reading = read(iter(tasks), 3)
    waiting, put, highest = reading._waiting, reading._waiting.put, [0]

    def counted(position: int, batch: pa.RecordBatch) -> bool:
        if waiting.waiting_bytes + batch.nbytes > 4096:
            full.set()
        taken = put(position, batch)
        highest[0] = max(highest[0], waiting.waiting_bytes)
        return taken

    monkeypatch.setattr(waiting, "put", counted)
    consumer: list[int] = []
    thread = threading.Thread(target=lambda: consumer.extend(values(reading.batches())))
    thread.start()
    full.wait()
    assert sum(task.opened for task in tasks) <= 4
    gate.set()
    thread.join()
    assert consumer == [value for task in tasks for value in task.values]
    assert highest[0] <= 4096 + 1024


def test_error_is_raised_after_rows_before_it_and_ends_others() -> None:
    tasks = [Task([1, 2]), Task([3], error=CorruptBlock("block of t is damaged")), *(Task([9]) for _ in range(500))]
    batches = read(iter(tasks), 3).batches()
    assert [next(batches).column(0)[0].as_py() for _ in range(3)] == [1, 2, 3]
    with pytest.raises(CorruptBlock, match="block of t is damaged"):
        next(batches)
    assert reader_threads() == [] and list(batches) == []
    assert all(task.opened == task.closed for task in tasks) and not all(task.opened for task in tasks)


def test_error_of_any_class_ends_unordered_read() -> None:
    gate = threading.Event()
    tasks = [Task([1], error=KeyboardInterrupt()), Task([2, 3], gate=gate, gated=1)]
    batches = read(iter(tasks), ordered=False).batches()
    opener = threading.Timer(0, gate.set)
    opener.start()
    with pytest.raises(KeyboardInterrupt):
        values(batches)
    opener.join()
    assert all(task.opened == task.closed for task in tasks)


def test_error_of_planner_comes_at_its_place() -> None:
    def tasks() -> Iterator[Task]:
        yield Task([1])
        yield Task([2])
        raise ServerUnavailable("away")

    batches = read(tasks()).batches()
    assert [next(batches).column(0)[0].as_py() for _ in range(2)] == [1, 2]
    with pytest.raises(ServerUnavailable):
        next(batches)


@pytest.mark.parametrize("ordered", [True, False])
def test_closing_early_closes_tasks(ordered: bool) -> None:
    tasks = [Task(list(range(1000)), size_bytes=1 << 20) for _ in range(9)]
    batches = read(iter(tasks), 3, ordered=ordered).batches()
    next(batches)
    assert len(reader_threads()) == 3
    batches.close()
    assert reader_threads() == []
    assert all(task.opened == task.closed for task in tasks)


def test_dropping_closes_tasks() -> None:
    tasks = [Task(list(range(1000)), size_bytes=1 << 20) for _ in range(9)]
    batches = read(iter(tasks)).batches()
    next(batches)
    del batches
    gc.collect()
    assert reader_threads() == [] and all(task.opened == task.closed for task in tasks)


def test_reader_that_is_collected_in_one_of_its_threads_ends_all_of_them() -> None:
    """The collecting thread holds the lock of the next task, for which the others wait."""

    class Cycle:
        """An object that only the garbage collector frees."""

        def __init__(self, batches: Generator[pa.RecordBatch, None, None]) -> None:
            self.batches, self.itself = batches, self

    dropped = threading.Event()

    def tasks() -> Iterator[Any]:
        yield Task([1, 2, 3])
        dropped.wait(60)
        gc.collect()
        yield Task([4])

    before = set(threading.enumerate())
    cycle = Cycle(ThreadedRead(tasks(), 3, ordered=False).batches())
    next(cycle.batches)
    threads = set(threading.enumerate()) - before
    del cycle
    dropped.set()
    for thread in threads:
        thread.join(60)
    assert len(threads) == 3 and not any(thread.is_alive() for thread in threads)


def test_no_thread_before_first_batch() -> None:
    batches = read(iter([Task([1])])).batches()
    assert reader_threads() == []
    batches.close()


def test_threads_have_log_context_of_caller() -> None:
    task = Task([1])
    with log_context(lambda: {"request": "r1"}):
        assert values(read(iter([task])).batches()) == [1]
    assert task.seen == [{"request": "r1"}]


def test_interpreter_exits_with_reader_that_is_held() -> None:
    code = (
        "import os\n"
        "import pyarrow as pa\n"
        "from penstock.engine.parallel.threads import ThreadedRead\n"
        "batch = pa.record_batch({'n': [1] * 100_000})\n"
        "class Task:\n"
        "    def batches(self, **more):\n"
        "        try:\n"
        "            while True:\n"
        "                yield batch\n"
        "        finally:\n"
        "            os.write(1, b'closed\\n')\n"
        "batches = ThreadedRead(iter([Task(), Task()]), 2, ordered=False).batches()\n"
        "next(batches)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert process.stdout.split() and set(process.stdout.split()) == {"closed"} and process.stderr == ""


@dataclass
class Opened:
    """The facts of a planned read that decide about threads."""

    splits: int
    size_bytes: int = 1 << 30
    is_local: bool = True


@pytest.mark.parametrize(
    ("given", "opened", "cpus", "ahead", "expected"),
    [
        ({}, Opened(100), 2, False, 2),
        ({}, Opened(100), 64, False, MAX_THREADS),
        ({}, Opened(3), 64, False, 3),
        ({}, Opened(100), 1, False, 0),
        ({}, Opened(1), 2, False, 0),
        ({}, Opened(1), 2, True, 1),
        ({}, Opened(0, 0), 2, True, 0),
        ({}, Opened(100, 100 << 20), 2, False, 2),
        ({}, Opened(100, (100 << 20) - 1), 2, False, 0),
        ({}, Opened(100, (100 << 20) - 1), 2, True, 1),
        ({}, Opened(100, (100 << 20) - 1, is_local=False), 2, False, 2),
        ({"threads": 3}, Opened(100, 1000), 2, False, 3),
        ({"limit": 10}, Opened(100), 2, True, 0),
        ({"limit": 10_000_000}, Opened(100), 2, True, 2),
        ({"threads": 1}, Opened(100), 2, True, 0),
        ({"threads": 64}, Opened(100), 2, False, 64),
        ({"threads": 4, "limit": 10}, Opened(3), 2, False, 3),
    ],
)
def test_number_of_threads(given: dict[str, Any], opened: Any, cpus: int, ahead: bool, expected: int) -> None:
    assert threads_of(ParsedOptions(**given), opened, cpus, ahead=ahead) == expected
