"""The order and the limits of jobs, by an injected clock; no table waits for another one beyond a bound."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.tables.schedule import Job, Schedule

INTERVAL_MS, SLOW_MS = 1_000, 300


def schedule(answering: int = 2, running: int = 4) -> Schedule:
    return Schedule(answering, running, SLOW_MS)


def look(table: str) -> Job:
    return ("look", table)


def test_jobs_start_in_the_order_of_their_due_times() -> None:
    jobs = schedule(answering=9, running=9)
    for table, due_ms in (("c", 30), ("a", 10), ("b", 20)):
        jobs.put(look(table), due_ms, 0)
    assert jobs.next_ms() == 10
    assert jobs.take(9) is None
    assert [jobs.take(30) for _ in range(4)] == [look("a"), look("b"), look("c"), None]
    assert jobs.next_ms() is None


def test_job_is_not_started_while_it_runs_and_an_earlier_due_time_counts() -> None:
    jobs = schedule()
    jobs.put(look("a"), 50, 0)
    jobs.put(look("a"), 20, 0)
    jobs.put(look("a"), 90, 0)
    assert jobs.next_ms() == 20
    assert jobs.take(20) == look("a")
    jobs.put(look("a"), 20, 20)
    assert jobs.take(99) is None
    jobs.end(look("a"))
    jobs.put(look("a"), 30, 20)
    assert jobs.take(30) == look("a")


def test_table_that_is_always_due_starves_no_other() -> None:
    jobs = schedule(answering=1)
    jobs.put(look("busy"), 0, 0)
    assert jobs.take(0) == look("busy")
    for table in "ab":
        jobs.put(look(table), 0, 0)
    jobs.end(look("busy"))
    jobs.put(look("busy"), 0, 0)
    started = []
    for _ in range(3):
        job = jobs.take(0)
        assert job is not None
        started.append(job)
        jobs.end(job)
    assert started == [look("a"), look("b"), look("busy")]


def test_slow_jobs_give_up_their_places_until_the_limit_of_all() -> None:
    jobs = schedule(answering=2, running=4)
    for table in "abcdef":
        jobs.put(look(table), 0, 0)
    assert [jobs.take(0) for _ in range(3)] == [look("a"), look("b"), None]
    assert [jobs.take(SLOW_MS) for _ in range(3)] == [look("c"), look("d"), None]
    assert jobs.take(2 * SLOW_MS) is None, "as many run as ever may"
    jobs.end(look("a"))
    assert jobs.take(2 * SLOW_MS) == look("e")
    assert jobs.running() == (look("b"), look("c"), look("d"), look("e"))


def test_jobs_at_removed_tables_do_not_start() -> None:
    jobs = schedule()
    for table in "ab":
        jobs.put(look(table), 0, 0)
    jobs.put(("check", "b"), 0, 0)
    jobs.keep("look", {"a"})
    assert [jobs.take(0), jobs.take(0), jobs.take(0)] == [look("a"), ("check", "b"), None]


class OneRunsTwice(Schedule):
    """Broken: a running job can be put again."""

    def put(self, job: Job, due_ms: int, now_ms: int) -> None:
        self._running.pop(job, None)
        super().put(job, due_ms, now_ms)


class NewestFirst(Schedule):
    """Broken: a job that is due at once passes those that wait."""

    def put(self, job: Job, due_ms: int, now_ms: int) -> None:
        super().put(job, due_ms, min(now_ms, due_ms))


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "take", "end", "pass"]), st.sampled_from("abcde"), st.integers(0, 400)),
    max_size=60,
)


@given(STEPS)
def test_at_any_time_the_limits_hold_and_the_job_that_is_due_longest_is_next(
    steps: list[tuple[str, str, int]],
) -> None:
    follow(schedule(), steps)


def test_broken_schedules_are_detected() -> None:
    """Negative control of the property."""
    twice = [("put", "a", 0), ("take", "a", 0), ("put", "a", 0), ("take", "a", 0)]
    passing = [("pass", "a", 100), ("put", "a", 100), ("pass", "a", 100), ("put", "b", 0), ("take", "a", 0)]
    for broken, steps in ((OneRunsTwice(2, 4, SLOW_MS), twice), (NewestFirst(2, 4, SLOW_MS), passing)):
        try:
            follow(broken, steps)
        except AssertionError:
            continue
        raise RuntimeError(f"{type(broken).__name__} was not detected")


def follow(jobs: Schedule, steps: list[tuple[str, str, int]]) -> None:
    """Applies the steps, and compares with a plain list of what waits and runs."""
    now_ms, waiting, running = 0, dict[Job, int](), dict[Job, int]()
    for step, table, number in steps:
        job = look(table)
        if step == "pass":
            now_ms += number
        elif step == "put":
            jobs.put(job, number, now_ms)
            if job not in running:
                waiting[job] = min(waiting.get(job, 10**9), max(number, now_ms))
        elif step == "end":
            jobs.end(job)
            running.pop(job, None)
        else:
            started = jobs.take(now_ms)
            answering = sum(now_ms - since_ms < SLOW_MS for since_ms in running.values())
            due = [at_ms for at_ms in waiting.values() if at_ms <= now_ms]
            if not due or answering >= 2 or len(running) >= 4:
                assert started is None
                continue
            assert started is not None and started not in running
            assert waiting.pop(started) == min(due)
            running[started] = now_ms
    assert jobs.next_ms() == min(waiting.values(), default=None)


@dataclass
class Lake:
    """Tables that are looked at every INTERVAL_MS, on a clock of single milliseconds. Looks at `hanging` never end."""

    seed: int
    tables: int = 40
    hanging: int = 3
    jobs: Schedule = field(default_factory=lambda: Schedule(4, 64, SLOW_MS))
    starts_ms: dict[str, list[int]] = field(default_factory=dict)

    def run(self, until_ms: int) -> None:
        chance = random.Random(self.seed)
        ends: dict[Job, int] = {}
        names = [*(f"t{number}" for number in range(self.tables)), *(f"h{number}" for number in range(self.hanging))]
        for name in chance.sample(names, len(names)):
            self.jobs.put(look(name), 0, 0)
        for now_ms in range(until_ms):
            for job in [job for job, end_ms in ends.items() if end_ms == now_ms]:
                del ends[job]
                self.jobs.end(job)
                is_busy = job[1] == "t0"  # its next round is always due
                self.jobs.put(job, now_ms if is_busy else self.starts_ms[job[1]][-1] + INTERVAL_MS, now_ms)
            while (started := self.jobs.take(now_ms)) is not None:
                self.starts_ms.setdefault(started[1], []).append(now_ms)
                if not started[1].startswith("h"):
                    ends[started] = now_ms + chance.randint(1, 20)

    def longest_gap_ms(self) -> int:
        """The longest time between two starts at one table that answers."""
        return max(
            later - earlier
            for name, starts in self.starts_ms.items()
            if name.startswith("t")
            for earlier, later in pairwise(starts)
        )


def test_hanging_and_busy_tables_delay_no_other_beyond_a_bound() -> None:
    """At most the time in which the hanging looks stop counting, and in which each table has had its turn."""
    bound_ms = INTERVAL_MS + SLOW_MS + 43 * 20 // 4
    for seed in range(5):
        lake = Lake(seed)
        lake.run(8_000)
        assert len(lake.starts_ms) == 43
        assert lake.longest_gap_ms() <= bound_ms
    without_limit = Lake(0, hanging=4, jobs=Schedule(4, 64, 10**9))
    without_limit.run(8_000)
    assert len(without_limit.starts_ms) < 44 or without_limit.longest_gap_ms() > bound_ms, "negative control"
