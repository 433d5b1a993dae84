"""Messages of the calls that list and administer tables: round trips, and fields that cannot be."""

from __future__ import annotations

import pytest

from penstock.proto.codec import table_calls as calls
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.catalogs import CatalogStatus, ServedTable, TableList
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.reports import TimelineInstant, TimelinePage
from penstock.proto.v1 import penstock_pb2 as pb

TABLE = ServedTable(table="lake.städte", source="catalog lake", path="s3://b/x", error_code="STORAGE", error="down")
CATALOG = CatalogStatus(
    catalog="lake",
    kind="folders",
    tables=3,
    listed_ms=1_800_000_000_000,
    error_code="STORAGE",
    error="no answer",
    problem_count=30,
    problems=("lake.a: refused", "lake.b: denied"),
)


def sent(tables: TableList) -> TableList:
    message = pb.ListTablesResponse.FromString(calls.list_to_message(tables).SerializeToString())
    return calls.list_from_message(message)


@pytest.mark.parametrize("listed_ms", [None, 0, 5])
def test_list_is_the_same_on_the_other_side(listed_ms: int | None) -> None:
    never = CatalogStatus(catalog="new", kind="hive", tables=0, listed_ms=listed_ms)
    listed = TableList(version=7, tables=(TABLE,), catalogs=(CATALOG, never), problems=("two of one name",))
    assert sent(listed) == listed
    assert sent(TableList(version=0, tables=())) == TableList(version=0, tables=())


def test_requests_are_the_same_on_the_other_side() -> None:
    assert calls.listed_from_message(calls.list_request("a.*", catalogs=True)) == ("a.*", True)
    assert calls.listed_from_message(pb.ListTablesRequest()) == ("*", False)
    assert calls.added_from_message(calls.add_request("a", "/a", 250)) == ("a", "/a", 250)
    assert calls.removed_from_message(calls.remove_request("a")) == "a"
    assert calls.refreshed_from_message(calls.refresh_request("lake")) == "lake"


def test_long_errors_are_cut_before_they_are_sent() -> None:
    long = ServedTable(table="t", source="config", path="/t", error_code="STORAGE", error="x" * 100_000)
    (cut,) = sent(TableList(version=1, tables=(long,))).tables
    assert len(cut.error) == calls.MAX_ERROR_CHARS


@pytest.mark.parametrize(
    "message",
    [
        pb.ListTablesResponse(tables=[pb.ServedTable()]),
        pb.ListTablesResponse(tables=[pb.ServedTable(table="t", error="x" * 5_000)]),
        pb.ListTablesResponse(catalogs=[pb.CatalogStatus()]),
        pb.ListTablesResponse(catalogs=[pb.CatalogStatus(catalog="c", tables=2**64 - 1)]),
        pb.ListTablesResponse(catalogs=[pb.CatalogStatus(catalog="c")] * 101),
        pb.ListTablesResponse(problems=["x"] * 1_001),
        pb.ListTablesResponse(version=2**64 - 1),
    ],
)
def test_response_that_cannot_be_is_refused(message: pb.ListTablesResponse) -> None:
    with pytest.raises(ConfigurationError):
        calls.list_from_message(message)


@pytest.mark.parametrize(
    "message",
    [
        pb.AddTableRequest(path="/a"),
        pb.AddTableRequest(table="a"),
        pb.AddTableRequest(table="a", path="x" * 100_000),
        pb.AddTableRequest(table="a", path="/a", poll_interval_ms=2**64 - 1),
    ],
)
def test_request_that_cannot_be_is_refused(message: pb.AddTableRequest) -> None:
    with pytest.raises(ConfigurationError):
        calls.added_from_message(message)


# --- instants

DONE, PENDING = (
    TimelineInstant(requested_time=at, completion_time=done, action=action, state=state, file=f"{at}.{action}")
    for at, done, action, state in (
        (InstantTime("101"), InstantTime("150"), "deltacommit", "completed"),
        (InstantTime("102"), None, "indexing", "inflight"),
    )
)


def sent_page(page: TimelinePage, after: str = "", as_of: str = "") -> TimelinePage:
    message = pb.ListInstantsResponse.FromString(calls.page_to_message(page).SerializeToString())
    return calls.page_from_message(message, after, as_of)


def test_page_of_a_timeline_is_the_same_on_the_other_side() -> None:
    page = TimelinePage(instants=(DONE, PENDING), timeline_timezone="LOCAL", more=True)
    assert sent_page(page) == sent_page(page, "100", "102") == page
    empty = TimelinePage(instants=(), timeline_timezone="UTC", more=False)
    assert sent_page(empty, "7", "5") == empty


def test_request_of_instants_is_the_same_on_the_other_side() -> None:
    for request in (("a", "101", "20260101", 7), ("a", "", "", 0)):
        assert calls.instants_from_message(calls.instants_to_message(*request)) == request


@pytest.mark.parametrize(
    "message",
    [
        pb.ListInstantsRequest(),
        pb.ListInstantsRequest(table="x" * 100_000),
        pb.ListInstantsRequest(table="a", after="../.."),
        pb.ListInstantsRequest(table="a", after="1" * 25),
        pb.ListInstantsRequest(table="a", as_of="latest"),
        pb.ListInstantsRequest(table="a", max_instants=2**31),
    ],
)
def test_request_of_instants_that_cannot_be_is_refused(message: pb.ListInstantsRequest) -> None:
    with pytest.raises(ConfigurationError, match="list of instants: field"):
        calls.instants_from_message(message)


def test_negative_number_of_instants_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be encoded"):
        calls.instants_to_message("a", "", "", -1)


def instant(**fields: str) -> pb.TimelineInstant:
    known = {"requested_time": "101", "action": "clean", "state": "completed", "file": "101.clean"}
    return pb.TimelineInstant(**{**known, **fields})


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (pb.ListInstantsResponse(instants=[instant(requested_time="x")]), "field `requested_time`"),
        (pb.ListInstantsResponse(instants=[instant(completion_time="1" * 25)]), "field `completion_time`"),
        (pb.ListInstantsResponse(instants=[instant(action="")]), "field `action`"),
        (pb.ListInstantsResponse(instants=[instant(state="gone")]), "field `state`"),
        (pb.ListInstantsResponse(instants=[instant(file="x" * 5_000)]), "field `file`"),
        (pb.ListInstantsResponse(timeline_timezone="x" * 5_000), "field `timeline_timezone`"),
        (pb.ListInstantsResponse(instants=[instant()] * 100_001), "got 100001 entries"),
        (pb.ListInstantsResponse(instants=[instant(), instant(requested_time="100")]), "got another order"),
        (pb.ListInstantsResponse(instants=[instant(requested_time="100")]), "expected after 100, up to 105"),
        (pb.ListInstantsResponse(instants=[instant(), instant(requested_time="106")]), "got 101 to 106"),
        (pb.ListInstantsResponse(more=True), "because more follow"),
    ],
)
def test_page_that_cannot_be_is_refused(message: pb.ListInstantsResponse, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        calls.page_from_message(message, "100", "105")


def test_page_within_its_bounds_is_accepted() -> None:
    message = pb.ListInstantsResponse(instants=[instant(), instant(requested_time="105")], more=True)
    assert [one.requested_time for one in calls.page_from_message(message, "100", "105").instants] == ["101", "105"]
