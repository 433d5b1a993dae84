"""The course of streams over golden tables: starts, ends, waits, and what a missing range or file leads to."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.streams import stream_planner
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import DataInvalidated, PositionExpired, TableNotFound
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaAccess
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import PlanRequest, RoundLimits
from penstock.proto.model.streams import (
    CommitsBatch,
    Progress,
    SnapshotBatch,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
)
from penstock.table.hudi_table import open_table
from tests.unit.enumerator.streams.golden_streams import ROWS, TABLES, Golden, all_points, rows, scope, texts, together

pytestmark = pytest.mark.golden
FAR = 4_102_444_800_000
"""A wall clock in the year 2100."""


def test_stream_ends_at_upto_once_nothing_can_complete_before(golden: Golden) -> None:
    path = golden.table(TABLES[0])
    plain = EmbeddedEnumerator()
    points = all_points(plain, scope(path, limits=RoundLimits(max_commits=1)), StartAfter(EARLIEST))
    keys = [point.progress.position for point in points if point.progress.position.index == 2**31 - 1]
    inner = keys[-3]
    of = scope(path, upto=inner, limits=RoundLimits(max_commits=2))
    ended = all_points(plain, of, StartAfter(EARLIEST))
    assert ended[-1].ended and ended[-1].progress.position == inner
    assert not any(point.ended for point in ended[:-1])
    assert plain.next_batch(of, ended[-1]).point == ended[-1]

    future = Position(InstantTime("20991231235959999"))
    waiting = all_points(plain, scope(path, upto=future), StartAfter(EARLIEST))
    assert not waiting[-1].ended, "the clock is not past it"


def test_stream_ends_at_upto_if_only_services_are_after_it(golden: Golden) -> None:
    """Without the clock, because the time zone of this timeline is unknown."""
    path = golden.table("A_log_compaction_v8_h102")
    timeline = open_table(str(path)).timeline()
    upto = Position(InstantTime(max(map(timeline.order_key, timeline.completed_writes))))
    enumerator = EmbeddedEnumerator()
    assert enumerator.describe_table(str(path)).newest < upto
    ended = all_points(enumerator, scope(path, upto=upto), StartAfter(EARLIEST))
    assert ended[-1].ended and ended[-1].progress.position == upto
    assert enumerator.next_batch(scope(path, upto=upto), ended[-1]).point == ended[-1]


def test_clock_ends_a_stream_whose_timeline_is_utc(golden: Golden, tmp_path: pathlib.Path) -> None:
    path = golden.copy(TABLES[0], tmp_path)
    properties = path / ".hoodie" / "hoodie.properties"
    text = "".join(line for line in properties.read_text().splitlines(True) if "timezone" not in line)
    properties.write_text(text + "hoodie.table.timeline.timezone=UTC\n")
    newest = EmbeddedEnumerator().describe_table(str(path)).newest
    upto = Position(InstantTime(str(int(newest.order_key) + 1_000)))
    late = EmbeddedEnumerator(reads=OpenTables(wall_ms=lambda: FAR))
    ended = all_points(late, scope(path, upto=upto), StartAfter(EARLIEST))
    assert ended[-1].ended
    early = EmbeddedEnumerator(reads=OpenTables(wall_ms=lambda: 0))
    assert not all_points(early, scope(path, upto=upto), StartAfter(EARLIEST))[-1].ended


def test_target_stops_a_run_and_the_next_continues(golden: Golden) -> None:
    path, enumerator = golden.table(TABLES[0]), EmbeddedEnumerator()
    limits = RoundLimits(max_commits=1)
    free = all_points(enumerator, scope(path, limits=limits), StartAfter(EARLIEST))
    middle = free[2].progress.position
    first = all_points(enumerator, scope(path, limits=limits, target=middle), StartAfter(EARLIEST))
    assert first == free[:3] and not first[-1].ended
    assert all_points(enumerator, scope(path, limits=limits), first[-1]) == free[2:]


def test_latest_starts_after_everything(golden: Golden) -> None:
    path, enumerator = golden.table(TABLES[0]), EmbeddedEnumerator()
    points = all_points(enumerator, scope(path), StartLatest())
    assert [point.progress.position for point in points] == [enumerator.describe_table(str(path)).newest]


def test_stream_waits_for_a_table_that_does_not_exist_yet(golden: Golden, tmp_path: pathlib.Path) -> None:
    path, enumerator = tmp_path / TABLES[0], EmbeddedEnumerator()
    of = scope(path)
    start = enumerator.start_stream(of, StartSnapshot())
    assert start == StreamPoint(progress=Progress(EARLIEST))
    assert enumerator.next_batch(of, start).point == start
    golden.copy(TABLES[0], tmp_path)
    point = enumerator.next_batch(of, start).point
    assert point.progress.position == enumerator.describe_table(str(path)).newest
    shutil.rmtree(path)
    with pytest.raises(TableNotFound):
        enumerator.next_batch(of, point)


def test_missing_consumed_instant_stops_the_stream(golden: Golden, tmp_path: pathlib.Path) -> None:
    path, enumerator = golden.copy(TABLES[0], tmp_path), EmbeddedEnumerator()
    of = scope(path)
    point = all_points(enumerator, of, StartSnapshot())[-1]
    timeline = path / ".hoodie" / "timeline"
    newest = max(file for file in timeline.iterdir() if file.name.endswith(".deltacommit"))
    instant = newest.name.partition("_")[0]
    for file in timeline.glob(f"{instant}*"):
        file.unlink()
    with pytest.raises(DataInvalidated, match="new checkpoint"):
        EmbeddedEnumerator().next_batch(of, point)


@pytest.mark.parametrize("policy", [OnLostRange.EARLIEST, OnLostRange.SNAPSHOT])
def test_lost_range_is_handled_by_the_scopes_policy_and_reported(
    policy: OnLostRange, golden: Golden, tmp_path: pathlib.Path
) -> None:
    """Old archive files were deleted by hand: the rows after an old position are unknown."""
    path = golden.copy("B_v6_arch_mor", tmp_path)
    for number in (1, 2):
        (path / f".hoodie/archived/.commits_.archive.{number}_1-0-1").unlink()
    start_point = StreamPoint(progress=Progress(Position(InstantTime("20200101000000000")), 1))
    with pytest.raises(PositionExpired):
        EmbeddedEnumerator().next_batch(scope(path), start_point)
    of = scope(path, on_lost_range=policy)
    enumerator = EmbeddedEnumerator()
    result = enumerator.next_batch(of, start_point)
    newest = enumerator.describe_table(str(path)).newest
    assert "archive" in result.lost and result.point.progress.position == newest
    table = rows(EmbeddedEnumerator(), of, result.point)
    assert table is not None
    if policy is OnLostRange.SNAPSHOT:
        assert result.point.content == SnapshotBatch(0)
        assert texts([table]) == texts(
            together(enumerator, scope(path), all_points(enumerator, scope(path), StartSnapshot()))
        )
    else:
        assert (
            isinstance(result.point.content, CommitsBatch)
            and result.point.content.after > start_point.progress.position
        )
        assert table.num_rows > 0


def test_hybrid_stream_in_the_lake_handles_a_lost_range_by_its_policy(golden: Golden, tmp_path: pathlib.Path) -> None:
    """Rows are in later commits of the lake; the lake of a changelog is one state, which must be complete."""
    path = golden.copy("B_v6_arch_mor", tmp_path)
    for number in (1, 2):
        (path / f".hoodie/archived/.commits_.archive.{number}_1-0-1").unlink()
    start_point = StreamPoint(progress=Progress(Position(InstantTime("20200101000000000")), 1))
    access = KafkaAccess(client=(("bootstrap.servers", "never-asked"),))
    hybrid = Hybrid(mode=HybridMode.APPEND, topic="orders", fail_on_data_loss=False, access=access)
    enumerator = EmbeddedEnumerator()
    stops, goes_on = (
        StreamScope(request=PlanRequest(table=str(path), query=ROWS, hybrid=hybrid), on_lost_range=policy)
        for policy in (OnLostRange.FAIL, OnLostRange.EARLIEST)
    )
    with pytest.raises(PositionExpired):
        enumerator.next_batch(stops, start_point)
    result = enumerator.next_batch(goes_on, start_point)
    assert "archive" in result.lost and result.point.progress.kafka is None
    assert result.point.progress.position == enumerator.describe_table(str(path)).newest
    assert isinstance(result.point.content, CommitsBatch) and result.point.content.after > start_point.progress.position


def test_temporarily_missing_file_moves_no_stream_back(
    golden: Golden, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is missing for one call: the next call plans the range from the position of the stream."""
    path, enumerator = golden.table(TABLES[0]), EmbeddedEnumerator()
    of = scope(path, on_lost_range=OnLostRange.EARLIEST, limits=RoundLimits(max_commits=1))
    points = all_points(enumerator, of, StartAfter(EARLIEST))
    point, expected = points[-2], points[-1]
    real, missed = stream_planner.advance, [PositionExpired("file f.parquet is missing")]

    def once(*args: Any, **more: Any) -> Any:
        if missed:
            raise missed.pop()
        return real(*args, **more)

    monkeypatch.setattr(stream_planner, "advance", once)
    result = EmbeddedEnumerator().next_batch(of, point)
    assert not missed and result.lost == ""
    assert result.point.progress.position == expected.progress.position > point.progress.position
    assert isinstance(result.point.content, CommitsBatch) and result.point.content.after == point.progress.position
