"""The contract of `Enumerator`, tested with the embedded and the served one: tables, opened plans, streams, errors.

The splits of held plans are in `test_held_plans`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import (
    ConfigurationError,
    PenstockError,
    PositionExpired,
    StorageError,
    TableNotFound,
    UnknownSplit,
    all_error_classes,
)
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, ReadOptimized, RoundLimits, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import EventTimeOrdering, RowsOf
from penstock.proto.model.streams import (
    CommitsBatch,
    NextBatch,
    Progress,
    SnapshotBatch,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    Watermark,
    batch_request,
)
from tests.contract.scripted_table import ALL, all_ids, drain

if TYPE_CHECKING:
    from tests.contract.scripted_table import Deployment


ROWS = PlanRequest(table="trips", query=Incremental())


def at(day: int) -> Position:
    """The position after the scripted commit of that day."""
    return Position(InstantTime(f"2026010{day}000000000"))


# --- tables ---


def test_table_is_described(deployment: Deployment) -> None:
    assert deployment.enumerator.describe_table("trips") == deployment.table.describe("/lake/trips", "trips")


def test_unknown_table_is_an_error_of_every_call(deployment: Deployment) -> None:
    for ask in (
        lambda: deployment.enumerator.describe_table("trucks"),
        lambda: deployment.enumerator.newest_position("trucks"),
        lambda: deployment.enumerator.list_instants("trucks"),
        lambda: deployment.enumerator.open_plan(PlanRequest(table="trucks", query=Snapshot())),
        lambda: deployment.enumerator.start_stream(StreamScope(request=replace(ROWS, table="trucks")), StartLatest()),
        lambda: deployment.enumerator.next_batch(
            StreamScope(request=replace(ROWS, table="trucks")), StreamPoint(progress=Progress(EARLIEST))
        ),
    ):
        with pytest.raises(TableNotFound, match=r"no table 'trucks' is registered here.*registered: trips"):
            ask()


def test_table_without_a_name_is_refused(deployment: Deployment) -> None:
    with pytest.raises(ConfigurationError, match="got nothing, expected a"):
        deployment.enumerator.describe_table("")


def test_newest_position_is_capped_in_commits(deployment: Deployment) -> None:
    assert deployment.enumerator.newest_position("trips") == at(9)
    assert deployment.enumerator.newest_position("trips", EARLIEST) == at(9)
    assert deployment.enumerator.newest_position("trips", at(2), 1) == at(3)
    assert deployment.enumerator.newest_position("trips", at(7), 5) == at(9)


def test_instants_are_listed_in_pages(deployment: Deployment) -> None:
    def times(**bounds: Any) -> tuple[list[str], bool]:
        page = deployment.enumerator.list_instants("trips", **bounds)
        assert page.timeline_timezone == "UTC"
        return [instant.requested_time for instant in page.instants], page.more

    days = deployment.table.commits
    assert times() == (days, False)
    assert times(max_instants=4) == (days[:4], True)
    assert times(after=days[3], max_instants=5) == (days[4:], False)
    assert times(as_of=days[1]) == (days[:2], False)
    assert times(after=days[1], as_of=days[1]) == ([], False)
    with pytest.raises(ConfigurationError):
        times(max_instants=-1)


def test_newest_position_without_new_commits_is_the_given_one(deployment: Deployment) -> None:
    inside = Position(InstantTime("20260109000000000"), 3)
    deployment.table.commits = deployment.table.commits[:8]
    assert deployment.enumerator.newest_position("trips", inside, 1) == inside


def test_negative_cap_is_refused(deployment: Deployment) -> None:
    with pytest.raises(ConfigurationError, match="-1"):
        deployment.enumerator.newest_position("trips", EARLIEST, -1)


# --- plans ---


def test_opened_plan_describes_its_content(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(ALL)
    assert (opened.slots, opened.splits, opened.size_bytes) == (2, 9, sum(deployment.table.sizes))
    assert opened.scan == deployment.embedded.plan(ALL).scan
    assert deployment.enumerator.describe_plan(opened.plan_id) == opened.scan


@pytest.mark.parametrize(
    "query",
    [
        Snapshot(),
        ReadOptimized(),
        SnapshotAsOf(InstantTime("20260105")),
        Incremental(),
        Incremental(at(3), at(6)),
        Incremental(Position(InstantTime("20260103000000000"), 2)),
    ],
)
def test_request_reaches_the_planner_completely(deployment: Deployment, query: object) -> None:
    request = PlanRequest(
        table="trips",
        query=query,  # type: ignore[arg-type]
        columns=("städte", "id"),
        where="id > 'ü'",
        slots=3,
        event_time="ts",
        target_split_bytes=12345,
    )
    observed: list[PlanRequest] = []
    plan = deployment.table.plan
    deployment.table.plan = lambda path, name, options: (observed.append(options), plan(path, name, options))[1]  # type: ignore[method-assign]
    opened = deployment.enumerator.open_plan(request)
    assert observed == [request]
    assert (opened.scan.columns, opened.scan.where) == (("städte", "id"), "id > 'ü'")
    assert opened.scan.merge == EventTimeOrdering(("ts",))


def test_range_has_the_splits_and_instants_of_its_commits(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Incremental(at(3), at(6))))
    assert opened.scan.rows == RowsOf(frozenset(at(day).order_key for day in (4, 5, 6)))
    assert sorted(all_ids(deployment.enumerator, opened)) == [
        f"2026010{day}000000000:fg-{day - 1}" for day in (4, 5, 6)
    ]


def test_empty_range_is_a_plan_without_slots(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Incremental(at(9))))
    assert (opened.slots, opened.splits, opened.size_bytes) == (0, 0, 0)
    with pytest.raises(UnknownSplit, match="no slot 0"):
        deployment.enumerator.next_split(opened.plan_id, 0, 0)


@pytest.mark.parametrize(("requested", "slots"), [(0, 2), (1, 1), (4, 4), (100, 9)])
def test_slots_are_chosen_or_given_but_never_more_than_splits(
    deployment: Deployment, requested: int, slots: int
) -> None:
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=requested))
    assert opened.slots == slots


@pytest.mark.parametrize("change", [{"slots": -1}, {"target_split_bytes": -5}, {"table": ""}])
def test_invalid_plan_request_is_refused(deployment: Deployment, change: dict[str, object]) -> None:
    request = PlanRequest(**{"table": "trips", "query": Snapshot(), **change})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        deployment.enumerator.open_plan(request)


def test_plans_of_equal_requests_are_separate_with_the_same_splits(deployment: Deployment) -> None:
    one, other = deployment.enumerator.open_plan(ALL), deployment.enumerator.open_plan(ALL)
    assert one.plan_id != other.plan_id
    assert drain(deployment.enumerator, one.plan_id, 0) == drain(deployment.enumerator, other.plan_id, 0)


def test_plan_does_not_change_with_later_commits(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(ALL)
    deployment.table.commits.append("20260110000000000")
    deployment.table.fails = [StorageError("the table is gone")] * 20
    assert all_ids(deployment.enumerator, opened).total() == 9


# --- streams ---


def read_stream(enumerator: Enumerator, scope: StreamScope, point: StreamPoint) -> list[NextBatch]:
    """Every batch of a stream, until there is no new data."""
    batches: list[NextBatch] = []
    while (batch := enumerator.next_batch(scope, point)).point != point:
        batches.append(batch)
        point = batch.point
    return batches


@pytest.mark.parametrize("start", [StartSnapshot(), StartLatest(), StartAfter(EARLIEST), StartAfter(at(3))])
def test_stream_starts_at_the_position_of_the_table(
    deployment: Deployment, start: StartSnapshot | StartLatest | StartAfter
) -> None:
    scope = StreamScope(request=ROWS)
    assert deployment.enumerator.start_stream(scope, start) == deployment.table.start_stream("", "trips", scope, start)


def test_stream_advances_from_point_to_point_each_with_its_plan(deployment: Deployment) -> None:
    scope = StreamScope(request=ROWS, limits=RoundLimits(max_commits=1, max_files=4), upto=at(9))
    begun = deployment.enumerator.start_stream(scope, StartAfter(EARLIEST))
    batches = read_stream(deployment.enumerator, scope, begun)
    assert batches == read_stream(deployment.embedded, scope, begun)
    assert [batch.point.progress.position for batch in batches] == [at(day) for day in range(1, 10)]
    assert [batch.point.watermark for batch in batches] == [Watermark(n, 1 - n) for n in range(1, 10)]
    assert [batch.lost for batch in batches] == ["städte"] + [""] * 8
    assert [batch.point.ended for batch in batches] == [False] * 8 + [True]
    assert batches[-1].point.progress.consumed == {at(day).order_key for day in range(1, 10)}
    for batch, after in zip(batches, [EARLIEST, *(batch.point.progress.position for batch in batches)], strict=False):
        assert batch.point.content == CommitsBatch(after, frozenset({InstantTime("1")}))
        request = batch_request(scope, batch.point)
        assert request is not None
        assert all_ids(deployment.enumerator, deployment.enumerator.open_plan(request)).total() == 1


def test_snapshot_is_delivered_in_parts_before_later_commits(deployment: Deployment) -> None:
    scope = StreamScope(request=ROWS, limits=RoundLimits(max_files=4))
    begun = deployment.enumerator.start_stream(scope, StartSnapshot())
    deployment.table.commits.append("20260110000000000")
    deployment.table.sizes.append(1)
    batches = read_stream(deployment.enumerator, scope, begun)
    assert [batch.point.content for batch in batches[:3]] == [SnapshotBatch(0), SnapshotBatch(4), SnapshotBatch(8)]
    assert [batch.point.snapshot.done for batch in batches[:3] if batch.point.snapshot] == [4, 8, 9]
    assert [batch.point.snapshot for batch in batches[3:]] == [None]
    sizes = []
    for batch in batches:
        request = batch_request(scope, batch.point)
        assert request is not None
        sizes.append(deployment.enumerator.open_plan(request).splits)
    assert sizes == [4, 4, 1, 1]


def test_batch_of_a_point_is_the_same_on_repetition(deployment: Deployment) -> None:
    scope = StreamScope(request=ROWS, limits=RoundLimits(max_commits=2))
    begun = deployment.enumerator.start_stream(scope, StartAfter(at(2)))
    assert deployment.enumerator.next_batch(scope, begun) == deployment.enumerator.next_batch(scope, begun)
    newest = deployment.enumerator.start_stream(scope, StartLatest())
    assert deployment.enumerator.next_batch(scope, newest) == NextBatch(point=newest)


# --- errors ---


def test_error_keeps_its_class_and_text(deployment: Deployment, expired: PositionExpired) -> None:
    deployment.table.fails = [expired]
    with pytest.raises(PositionExpired) as caught:
        deployment.enumerator.open_plan(ALL)
    assert str(caught.value) == str(expired)


@pytest.mark.parametrize("code", all_error_classes())
def test_every_class_of_the_tree_comes_through(deployment: Deployment, code: str) -> None:
    cls = all_error_classes()[code]
    deployment.table.fails = [cls("so it was")] * 10
    with pytest.raises(PenstockError, match=r"^so it was$") as caught:
        deployment.enumerator.newest_position("trips")
    assert type(caught.value) is cls
