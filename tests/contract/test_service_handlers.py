"""The handlers without a socket: decode, call, encode; a status for every failure; no call without a deadline."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc
import grpc_testing
import pytest

from penstock.enumerator.server.auth.acl import Rights
from penstock.enumerator.server.rpc.group_handlers import GroupHandlers
from penstock.enumerator.server.rpc.handlers import SERVICE_NAME, EnumeratorHandlers
from penstock.enumerator.server.rpc.limits import MAX_DEADLINE_S, MAX_INSTANTS
from penstock.enumerator.server.rpc.service_split_handlers import ServiceSplitHandlers
from penstock.enumerator.server.rpc.table_handlers import TableHandlers
from penstock.enumerator.server.rpc.write_handlers import WriteHandlers
from penstock.proto.codec import plan_calls as calls
from penstock.proto.codec import table_calls
from penstock.proto.errors import PositionExpired, all_error_classes
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.reports import EndOfSlot, NextSplit, SplitReport, TimelineInstant, TimelinePage
from penstock.proto.v1 import penstock_pb2 as pb

if TYPE_CHECKING:
    from tests.contract.scripted_table import Deployment

METHODS = pb.DESCRIPTOR.services_by_name["EnumeratorService"].methods_by_name


class Wire:
    """Calls handlers as gRPC does."""

    def __init__(self, deployment: Deployment) -> None:
        reading, groups = EnumeratorHandlers(deployment.embedded), GroupHandlers(deployment.scripted_groups)
        own = {name: getattr(reading, name) for name in METHODS if hasattr(reading, name)}
        others = {
            **TableHandlers(None, Rights()).by_call(),
            **WriteHandlers(None).by_call(),
            **ServiceSplitHandlers(None).by_call(),
        }
        handlers = SimpleNamespace(**own, **groups.by_call(), **others)
        service = pb.DESCRIPTOR.services_by_name["EnumeratorService"]
        self._server = grpc_testing.server_from_dictionary({service: handlers}, grpc_testing.strict_real_time())

    def call(self, name: str, request: Any, timeout_s: float | None = 5.0) -> tuple[Any, grpc.StatusCode, str]:
        """(response or None, status, details)."""
        rpc = self._server.invoke_unary_unary(METHODS[name], (), request, timeout_s)
        answer, _, status, details = rpc.termination()
        return answer, status, details


@pytest.fixture
def wire(served: Deployment) -> Wire:
    """Handlers of the scripted table."""
    return Wire(served)


def opened_id(wire: Wire) -> str:
    """The id of a new plan with one slot."""
    request = calls.request_to_message(PlanRequest(table="trips", query=Snapshot(), slots=1))
    answer, status, _ = wire.call("OpenPlan", request)
    assert status is grpc.StatusCode.OK
    return calls.opened_from_message(answer).plan_id


def test_handlers_cover_every_call_of_the_service() -> None:
    assert SERVICE_NAME == "penstock.v1.EnumeratorService"
    groups = {
        **GroupHandlers(None).by_call(),
        **TableHandlers(None, Rights()).by_call(),
        **WriteHandlers(None).by_call(),
        **ServiceSplitHandlers(None).by_call(),
    }
    reading = {name for name in METHODS if callable(getattr(EnumeratorHandlers, name, None))}
    assert reading | set(groups) == set(METHODS)
    assert not reading & set(groups)


def test_describe_table(wire: Wire, served: Deployment) -> None:
    answer, status, _ = wire.call("DescribeTable", pb.DescribeTableRequest(table="trips"))
    assert status is grpc.StatusCode.OK
    assert calls.description_from_message(answer) == served.embedded.describe_table("trips")


def test_newest_position(wire: Wire) -> None:
    answer, status, _ = wire.call("NewestPosition", calls.newest_to_message("trips", EARLIEST, 2))
    assert status is grpc.StatusCode.OK
    assert calls.newest_answer_from_message(answer) == Position("20260102000000000")  # type: ignore[arg-type]


def test_page_of_instants_is_limited_by_the_server(
    wire: Wire, served: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = served.table.commits

    def listed(max_instants: int) -> tuple[list[str], bool]:
        request = pb.ListInstantsRequest(table="trips", after=days[0], max_instants=max_instants)
        answer, status, _ = wire.call("ListInstants", request)
        assert status is grpc.StatusCode.OK
        return [instant.requested_time for instant in answer.instants], answer.more

    assert listed(0) == listed(MAX_INSTANTS + 1) == (days[1:], False)
    monkeypatch.setattr("penstock.enumerator.server.rpc.handlers.MAX_INSTANTS", 3)
    assert listed(0) == listed(3) == listed(4) == (days[1:4], True)
    assert listed(2) == (days[1:3], True)


def test_largest_page_of_instants_is_below_the_default_limit_of_grpc() -> None:
    name = "9" * 24 + "_" + "9" * 24 + "." + "x" * 205  # 255 characters, the longest name of an instant file
    at = InstantTime("9" * 24)
    instant = TimelineInstant(
        requested_time=at, completion_time=at, action="replacecommit", state="completed", file=name
    )
    page = TimelinePage(instants=(instant,) * MAX_INSTANTS, timeline_timezone="LOCAL", more=True)
    assert 1 << 20 < table_calls.page_to_message(page).ByteSize() < 2 << 20


def test_plan_is_opened_described_pulled_and_reported(wire: Wire, served: Deployment) -> None:
    plan_id = opened_id(wire)
    answer, status, _ = wire.call("DescribePlan", pb.DescribePlanRequest(plan_id=plan_id))
    assert status is grpc.StatusCode.OK
    assert calls.scan_answer_from_message(answer) == served.embedded.describe_plan(plan_id)
    reported = []
    for index in range(10):
        answer, status, _ = wire.call("NextSplit", pb.NextSplitRequest(plan_id=plan_id, slot=0, index=index))
        assert status is grpc.StatusCode.OK
        reported.append(calls.answer_from_message(answer))
    assert [type(each) for each in reported] == [NextSplit] * 9 + [EndOfSlot]
    report = SplitReport(rows=3, size_bytes=4)
    request = pb.FinishSplitRequest(plan_id=plan_id, report=calls.report_to_message(report))
    answer, status, _ = wire.call("FinishSplit", request)
    assert (answer, status) == (pb.FinishSplitResponse(), grpc.StatusCode.OK)
    assert served.embedded.reports(plan_id) == {(0, 0): report}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("timeout_s", [None, MAX_DEADLINE_S * 2])
def test_call_without_a_deadline_is_refused(wire: Wire, served: Deployment, name: str, timeout_s: float | None) -> None:
    request = getattr(pb, f"{name}Request")()
    _, status, details = wire.call(name, request, timeout_s)
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "has no deadline within 3600 s: set one" in details
    assert served.table.calls == 0
    assert served.scripted_groups.calls == []


OF_ALL_TABLES = {"ListGroups", "ListTables", "ListServiceSplits", "ListWrites", "RefreshTables", "DescribeServer"}


@pytest.mark.parametrize("name", sorted(set(METHODS) - OF_ALL_TABLES))
def test_empty_request_is_refused_with_the_name_of_a_field(wire: Wire, name: str) -> None:
    _, status, details = wire.call(name, getattr(pb, f"{name}Request")())
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "`: got nothing, expected a value" in details


def test_report_is_needed_to_finish_a_split(wire: Wire) -> None:
    _, status, details = wire.call("FinishSplit", pb.FinishSplitRequest(plan_id=opened_id(wire)))
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "field `report`: got nothing, expected a report" in details


@pytest.mark.parametrize("code", all_error_classes())
def test_error_is_mapped_to_its_status_with_its_text(
    wire: Wire, served: Deployment, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    cls = all_error_classes()[code]
    served.table.fails = [cls("so it was")]
    with caplog.at_level(logging.INFO, "penstock.enumerator"):
        _, status, details = wire.call("DescribeTable", pb.DescribeTableRequest(table="trips", request_id="r-1"))
    assert (status.name, details) == (cls.grpc_status, "so it was")
    ours = [record for record in caplog.records if record.name == "penstock.enumerator.server"]
    assert [record.getMessage() for record in ours] == [
        f"DescribeTable request='r-1' client='' failed: {code}: so it was"
    ]


def test_bug_is_logged_with_its_trace_and_returned_without(
    wire: Wire, served: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    served.table.fails = [KeyError("secret place")]
    _, status, details = wire.call("DescribeTable", pb.DescribeTableRequest(table="trips"))
    assert status is grpc.StatusCode.INTERNAL
    assert details == "a bug in Penstock, please report it with the server's log: KeyError: 'secret place'"
    assert "Traceback" not in details
    (record,) = [r for r in caplog.records if r.name == "penstock.enumerator.server"]
    assert record.levelname == "ERROR"
    assert record.exc_info is not None


def test_calls_succeed_after_a_failed_call(wire: Wire, served: Deployment) -> None:
    served.table.fails = [PositionExpired("gone")]
    assert wire.call("DescribeTable", pb.DescribeTableRequest(table="trips"))[1] is grpc.StatusCode.OUT_OF_RANGE
    assert wire.call("DescribeTable", pb.DescribeTableRequest(table="trips"))[1] is grpc.StatusCode.OK
