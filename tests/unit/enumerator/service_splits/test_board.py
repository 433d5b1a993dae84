"""The splits of table services: order, leases, pauses, limits; and properties of any sequence of calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.service_splits.board import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, DueSplit, ServiceBoard
from penstock.enumerator.service_splits.due_services import DueService, ServicePolicy
from penstock.proto.errors import Fenced, PermissionDenied
from penstock.proto.model.service_splits import (
    Service,
    ServiceOutcome,
    ServiceRequest,
    ServiceSplitId,
    ServiceSplitState,
)

LEASE_MS = 1_000
POLICY = ServicePolicy(services=tuple(Service))
POLICIES = {"a": POLICY, "b": POLICY}
DONE, FAILED = ServiceOutcome(), ServiceOutcome(code="STORAGE", text="the disk is full")


def board(max_running: int = 100) -> ServiceBoard:
    return ServiceBoard(LEASE_MS, max_running)


def request(member: str, table: str = "", *services: Service) -> ServiceRequest:
    return ServiceRequest(member=member, table=table, services=services)


def handed_out(to: ServiceBoard, member: str, now_ms: int = 0, table: str = "") -> DueSplit:
    split = to.request(request(member, table), "", POLICIES, now_ms)
    assert split is not None
    return split


def finish(of: ServiceBoard, split: DueSplit, outcome: ServiceOutcome = DONE, now_ms: int = 0) -> None:
    assert split.hold is not None
    of.finish(split.id, split.hold.member, split.hold.attempt, "", outcome, now_ms)


def test_services_of_a_table_come_in_their_order_and_each_to_one_member() -> None:
    splits = board()
    splits.found("a", [DueService(Service.CLEAN, "", "9"), DueService(Service.COMPACT, "5", "9")], 0)
    first, second = handed_out(splits, "m"), handed_out(splits, "n")
    assert [first.id.service, second.id.service] == [Service.COMPACT, Service.CLEAN]
    assert splits.request(request("o"), "", POLICIES, 0) is None
    assert handed_out(splits, "m").id == first.id, "its answer was lost: it gets the same split"
    finish(splits, first)
    finish(splits, second)
    assert splits.is_idle(request("o"), 0)


def test_table_with_fewer_running_splits_comes_first() -> None:
    splits = board()
    splits.found("a", [DueService(Service.COMPACT, "1", "9"), DueService(Service.COMPACT, "2", "9")], 0)
    splits.found("b", [DueService(Service.COMPACT, "3", "9")], 5)
    assert [handed_out(splits, member, 5).id.instant for member in "mno"] == ["1", "3", "2"]


def test_limits_of_a_table_and_of_the_server() -> None:
    splits = board(max_running=2)
    for table in "ab":
        splits.found(table, [DueService(Service.COMPACT, str(each), "9") for each in range(3)], 0)
    one = {name: replace(POLICY, max_running=1) for name in POLICIES}
    assert splits.request(request("m", "a"), "", one, 0) is not None
    assert splits.request(request("n", "a"), "", one, 0) is None, "one of the table"
    assert splits.request(request("n", "b"), "", one, 0) is not None
    assert splits.request(request("o"), "", POLICIES, 0) is None, "two of the server"


def test_pause_between_hand_outs_of_a_table() -> None:
    splits = board()
    splits.found("a", [DueService(Service.COMPACT, str(each), "9") for each in range(2)], 0)
    paused = {"a": replace(POLICY, pause_ms=500)}
    assert splits.request(request("m"), "", paused, 100) is not None
    assert splits.request(request("n"), "", paused, 599) is None
    assert splits.request(request("n"), "", paused, 600) is not None


def test_table_without_a_policy_gets_no_member() -> None:
    splits = board()
    splits.found("a", [DueService(Service.COMPACT, "1", "9")], 0)
    assert splits.request(request("m"), "", {"b": POLICY}, 0) is None


def test_member_asks_for_a_table_and_for_services() -> None:
    splits = board()
    splits.found("a", [DueService(Service.CLEAN, "", "9")], 0)
    splits.found("b", [DueService(Service.COMPACT, "1", "9")], 0)
    assert splits.is_idle(request("m", "a", Service.COMPACT), 0)
    assert splits.request(request("m", "a", Service.COMPACT), "", POLICIES, 0) is None
    assert splits.request(request("m", "", Service.COMPACT), "", POLICIES, 0) is not None


def test_failure_waits_longer_each_time_until_it_succeeds() -> None:
    splits = board()
    splits.found("a", [DueService(Service.COMPACT, "1", "9")], 0)
    now_ms, pauses = 0, []
    for _ in range(9):
        finish(splits, handed_out(splits, "m", now_ms), FAILED, now_ms)
        (summary,) = splits.summaries("a", now_ms)
        assert summary.state is ServiceSplitState.FAILING
        assert "the disk is full" in summary.error
        begin_ms = now_ms
        while splits.request(request("m"), "", POLICIES, now_ms) is None:
            now_ms += FIRST_PAUSE_MS // 2
        pauses.append(now_ms - begin_ms)
    assert pauses[:3] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS]
    assert pauses[-1] == LONGEST_PAUSE_MS
    finish(splits, handed_out(splits, "m", now_ms), DONE, now_ms)
    splits.found("a", [DueService(Service.COMPACT, "1", "9")], now_ms)
    assert splits.summaries("a", now_ms)[0].failures == 0


def test_paused_failure_keeps_no_member() -> None:
    splits = board()
    splits.found("a", [DueService(Service.COMPACT, "1", "9")], 0)
    failed = handed_out(splits, "m")
    assert not splits.is_idle(request("n"), 0), "it is under way"
    finish(splits, failed, FAILED)
    assert splits.is_idle(request("n"), FIRST_PAUSE_MS - 1)
    assert not splits.is_idle(request("n"), FIRST_PAUSE_MS)


def test_lease_that_ends_fences_the_member() -> None:
    splits = board()
    splits.found("a", [DueService(Service.COMPACT, "1", "9")], 0)
    first = handed_out(splits, "m")
    assert first.hold is not None
    splits.renew(first.id, "m", first.hold.attempt, "", LEASE_MS - 1)
    assert splits.expire(LEASE_MS) == [], "it was renewed"
    assert [each.id for each in splits.expire(2 * LEASE_MS)] == [first.id]
    with pytest.raises(Fenced):
        splits.renew(first.id, "m", first.hold.attempt, "", 2 * LEASE_MS)
    second = handed_out(splits, "m", 2 * LEASE_MS)
    with pytest.raises(Fenced):
        finish(splits, first, DONE, 2 * LEASE_MS)
    splits.expire(3 * LEASE_MS)
    assert splits.request(request("m"), "", POLICIES, 3 * LEASE_MS) is None, "the second time after a pause"
    third = handed_out(splits, "m", 3 * LEASE_MS + 2 * FIRST_PAUSE_MS)
    with pytest.raises(Fenced):
        finish(splits, second, DONE, 3 * LEASE_MS + 2 * FIRST_PAUSE_MS)
    finish(splits, third, DONE, 3 * LEASE_MS + 2 * FIRST_PAUSE_MS)


def test_write_that_completes_while_a_member_works_makes_the_service_due_again() -> None:
    splits = board()
    splits.found("a", [DueService(Service.CLEAN, "", "9")], 0)
    clean = handed_out(splits, "m")
    splits.found("a", [DueService(Service.CLEAN, "", "10")], 1)
    finish(splits, clean, DONE, 2)
    splits.found("a", [DueService(Service.CLEAN, "", "10")], 3)
    assert not splits.is_idle(request("m"), 3)


def test_another_principal_cannot_end_a_split() -> None:
    splits = board()
    splits.found("a", [DueService(Service.COMPACT, "1", "9")], 0)
    split = splits.request(request("m"), "token:x", POLICIES, 0)
    assert split is not None
    assert split.hold is not None
    with pytest.raises(PermissionDenied):
        splits.finish(split.id, "m", split.hold.attempt, "token:y", DONE, 0)
    other = splits.request(request("m"), "token:y", POLICIES, 0)
    assert other is None, "a name of another principal is another member"


def test_service_that_found_nothing_waits_for_a_newer_write() -> None:
    splits = board()
    splits.found("a", [DueService(Service.CLEAN, "", "9")], 0)
    finish(splits, handed_out(splits, "m"))
    splits.found("a", [DueService(Service.CLEAN, "", "9")], 1)
    assert splits.is_idle(request("m"), 1)
    splits.found("a", [DueService(Service.CLEAN, "", "10")], 2)
    assert handed_out(splits, "m", 2).id.service is Service.CLEAN


def test_what_is_no_longer_due_goes_but_what_a_member_has_stays() -> None:
    splits = board()
    splits.found("a", [DueService(Service.COMPACT, str(each), "9") for each in range(2)], 0)
    held = handed_out(splits, "m")
    splits.found("a", [], 1)
    assert [each.id for each in splits.summaries("", 1)] == [held.id]
    finish(splits, held, DONE, 1)
    splits.forget("a")
    assert splits.summaries("", 1) == ()


# --- properties

MEMBERS = st.sampled_from("mno")
DUE = st.frozensets(
    st.builds(DueService, st.sampled_from(list(Service)), st.sampled_from(["", "1", "2"]), st.sampled_from("56")),
    max_size=5,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("found"), st.sampled_from("ab"), DUE),
        st.tuples(st.just("request"), MEMBERS),
        st.tuples(st.just("finish"), MEMBERS, st.sampled_from([DONE, FAILED])),
        st.tuples(st.just("renew"), MEMBERS),
        st.tuples(st.just("wait"), st.integers(1, 3 * LEASE_MS)),
    ),
    max_size=60,
)


@dataclass
class Model:
    """Who has what, as the members know it; checks each hand-out."""

    splits: ServiceBoard
    now_ms: int = 0
    held: dict[str, tuple[DueSplit, int]] = field(default_factory=dict)
    """Member -> its split, and the end of its lease."""
    attempts: set[int] = field(default_factory=set)

    def step(self, step: tuple[object, ...]) -> None:
        match step:
            case ("found", str(table), frozenset() as due):
                self.splits.found(table, due, self.now_ms)
            case ("request", str(member)):
                split = self.splits.request(request(member), "", POLICIES, self.now_ms)
                if split is not None:
                    self._handed_out(member, split)
            case ("finish", str(member), ServiceOutcome() as outcome) if member in self.held:
                split, until_ms = self.held.pop(member)
                self._call(until_ms, lambda: finish(self.splits, split, outcome, self.now_ms))
            case ("renew", str(member)) if member in self.held:
                split, until_ms = self.held[member]
                assert split.hold is not None
                hold = split.hold
                if self._call(until_ms, lambda: self.splits.renew(split.id, member, hold.attempt, "", self.now_ms)):
                    self.held[member] = split, self.now_ms + LEASE_MS
            case ("wait", int(ms)):
                self.now_ms += ms
                self.splits.expire(self.now_ms)
        alive = Counter(split.id for split, until_ms in self.held.values() if until_ms > self.now_ms)
        assert all(count == 1 for count in alive.values()), "one member at a time"
        running = self.splits.running()
        assert running.total() == alive.total() <= self.splits.max_running
        assert all(count <= POLICY.max_running for count in running.values())

    def _handed_out(self, member: str, split: DueSplit) -> None:
        assert split.hold is not None
        before = self.held.get(member)
        if before is None or before[1] <= self.now_ms:
            assert split.hold.attempt not in self.attempts, "an attempt is one hand-out"
            self.attempts.add(split.hold.attempt)
        else:
            assert split.id == before[0].id
        self.held[member] = split, self.now_ms + LEASE_MS

    def _call(self, until_ms: int, call: object) -> bool:
        assert callable(call)
        if until_ms > self.now_ms:
            call()
            return True
        with pytest.raises(Fenced):
            call()
        return False


@settings(deadline=None)
@given(steps=STEPS)
def test_any_calls_keep_one_member_for_a_split(steps: list[tuple[object, ...]]) -> None:
    model = Model(board(max_running=2))
    for step in steps:
        model.step(step)


class ForgetfulBoard(ServiceBoard):
    """Hands a split out though a member has it."""

    def _asked_for(self, asked: ServiceRequest) -> list[DueSplit]:  # type: ignore[override]
        return [replace(each, hold=None) for each in super()._asked_for(asked)]


def test_the_model_notices_a_split_that_two_members_have() -> None:
    model = Model(ForgetfulBoard(LEASE_MS, 2))
    model.step(("found", "a", frozenset({DueService(Service.COMPACT, "1", "5")})))
    model.step(("request", "m"))
    with pytest.raises(AssertionError, match="one member at a time"):
        model.step(("request", "n"))


def test_id_names_the_work() -> None:
    assert str(ServiceSplitId("a", Service.COMPACT)) == "compact (plan) of table 'a'"
