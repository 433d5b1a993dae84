"""Conflicts of two writes, by the groups that both touch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups
from penstock.table.timeline.active import Timeline, build_timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Instant, parse_instant_file
from penstock.writer.transaction.conflicts import (
    StartOfWrite,
    completed_since,
    first_conflict,
    is_harmless,
    pending_services,
    touched_by,
)


def instant(name: str) -> Instant:
    parsed = parse_instant_file(name, 2)
    assert parsed is not None
    return parsed


def timeline(*names: str) -> Timeline:
    return build_timeline(2, [instant(name) for name in names])


def time(number: int) -> str:
    return f"202611230000000{number:02d}"


def done(number: int, completed: int, action: str = "deltacommit") -> list[str]:
    return [f"{time(number)}.{action}.requested", f"{time(number)}_{time(completed)}.{action}"]


def stat(partition: str, file_id: str, previous: str, *, inserts: int = 0) -> WriteStat:
    return WriteStat(
        partition=partition,
        file_id=file_id,
        path=f"{partition}/{file_id}",
        num_writes=1,
        num_deletes=0,
        num_inserts=inserts,
        num_update_writes=0,
        file_size_bytes=1,
        base_file="",
        log_files=(),
        prev_commit=previous,
    )


def commit(*stats: WriteStat, replaced: tuple[tuple[str, str], ...] = (), compacted: bool = False) -> CommitMetadata:
    return CommitMetadata(
        requested_time=InstantTime(time(1)),
        operation="UPSERT",
        compacted=compacted,
        schema_json="",
        extra={},
        stats=stats,
        replaced=replaced,
    )


def touched(*groups: tuple[str, str], into: tuple[str, ...] = ()) -> TouchedGroups:
    return TouchedGroups(groups=frozenset(groups), inserted_into=frozenset(into))


def test_touched_groups_of_a_commit_are_those_written_and_replaced() -> None:
    metadata = commit(stat("p", "old", time(0)), stat("q", "new", ""), replaced=(("p", "gone"),))
    assert touched_by(metadata) == touched(("p", "old"), ("q", "new"), ("p", "gone"), into=("q",))


def test_rows_that_fill_a_small_base_file_are_inserts() -> None:
    filled = stat("p", "small.parquet", time(0), inserts=2)
    assert touched_by(commit(filled)).inserted_into == {"p"}
    assert touched_by(commit(stat("p", ".a.log", time(0), inserts=2))).inserted_into == set(), "a log has updates"
    assert touched_by(commit(filled, compacted=True)).inserted_into == set()


def test_inserts_of_a_global_index_conflict_in_any_partition() -> None:
    mine = replace(touched(("p", "a"), into=("p",)), keys_of_table=True)
    other = touched(("q", "b"), into=("q",))
    assert mine.conflicts_with(other, by_bucket=False) == "inserts into partition 'q'"
    assert mine.conflicts_with(touched(("q", "b")), by_bucket=False) == ""
    assert replace(mine, inserted_into=frozenset()).conflicts_with(other, by_bucket=False) == ""


@pytest.mark.parametrize(
    ("mine", "others", "by_bucket", "conflict"),
    [
        (touched(("p", "a")), touched(("p", "a")), False, "file group a of partition 'p'"),
        (touched(("p", "a")), touched(("q", "a")), False, ""),
        (touched(("p", "a"), into=("p",)), touched(("p", "b"), into=("p",)), False, "inserts into partition 'p'"),
        (touched(("p", "a"), into=("p",)), touched(("p", "b")), False, ""),
        (touched(("p", "00000001-x")), touched(("p", "00000001-y")), True, "bucket 00000001 of partition 'p'"),
        (touched(("p", "00000001-x"), into=("p",)), touched(("p", "00000002-y"), into=("p",)), True, ""),
    ],
)
def test_conflict_names_what_both_change(
    mine: TouchedGroups, others: TouchedGroups, by_bucket: bool, conflict: str
) -> None:
    assert mine.conflicts_with(others, by_bucket=by_bucket) == conflict
    assert others.conflicts_with(mine, by_bucket=by_bucket) == conflict


def test_first_conflict_is_returned_with_its_instant() -> None:
    one, two, three = (instant(done(number, number + 10)[1]) for number in (1, 2, 3))
    others = [(one, touched(("p", "x"))), (two, touched(("p", "a"))), (three, touched(("p", "a")))]
    assert first_conflict(touched(("p", "a")), others, by_bucket=False) == (two, "file group a of partition 'p'")
    assert first_conflict(touched(("p", "b")), others, by_bucket=False) is None


def test_writes_since_start_are_later_ones_and_those_that_were_pending() -> None:
    start = StartOfWrite.of(timeline(*done(1, 2), *done(4, 6), f"{time(3)}.deltacommit.requested"))
    assert start == StartOfWrite(time(4), frozenset({time(3)}))
    later = timeline(*done(1, 2), *done(4, 6), *done(3, 8), *done(7, 9), *done(5, 10, "commit"))
    assert [item.requested_time for item in completed_since(later, start, time(7))] == [time(3), time(5)]


def test_start_differs_after_any_write_completed_or_began() -> None:
    before = [*done(1, 2), f"{time(3)}.deltacommit.requested"]
    start = StartOfWrite.of(timeline(*before))
    assert StartOfWrite.of(timeline(*before)) == start
    assert StartOfWrite.of(timeline(*done(1, 2), *done(3, 4))) != start
    assert StartOfWrite.of(timeline(*before, *done(5, 6))) != start
    assert StartOfWrite.of(timeline(*before, f"{time(5)}.commit.requested")) != start


@pytest.mark.parametrize(
    ("compacted", "layout", "writes_base", "was_pending", "harmless"),
    [
        (True, 2, False, False, True),
        (True, 2, True, False, False),
        (False, 2, False, False, False),
        (True, 1, False, False, False),
        (True, 1, False, True, True),
        (True, 1, True, True, False),
        (False, 1, False, True, False),
    ],
)
def test_compaction_is_harmless_for_logs_of_the_slice_that_it_begins(
    compacted: bool, layout: int, writes_base: bool, was_pending: bool, harmless: bool
) -> None:
    """On layout 1 a log is in it if the compaction was pending when the write began."""
    found = is_harmless(commit(compacted=compacted), layout, writes_base_files=writes_base, was_pending=was_pending)
    assert found is harmless


def test_pending_services_are_clusterings_and_replacements() -> None:
    names = [
        f"{time(1)}.clustering.requested",
        f"{time(2)}.replacecommit.requested",
        f"{time(3)}.deltacommit.requested",
    ]
    pending = pending_services(timeline(*names, *done(4, 5, "replacecommit")))
    assert [item.requested_time for item in pending] == [time(1), time(2)]
