"""Options of a batch read: combinations, and the resulting `PlanRequest`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.requests.batch import plan_request
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Incremental, Latest, PlanRequest, ReadOptimized, Snapshot, SnapshotAsOf
from penstock.proto.model.reports import TableDescription
from penstock.proto.model.splits import DeleteMarker
from penstock.proto.options.registry import ParsedOptions

NEWEST = Position(InstantTime("20260131000000000"))
DESCRIPTION = TableDescription(
    table="t",
    base_path="/t",
    hudi_name="t",
    table_type="MERGE_ON_READ",
    table_version=9,
    timeline_layout=2,
    timeline_timezone="UTC",
    merge_mode="EVENT_TIME_ORDERING",
    record_key_fields=("id",),
    partition_fields=(),
    ordering_fields=("ts",),
    schema_json="{}",
    newest=NEWEST,
)


class Described:
    """Counts the requests for the description of the table."""

    def __init__(self, description: TableDescription = DESCRIPTION) -> None:
        self.description = description
        self.calls = 0

    def __call__(self) -> TableDescription:
        self.calls += 1
        return self.description


def at(digits: str) -> Position:
    return Position(InstantTime(digits))


def test_defaults_are_a_snapshot_of_all_columns() -> None:
    described = Described()
    assert plan_request("t", ParsedOptions(), described) == PlanRequest(table="t", query=Snapshot())
    assert described.calls == 0


def test_plan_request_has_every_planning_option() -> None:
    options = ParsedOptions(
        columns=("a", "b"),
        where="a > 1",
        slots=3,
        event_time="ts",
        split_bytes=7,
        metadata="off",
        columns_by_name="on",
        on_corrupt="skip",
        delete_field="op",
        delete_marker="D",
    )
    request = plan_request("t", options, Described())
    assert request == PlanRequest(
        table="t",
        query=Snapshot(),
        columns=("a", "b"),
        where="a > 1",
        slots=3,
        event_time="ts",
        target_split_bytes=7,
        metadata=False,
        columns_by_name=True,
        skip_corrupt=True,
        delete_marker=DeleteMarker("op", "D"),
    )
    assert plan_request("t", options, Described(), slots=1) == replace(request, slots=1)


def test_corrupt_data_is_an_error_unless_on_corrupt_is_skip() -> None:
    for options in (ParsedOptions(), ParsedOptions(on_corrupt="error")):
        assert not plan_request("t", options, Described()).skip_corrupt


def test_read_optimized() -> None:
    assert plan_request("t", ParsedOptions(query="read_optimized"), Described()).query == ReadOptimized()
    then = plan_request("t", ParsedOptions(query="read_optimized", as_of="20260101000000000"), Described())
    assert then.query == SnapshotAsOf(InstantTime("20260101000000000"), base_files_only=True)


def test_as_of_is_a_requested_time() -> None:
    query = plan_request("t", ParsedOptions(as_of="20260131000000123"), Described()).query
    assert query == SnapshotAsOf(InstantTime("20260131000000123"))


def test_as_of_in_iso_describes_the_table_once() -> None:
    described = Described()
    query = plan_request("t", ParsedOptions(as_of="2026-01-31T00:00:00.123Z"), described).query
    assert query == SnapshotAsOf(InstantTime("20260131000000123"))
    assert described.calls == 1


def test_local_timeline_needs_timeline_timezone() -> None:
    described = Described(replace(DESCRIPTION, timeline_timezone="LOCAL"))
    with pytest.raises(ConfigurationError, match="timelineTimezone"):
        plan_request("t", ParsedOptions(as_of="2026-01-31"), described)
    options = ParsedOptions(as_of="2026-01-31T00:00:00.000Z", timeline_timezone="Europe/Berlin")
    assert plan_request("t", options, described).query == SnapshotAsOf(InstantTime("20260131010000000"))


class TestRanges:
    """The query incremental."""

    def test_range_with_both_bounds(self) -> None:
        options = ParsedOptions(query="incremental", after="20260101000000000", upto="20260102000000000")
        query = plan_request("t", options, Described()).query
        assert query == Incremental(at("20260101000000000"), at("20260102000000000"))

    def test_range_without_upto_ends_at_the_newest_instant_when_planned(self) -> None:
        described = Described()
        for upto in (None, "latest"):
            options = ParsedOptions(query="incremental", after="earliest", upto=upto)
            assert plan_request("t", options, described).query == Incremental(EARLIEST, Latest())
        assert described.calls == 0

    def test_after_latest_is_the_newest_position(self) -> None:
        described = Described()
        options = ParsedOptions(query="incremental", after="latest", upto="2026-02-01")
        assert plan_request("t", options, described).query == Incremental(NEWEST, at("20260201000000000"))
        assert described.calls == 1

    def test_equal_bounds_are_an_empty_range(self) -> None:
        options = ParsedOptions(query="incremental", after="20260101000000000", upto="20260101000000000")
        assert isinstance(plan_request("t", options, Described()).query, Incremental)

    def test_ranges_cut_at_the_same_text_are_adjacent(self) -> None:
        text = "2026-01-31T23:59:59"
        first = plan_request("t", ParsedOptions(query="incremental", after="earliest", upto=text), Described()).query
        second = plan_request("t", ParsedOptions(query="incremental", after=text), Described()).query
        assert isinstance(first, Incremental)
        assert isinstance(second, Incremental)
        assert first.upto == second.after

    def test_range_without_after_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="after=earliest"):
            plan_request("t", ParsedOptions(query="incremental"), Described())

    def test_range_that_ends_before_it_starts_is_refused(self) -> None:
        options = ParsedOptions(query="incremental", after="20260102000000000", upto="20260101000000000")
        with pytest.raises(ConfigurationError, match=r"range \(20260102000000000, 20260101000000000\] of table t ends"):
            plan_request("t", options, Described())


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (ParsedOptions(after="earliest"), "query=incremental"),
        (ParsedOptions(upto="latest"), "query=incremental"),
        (ParsedOptions(query="read_optimized", after="earliest"), "query=incremental"),
        (ParsedOptions(query="incremental", after="earliest", as_of="20260101000000"), "query=snapshot"),
    ],
)
def test_options_that_exclude_each_other(options: ParsedOptions, names: str) -> None:
    with pytest.raises(ConfigurationError, match=names):
        plan_request("t", options, Described())


def test_event_time_unit_needs_event_time() -> None:
    options = ParsedOptions(event_time="at", event_time_unit="ms")
    assert plan_request("t", options, Described()).event_time_unit == "ms"
    with pytest.raises(ConfigurationError, match="give eventTime with it"):
        plan_request("t", ParsedOptions(event_time_unit="ms"), Described())
