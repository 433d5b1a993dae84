"""Lag and time to loss from scripted timelines and cleans; the earliest position that can be answered."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from penstock.enumerator.continuous.advance import start_progress
from penstock.enumerator.continuous.lag import BY_HOURS, Retention, lag_of
from penstock.enumerator.continuous.retention import earliest_position, lags
from penstock.enumerator.continuous.round_limits import data_instants_after
from penstock.enumerator.continuous.types import Progress, ReaderPlace
from penstock.enumerator.planning.archived_timeline import with_archive
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import PositionExpired
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.table.hudi_table import open_table
from penstock.table.timeline.instants import Instant
from penstock.table.timeline.services.plans import CleanMetadata
from penstock.table.timeline.services.recorded_holds import RecordedHold
from penstock.table.timeline.zones import instant_ms
from tests.scripted_facts import at, facts, stat

HOUR_MS = 3_600_000


def key(hour: int, minute: int = 0) -> str:
    return f"20260131{hour:02}{minute:02}00000"


def ms(hour: int, minute: int = 0) -> int:
    return int(datetime(2026, 1, 31, hour, minute, tzinfo=UTC).timestamp()) * 1000


HOURLY = facts(
    *(
        (f"{key(hour)}_{key(hour, 10)}.commit", "UPSERT", [stat("a", size=5), stat("b", size=7)], [])
        for hour in range(6)
    ),
    (f"{key(6)}_{key(6, 10)}.commit", "COMPACT", [stat("a", size=1000)], []),
)


def completed(item: Instant) -> int | None:
    return instant_ms(item.completion_time or "", UTC)


def lag_at(position: Position, retention: Retention | None = None, *, now_ms: int = ms(7), **more: Any) -> Any:
    more.setdefault("zone", UTC)
    reader = ReaderPlace(
        progress=Progress(position),
        committed=position,
        starts_at=more.pop("starts_at", None),
        name=more.pop("name", None),
    )
    return lag_of(HOURLY, reader, now_ms=now_ms, completed_ms=completed, retention=retention, **more)


def test_lag_counts_commits_bytes_and_seconds_since_the_oldest() -> None:
    lag = lag_at(at(key(2, 10)))
    assert (lag.commits, lag.size_bytes) == (3, 36)
    assert lag.seconds == (ms(7) - ms(3, 10)) / 1000
    inside = lag_at(at(key(2, 10), 1))
    assert (inside.commits, inside.size_bytes) == (4, 43)
    assert lag_at(at(key(5, 10))).seconds == 0 and lag_at(at(key(5, 10))).commits == 0


def test_lag_is_never_negative_when_the_clock_goes_back() -> None:
    assert lag_at(at(key(2, 10)), now_ms=0).seconds == 0


def test_time_to_loss_of_a_cleaner_that_keeps_commits() -> None:
    retention = Retention(key(5, 30), CleanMetadata(key(2), key(5), (), "KEEP_LATEST_COMMITS"))
    lag = lag_at(at(key(3, 10)), retention)
    assert (lag.loss_commits, lag.loss_seconds) == (3, 3 * 3600.0)
    assert lag_at(at(key(1, 10)), retention).loss_commits == 1
    assert (lag_at(at(key(0, 10)), retention).loss_commits, lag_at(at(key(0, 10)), retention).loss_seconds) == (0, 0)
    assert lag_at(at(key(3, 10)), retention, zone=None).loss_seconds is None


def test_time_to_loss_of_a_cleaner_that_keeps_hours() -> None:
    hours = Retention(key(5, 30), CleanMetadata(key(2, 30), key(5), (), BY_HOURS))
    assert lag_at(at(key(3, 10)), hours).loss_seconds == 0
    assert lag_at(at(key(3, 10)), hours, now_ms=ms(6)).loss_seconds == 3600.0


HELD = (
    RecordedHold(kind="group", name="commits", commits=5),
    RecordedHold(kind="group", name="hours", seconds=5 * 3600.0),
    RecordedHold(kind="stream", name="commits", commits=3),
)


def held_at(reader: tuple[str, str] | None, now_hour: int = 6, after: int = 2, snapshot: int | None = None) -> Any:
    """The lag of a reader after an hour's instant, -1: before all, or in the snapshot at an hour's instant; the newest
    clean retains the next one, and records the holds."""
    retained = after if snapshot is None else snapshot
    clean = CleanMetadata(key(retained + 1), key(5), (), "KEEP_LATEST_COMMITS", holds=HELD)
    return lag_at(
        EARLIEST if after < 0 else at(key(after, 10)),
        Retention(key(5, 30), clean),
        now_ms=ms(0) + now_hour * HOUR_MS,
        name=reader,
        starts_at=None if snapshot is None else at(key(snapshot, 10)),
    )


def test_time_to_loss_of_a_reader_that_holds_the_cleaner_is_what_is_left_of_its_bound() -> None:
    plain = held_at(None)
    assert (plain.commits, plain.loss_commits, plain.holds_cleaner) == (3, 1, False)
    commits = held_at(("group", "commits"))
    assert (commits.loss_commits, commits.loss_seconds, commits.holds_cleaner) == (3, None, True)
    hours = held_at(("group", "hours"))
    assert (hours.loss_commits, hours.holds_cleaner) == (None, True)
    assert hours.loss_seconds == 5 * 3600 - hours.seconds
    assert held_at(("stream", "commits")).loss_commits == 1
    for other in (("stream", "hours"), ("group", "other")):
        assert held_at(other) == plain


def test_reader_beyond_its_bound_or_without_lag_does_not_hold_the_cleaner() -> None:
    for reader in (("group", "hours"), ("stream", "commits")):
        late = held_at(reader, now_hour=60, after=1)
        assert not late.holds_cleaner and late == held_at(None, now_hour=60, after=1)
    caught_up = held_at(("group", "commits"), after=5)
    assert not caught_up.holds_cleaner and caught_up == held_at(None, after=5)


def test_bound_holds_for_a_reader_that_has_not_finished_anything() -> None:
    early = held_at(("group", "hours"), now_hour=3, after=-1)
    assert (early.commits, early.holds_cleaner, early.loss_commits) == (6, True, None)
    assert early.loss_seconds == 5 * 3600 - early.seconds
    for reader, hour in ((("group", "hours"), 6), (("group", "commits"), 5), (("group", "other"), 5)):
        late = held_at(reader, now_hour=hour, after=-1)
        assert late == held_at(None, now_hour=hour, after=-1) and not late.holds_cleaner


def test_unread_archived_instants_count_for_the_bound_and_not_for_the_lag() -> None:
    whole = facts(*((f"{key(hour)}_{key(hour, 10)}.commit", "UPSERT", [stat("a", size=5)], []) for hour in range(1, 6)))
    active = facts(
        *((f"{key(hour)}_{key(hour, 10)}.commit", "UPSERT", [stat("a", size=5)], []) for hour in range(3, 6))
    )
    clean = CleanMetadata(key(4), key(5), (), "KEEP_LATEST_COMMITS", holds=HELD)
    for name, loss_commits, is_held in (("commits", 1, True), ("other", 0, False)):
        reader = ReaderPlace(progress=Progress(EARLIEST), committed=EARLIEST, name=("group", name))
        retention = Retention(key(5, 30), clean)
        lag = lag_of(active, reader, now_ms=ms(6), completed_ms=completed, retention=retention, zone=UTC, whole=whole)
        assert (lag.commits, lag.loss_commits, lag.holds_cleaner) == (3, loss_commits, is_held)


def test_reader_in_its_first_snapshot_has_the_margin_of_the_snapshot() -> None:
    held = held_at(("group", "commits"), after=-1, snapshot=2)
    plain = held_at(("group", "commits"), after=2)
    assert held.commits == 6 and held.seconds > plain.seconds
    assert (held.loss_commits, held.holds_cleaner) == (plain.loss_commits, True)
    assert not held_at(("group", "hours"), now_hour=60, after=-1, snapshot=1).holds_cleaner


def test_time_to_loss_is_unknown_without_a_clean_or_with_file_versions() -> None:
    versions = Retention(key(5, 30), CleanMetadata("", key(5), (), "KEEP_LATEST_FILE_VERSIONS"))
    for retention in (None, versions):
        lag = lag_at(at(key(3, 10)), retention)
        assert (lag.loss_commits, lag.loss_seconds) == (None, None)


def test_lag_with_instant_times_of_other_zones_and_forms() -> None:
    berlin = timezone(timedelta(hours=1))
    assert instant_ms(key(3), UTC) == ms(3) and instant_ms(key(3), berlin) == ms(2)
    assert instant_ms("20260131030000", UTC) == ms(3)
    for text in ("", "20261331000000000", "123", "2026013103000000x"):
        assert instant_ms(text, UTC) is None
    assert instant_ms(key(3), None) is None


@pytest.mark.parametrize("case", ["B_v9_timeline_mor", "B_v6_timeline_mor"])
def test_lag_of_a_real_table(golden: Any, case: str) -> None:
    table = open_table(str(golden.table(case)))
    progress, line = start_progress(table, None), table.timeline()
    oldest = line.order_key(line.completed_writes[0])
    caught_up, unread_lag = lags(
        table,
        [ReaderPlace(progress=progress, committed=position) for position in (progress.position, Position(oldest))],
        clock_ms=lambda: 10**13,
    )
    assert (caught_up.commits, caught_up.size_bytes, caught_up.seconds) == (0, 0, 0)
    assert unread_lag.commits > 0 and unread_lag.size_bytes > 0 and unread_lag.seconds > 10**9
    if line.completed_cleans:
        newest_clean = table.clean(line.completed_cleans[-1])
        assert newest_clean.policy.startswith("KEEP_LATEST")
        assert (unread_lag.loss_commits is None) == (newest_clean.earliest_to_retain == "")


@pytest.mark.parametrize("query", [Incremental(), Changes(ChangeFormat.ROWS)], ids=["rows", "changes"])
@pytest.mark.parametrize("case", ["B_v9_timeline_mor", "B_v6_timeline_mor", "A_archive_v9_h120", "B_v9_inc_cow"])
def test_earliest_position_is_the_first_that_can_be_answered(golden: Any, case: str, query: Any) -> None:
    table = open_table(str(golden.table(case)))
    request = PlanRequest(table="t", query=query)
    lag = earliest_position(table, request)
    known = with_archive(read_timeline(table), table.archive())
    places = [Position(order_key) for order_key, _ in data_instants_after(known, EARLIEST)]
    assert answers(table, request, lag)
    earlier = [place for place in places if place < lag]
    assert not earlier or not answers(table, request, earlier[-1])
    assert lag <= places[-1] and (lag != EARLIEST or isinstance(query, Changes))


def answers(table: Any, request: PlanRequest, after: Position) -> bool:
    try:
        plan_request(table, "t", replace(request, query=replace(request.query, after=after)))  # type: ignore[arg-type]
    except PositionExpired:
        return False
    return True


def test_earliest_position_of_a_table_without_instants_is_the_start(golden: Any, tmp_path: pathlib.Path) -> None:
    path = golden.copy("B_v9_inc_cow", tmp_path)
    for file in (path / ".hoodie" / "timeline").iterdir():
        if file.is_file():
            file.unlink()
    assert earliest_position(open_table(str(path)), PlanRequest(table="t", query=Incremental())) == EARLIEST
    assert start_progress(open_table(str(path)), None).position == EARLIEST
    assert InstantTime("0") == EARLIEST.order_key
