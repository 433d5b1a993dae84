"""Ends of rounds under limits on scripted timelines: in order of order keys, without skips, always with progress."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.continuous.round_limits import (
    Amount,
    amount_after,
    data_instants_after,
    next_end,
    reshaped_in,
)
from penstock.enumerator.planning.commit_order import cut_at, may_be_cut, stat_groups
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import StateVersionError
from penstock.proto.model.positions import EARLIEST, WHOLE_INSTANT, CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, RoundLimits
from penstock.table.timeline.instants import Instant
from tests.scripted_facts import Commit, at, facts, stat


def rounds(known: TimelineFacts, limits: RoundLimits, start: Position = EARLIEST) -> list[Position]:
    """The ends of all rounds until nothing is new."""
    result, position = [], start
    while (end := next_end(known, position, limits)) != position:
        assert end > position and len(result) < 1000
        result.append(end)
        position = end
    return result


def one(limit: str) -> RoundLimits:
    return RoundLimits(**{f"max_{limit}": 1})


OUT_OF_ORDER = facts(
    ("10_90.commit", "INSERT", [stat("a")], []),
    ("20_30.commit", "INSERT", [stat("b")], []),
    ("30_40.commit", "INSERT", [stat("c")], []),
)


@pytest.mark.parametrize("limit", ["commits", "files", "bytes", "rows"])
def test_weak_point_02_limit_cuts_in_the_order_of_positions(limit: str) -> None:
    assert rounds(OUT_OF_ORDER, one(limit)) == [at("30"), at("40"), at("90")]


def test_weak_point_13_round_of_layout_1_ends_before_the_earliest_pending_instant() -> None:
    hole: list[Commit] = [
        ("10.commit", "INSERT", [stat("a")], []),
        ("20.deltacommit.inflight", "", [], []),
        ("30.commit", "INSERT", [stat("c")], []),
    ]
    assert rounds(facts(*hole, layout=1), NO_LIMITS) == [at("10")]
    services: list[Commit] = [hole[0], ("20.compaction.requested", "", [], []), hole[2]]
    assert rounds(facts(*services, layout=1), NO_LIMITS) == [at("30")]


def test_weak_point_10_round_of_changes_never_ends_inside_an_instant_that_may_move_keys() -> None:
    """The delete is in the later file group: a cut between the groups would deliver it after the insert."""
    removed = replace(stat("z"), num_inserts=0, num_writes=0, num_deletes=1)
    moving = facts(("10_11.commit", "UPSERT", [stat("a"), stat("b"), removed], []))
    limits = RoundLimits(max_files=1)
    assert next_end(moving, EARLIEST, limits, changes=True) == at("11")
    assert next_end(moving, EARLIEST, limits) == Position(InstantTime("11"), 1)
    deleting = facts(("10_11.commit", "DELETE", [removed, replace(removed, file_id="b")], []))
    assert next_end(deleting, EARLIEST, limits, changes=True) == Position(InstantTime("11"), 1)


LARGE = facts(
    ("10_11.commit", "INSERT", [stat(f"g{n}", size=10, rows=5) for n in range(5)], []),
    ("20_21.commit", "INSERT", [stat("a"), stat("a"), stat("b", size=1000)], []),
    ("30_31.replacecommit", "INSERT_OVERWRITE", [stat("x"), stat("y"), stat("z")], ["a"]),
)


def test_round_may_end_inside_a_large_commit() -> None:
    result = rounds(LARGE, RoundLimits(max_files=2))
    assert result[:3] == [at("11", 2), at("11", 4), at("11")]
    assert rounds(LARGE, RoundLimits(max_bytes=25))[:3] == [at("11", 2), at("11", 4), at("11")]
    assert rounds(LARGE, RoundLimits(max_rows=15))[:2] == [at("11", 3), at("11")]


def test_round_takes_all_stats_of_a_file_group_and_at_least_one_group() -> None:
    assert next_end(LARGE, at("11"), RoundLimits(max_files=1)) == at("21", 2)
    assert next_end(LARGE, at("21", 2), RoundLimits(max_bytes=1)) == at("21")


def test_round_takes_a_commit_that_replaces_groups_whole() -> None:
    assert next_end(LARGE, at("21"), RoundLimits(max_files=1)) == at("31")
    assert next_end(LARGE, at("11"), RoundLimits(max_files=4)) == at("21")
    with pytest.raises(StateVersionError, match=r"never cut; the nearest position is 31$"):
        cut_at(at("31", 1), LARGE.timeline, LARGE.commits, "t")


def test_fault_15_round_takes_instants_with_one_order_key_together() -> None:
    equal = facts(
        ("10_40.commit", "INSERT", [stat("a"), stat("b")], []),
        ("20_40.commit", "INSERT", [stat("c")], []),
        ("05_50.commit", "INSERT", [stat("d")], []),
    )
    for limit in ("files", "commits", "bytes", "rows"):
        assert rounds(equal, one(limit)) == [at("40"), at("50")]


def test_fault_15_round_takes_a_commit_whole_with_a_service_of_its_order_key() -> None:
    equal = facts(("10_40.commit", "INSERT", [stat("a"), stat("b")], []), ("20_40.commit", "COMPACT", [stat("c")], []))
    assert rounds(equal, one("files")) == [at("40")]


def test_fault_15_instant_of_14_digits_sorts_before_one_with_milliseconds() -> None:
    mixed = facts(
        ("20260131000000.commit", "INSERT", [stat("a")], []),
        ("20260131000000500.commit", "INSERT", [stat("b")], []),
        layout=1,
    )
    assert rounds(mixed, one("commits")) == [at("20260131000000"), at("20260131000000500")]


def test_weak_point_11_position_stays_if_nothing_is_new() -> None:
    newest = at("95")
    for limits in (NO_LIMITS, one("commits"), one("files")):
        assert next_end(OUT_OF_ORDER, newest, limits) == newest
    pending = facts(("10_11.commit", "INSERT", [stat("a")], []), ("20.inflight", "", [], []))
    assert next_end(pending, at("11")) == at("11")
    services = facts(("10_11.commit", "INSERT", [stat("a")], []), ("20_21.commit", "COMPACT", [stat("a")], []))
    assert next_end(services, at("11")) == at("11")


def test_weak_point_07_timeline_without_instants_has_no_round() -> None:
    assert next_end(facts(), EARLIEST, one("commits")) == EARLIEST
    assert next_end(facts(), at("55"), NO_LIMITS) == at("55")


def test_round_ignores_instants_after_its_end() -> None:
    ahead = frozenset([InstantTime("20")])
    assert next_end(OUT_OF_ORDER, at("20"), one("files"), ahead) == at("40")
    assert next_end(OUT_OF_ORDER, at("20"), one("commits"), ahead) == at("40")
    assert amount_after(OUT_OF_ORDER, at("20"), ahead)[0] == 2


def test_first_round_of_rows_ends_in_the_known_timeline() -> None:
    known = facts(
        ("20_30.commit", "INSERT", [stat("b")], []), ("30_40.commit", "INSERT", [stat("c")], []), complete_from="35"
    )
    assert next_end(known, EARLIEST, one("commits")) == at("40")


def test_reshaped_partitions_are_those_with_replaced_groups() -> None:
    assert reshaped_in(LARGE, CommitRange(at("11"), at("31"))) == {"p"}
    assert reshaped_in(LARGE, CommitRange(at("11"), at("21"))) == frozenset()
    late = facts(
        ("10.commit", "INSERT", [stat("a")], []),
        ("20.replacecommit", "CLUSTER", [stat("x")], ["a"]),
        ("30.commit", "UPSERT", [stat("x")], []),
        ("40.commit", "UPSERT", [stat("y", partition="q")], []),
        layout=1,
    )
    assert reshaped_in(late, CommitRange(at("25"), at("30"))) == {"p"}, "a clustering that completed concurrently"
    assert reshaped_in(late, CommitRange(at("30"), at("40"))) == frozenset()


commits = st.lists(
    st.tuples(
        st.integers(1, 60), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), max_size=5), st.booleans()
    ),
    max_size=6,
)
any_limits = st.builds(
    RoundLimits,
    max_commits=st.integers(0, 3),
    max_files=st.integers(0, 4),
    max_bytes=st.integers(0, 80),
    max_rows=st.integers(0, 9),
)


@given(commits, any_limits)
def test_rounds_under_any_limits_take_every_stat_once_and_keep_the_limits(
    history: list[tuple[int, list[tuple[int, int]], bool]], limits: RoundLimits
) -> None:
    known = facts(
        *(
            (
                f"{10 + place}_{100 + late}.{'replacecommit' if replaces else 'commit'}",
                "INSERT_OVERWRITE" if replaces else "UPSERT",
                [stat(f"g{group}", size=size) for group, size in stats],
                ["old"] if replaces else [],
            )
            for place, (late, stats, replaces) in enumerate(history)
        )
    )
    ends = rounds(known, limits)
    assert (ends[-1] if ends else EARLIEST) == next_end(known, EARLIEST)
    position = EARLIEST
    for end in ends:
        cut_at(end, known.timeline, known.commits, "t")
        (commits_before, before), (commits_after, after) = (
            amount_after(known, place, frozenset()) for place in (position, end)
        )
        taken = Amount(before.files - after.files, before.size_bytes - after.size_bytes, before.rows - after.rows)
        instants = [item for _, items in data_instants_after(known, position, end) for item in items]
        keys = {known.timeline.order_key(item) for item in instants}
        assert instants and (taken.files or end.index == WHOLE_INSTANT)
        if taken.exceeds(limits):
            written = [item for item in instants if known.commits[item.requested_time].stats]
            whole = shared(known) > 0 or not may_be_cut(known.commits[written[0].requested_time])
            alone = len({known.timeline.order_key(item) for item in written}) == 1
            assert alone and (whole or taken.files <= most_of_a_group(known, written[0]))
        if limits.max_commits and len(keys) > 1:
            assert commits_before - commits_after <= limits.max_commits + shared(known)
        position = end
    assert amount_after(known, position, frozenset())[1].files == 0


def most_of_a_group(known: TimelineFacts, instant: Instant) -> int:
    """The most write stats that the instant has of one file group."""
    return max(len(stats) for _, stats in stat_groups(known.commits[instant.requested_time]))


def shared(known: TimelineFacts) -> int:
    """The number of instants beyond one for each order key: a round never separates instants of one key."""
    keys = [known.timeline.order_key(item) for item in known.timeline.completed_writes]
    return len(keys) - len(set(keys))
