"""Batches of streams over golden tables: every row once, repeatable plans, upgrades, snapshots whose list is lost."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.planning.discovery import read_timeline
from penstock.proto.errors import ConfigurationError, DataInvalidated, PositionExpired
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query, RoundLimits
from penstock.proto.model.splits import RowsOf
from penstock.proto.model.streams import (
    CommitsBatch,
    EventTimeRule,
    NoBatch,
    Progress,
    SnapshotBatch,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamStart,
    batch_request,
)
from penstock.reader.read_split import output_schema, read_split
from penstock.table.hudi_table import open_table
from tests.scripted_timeline import ScriptedTimeline
from tests.unit.enumerator.streams.golden_streams import (
    CHANGES,
    ROWS,
    TABLES,
    Golden,
    all_points,
    scope,
    texts,
    together,
)

pytestmark = pytest.mark.golden


@pytest.mark.parametrize("limits", [RoundLimits(), RoundLimits(max_files=1), RoundLimits(max_rows=3)], ids=str)
@pytest.mark.parametrize("case", TABLES)
def test_snapshot_is_complete_under_any_limits(case: str, limits: RoundLimits, golden: Golden) -> None:
    path, enumerator = golden.table(case), EmbeddedEnumerator()
    of = scope(path, limits=limits)
    points = all_points(enumerator, of, StartSnapshot())
    newest = enumerator.describe_table(str(path)).newest
    assert points[0].progress.position == newest
    assert points[0].content == NoBatch()
    assert all(isinstance(point.content, SnapshotBatch) for point in points[1:])
    last = points[-1].snapshot
    assert last is not None and last.done == last.total
    assert limits == RoundLimits() or last.total == 1 or len(points) > 2
    whole = enumerator.plan(PlanRequest(table=str(path), query=Incremental(EARLIEST, newest)))
    batches = [part.batch for split in whole.splits for part in read_split(whole.scan, split)]
    actual = together(enumerator, of, points)
    assert texts(actual) == texts([pa.Table.from_batches(batches, output_schema(whole.scan))])


@pytest.mark.parametrize("case", TABLES)
def test_snapshot_of_a_stream_of_changes_is_inserts(case: str, golden: Golden) -> None:
    path, enumerator = golden.table(case), EmbeddedEnumerator()
    of = scope(path, CHANGES, limits=RoundLimits(max_files=2))
    points = all_points(enumerator, of, StartSnapshot())
    changes = pa.concat_tables(together(enumerator, of, points))
    assert set(changes["_change_type"].to_pylist()) == {"+I"}
    assert len(set(changes["_change_seq"].to_pylist())) == changes.num_rows
    rows_of = scope(path)
    state = pa.concat_tables(together(enumerator, rows_of, all_points(enumerator, rows_of, StartSnapshot())))
    own = [name for name in state.column_names if not name.startswith("_hoodie")]
    assert texts([changes.select(own)]) == texts([state.select(own)])


@pytest.mark.parametrize("start", [StartSnapshot(), StartAfter(EARLIEST)], ids=["snapshot", "earliest"])
@pytest.mark.parametrize(("query", "commits"), [(ROWS, "_hoodie_commit_time"), (CHANGES, "_change_instant")])
def test_rows_of_a_stream_carry_completion_times(
    query: Query, commits: str, start: StreamStart, golden: Golden
) -> None:
    """In every batch the completion time of the row's commit, of the same points and rows as without the column."""
    path, enumerator = golden.table("B_v9_inc_mor"), EmbeddedEnumerator()
    names = (file.name.partition(".")[0].partition("_") for file in path.glob(".hoodie/timeline/*_*.*commit"))
    stated = {requested: completed for requested, _, completed in names}
    limits = RoundLimits(max_files=2)
    plain = scope(path, query, limits=limits)
    request = replace(plain.request, completion_time=True, timeline_timezone="UTC")
    of = replace(plain, request=request)
    points = all_points(enumerator, of, start)
    assert points == all_points(EmbeddedEnumerator(), plain, start)
    tables = together(enumerator, of, points)
    without = together(enumerator, plain, points)
    assert texts([table.drop_columns(["_completion_time"]) for table in tables]) == texts(without)
    stream_rows = [row for table in tables for row in table.to_pylist()]
    assert len({row[commits] for row in stream_rows}) > 1 or query is CHANGES
    for row in stream_rows:
        assert row["_completion_time"].strftime("%Y%m%d%H%M%S%f")[:17] == stated[row[commits]]


@pytest.mark.parametrize("query", [ROWS, CHANGES], ids=["rows", "changes"])
@pytest.mark.parametrize("case", TABLES)
def test_another_process_plans_each_batch_the_same(case: str, query: Query, golden: Golden) -> None:
    path, enumerator = golden.table(case), EmbeddedEnumerator()
    of = scope(path, query, limits=RoundLimits(max_commits=1, max_files=2))
    points = all_points(enumerator, of, StartAfter(EARLIEST))
    assert len(points) > 2
    for before, point in pairwise(points):
        request = batch_request(of, point)
        assert request is not None
        assert enumerator.plan(request) == EmbeddedEnumerator().plan(request)
        assert EmbeddedEnumerator().next_batch(of, before).point == point
        content = point.content
        assert isinstance(content, CommitsBatch) and content.after == before.progress.position
    assert points[-1].progress.position == enumerator.describe_table(str(path)).newest


def test_batches_inside_a_commit_add_up_to_it(golden: Golden) -> None:
    path, enumerator = golden.table("A_fuzz_event_long_s1_v9_h120"), EmbeddedEnumerator()
    newest = enumerator.describe_table(str(path)).newest
    first = next(
        p for p in all_points(enumerator, scope(path, limits=RoundLimits(max_commits=1)), StartAfter(EARLIEST))[1:]
    )
    for query in (ROWS, CHANGES):
        of = scope(path, query, limits=RoundLimits(max_files=1))
        points = all_points(enumerator, of, StartAfter(first.progress.position))
        assert any(point.progress.position.index < 2**31 - 1 for point in points)
        if query is CHANGES:
            one = PlanRequest(table=str(path), query=Changes(ChangeFormat.ROWS, first.progress.position, newest))
            whole = enumerator.plan(one)
            batches = [part.batch for split in whole.splits for part in read_split(whole.scan, split)]
            parts = [t.drop(["_change_seq"]) for t in together(enumerator, of, points)]
            assert texts(parts) == texts(
                [pa.Table.from_batches(batches, output_schema(whole.scan)).drop(["_change_seq"])]
            )


def test_snapshot_list_with_another_digest_is_data_invalidated(golden: Golden) -> None:
    path, enumerator = golden.table(TABLES[0]), EmbeddedEnumerator()
    of = scope(path, limits=RoundLimits(max_files=1))
    start = enumerator.start_stream(of, StartSnapshot())
    assert start.snapshot is not None
    other = replace(start, snapshot=replace(start.snapshot, digest="0" * 32))
    with pytest.raises(DataInvalidated, match="new checkpoint"):
        enumerator.next_batch(of, other)
    point = enumerator.next_batch(of, start).point
    assert point.snapshot is not None
    request = batch_request(of, replace(point, snapshot=replace(point.snapshot, digest="f" * 32)))
    assert request is not None
    with pytest.raises(DataInvalidated, match="has changed: the digest"):
        EmbeddedEnumerator().plan(request)


@pytest.mark.parametrize("query", [ROWS, CHANGES])
@pytest.mark.parametrize("case", ["C_v6_streamer", "B_v6_inc_mor", "C_v9_streamer_keys", "B_v9_cdc_mor_data_before"])
def test_later_commits_do_not_change_a_snapshots_list(
    case: str, query: Query, golden: Golden, tmp_path: pathlib.Path
) -> None:
    """Including its files: on layout 1 the slices of the snapshot also have the logs of later commits."""
    table = golden.copy(case, tmp_path)
    scripted = ScriptedTimeline(table, tmp_path / "aside")
    facts = read_timeline(scripted.open())
    at = scripted.data[len(scripted.data) // 2]
    paths = {time: {stat.path for stat in commit.stats} for time, commit in facts.commits.items()}
    before = set().union(*(paths[time] for time in paths if scripted.keys[time] <= scripted.keys[at]))
    later = set().union(*paths.values()) - before
    assert later
    for path in later:
        (table / path).rename(tmp_path / "aside" / path.replace("/", "+"))
    scripted.remove_after(at)
    enumerator = EmbeddedEnumerator()
    of = scope(table, query)
    point = enumerator.next_batch(of, enumerator.start_stream(of, StartSnapshot())).point
    request = batch_request(of, point)
    assert request is not None
    rows = texts(together(enumerator, of, [point]))
    for path in later:
        (tmp_path / "aside" / path.replace("/", "+")).rename(table / path)
    scripted.give(*{path.name[:17] for path in (tmp_path / "aside").glob("2*")})
    assert len(read_timeline(scripted.open()).commits) == len(facts.commits)
    again = EmbeddedEnumerator()
    assert again.next_batch(of, point).point.progress.consumed >= point.progress.consumed
    again.plan(request)
    assert texts(together(again, of, [point])) == rows


def test_invalid_scopes_are_refused(golden: Golden) -> None:
    path, enumerator = golden.table(TABLES[0]), EmbeddedEnumerator()
    with pytest.raises(ConfigurationError, match="eventTime"):
        enumerator.start_stream(scope(path, rule=EventTimeRule(max_out_of_orderness_us=1)), StartLatest())
    with pytest.raises(ConfigurationError, match="onLostRange"):
        enumerator.start_stream(scope(path, CHANGES, on_lost_range=OnLostRange.SNAPSHOT), StartLatest())


@pytest.mark.parametrize("query", [ROWS, CHANGES], ids=["rows", "changes"])
def test_scenario_13_stream_continues_through_an_upgrade(query: Query, golden: Golden) -> None:
    """A point of layout 1 on the upgraded table plans the remaining rows without repeats, from the point alone."""
    checked = 0
    for case in sorted(name for name in golden.names() if name.startswith("B_up_") and name.endswith("v9")):
        table = open_table(str(golden.table(case)))
        line = table.timeline()
        requested = sorted(item.requested_time for item in line.completed_writes if not table.commit(item).is_service)
        for place, last in enumerate(requested[:-1]):
            old = Progress(Position(last), 1, frozenset(requested[: place + 1]), table_id=table.properties.name)
            of = scope(golden.table(case), query)
            try:
                point = EmbeddedEnumerator().next_batch(of, StreamPoint(progress=old)).point
            except PositionExpired:
                assert query is CHANGES
                continue
            request = batch_request(of, point)
            assert request is not None
            plan = EmbeddedEnumerator().plan(request)
            if isinstance(plan.scan.rows, RowsOf):
                assert set(plan.scan.rows.instants) == set(requested[place + 1 :])
            else:
                steps = [step for split in plan.splits for step in split.part.steps]  # type: ignore[union-attr]
                assert {step.instant for step in steps} <= set(requested[place + 1 :])
            assert point.progress.layout == 2
            checked += 1
    assert checked > 1


def test_offset_of_the_first_version_holds_only_a_position(golden: Golden) -> None:
    path, enumerator = golden.table(TABLES[0]), EmbeddedEnumerator()
    of = scope(path, limits=RoundLimits(max_commits=1))
    points = all_points(enumerator, of, StartAfter(EARLIEST))
    bare = StreamPoint(progress=Progress(points[2].progress.position))
    assert enumerator.next_batch(of, bare).point == enumerator.next_batch(of, points[2]).point
