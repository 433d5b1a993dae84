"""The queue of splits of a reader: order, tables that are set aside, delays."""

from __future__ import annotations

from typing import Any

from penstock.engine.group.split_queue import LONGEST_DELAY_MS, SplitQueue
from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.model.groups import Member


class Split:
    """A split of a table."""

    def __init__(self, table: str, number: int) -> None:
        self.owner, self.number, self.closed = Member(table, "g", "r", 1), number, 0

    def close(self) -> None:
        self.closed += 1


def queue_of(*splits: Split) -> tuple[SplitQueue, list[int]]:
    """A queue and its clock."""
    clock = [1_000]
    queue = SplitQueue(lambda: clock[0])
    everything: Any = splits
    queue.extend(everything)
    return queue, clock


def test_splits_of_a_table_that_is_set_aside_keep_their_order() -> None:
    a1, b1, a2, b2 = (Split(table, number) for number, table in enumerate("abab"))
    queue, clock = queue_of(a1, b1, a2, b2)
    first: Any = queue.first()
    assert first is a1
    failure = queue.set_aside(first, StorageError("down"))
    assert (failure.count, failure.until_ms, a1.closed) == (1, 2_000, 1)
    order = []
    while (split := queue.first()) is not None:
        order.append(split)
        queue.remove(split)
    assert order == [b1, b2] and queue.tables_aside() == ("a",) and queue.next_try_ms() == 2_000
    clock[0] = 2_000
    assert queue.first() is a1 and queue.tables_aside() == ()
    queue.remove(first)
    assert queue.first() is a2 and queue.next_try_ms() is None


def test_delays_double_to_a_minute_and_end_with_success() -> None:
    split: Any = Split("a", 1)
    queue, clock = queue_of(split)
    delays = []
    for _ in range(8):
        delays.append(queue.set_aside(split, StorageError("down")).until_ms - clock[0])
        clock[0] += delays[-1]
    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, LONGEST_DELAY_MS, LONGEST_DELAY_MS]
    assert [*queue.failed_tables()] == ["a"] and not queue.may_recover
    queue.succeeded(split)
    assert not queue.failed_tables()
    assert queue.set_aside(split, StorageError("down")).count == 1


def test_errors_that_a_retry_does_not_help_count_at_once() -> None:
    split: Any = Split("a", 1)
    queue, _ = queue_of(split)
    queue.set_aside(split, StorageError("down"))
    assert queue.may_recover and not queue.failed_tables()
    queue.set_aside(split, CorruptFile("damaged"))
    assert not queue.may_recover and [*queue.failed_tables()] == ["a"]


def test_splits_of_a_member_are_dropped_and_closed() -> None:
    a1, b1 = Split("a", 1), Split("b", 2)
    queue, _ = queue_of(a1, b1)
    assert queue.drop(a1.owner) == 1 and a1.closed == 1
    assert len(queue) == 1 and queue.first() is b1
    queue.clear()
    assert b1.closed == 1 and queue.first() is None
