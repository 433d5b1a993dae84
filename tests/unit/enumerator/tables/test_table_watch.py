"""One look at a table per interval, spread over time, whoever asks."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.tables import table_watch
from penstock.enumerator.tables.table_watch import CallLooks, TableWatch
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


def test_failed_look_that_a_change_caused_is_repeated_by_the_next_call() -> None:
    world = World()
    world.watch.look("a", INTERVAL_MS)
    world.now_ms = 1_000
    world.watch.changed("a")
    world.fails = True
    with pytest.raises(StorageError):
        world.watch.look("a", INTERVAL_MS)
    world.fails = False
    assert world.watch.look("a", INTERVAL_MS).at_ms == 1_000
    assert world.watch.look("a", INTERVAL_MS).number == 3, "only once"


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


def test_look_after_a_number_began_later() -> None:
    world = World()
    first = world.watch.look("a", INTERVAL_MS)
    assert world.watch.begun("a") == first.number == 1
    later = world.watch.look_after("a", first.number, INTERVAL_MS)
    assert later.number == 2
    assert world.watch.look_after("a", first.number, INTERVAL_MS) == later, "one look for all that wait"
    assert world.watch.look("a", INTERVAL_MS) == later, "it stands for the table as any look"


def test_calls_during_a_look_share_the_next_one() -> None:
    world = World()
    began, let_go = threading.Event(), threading.Event()
    plain = world.probe

    def slow(path: str) -> TableFingerprint:
        began.set()
        assert let_go.wait(30)
        return plain(path)

    watch = TableWatch(slow, lambda: world.now_ms)
    first = threading.Thread(target=lambda: watch.look("a", INTERVAL_MS))
    first.start()
    assert began.wait(30)
    assert watch.begun("a") == 1
    assert watch.wait_ms("a", INTERVAL_MS) == INTERVAL_MS, "the next one is due after the one that runs"
    seen: list[int] = []
    callers = [
        threading.Thread(target=lambda: seen.append(watch.look_after("a", 1, INTERVAL_MS).number)) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    let_go.set()
    for caller in [first, *callers]:
        caller.join(30)
    assert seen == [2, 2, 2, 2]


def test_look_that_does_not_end_is_an_error_of_its_table_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_watch, "LOOK_S", 0.01)
    began, let_go = threading.Event(), threading.Event()
    world = World()
    plain = world.probe

    def probe(path: str) -> TableFingerprint:
        if path == "s3://user:hush@lake/hangs":
            began.set()
            assert let_go.wait(30)
        return plain(path)

    watch = TableWatch(probe, lambda: world.now_ms)
    hanging = threading.Thread(target=lambda: watch.look("s3://user:hush@lake/hangs", 0))
    hanging.start()
    assert began.wait(30)
    with pytest.raises(StorageError, match="has not ended") as caught:
        watch.look_after("s3://user:hush@lake/hangs", 1, 0)
    assert "hush" not in str(caught.value)
    assert watch.look_after("good", 0, 0).number == 1
    let_go.set()
    hanging.join(30)
    assert watch.look_after("s3://user:hush@lake/hangs", 1, 0).number == 2


def test_wait_ends_when_the_next_look_is_due() -> None:
    world = World()
    assert world.watch.wait_ms("a", INTERVAL_MS) == 0, "it was never looked at"
    world.watch.look("a", INTERVAL_MS)
    world.now_ms = 300
    assert world.watch.wait_ms("a", INTERVAL_MS) == INTERVAL_MS - 300
    assert world.watch.wait_ms("a", 1_000) == 700
    world.now_ms = 1_500
    assert world.watch.wait_ms("a", 1_000) == 0


def test_failed_look_is_repeated_at_once() -> None:
    world = World()
    world.fails = True
    with pytest.raises(StorageError):
        world.watch.look_after("a", 0, INTERVAL_MS)
    assert world.watch.wait_ms("a", INTERVAL_MS) == 0
    world.fails = False
    assert world.watch.look_after("a", 1, INTERVAL_MS).number == 2


def test_call_that_looks_because_a_look_is_due_does_not_wait() -> None:
    world = World()
    waits: list[float] = []
    world.watch.look("a", 1_000)
    world.now_ms = 1_000
    call = CallLooks(world.watch, "a", 1_000, lambda seconds, news: waits.append(seconds))
    recent = call.recent()
    assert call.later(is_urgent=False) == recent
    assert (waits, world.looks["a"], call.waited_ms) == ([], 2, 0)


def test_call_waits_until_a_look_is_due_unless_it_is_urgent() -> None:
    world = World()
    world.watch.look("a", 1_000)
    world.now_ms = 400

    def wait(seconds: float, news: threading.Event) -> bool:
        world.now_ms += round(seconds * 1000)
        return True

    calls = [CallLooks(world.watch, "a", 1_000, wait) for _ in range(5)]
    assert [call.recent().timeline_ns for call in calls] == [1] * 5
    assert [call.later(is_urgent=False).timeline_ns for call in calls] == [2] * 5
    assert (world.now_ms, [call.waited_ms for call in calls]) == (1_000, [600, 0, 0, 0, 0])
    world.now_ms = 1_100
    assert CallLooks(world.watch, "a", 1_000, wait).later(is_urgent=True).timeline_ns == 3
    assert world.now_ms == 1_100


def test_time_that_a_call_has_waited_is_measured() -> None:
    """A call that may not wait has waited no time; one that has to wait for a turn again has waited longer."""
    world = World()
    world.watch.look("a", 1_000)
    at_once = CallLooks(world.watch, "a", 1_000, lambda seconds, news: False)
    at_once.later(is_urgent=False)
    assert at_once.waited_ms == 0

    def wait(seconds: float, news: threading.Event) -> bool:
        world.now_ms += round(seconds * 1000) + 50
        return True

    longer = CallLooks(world.watch, "a", 1_000, wait)
    longer.later(is_urgent=False)
    assert longer.waited_ms == 1_050


def test_change_ends_a_wait_and_one_since_the_last_look_leaves_none() -> None:
    world = World()
    reported: list[bool] = []

    def wait(event: threading.Event) -> None:
        world.watch.changed("a")
        reported.append(event.is_set())

    world.watch.look("a", 0)
    world.watch.wait_for_change("a", wait)
    world.watch.wait_for_change("a", wait)
    assert reported == [True], "the change is not looked at yet"
    world.watch.look("a", 0)
    world.watch.wait_for_change("a", wait)
    assert reported == [True, True]
