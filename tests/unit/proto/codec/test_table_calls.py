"""Messages of the calls that list and administer tables: round trips, and fields that cannot be."""

from __future__ import annotations

import pytest

from penstock.proto.codec import table_calls as calls
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.catalogs import CatalogStatus, ServedTable, TableList
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
