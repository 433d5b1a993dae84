"""What a clean retains: by policy as Hudi's `CleanerUtils`, and the states that a reader still needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import InstantTime, Position
from penstock.table.timeline.active import Timeline, build_timeline
from penstock.table.timeline.instants import parse_instant_file
from penstock.table.timeline.services.plans import CleanMetadata
from penstock.writer.table_services.retention import (
    EVERYTHING,
    KeepCommits,
    KeepFileVersions,
    KeepHours,
    Retention,
    archived_up_to,
    archived_up_to_clean,
    earliest_to_retain,
    needed_from,
    retention,
)

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def timeline_of(*names: str, layout: int = 2) -> Timeline:
    files = [parse_instant_file(name, layout) for name in names]
    return build_timeline(layout, [file for file in files if file])


def commits(count: int, layout: int = 2) -> list[str]:
    """Commits 10, 20, … that completed 5 later."""
    return [f"{n}0_{n}5.commit" if layout == 2 else f"{n}0.commit" for n in range(1, count + 1)]


def earliest(timeline: Timeline, policy: KeepCommits | KeepHours) -> str:
    instant = earliest_to_retain(timeline, policy, NOW, UTC)
    return instant.requested_time if instant else ""


def test_newest_commits_are_retained() -> None:
    assert earliest(timeline_of(*commits(5)), KeepCommits(2)) == "40"
    assert earliest(timeline_of(*commits(5)), KeepCommits(4)) == "20"
    assert earliest(timeline_of(*commits(5)), KeepCommits(5)) == ""
    assert earliest(timeline_of(*commits(5, layout=1), layout=1), KeepCommits(2)) == "40"


def test_instants_before_a_pending_write_are_retained() -> None:
    pending = "25.deltacommit.inflight"
    assert earliest(timeline_of(*commits(5), pending), KeepCommits(2)) == "20"
    assert earliest(timeline_of(*commits(5), "05.commit.requested"), KeepCommits(2)) == ""
    assert earliest(timeline_of(*commits(5), "25.logcompaction.requested"), KeepCommits(2)) == "40"
    assert earliest(timeline_of(*commits(5), "25.compaction.requested"), KeepCommits(2)) == "20"
    assert earliest(timeline_of(*commits(5), "45.commit.requested"), KeepCommits(2)) == "40"


def test_last_hours_are_retained_in_the_zone_of_the_timeline() -> None:
    names = [f"202601311{n}0000000_202601311{n}0000001.commit" for n in range(3)]
    timeline = timeline_of(*names)
    assert earliest(timeline, KeepHours(1)) == "20260131110000000"
    assert earliest(timeline, KeepHours(48)) == "20260131100000000"
    east = timezone(timedelta(hours=8))
    assert earliest_to_retain(timeline, KeepHours(1), NOW, east) is None
    pending = timeline_of(*names, "20260131103000000.commit.requested")
    assert earliest(pending, KeepHours(1)) == "20260131100000000"


@pytest.mark.parametrize("policy", [KeepCommits, KeepHours, KeepFileVersions])
@pytest.mark.parametrize("value", [0, 10**9])
def test_nothing_and_too_much_are_no_policy(policy: type[KeepCommits], value: int) -> None:
    with pytest.raises(ConfigurationError, match=f"={value}, expected 1 to 1000000"):
        policy(value)


def test_reader_holds_the_clean() -> None:
    timeline = timeline_of(*commits(6))
    assert needed_from(timeline, None) == ""
    assert needed_from(timeline, Position(InstantTime("65"))) == ""
    assert needed_from(timeline, Position(InstantTime("25"))) == "30"
    assert needed_from(timeline, Position(InstantTime("25"), 3)) == "20"  # a part of 20 is not read
    assert needed_from(timeline, Position(InstantTime("0"))) == "10"
    held = retention(timeline, KeepCommits(2), Position(InstantTime("25")), NOW, UTC)
    assert held is not None and held.earliest is not None
    assert (held.earliest.requested_time, held.protected_from) == ("30", "30")
    free = retention(timeline, KeepCommits(2), Position(InstantTime("55")), NOW, UTC)
    assert free is not None and free.protected_from == "50"
    versions = retention(timeline, KeepFileVersions(1), Position(InstantTime("25")), NOW, UTC)
    assert versions == Retention(None, "30")


def test_reader_before_a_pending_write_needs_what_is_before_it() -> None:
    """The slow write will have an order key after the reader's position, and a requested time before."""
    slow = timeline_of("10_15.commit", "30_35.commit", "20.commit.inflight")
    assert needed_from(slow, Position(InstantTime("15"))) == "10"
    first = timeline_of("30_35.commit", "20.commit.inflight")
    assert needed_from(first, Position(InstantTime("15"))) == EVERYTHING
    assert retention(first, KeepCommits(1), Position(InstantTime("15")), NOW, UTC) is None


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    layout = draw(st.sampled_from([1, 2]))
    requested = draw(st.lists(st.integers(100, 400), min_size=1, max_size=12, unique=True))
    completions = draw(st.permutations(range(401, 401 + len(requested))))
    names = []
    for time, completion in zip(requested, completions, strict=True):
        if draw(st.integers(0, 5)) == 0:
            names.append(f"{time}.commit.requested")
        else:
            names.append(f"{time}_{completion}.commit" if layout == 2 else f"{time}.commit")
    return timeline_of(*names, layout=layout)


@given(timelines(), st.integers(1, 6), st.integers(95, 420))
def test_no_unread_and_no_pending_instant_is_before_what_is_retained(timeline: Timeline, count: int, read: int) -> None:
    """All that is requested before the retained instant is complete and read; so its effects are in the newest slice
    before it."""
    reader = Position(InstantTime(str(read)))
    held = retention(timeline, KeepCommits(count), reader, NOW, UTC)
    if held is None:
        return
    assert held.earliest is not None
    before = held.earliest.requested_time
    assert all(item.requested_time >= before for item in timeline.pending)
    unread = [item for item in timeline.completed_writes if timeline.order_key(item) > reader.order_key]
    assert all(item.requested_time >= before for item in unread)
    assert sum(item.requested_time >= before for item in timeline.completed_writes) >= count


def test_everything_is_needed_while_an_archived_write_is_not_read() -> None:
    timeline = timeline_of(*commits(5))
    reader = Position(InstantTime("35"))
    assert needed_from(timeline, reader) == "40"
    assert needed_from(timeline, reader, reads_archived=True) == EVERYTHING
    assert retention(timeline, KeepCommits(1), reader, NOW, UTC, reads_archived=True) is None
    assert needed_from(timeline, None, reads_archived=True) == ""


def test_hours_are_not_those_since_the_oldest_active_write() -> None:
    timeline = timeline_of(*[f"202601311{n}0000000_202601311{n}0000001.commit" for n in range(3)])

    def kept(newest_archived: str, hours: int = 3) -> str:
        instant = earliest_to_retain(timeline, KeepHours(hours), NOW, UTC, newest_archived=newest_archived)
        return instant.requested_time if instant else ""

    assert kept("20260131085959999") == "20260131100000000"
    assert kept("20260131090000000") == "", "this write is in the last hours, and its state is not known"
    assert kept("20260131090000000", 2) == "20260131100000000"
    held = retention(timeline, KeepHours(3), None, NOW, UTC, newest_archived="20260131090000000")
    assert held is None
    commits = retention(timeline, KeepCommits(1), None, NOW, UTC, newest_archived="20260131090000000")
    assert commits is not None, "counted commits are on the timeline"


def test_archival_leaves_the_last_hours_and_the_write_before_them() -> None:
    timeline = timeline_of(*[f"202601311{n}0000000_202601311{n}0000001.commit" for n in range(3)])
    assert archived_up_to(timeline, KeepHours(1), NOW, UTC) == "20260131100000000"
    assert archived_up_to(timeline, KeepHours(9), NOW, UTC) == "20260131100000000"
    later = timeline_of("20260131090000000_20260131090000001.commit", "20260131100000000_20260131100000001.commit")
    assert archived_up_to(later, KeepHours(1), NOW, UTC) == "", "no write is in the last hour"
    assert archived_up_to(timeline, KeepCommits(1), NOW, UTC) == ""


def test_archival_leaves_what_the_last_clean_retained_by_hours_and_the_write_before() -> None:
    timeline = timeline_of(*[f"202601311{n}0000000_202601311{n}0000001.commit" for n in range(3)])

    def kept(earliest: str, policy: str = "KEEP_LATEST_BY_HOURS") -> str:
        clean = CleanMetadata(earliest_to_retain=earliest, last_completed="", partitions=(), policy=policy)
        return archived_up_to_clean(timeline, clean)

    assert kept("20260131120000000") == "20260131110000000"
    assert kept("20260131110000001") == "20260131110000000", "the write is archived or rolled back"
    assert kept("20260131100000000") == "20260131100000000", "no write is before it"
    assert kept("20260131120000000", "KEEP_LATEST_COMMITS") == kept("") == kept(" ") == ""
