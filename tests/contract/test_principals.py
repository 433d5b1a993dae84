"""Authorization: rights, members bound to their principal, request ids bound to caller and content.

Calls over gRPC with tokens, on golden tables. The server checks its tables when the test requests it.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import Fenced, PermissionDenied, RequestIdReused
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, Member, SplitProgress
from penstock.proto.model.queries import Incremental, PlanRequest, Snapshot
from penstock.proto.model.reports import SplitReport

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden
TABLES = {"a": "A_merge_event_long_v6_h0150", "b": "A_merge_commit_long_v6_h0150"}
ACL = (
    AclRule(principal="token:worker", rights=("read", "plan", "consume"), tables=("a",)),
    AclRule(principal="token:rival", rights=("read", "plan", "consume"), tables=("a",)),
    AclRule(principal="token:monitor", rights=("read",)),
    AclRule(principal="token:former", rights=("read", "plan"), tables=("a",)),
    AclRule(principal="token:neighbour", rights=("read", "plan"), tables=("b",)),
)
SPEC = GroupSpec(scope=GroupScope(request=PlanRequest(table="a", query=Incremental())))
ONCE = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=1)


@dataclass
class Callers:
    """Clients of one server, each with its own token, and the service."""

    service: EnumeratorService
    of: Callable[[str], EnumeratorClient]

    def worker_with_splits(self) -> tuple[Member, Assignments]:
        """The worker joined and holds every split of the first round."""
        member = self.of("worker").join_group("billing", "w-1", SPEC, "join").member
        self.service.split_discovery.discover()
        held = self.of("worker").request_splits(member, 10, 1)
        assert isinstance(held, Assignments) and held.splits
        return member, held


@pytest.fixture
def callers(golden: GoldenTables, tmp_path: pathlib.Path) -> Iterator[Callers]:
    lines = []
    for name in ("worker", "rival", "monitor", "former", "neighbour"):
        token, line = new_token(name)
        (tmp_path / name).write_text(token)
        lines.append(line)
    (tmp_path / "tokens").write_text("\n".join(lines))
    settings = Settings(tokens=str(tmp_path / "tokens"), acl=ACL)
    service = EnumeratorService({name: str(golden.table(folder)) for name, folder in TABLES.items()}, poll_ms=None)
    with serve_enumerator(service, groups=service, settings=settings) as server:
        yield Callers(
            service, lambda name: EnumeratorClient(server.address, ONCE, ServerAccess(token=str(tmp_path / name)))
        )


def as_member(client: EnumeratorClient, member: Member, held: Assignments) -> list[Callable[[], object]]:
    """Each call of a member."""
    done = tuple(SplitProgress(ref=one.ref, ordinal=0, finished=True) for one in held.splits)
    return [
        lambda: client.heartbeat(member),
        lambda: client.request_splits(member, 10, 2),
        lambda: client.commit_splits(member, done),
        lambda: client.leave_group(member),
    ]


def test_right_read_allows_only_calls_that_change_nothing(callers: Callers) -> None:
    member, held = callers.worker_with_splits()
    monitor = callers.of("monitor")
    before = monitor.describe_group("a", "billing")
    plan = callers.of("worker").open_plan(PlanRequest(table="a", query=Snapshot()))
    assert monitor.list_groups() and monitor.describe_server() and monitor.describe_plan(plan.plan_id)
    calls = [*as_member(monitor, member, held), lambda: monitor.join_group("billing", "w-2", SPEC, "join")]
    for call in calls:
        with pytest.raises(PermissionDenied, match=r"token:monitor has no right `consume` on table 'a', group 'bill"):
            call()
    for change in (
        lambda: monitor.next_split(plan.plan_id, 0, 0),
        lambda: monitor.finish_split(plan.plan_id, 0, 0, SplitReport(rows=1, size_bytes=1)),
    ):
        with pytest.raises(PermissionDenied, match="token:monitor has no right `plan` on table 'a'"):
            change()
    after = monitor.describe_group("a", "billing")
    assert (after.summary, after.held_splits) == (before.summary, before.held_splits)
    assert not callers.service.reports(plan.plan_id)
    assert callers.of("worker").heartbeat(member)  # calls that are refused to others are allowed for the member


def test_instants_are_listed_to_callers_that_may_read_the_table(callers: Callers) -> None:
    instants = {name: callers.service.list_instants(name) for name in TABLES}
    assert instants["a"].instants and instants["a"] != instants["b"]
    for name in ("monitor", "former", "worker"):
        assert callers.of(name).list_instants("a") == instants["a"]
    with pytest.raises(PermissionDenied, match="token:neighbour has no right `read` on table 'a'"):
        callers.of("neighbour").list_instants("a")
    assert callers.of("neighbour").list_instants("b") == instants["b"]


def test_refused_reader_with_former_rights_gets_the_lines_to_add(callers: Callers) -> None:
    with pytest.raises(PermissionDenied) as caught:
        callers.of("former").join_group("billing", "w-1", SPEC, "join")
    expected = '[[acl]] principal = "token:former" rights = ["consume"] tables = ["a"] groups = ["billing"]'
    assert expected in str(caught.value)


def test_member_is_bound_to_the_principal_that_joined(callers: Callers) -> None:
    member, held = callers.worker_with_splits()
    rival = callers.of("rival")
    before = rival.describe_group("a", "billing")
    for call in as_member(rival, member, held):
        with pytest.raises(PermissionDenied, match="another principal joined"):
            call()
    with pytest.raises(PermissionDenied, match="reader 'w-1' of group 'billing' of table 'a'"):
        rival.join_group("billing", "w-1", SPEC, "join")  # the same request id does not give access either
    after = rival.describe_group("a", "billing")
    assert (after.summary, after.held_splits) == (before.summary, before.held_splits)
    assert rival.join_group("billing", "w-2", SPEC, "join").member.reader_id == "w-2"
    for call in as_member(callers.of("worker"), member, held):
        call()
    again = rival.join_group("billing", "w-1", SPEC, "other").member  # the name is free after its member has left
    assert rival.heartbeat(again)
    with pytest.raises(Fenced):
        callers.of("worker").heartbeat(member)


def test_request_id_of_another_caller_does_not_return_their_plan(callers: Callers) -> None:
    theirs = callers.of("neighbour").open_plan(PlanRequest(table="b", query=Snapshot(), where="v > 3"), "job-42")
    ours = callers.of("worker").open_plan(PlanRequest(table="a", query=Snapshot()), "job-42")
    assert (ours.scan.table, ours.scan.where, theirs.scan.table) == ("a", "", "b")
    same = PlanRequest(table="a", query=Snapshot())
    assert callers.of("former").open_plan(same, "job-42").plan_id != ours.plan_id
    assert callers.of("worker").open_plan(same, "job-42").plan_id == ours.plan_id


def test_request_id_reused_for_other_content_is_an_error(callers: Callers) -> None:
    worker = callers.of("worker")
    worker.open_plan(PlanRequest(table="a", query=Snapshot()), "job-42")
    for other in (
        PlanRequest(table="a", query=Snapshot(), where="v > 3"),
        PlanRequest(table="a", query=Snapshot(), slots=3),
        PlanRequest(table="a", query=Incremental()),
    ):
        with pytest.raises(
            RequestIdReused, match="table 'a': the request id of this call opened a plan of other content"
        ):
            worker.open_plan(other, "job-42")
