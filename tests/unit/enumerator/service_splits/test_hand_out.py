"""What is due is looked at in turn; failures of one table, and looks that are out of date, do no harm."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.service_splits.due_services import DueService, ServicePolicy
from penstock.enumerator.service_splits.hand_out import ServiceHandOut, ServiceLimits, TableServices
from penstock.proto.errors import ConfigurationError, StorageError
from penstock.proto.model.service_splits import Service, ServiceAnswer, ServiceOutcome, ServiceRequest

WAIT_S = 30
POLICY = ServicePolicy(services=tuple(Service))
COMPACTION = DueService(Service.COMPACT, "1", "9")


class Lake:
    """The services that are due by table, and a clock."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.due: dict[str, tuple[DueService, ...] | Exception] = {}
        self.looks: list[str] = []
        self.before: Callable[[], object] = lambda: None

    def __call__(self, path: str, policy: ServicePolicy) -> tuple[DueService, ...]:
        assert policy is POLICY
        self.looks.append(path)
        due = self.due.get(path, ())
        self.before()
        if isinstance(due, Exception):
            raise due
        return due


@contextmanager
def served(lake: Lake, *tables: str) -> Iterator[ServiceHandOut]:
    service = EnumeratorService(
        {name: f"/{name}" for name in tables},
        clock_ms=lambda: lake.now_ms,
        poll_ms=None,
        services=TableServices(
            policy_of=lambda table: None if table == "plain" else POLICY,
            due=lake,
            limits=ServiceLimits(lease_ms=1_000, look_ms=10_000, return_ms=60_000),
        ),
    )
    try:
        yield service.service_splits
    finally:
        service.stop()


def look(at: ServiceHandOut) -> None:
    """A tick, and the end of its looks."""
    at.tick()
    settle(at)


def settle(at: ServiceHandOut) -> None:
    if at._pool is not None:
        at._pool.shutdown()
        at._pool = None


def ask(at: ServiceHandOut, member: str = "m", table: str = "") -> ServiceAnswer:
    return at.request_service_split(ServiceRequest(member=member, table=table))


def test_due_service_is_handed_out_and_the_table_is_looked_at_again_when_it_ends() -> None:
    lake = Lake()
    lake.due = {"/a": (COMPACTION,)}
    with served(lake, "a", "plain") as hand_out:
        assert not ask(hand_out).is_idle, "the table was not looked at yet"
        look(hand_out)
        assert lake.looks == ["/a"]
        split = ask(hand_out).split
        assert split is not None
        assert (split.id.service, split.id.instant) == (Service.COMPACT, "1")
        lake.due = {"/a": ()}
        hand_out.finish_service_split(split.id, "m", split.attempt, ServiceOutcome())
        assert not ask(hand_out).is_idle, "what is due now is not known"
        look(hand_out)
        assert ask(hand_out).is_idle
        look(hand_out)
        assert lake.looks == ["/a", "/a"], "the next look is after the interval"
        lake.now_ms += 10_000
        look(hand_out)
        assert lake.looks == ["/a"] * 3


def test_look_during_which_a_split_ends_does_not_count() -> None:
    lake = Lake()
    lake.due = {"/a": (COMPACTION,)}
    with served(lake, "a") as hand_out:
        look(hand_out)
        split = ask(hand_out).split
        assert split is not None
        lake.now_ms += 900
        hand_out.renew_service_split(split.id, "m", split.attempt)
        at_look, ended = threading.Event(), threading.Event()

        def end_meanwhile() -> None:
            at_look.set()
            assert ended.wait(WAIT_S)

        lake.before, lake.now_ms = end_meanwhile, lake.now_ms + 9_100
        hand_out.renew_service_split(split.id, "m", split.attempt)
        hand_out.tick()
        assert at_look.wait(WAIT_S)
        hand_out.finish_service_split(split.id, "m", split.attempt, ServiceOutcome())
        ended.set()
        lake.before = lambda: None
        settle(hand_out)
        assert ask(hand_out).split is None, "the look saw the instant before it was complete"
        lake.due = {"/a": ()}
        look(hand_out)
        assert ask(hand_out).is_idle


def test_table_that_cannot_be_looked_at_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake()
    lake.due = {"/a": StorageError("no route"), "/b": RuntimeError("a bug"), "/c": (COMPACTION,)}
    with served(lake, "a", "b", "c") as hand_out:
        look(hand_out)
        split = ask(hand_out).split
        assert split is not None
        assert split.id.table == "c"
        assert "services of table a: what is due is not known" in caplog.text
        assert "services of table b: unexpected exception" in caplog.text


def test_cleans_wait_for_streams_after_a_start() -> None:
    lake = Lake()
    lake.due = {"/a": (DueService(Service.CLEAN, "", "9"), COMPACTION)}
    with served(lake, "a") as hand_out:
        look(hand_out)
        first = ask(hand_out).split
        assert first is not None
        assert first.id.service is Service.COMPACT
        assert ask(hand_out, "n").split is None, "streams have not called again"
        lake.now_ms += 59_000
        hand_out.renew_service_split(first.id, "m", first.attempt)
        lake.now_ms += 900
        hand_out.renew_service_split(first.id, "m", first.attempt)
        lake.now_ms += 200
        look(hand_out)
        clean = ask(hand_out, "n").split
        assert clean is not None
        assert clean.id.service is Service.CLEAN


def test_member_that_looks_first_gets_what_became_due() -> None:
    lake = Lake()
    with served(lake, "a") as hand_out:
        look(hand_out)
        lake.due = {"/a": (COMPACTION,)}
        assert ask(hand_out).is_idle, "as of the last look"
        answer = hand_out.request_service_split(ServiceRequest(member="m", looks_first=True))
        assert not answer.is_idle
        look(hand_out)
        assert ask(hand_out).split is not None


def test_lease_that_ends_is_handed_out_again() -> None:
    lake = Lake()
    lake.due = {"/a": (COMPACTION,)}
    with served(lake, "a") as hand_out:
        look(hand_out)
        assert ask(hand_out, "m").split is not None
        assert ask(hand_out, "n").split is None
        lake.now_ms += 1_000
        look(hand_out)
        assert ask(hand_out, "n").split is not None


def test_table_without_a_policy_is_an_error_of_the_member() -> None:
    with served(Lake(), "a", "plain") as hand_out:
        with pytest.raises(ConfigurationError, match=r"plain.*has no policy"):
            ask(hand_out, table="plain")
        with pytest.raises(ConfigurationError, match="hands out no table services"):
            EnumeratorService({"a": "/a"}, poll_ms=None).service_splits.request_service_split(
                ServiceRequest(member="m")
            )
