"""A job: tables side by side, retries, stops, exit codes. The clock is a value."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from penstock.engine.sync.progress import TableProgress, TableState
from penstock.engine.sync.runner import LONGEST_DELAY_S, Runner, RunSettings
from penstock.engine.sync.sources import Sources, SourceTable
from penstock.proto.errors import ConfigurationError, PositionExpired, TargetUnavailable
from tests.unit.engine.sync.scripted import MemoryTarget, ScriptedFeed, described, source_of

ROW = {"id": 1, "p": "a", "v": 1}


@dataclass
class Job:
    """A runner of scripted feeds into one target, with a clock that a test sets."""

    feeds: dict[str, ScriptedFeed]
    settings: RunSettings = field(default_factory=lambda: RunSettings(once=True))
    into: str = ""
    problems: tuple[str, ...] = ()
    target: MemoryTarget = field(default_factory=MemoryTarget)
    now_s: float = 100.0
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.opened: list[str] = []
        self.runner = Runner(
            lambda: Sources(tuple(source_of(name, self.into) for name in self.feeds), self.problems),
            self.feed_of,
            lambda source: self.target,
            self.settings,
            stop=self.stop,
            clock=lambda: self.now_s,
            wall_clock=lambda: self.now_s,
        )

    def feed_of(self, source: SourceTable) -> ScriptedFeed:
        self.opened.append(source.name)
        return self.feeds[source.name]

    def table(self, name: str) -> TableProgress:
        return next(one for one in self.runner.tables() if one.source.name == name)

    def advance(self) -> None:
        """Steps of all tables that are due now, one after the other."""
        while due := self.runner.due([]):
            for one in due:
                self.runner.step(one)


def failing(error: Exception, at: str = "next_round", times: int = 1 << 30) -> Callable[[str], None]:
    left = [times]

    def fault(where: str) -> None:
        if where == at and left[0]:
            left[0] -= 1
            raise error

    return fault


def test_once_ends_when_all_is_copied() -> None:
    feeds = {f"t{number}": ScriptedFeed([[ROW]], [[("-D", ROW), ("+I", {**ROW, "id": 2})]]) for number in range(9)}
    job = Job(feeds)
    seen: list[int] = []
    assert job.runner.run(lambda: seen.append(len(job.runner.tables()))) == 0
    assert {one.state for one in job.runner.tables()} == {TableState.CURRENT}
    assert all([row["id"] for row in job.target.rows[name]] == [2] for name in feeds)
    assert {one.rows for one in job.runner.tables()} == {3} and seen[-1] == 9
    assert {one.order_key for one in job.runner.tables()} == {"001"}


def test_error_stops_its_table_alone(caplog: pytest.LogCaptureFixture) -> None:
    job = Job({"bad": ScriptedFeed([[ROW]], fault=failing(PositionExpired("cleaned"))), "good": ScriptedFeed([[ROW]])})
    with caplog.at_level(logging.WARNING):
        assert job.runner.run() == PositionExpired.exit_code
    bad = job.table("bad")
    assert (bad.state, bad.error_code, bad.error) == (TableState.STOPPED, "POSITION_EXPIRED", "cleaned")
    assert job.table("good").state is TableState.CURRENT
    assert [record.getMessage() for record in caplog.records] == [
        "sync stopped table=bad source=/lake/bad code=POSITION_EXPIRED error=cleaned"
    ]


def test_stopped_table_is_loaded_again_by_restart() -> None:
    job = Job({"t": ScriptedFeed([[ROW]]), "u": ScriptedFeed([[ROW]])})
    assert job.runner.run() == 0
    feeds = {name: ScriptedFeed([[{**ROW, "id": 7}]]) for name in ("t", "u")}
    again = Job(feeds, RunSettings(once=True, restart=frozenset({"t"})), target=job.target)
    assert again.runner.run() == 0
    assert [row["id"] for row in job.target.rows["t"]] == [7] and [row["id"] for row in job.target.rows["u"]] == [1]


def test_restart_waits_for_a_source_without_a_commit() -> None:
    """A failure before the first commit does not end the restart: the old rows would stay."""
    job = Job({"t": ScriptedFeed([[ROW]])})
    assert job.runner.run() == 0
    feed = ScriptedFeed([[{**ROW, "id": 7}]], description=replace(described(), schema_json=""))
    again = Job({"t": feed}, RunSettings(restart=frozenset({"t"})), target=job.target)
    again.runner.discover()
    again.advance()
    assert again.table("t").state is TableState.CURRENT
    feed.fault = failing(TargetUnavailable("gone"), "layout", 1)
    again.now_s += 1
    again.advance()
    assert again.table("t").state is TableState.RETRYING
    feed.description = None
    again.now_s += 1
    again.advance()
    assert [row["id"] for row in job.target.rows["t"]] == [7]


def test_restart_of_a_table_with_many_sources() -> None:
    job = Job({"a": ScriptedFeed([[ROW]]), "b": ScriptedFeed([[ROW]])}, into="all")
    assert job.runner.run() == 0
    feeds = {name: ScriptedFeed([[{**ROW, "id": 7}]]) for name in ("a", "b")}
    again = Job(feeds, RunSettings(once=True, restart=frozenset({"all"})), "all", target=job.target)
    assert again.runner.run() == 0
    assert [(row["_source"], row["id"]) for row in job.target.rows["all"]] == [("a", 7), ("b", 7)]


def test_restart_of_an_unknown_table() -> None:
    job = Job({"t": ScriptedFeed([[ROW]])}, RunSettings(once=True, restart=frozenset({"x"})))
    with pytest.raises(ConfigurationError, match="--restart x: the job has no such table; it has t"):
        job.runner.run()
    assert not job.target.writes


def test_target_that_is_gone_for_a_while() -> None:
    job = Job(
        {"t": ScriptedFeed([[ROW]])}, RunSettings(), target=MemoryTarget(failing(TargetUnavailable("full"), "write"))
    )
    job.runner.discover()
    delays = []
    for _ in range(9):
        job.advance()
        progress = job.table("t")
        assert (progress.state, progress.error) == (TableState.RETRYING, "full")
        delays.append(progress.due_s - job.now_s)
        job.now_s = progress.due_s
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, LONGEST_DELAY_S]
    job.target.fault = lambda where: None
    job.advance()
    progress = job.table("t")
    assert (progress.state, progress.error, progress.failures) == (TableState.CURRENT, "", 0)
    assert [row["id"] for row in job.target.rows["t"]] == [1]


def test_once_retries_for_a_time() -> None:
    """After it, a table that cannot be copied counts as failed, with the exit code of its error."""
    job = Job({"t": ScriptedFeed([[ROW]], fault=failing(TargetUnavailable("gone"))), "u": ScriptedFeed([[ROW]])})
    job.runner.discover()
    job.advance()
    assert job.table("t").state is TableState.RETRYING and not job.runner.is_done()
    job.now_s += 29
    assert not job.runner.is_done()
    job.now_s += 1
    assert job.runner.is_done() and job.runner.exit_code() == TargetUnavailable.exit_code == 75


def test_once_retries_a_table_that_fails_late() -> None:
    """The time begins with the first failure, not with the run: a load of hours has a second try."""
    job = Job({"t": ScriptedFeed([[ROW]], fault=failing(TargetUnavailable("gone")))})
    job.runner.discover()
    job.now_s += 3600
    job.advance()
    job.now_s += 29
    job.advance()
    assert job.table("t").state is TableState.RETRYING and not job.runner.is_done()
    job.now_s += 1
    assert job.runner.is_done()


def test_once_fails_for_a_source_that_cannot_be_listed() -> None:
    job = Job({"t": ScriptedFeed([[ROW]])}, problems=("/lake/x: damaged",))
    assert job.runner.run() == 1
    assert job.table("t").state is TableState.CURRENT


def test_bug_stops_its_table_alone(caplog: pytest.LogCaptureFixture) -> None:
    job = Job({"t": ScriptedFeed([[ROW]], fault=failing(KeyError("k"))), "u": ScriptedFeed([[ROW]])})
    with caplog.at_level(logging.ERROR):
        assert job.runner.run() == 1
    assert job.table("t").error_code == "INVARIANT_VIOLATION" and "KeyError" in job.table("t").error
    assert caplog.records[0].exc_info


class Panic(BaseException):
    """As a panic of a library in Rust (`pyo3_runtime.PanicException`): no Exception."""


def test_panic_stops_its_table_alone() -> None:
    job = Job({"t": ScriptedFeed([[ROW]], fault=failing(Panic("p"))), "u": ScriptedFeed([[ROW]])})  # type: ignore[arg-type]
    assert job.runner.run() == 1
    assert (job.table("t").state, job.table("u").state) == (TableState.STOPPED, TableState.CURRENT)
    assert "Panic: p" in job.table("t").error


def test_listing_that_takes_long_delays_no_table() -> None:
    """As with brokers that are gone: the second listing ends after the tables are copied."""
    feeds = {name: ScriptedFeed([[ROW]], [[("-D", ROW)]]) for name in ("t", "u")}
    job, copied, ended = Job(feeds, RunSettings(discovery_s=0)), threading.Event(), list[bool]()
    sources = Sources(tuple(source_of(name) for name in feeds), ())

    def listing() -> Sources:
        if job.runner.tables():
            ended.append(copied.wait(60))
            job.stop.set()
        return sources

    job.runner = Runner(listing, job.feed_of, lambda source: job.target, job.settings, stop=job.stop)

    def on_change() -> None:
        if all(one.state is TableState.CURRENT for one in job.runner.tables()):
            copied.set()

    assert job.runner.run(on_change) == 0
    assert set(ended) == {True} and job.target.rows == {"t": [], "u": []}


def test_new_tables_are_found_and_gone_ones_stay() -> None:
    job = Job({"t": ScriptedFeed([[ROW]])}, RunSettings())
    job.runner.discover()
    job.advance()
    first = job.table("t")
    job.feeds["u"] = ScriptedFeed([[ROW]])
    del job.feeds["t"]
    job.runner.discover()
    assert [one.source.name for one in job.runner.tables()] == ["t", "u"] and job.table("t") is first


def test_table_without_a_commit_is_looked_at_again() -> None:
    empty = replace(described(), schema_json="")
    job = Job({"t": ScriptedFeed([[ROW]], description=empty)}, RunSettings())
    job.runner.discover()
    job.advance()
    assert job.table("t").state is TableState.CURRENT and not job.target.tables
    job.feeds["t"].description = None
    job.now_s += 1
    job.advance()
    assert job.table("t").rows == 1


def test_follows_new_commits() -> None:
    feed = ScriptedFeed([[ROW]])
    job = Job({"t": feed}, RunSettings(interval_s=5))
    job.runner.discover()
    job.advance()
    feed.commits = [[("-D", ROW)]]
    job.now_s += 4.9
    assert job.runner.due([]) == []
    job.now_s += 0.1
    job.advance()
    assert job.target.rows["t"] == [] and job.table("t").current_at_s == job.now_s
    assert job.opened == ["t"]


def test_one_source_at_a_time_writes_into_a_table() -> None:
    job = Job({name: ScriptedFeed([[ROW]]) for name in "abc"}, RunSettings(threads=2), "all")
    job.runner.discover()
    (one,) = job.runner.due([])
    assert job.runner.due([one]) == []
    other = Job({name: ScriptedFeed([[ROW]]) for name in "abc"}, RunSettings(threads=2))
    other.runner.discover()
    assert len(other.runner.due([])) == 2 and len(other.runner.due(other.runner.due([])[:1])) == 1


def test_stop_ends_the_run() -> None:
    job = Job({"t": ScriptedFeed([[ROW]])}, RunSettings())

    def on_change() -> None:
        if job.table("t").state is TableState.CURRENT:
            job.stop.set()

    assert job.runner.run(on_change) == 0


def test_problem_of_a_listing_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    job = Job({}, RunSettings(), problems=("/lake/x: damaged",))
    with caplog.at_level(logging.WARNING):
        job.runner.discover()
        job.runner.discover()
    assert [record.getMessage() for record in caplog.records] == ["/lake/x: damaged"]


def test_same_source_fills_two_tables() -> None:
    source = source_of("t")
    other = replace(source, target_table="u")
    target = MemoryTarget()
    feed = ScriptedFeed([[ROW]])
    sources: Any = Sources((source, other), ())
    runner = Runner(lambda: sources, lambda one: feed, lambda one: target, RunSettings(once=True))
    assert runner.run() == 0
    assert len(target.rows["t"]) == len(target.rows["u"]) == 1
