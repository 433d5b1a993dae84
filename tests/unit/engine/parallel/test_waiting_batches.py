"""`WaitingBatches`: order, bounds, errors and stops, step by step and with threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.engine.parallel.waiting_batches import WaitingBatches

MOST = 1000


def batch(number: int, size_bytes: int = 8) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array([number] + [0] * (size_bytes // 8 - 1), pa.int64())})


def numbers(waiting: WaitingBatches) -> list[int]:
    taken = []
    while (one := waiting.take()) is not None:
        taken.append(one.column(0)[0].as_py())
    return taken


def waiting_batches(*, ordered: bool = True, most_bytes: int = MOST, most_tasks: int = 9) -> WaitingBatches:
    return WaitingBatches(ordered=ordered, most_bytes=most_bytes, most_tasks=most_tasks)


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """A thread that makes one call, and its result."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    return thread, results


@pytest.mark.parametrize(("ordered", "expected"), [(True, [1, 2, 3, 4]), (False, [3, 1, 4, 2])])
def test_order(ordered: bool, expected: list[int]) -> None:
    waiting = waiting_batches(ordered=ordered)
    assert [waiting.admit(), waiting.admit(), waiting.admit()] == [0, 1, 2]
    for position, number in [(1, 3), (0, 1), (1, 4), (0, 2)]:
        assert waiting.put(position, batch(number))
    waiting.end(1)
    waiting.end(0)
    waiting.no_task(2)
    assert numbers(waiting) == expected
    assert (waiting.done, waiting.waiting_bytes, waiting.take()) == (2, 0, None)


def test_tasks_without_rows_end() -> None:
    for ordered in (True, False):
        waiting = waiting_batches(ordered=ordered)
        for _ in range(3):
            waiting.admit()
        waiting.end(1)
        waiting.end(0)
        waiting.no_task(2)
        assert (waiting.take(), waiting.done, waiting.admit()) == (None, 2, None)


def test_bytes_are_bounded_and_turn_of_consumer_always_continues() -> None:
    waiting = waiting_batches(most_bytes=100)
    waiting.admit(), waiting.admit()
    assert waiting.put(1, batch(3, 96))
    assert waiting.put(0, batch(1, 800))  # the task whose turn it is, whatever its size
    thread, results = in_thread(lambda: waiting.put(1, batch(4, 8)))
    other, others = in_thread(lambda: waiting.put(0, batch(2, 8)))
    assert waiting.waiting_bytes == 896
    assert waiting.take().column(0)[0].as_py() == 1
    other.join()
    waiting.end(0)
    assert waiting.take().column(0)[0].as_py() == 2
    assert waiting.take().column(0)[0].as_py() == 3
    thread.join()
    assert (results, others, waiting.waiting_bytes) == ([True], [True], 8)


def test_unordered_batch_larger_than_bound_is_put_alone() -> None:
    waiting = waiting_batches(ordered=False, most_bytes=100)
    waiting.admit(), waiting.admit()
    assert waiting.put(0, batch(1, 800))
    thread, results = in_thread(lambda: waiting.put(1, batch(2, 800)))
    assert waiting.take().column(0)[0].as_py() == 1
    thread.join()
    assert results == [True]


def test_tasks_ahead_are_bounded_by_first_task() -> None:
    for ordered in (True, False):
        waiting = waiting_batches(ordered=ordered, most_tasks=2)
        assert [waiting.admit(), waiting.admit()] == [0, 1]
        thread, results = in_thread(waiting.admit)
        waiting.put(0, batch(1))
        waiting.end(0)
        assert results == []  # its batch was not taken yet
        waiting.take()
        thread.join()
        assert results == [2]


def test_ordered_error_comes_after_batches_before_it() -> None:
    waiting = waiting_batches()
    for _ in range(3):
        waiting.admit()
    error = ValueError("of task 1")
    waiting.put(1, batch(2))
    waiting.fail(1, error)
    assert waiting.put(2, batch(9)) is False and waiting.admit() is None
    assert waiting.put(0, batch(1))
    waiting.end(0)
    assert [waiting.take().column(0)[0].as_py() for _ in range(2)] == [1, 2]
    with pytest.raises(ValueError, match="of task 1") as raised:
        waiting.take()
    assert raised.value is error


def test_first_ordered_error_is_raised() -> None:
    waiting = waiting_batches()
    for _ in range(3):
        waiting.admit()
    waiting.fail(2, ValueError("of task 2"))
    waiting.fail(1, ValueError("of task 1"))
    waiting.end(0)
    with pytest.raises(ValueError, match="of task 1"):
        waiting.take()


def test_unordered_error_comes_at_once() -> None:
    waiting = waiting_batches(ordered=False)
    waiting.admit(), waiting.admit()
    waiting.put(0, batch(1))
    waiting.fail(1, ValueError("of task 1"))
    assert waiting.put(0, batch(2)) is False and waiting.admit() is None
    with pytest.raises(ValueError, match="of task 1"):
        waiting.take()


def test_stop_ends_all_waits() -> None:
    waiting = waiting_batches(most_bytes=8, most_tasks=2)
    waiting.admit(), waiting.admit()
    waiting.put(1, batch(1))
    calls = [in_thread(waiting.admit), in_thread(lambda: waiting.put(1, batch(2))), in_thread(waiting.take)]
    waiting.stop()
    for thread, _ in calls:
        thread.join()
    assert [results for _, results in calls] == [[None], [False], [None]]
    waiting.end(1)
    waiting.fail(0, ValueError("late"))
    assert (waiting.take(), waiting.waiting_bytes) == (None, 0)
