"""Ranges that start or end inside an instant: cut at any position, the parts of a golden table are the whole, without
duplicates.

The expected rows of the parts come only from whole instants: by file group as of the instant and before it.
"""

from __future__ import annotations

import pathlib
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from penstock.enumerator.continuous.consistency import just_before
from penstock.enumerator.planning.commit_order import completed_in_order, may_be_cut, stat_groups
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import PositionExpired, StateVersionError, UnsupportedFeature
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query
from penstock.reader.read_split import read_split
from penstock.table.hudi_table import open_table

pytestmark = pytest.mark.golden

Group = tuple[str, str]
STAMPING = ("A_log_compaction", "rescale")
"""Tables whose services write their own instant into rows: delivered rows cannot be identified by rows alone."""
UNREADABLE = (PositionExpired, UnsupportedFeature)
"""A whole range cannot be read: its files were cleaned, or have a feature that is not supported."""


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def names(self) -> list[str]: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


def by_group(path: pathlib.Path, query: Query) -> dict[Group, Counter[str]]:
    """The rows of a query by the file group of their split, with meta columns."""
    plan = plan_request(open_table(str(path)), path.name, PlanRequest(table=path.name, query=query, metadata=False))
    groups: dict[Group, Counter[str]] = {}
    for split in plan.splits:
        rows = [row for part in read_split(plan.scan, split) for row in part.batch.to_pylist()]
        if rows:
            groups.setdefault((split.partition, split.file_group), Counter()).update(map(repr, rows))
    return groups


def rows(path: pathlib.Path, query: Query) -> list[dict[str, Any]]:
    plan = plan_request(open_table(str(path)), path.name, PlanRequest(table=path.name, query=query, metadata=False))
    return [row for s in plan.splits for part in read_split(plan.scan, s) for row in part.batch.to_pylist()]


def as_multiset(records: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, records))


def written(row: dict[str, Any]) -> tuple[str, ...]:
    """The identity of a written record, independent of the file."""
    names = ("_hoodie_commit_seqno", "_hoodie_partition_path", "_hoodie_record_key")
    return tuple(row[name] for name in names)


class Place:
    """A position inside an instant, with its neighbours."""

    def __init__(self, instant: str, order_key: str, before: str, last: str, index: int, groups: list[Group]) -> None:
        self.instant, self.index, self.first = instant, index, set(groups)
        self.at = Position(InstantTime(order_key), index)
        self.whole = Position(InstantTime(order_key))
        self.before = Position(InstantTime(before)) if before else EARLIEST
        self.just_before = Position(just_before(order_key))
        self.last = Position(InstantTime(last))

    def __repr__(self) -> str:
        return f"{self.before}|{self.at}|{self.last}"


def places(path: pathlib.Path) -> Iterator[Place]:
    """Every position inside an instant of the table."""
    facts = read_timeline(open_table(str(path)))
    if not facts.commits:
        return
    line = facts.timeline
    completed = [i for i in completed_in_order(line, facts.pending_clusterings) if facts.is_data(i)]
    keys = [str(line.order_key(item)) for item in completed]
    for place, item in enumerate(completed):
        commit = facts.commits[item.requested_time]
        if not may_be_cut(commit) or keys.count(keys[place]) > 1:
            continue
        groups, index = [], 0
        for group, stats in list(stat_groups(commit))[:-1]:
            groups.append(group)
            index += len(stats)
            before = keys[place - 1] if place else ""
            yield Place(item.requested_time, keys[place], before, keys[-1], index, list(groups))


def sampled(path: pathlib.Path, most: int) -> list[Place]:
    all_places = list(places(path))
    return random.Random(path.name).sample(all_places, min(most, len(all_places)))


@pytest.mark.sampled(1, rest=1)
@pytest.mark.parametrize("part", range(6))
def test_changes_of_the_parts_are_those_of_the_whole(golden: Golden, part: int) -> None:
    checked = 0
    for name in sorted(golden.names())[part::6]:
        path = golden.table(name)
        for place in sampled(path, 1):
            try:
                whole = as_multiset(rows(path, Changes(ChangeFormat.ROWS, place.before, place.last)))
            except UNREADABLE:
                continue
            first = as_multiset(rows(path, Changes(ChangeFormat.ROWS, place.before, place.at)))
            second = as_multiset(rows(path, Changes(ChangeFormat.ROWS, place.at, place.last)))
            assert first + second == whole, f"{name} {place}"
            checked += 1
    assert checked > 15


@pytest.mark.sampled(1, rest=1)
@pytest.mark.parametrize("part", range(6))
def test_rows_at_a_position_are_those_of_each_group_at_or_before_the_instant(golden: Golden, part: int) -> None:
    checked = 0
    for name in sorted(golden.names())[part::6]:
        path = golden.table(name)
        for place in sampled(path, 1):
            try:
                after = by_group(path, Incremental(EARLIEST, place.whole))
                before = by_group(path, Incremental(EARLIEST, place.just_before))
            except UNREADABLE:
                continue
            expected = {group: result for group, result in after.items() if group in place.first}
            expected |= {group: result for group, result in before.items() if group not in place.first}
            assert by_group(path, Incremental(EARLIEST, place.at)) == expected, f"{name} {place}"
            checked += bool(before)
    assert checked > 8


@pytest.mark.sampled(1, rest=1)
@pytest.mark.parametrize("part", range(6))
def test_rows_of_ranges_that_end_or_start_inside(golden: Golden, part: int) -> None:
    checked = 0
    for name in sorted(golden.names())[part::6]:
        path = golden.table(name)
        for place in sampled(path, 2):
            if place.before == EARLIEST:
                continue
            try:
                alone = by_group(path, Incremental(place.before, place.whole))
                whole = rows(path, Incremental(place.before, place.last))
                inside = rows(path, Incremental(place.before, place.at))
            except UNREADABLE:
                continue
            expected = {group: rows_read for group, rows_read in alone.items() if group in place.first}
            assert by_group(path, Incremental(place.before, place.at)) == expected, f"{name} {place}: up to it"
            rest = {group: rows_read for group, rows_read in alone.items() if group not in place.first}
            assert by_group(path, Incremental(place.at, place.whole)) == rest, f"{name} {place}: the rest"
            if any(word in name for word in STAMPING):
                continue
            delivered = {written(row) for row in inside}
            left = [r for r in whole if r["_hoodie_commit_time"] != place.instant or written(r) not in delivered]
            try:
                rows_read = rows(path, Incremental(place.at, place.last))
            except PositionExpired as error:
                assert "begins" in str(error), f"{name} {place}"
                continue
            assert as_multiset(rows_read) == as_multiset(left), f"{name} {place}: from it on"
            checked += 1
    assert checked > 15


@pytest.mark.parametrize("case", ["A_clustering_done_v9_h120", "A_clustering_done_v6_h0150"])
def test_clustering_that_mixed_delivered_and_undelivered_rows(
    golden: Golden, tmp_path: pathlib.Path, case: str
) -> None:
    """The replaced groups identify the rows. Without them, no row is guessed."""
    path = golden.copy(case, tmp_path)
    mixed = []
    for place in places(path):
        if place.before == EARLIEST:
            continue
        plan = plan_request(
            open_table(str(path)), case, PlanRequest(table=case, query=Incremental(place.at, place.last))
        )
        if any(split.left_out and split.left_out.some_rows for split in plan.splits):
            mixed.append(place)
            delivered = {written(row) for row in rows(path, Incremental(place.before, place.at))}
            whole = rows(path, Incremental(place.before, place.last))
            left = [r for r in whole if r["_hoodie_commit_time"] != place.instant or written(r) not in delivered]
            assert (
                as_multiset(rows(path, Incremental(place.at, place.last))) == as_multiset(left) != as_multiset(whole)
            ), f"{place}"
    assert mixed
    facts = read_timeline(open_table(str(path)))
    replaced = {file_id for commit in facts.commits.values() for _, file_id in commit.replaced}
    for file in [f for f in path.rglob("*.parquet") if any(f.name.startswith(file_id) for file_id in replaced)]:
        file.unlink()
    for place in mixed:
        with pytest.raises(PositionExpired, match=r"inside which the range begins|is needed for this answer and gone"):
            rows(path, Incremental(place.at, place.last))


def test_position_between_the_stats_of_a_group_is_refused_with_the_nearest_valid_one(golden: Golden) -> None:
    path = golden.table("B_v9_inc_cow")
    place = next(iter(places(path)))
    beyond = Position(place.at.order_key, 9_999)
    with pytest.raises(StateVersionError, match=r"the nearest position is \d+\+\d+"):
        rows(path, Incremental(EARLIEST, beyond))
    with pytest.raises(StateVersionError, match="no completed write has order key"):
        rows(path, Incremental(EARLIEST, Position(InstantTime("20200101000000000"), 1)))


@pytest.mark.parametrize("query", ["rows", "changes"])
def test_excluded_instants_are_not_in_the_range(golden: Golden, query: str) -> None:
    path = golden.table("B_v9_inc_cow")
    facts = read_timeline(open_table(str(path)))
    completed = [i for i in completed_in_order(facts.timeline, frozenset()) if facts.is_data(i)]
    first, out, last = completed[0], completed[2], completed[-1]
    after, upto = Position(facts.timeline.order_key(first)), Position(facts.timeline.order_key(last))
    without = frozenset([out.requested_time])
    if query == "rows":
        rows_read = rows(path, Incremental(after, upto, without))
        expected = [r for r in rows(path, Incremental(after, upto)) if r["_hoodie_commit_time"] != out.requested_time]
    else:
        rows_read = rows(path, Changes(ChangeFormat.ROWS, after, upto, without))
        every = rows(path, Changes(ChangeFormat.ROWS, after, upto))
        expected = [r for r in every if r["_change_instant"] != out.requested_time]
        assert len(expected) < len(every)
    assert expected and as_multiset(rows_read) == as_multiset(expected)
