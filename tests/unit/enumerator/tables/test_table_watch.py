"""One look at a table per interval, spread over time, whoever asks."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.tables.table_watch import TableWatch
from penstock.proto.errors import StorageError

INTERVAL_MS = 5_000


class World:
    """A clock, and tables whose fingerprint is the number of the look."""

    def __init__(self, seed: int | None = None, most: int = 100) -> None:
        self.now_ms, self.looks, self.fails = 0, Counter[str](), False
        chance = (lambda: 1.0) if seed is None else random.Random(seed).random
        self.watch = TableWatch(self.probe, lambda: self.now_ms, chance, most)

    def probe(self, path: str) -> TableFingerprint:
        if self.fails:
            raise StorageError("no answer")
        self.looks[path] += 1
        return TableFingerprint(self.looks[path], 1, 1, "timeline", True)


def test_table_is_looked_at_once_per_interval_however_many_ask() -> None:
    world = World()
    for now_ms in range(0, 4 * INTERVAL_MS, 100):
        world.now_ms = now_ms
        numbers = {world.watch.look("a", INTERVAL_MS).fingerprint.timeline_ns for _ in range(10)}
        assert numbers == {now_ms // INTERVAL_MS + 1}, "all see the same look, and a later one after each interval"
    assert world.looks == {"a": 4}


def test_each_call_is_a_look_without_an_interval() -> None:
    world = World()
    assert [world.watch.look("a", 0).fingerprint.timeline_ns for _ in range(3)] == [1, 2, 3]


def test_follower_with_a_shorter_interval_gets_a_newer_look() -> None:
    world = World()
    world.watch.look("a", INTERVAL_MS)
    world.now_ms = 1_000
    assert world.watch.look("a", 1_000).at_ms == 1_000
    assert world.watch.look("a", INTERVAL_MS).at_ms == 1_000
    assert world.looks == {"a": 2}


def test_failed_look_is_repeated_by_the_next_call() -> None:
    world = World()
    world.fails = True
    with pytest.raises(StorageError):
        world.watch.look("a", INTERVAL_MS)
    world.fails = False
    assert world.watch.look("a", INTERVAL_MS).at_ms == 0


def test_looks_that_began_together_are_spread_over_the_interval() -> None:
    world = World(seed=21, most=200)
    paths = [str(number) for number in range(200)]
    for path in paths:
        world.watch.look(path, INTERVAL_MS)
    quarters: Counter[int] = Counter()
    for quarter in range(8):
        for world.now_ms in range(quarter * INTERVAL_MS // 4, (quarter + 1) * INTERVAL_MS // 4, 50):
            before = world.looks.total()
            for path in paths:
                world.watch.look(path, INTERVAL_MS)
            quarters[quarter] += world.looks.total() - before
    later = [quarters[quarter] for quarter in range(4, 8)]
    assert sum(later) == 200, "still one look at each table per interval"
    assert all(30 <= looks <= 75 for looks in later), quarters


def test_concurrent_calls_are_one_look() -> None:
    world = World()
    began, let_go = threading.Event(), threading.Event()
    plain = world.probe

    def slow(path: str) -> TableFingerprint:
        began.set()
        assert let_go.wait(30)
        return plain(path)

    watch = TableWatch(slow, lambda: world.now_ms)
    seen: list[int] = []
    callers = [
        threading.Thread(target=lambda: seen.append(watch.look("a", INTERVAL_MS).fingerprint.timeline_ns))
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    assert began.wait(30)
    let_go.set()
    for caller in callers:
        caller.join()
    assert seen == [1, 1, 1, 1]


def test_kept_looks_are_bounded() -> None:
    world = World(most=2)
    for path in ("a", "b", "a", "c", "a", "b"):
        world.watch.look(path, INTERVAL_MS)
    assert world.looks == {"a": 1, "b": 2, "c": 1}
