"""The contract of the group service: every call, response and error is the same, embedded and served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from penstock.enumerator.server.run import serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import ConfigurationError, Fenced, StorageError, UnknownGroup, all_error_classes
from penstock.proto.model.groups import (
    MAX_NAME_CHARS,
    GroupDescription,
    GroupLag,
    GroupScope,
    GroupSpec,
    GroupSummary,
    Joined,
    Member,
    SplitProgress,
    SplitRef,
    StartLatest,
)
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import PlanRequest, RoundLimits, Snapshot
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.proto.v1 import penstock_pb2_grpc as pb_grpc
from tests.contract.group_calls import AT, CALLS, DONE, MEMBER, SCOPE, SPEC, SUMMARY, Call

if TYPE_CHECKING:
    from tests.contract.scripted_table import Deployment


@pytest.mark.parametrize("name", CALLS)
def test_requests_and_responses_are_the_same_in_both_deployments(deployment: Deployment, name: str) -> None:
    call, answer, requested = CALLS[name]
    deployment.scripted_groups.answers = [answer]
    assert call(deployment.groups) == answer
    assert deployment.scripted_groups.calls == [requested]


@pytest.mark.parametrize("code", all_error_classes())
@pytest.mark.parametrize(
    "name", ["join", "heartbeat", "splits", "commit", "leave", "list all", "describe", "reset", "delete"]
)
def test_errors_have_the_same_text_in_both_deployments(deployment: Deployment, name: str, code: str) -> None:
    cls = all_error_classes()[code]
    deployment.scripted_groups.fails = [cls("so it was: 100 % sure\n  got 1")] * 5
    with pytest.raises(cls) as caught:
        CALLS[name][0](deployment.groups)
    assert type(caught.value) is cls
    assert str(caught.value) == "so it was: 100 % sure\n  got 1"


def test_join_that_is_retried_keeps_its_request_id(served: Deployment) -> None:
    served.scripted_groups.fails = [StorageError("try again")] * 2
    served.scripted_groups.answers = [Joined(MEMBER, 10)]
    served.groups.join_group("g", "r-1", SPEC, "q-1")
    assert served.scripted_groups.calls == [("join", "g", "r-1", SPEC, "q-1")] * 3


def test_fenced_reader_gets_the_error_without_retry(served: Deployment) -> None:
    served.scripted_groups.fails = [Fenced("epoch 7 is not current: 8 is")]
    with pytest.raises(Fenced, match=r"^epoch 7 is not current: 8 is$"):
        served.groups.heartbeat(MEMBER)
    assert len(served.scripted_groups.calls) == 1


def test_heartbeat_has_a_shorter_deadline_than_other_calls() -> None:
    with pytest.raises(ConfigurationError, match="heartbeat_deadline_ms"):
        CallLimits(heartbeat_deadline_ms=0)


BAD_CALLS: dict[str, tuple[Call, str]] = {
    "no group": (lambda d: d.join_group("", "r", SPEC, "q"), "`group`: got nothing"),
    "long group": (
        lambda d: d.join_group("g" * (MAX_NAME_CHARS + 1), "r", SPEC, "q"),
        "201 characters, expected at most 200",
    ),
    "strange group": (lambda d: d.join_group("g g", "r", SPEC, "q"), "group 'g g': expected letters"),
    "group of no ASCII": (lambda d: d.describe_group("trips", "gé"), "expected letters"),
    "line in a group": (lambda d: d.delete_group("trips", "g\n"), "expected letters"),
    "no reader": (lambda d: d.join_group("g", "", SPEC, "q"), "`reader id`: got nothing"),
    "no request id": (lambda d: d.join_group("g", "r", SPEC, "\ud800"), "cannot be encoded"),
    "no split requested": (
        lambda d: d.request_splits(MEMBER, 0, 1),
        "max_splits of a request: got 0, expected 1 to 1000",
    ),
    "many requested": (lambda d: d.request_splits(MEMBER, 1001, 1), "got 1001"),
    "negative sequence": (lambda d: d.request_splits(MEMBER, 1, -1), "cannot be encoded"),
    "negative ordinal": (
        lambda d: d.commit_splits(MEMBER, (SplitProgress(ref=SplitRef("p", 0), ordinal=-1),)),
        "cannot be encoded",
    ),
    "long commit": (lambda d: d.commit_splits(MEMBER, DONE * 5001), "commit of 10002 splits: expected at most 10000"),
    "negative epoch": (lambda d: d.heartbeat(Member("trips", "g", "r", -1)), "cannot be encoded"),
    "empty table": (lambda d: d.reset_group("", "g", StartLatest(), dry_run=True), "`table`: got nothing"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_invalid_request_is_refused_before_the_group_service(served: Deployment, name: str) -> None:
    call, reported = BAD_CALLS[name]
    with pytest.raises(ConfigurationError, match=reported):
        call(served.groups)
    assert served.scripted_groups.calls == []


def _member(**changes: Any) -> pb.Member:
    return pb.Member(**{"table": "trips", "group": "g", "reader_id": "r", "epoch": 1, **changes})


def _join(**changes: Any) -> pb.JoinGroupRequest:
    request = pb.OpenPlanRequest(table="trips", incremental=pb.Incremental(after=pb.Position(order_key="0")))
    scope = pb.GroupScope(request=request, on_lost_range="fail")
    options = {"group": "g", "reader_id": "r", "scope": scope, "start_latest": pb.StartLatest(), "request_id": "q"}
    return pb.JoinGroupRequest(**{**options, **changes})


def _scope(**changes: Any) -> pb.GroupScope:
    scope = _join().scope
    for name, value in changes.items():
        if isinstance(value, str):
            setattr(scope, name, value)
        else:
            getattr(scope, name).CopyFrom(value)
    return scope


BAD_MESSAGES: dict[str, tuple[str, Any, str]] = {
    "oversize group": ("JoinGroup", _join(group="g" * 5000), "5000 characters"),
    "group with a blank": ("JoinGroup", _join(group="a b"), "expected letters"),
    "reader with an escape": ("JoinGroup", _join(reader_id="\x1b[2J"), "expected letters"),
    "no scope": ("JoinGroup", _join(scope=None), "`scope`: got nothing"),
    "no start": ("JoinGroup", _join(start_latest=None), "`start`: got no start"),
    "no request id": ("JoinGroup", _join(request_id=""), "`request_id`: got nothing"),
    "long request id": ("JoinGroup", _join(request_id="q" * 2000), "2000 characters"),
    "no request in the scope": ("JoinGroup", _join(scope=pb.GroupScope(on_lost_range="fail")), "`scope.request`"),
    "another policy": ("JoinGroup", _join(scope=_scope(on_lost_range="panic")), "fail, earliest, snapshot"),
    "no policy": ("JoinGroup", _join(scope=_scope(on_lost_range="")), "scope.on_lost_range"),
    "a snapshot": (
        "JoinGroup",
        _join(scope=_scope(request=pb.OpenPlanRequest(table="trips", snapshot=pb.Snapshot()))),
        "got Snapshot, expected incremental or changes",
    ),
    "an end that is no position": ("JoinGroup", _join(scope=_scope(upto=pb.Position(order_key="x"))), "1 to 24 digits"),
    "a start that is no position": ("JoinGroup", _join(start_at=pb.Position(order_key="-1")), "1 to 24 digits"),
    "too large a limit": ("JoinGroup", _join(limits=pb.RoundLimits(max_rows=2**64 - 1)), "limits.max_rows"),
    "no member": ("Heartbeat", pb.HeartbeatRequest(), "`member`: got nothing"),
    "member of no table": ("Heartbeat", pb.HeartbeatRequest(member=_member(table="")), "member.table"),
    "member of a long table": ("LeaveGroup", pb.LeaveGroupRequest(member=_member(table="t" * 5000)), "5000 characters"),
    "huge epoch": ("LeaveGroup", pb.LeaveGroupRequest(member=_member(epoch=2**64 - 1)), "member.epoch"),
    "no splits": ("RequestSplits", pb.RequestSplitsRequest(member=_member()), "max_splits of a request: got 0"),
    "too many splits": ("RequestSplits", pb.RequestSplitsRequest(member=_member(), max_splits=1001), "got 1001"),
    "huge sequence": (
        "RequestSplits",
        pb.RequestSplitsRequest(member=_member(), max_splits=1, sequence=2**63),
        "`sequence`",
    ),
    "commit of no plan": (
        "CommitSplits",
        pb.CommitSplitsRequest(member=_member(), done=[pb.SplitProgress()]),
        "`plan_id`: got nothing",
    ),
    "commit of a huge index": (
        "CommitSplits",
        pb.CommitSplitsRequest(member=_member(), done=[pb.SplitProgress(plan_id="p", index=2**32 - 1)]),
        "`index`",
    ),
    "commit of a huge ordinal": (
        "CommitSplits",
        pb.CommitSplitsRequest(member=_member(), done=[pb.SplitProgress(plan_id="p", ordinal=2**63)]),
        "`ordinal`",
    ),
    "commit with a bad report": (
        "CommitSplits",
        pb.CommitSplitsRequest(
            member=_member(),
            done=[pb.SplitProgress(plan_id="p", report=pb.SplitReport(phase_ms={"open": float("nan")}))],
        ),
        "finite number of milliseconds",
    ),
    "commit of too much": (
        "CommitSplits",
        pb.CommitSplitsRequest(member=_member(), done=[pb.SplitProgress(plan_id="p")] * 10_001),
        "10001 entries",
    ),
    "status of a long table": ("DescribeServer", pb.DescribeServerRequest(table="t" * 5000), "5000 characters"),
    "list of a long table": ("ListGroups", pb.ListGroupsRequest(table="t" * 5000), "5000 characters"),
    "describe without a group": ("DescribeGroup", pb.DescribeGroupRequest(table="trips"), "`group`: got nothing"),
    "reset without a start": ("ResetGroup", pb.ResetGroupRequest(table="trips", group="g"), "`start`: got no start"),
    "delete of a path": ("DeleteGroup", pb.DeleteGroupRequest(table="trips", group="..\\x"), "expected letters"),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_bad_message_is_refused_by_status_and_code_before_the_service(served: Deployment, name: str) -> None:
    call, request, reported = BAD_MESSAGES[name]
    assert served.server is not None
    with grpc.insecure_channel(served.server.address) as channel:
        ask = getattr(pb_grpc.EnumeratorServiceStub(channel), call)
        with pytest.raises(grpc.RpcError) as caught:
            ask(request, timeout=5)
    answer: Any = caught.value
    assert answer.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert ("penstock-error-code", "CONFIGURATION") in [tuple(pair) for pair in answer.trailing_metadata()]
    assert reported in answer.details()
    assert served.scripted_groups.calls == []


@pytest.mark.parametrize(
    ("error", "status"), [(Fenced("old"), grpc.StatusCode.ABORTED), (UnknownGroup("none"), grpc.StatusCode.NOT_FOUND)]
)
def test_statuses_of_errors_of_the_group_service(served: Deployment, error: Exception, status: grpc.StatusCode) -> None:
    assert served.server is not None
    served.scripted_groups.fails = [error]
    with grpc.insecure_channel(served.server.address) as channel, pytest.raises(grpc.RpcError) as caught:
        pb_grpc.EnumeratorServiceStub(channel).Heartbeat(pb.HeartbeatRequest(member=_member()), timeout=5)
    answer: Any = caught.value
    assert answer.code() is status


BAD_ANSWERS: dict[str, tuple[Call, object, str]] = {
    "a lease of nothing": (CALLS["heartbeat"][0], 0, "`lease_ms`: got 0"),
    "joined with no lease": (CALLS["join"][0], Joined(MEMBER, 0), "`lease_ms`: got 0"),
    "a strange state": (
        CALLS["list all"][0],
        (GroupSummary(table="trips", group="g", state="odd", committed=EARLIEST, planned=AT, readers=1),),
        "`state`: got 'odd'",
    ),
    "a lag of no time": (
        CALLS["describe"][0],
        GroupDescription(
            summary=SUMMARY,
            scope=SCOPE,
            limits=RoundLimits(),
            rounds=0,
            pending_splits=0,
            held_splits=0,
            readers=(),
            lag=GroupLag(commits=0, size_bytes=0, seconds=float("nan")),
        ),
        "lag.seconds",
    ),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_bad_response_is_refused_by_the_client(served: Deployment, name: str) -> None:
    call, answer, reported = BAD_ANSWERS[name]
    served.scripted_groups.answers = [answer]
    with pytest.raises(ConfigurationError, match=reported):
        call(served.groups)


def test_server_without_groups_returns_unimplemented(served: Deployment) -> None:
    with serve_enumerator(served.embedded, "127.0.0.1:0") as server:
        client = EnumeratorClient(server.address)
        with pytest.raises(ConfigurationError, match="this server keeps no consumer groups"):
            client.list_groups()
        assert client.describe_table("trips").table == "trips"
        client.close()


def test_snapshot_is_not_a_valid_scope() -> None:
    from penstock.proto.codec.group_calls import join_from_message, join_to_message

    spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="trips", query=Snapshot())))
    with pytest.raises(ConfigurationError, match="got Snapshot"):
        join_from_message(join_to_message("g", "r", spec, "q"))
