"""Order keys, the horizon of layout 1, newest positions and ranges, on scripted and golden timelines."""

from __future__ import annotations

import pathlib
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.planning.commit_order import (
    completed_in_order,
    cut_at,
    horizon,
    newest_position,
    resolved_range,
    stat_groups,
)
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.plan import newest
from penstock.proto.errors import ConfigurationError, PositionExpired, StateVersionError
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, Latest
from penstock.table.hudi_table import open_table
from penstock.table.timeline.active import Timeline, build_timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Instant, parse_instant_file


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...


def timeline(layout: int, *file_names: str) -> Timeline:
    files = [parse_instant_file(name, layout) for name in file_names]
    return build_timeline(layout, [item for item in files if item is not None])


def at(order_key: str) -> Position:
    return Position(InstantTime(order_key))


def always(_: Instant) -> bool:
    return True


def not_commits(instant: Instant) -> bool:
    """As on a merge-on-read table where every `commit` is a compaction."""
    return instant.action != "commit"


class TestHorizon:
    @pytest.mark.parametrize("pending", ["20.commit.requested", "20.inflight", "20.deltacommit.inflight"])
    def test_pending_write_sets_the_horizon(self, pending: str) -> None:
        hole = horizon(timeline(1, "10.commit", pending, "30.commit"), ())
        assert hole is not None and hole.requested_time == "20"

    @pytest.mark.parametrize(
        "pending", ["20.compaction.requested", "20.compaction.inflight", "20.logcompaction.requested"]
    )
    def test_pending_service_sets_no_horizon(self, pending: str) -> None:
        assert horizon(timeline(1, "10.deltacommit", pending, "30.deltacommit"), ()) is None

    def test_pending_replace_sets_the_horizon_unless_it_is_a_clustering(self) -> None:
        line = timeline(1, "10.commit", "20.replacecommit.requested", "30.commit")
        hole = horizon(line, ())
        assert hole is not None and hole.requested_time == "20"
        assert horizon(line, {"20"}) is None

    def test_layout_2_has_no_horizon(self) -> None:
        assert horizon(timeline(2, "10_11.commit", "20.commit.requested", "30_31.commit"), ()) is None


class TestOrder:
    def test_layout_2_orders_by_completion_time(self) -> None:
        line = timeline(2, "10_40.deltacommit", "20_21.deltacommit", "30_31.commit")
        assert [i.requested_time for i in completed_in_order(line, ())] == ["20", "30", "10"]

    def test_layout_1_orders_by_requested_time_up_to_the_horizon(self) -> None:
        line = timeline(1, "10.commit", "20.commit", "25.inflight", "30.commit")
        assert [i.requested_time for i in completed_in_order(line, ())] == ["10", "20"]


class TestNewestPosition:
    LINE = timeline(2, "10_11.deltacommit", "20_50.deltacommit", "25_26.commit", "30_31.deltacommit", "60_61.commit")

    def test_services_do_not_move_the_newest_position(self) -> None:
        assert newest_position(self.LINE, (), not_commits) == at("50")

    def test_newest_position_has_the_greatest_order_key(self) -> None:
        assert newest_position(self.LINE, (), always) == at("61")

    @pytest.mark.parametrize(
        ("after", "cap", "expected"),
        [("0", 1, "11"), ("0", 2, "31"), ("11", 1, "31"), ("11", 2, "50"), ("11", 9, "50"), ("31", 1, "50")],
    )
    def test_cap_counts_data_instants_in_order(self, after: str, cap: int, expected: str) -> None:
        assert newest_position(self.LINE, (), not_commits, at(after), cap) == at(expected)

    @pytest.mark.parametrize("after", ["50", "55", "99"])
    @pytest.mark.parametrize("cap", [0, 1])
    def test_newest_position_is_never_before_after(self, after: str, cap: int) -> None:
        assert newest_position(self.LINE, (), not_commits, at(after), cap) == at(after)

    def test_empty_table_has_the_earliest_position(self) -> None:
        assert newest_position(timeline(2), (), always) == EARLIEST
        assert newest_position(timeline(1, "10.inflight"), (), always) == EARLIEST

    def test_services_alone_stand_for_the_archived_instants_they_rewrote(self) -> None:
        line = timeline(2, "10_11.commit", "20_21.commit")
        assert newest_position(line, (), not_commits) == at("21")
        assert newest_position(line, (), not_commits, EARLIEST, 1) == at("21")
        assert newest_position(line, (), not_commits, at("05")) == at("05")

    def test_horizon_limits_the_newest_position(self) -> None:
        line = timeline(1, "10.commit", "20.inflight", "30.commit")
        assert newest_position(line, (), always) == at("10")
        assert newest_position(line, (), always, at("10")) == at("10")

    def test_rest_of_an_instant_is_after_a_position_inside_it(self) -> None:
        assert newest_position(self.LINE, (), always, Position(InstantTime("11"), 3), 1) == at("11")


class TestRange:
    LINE = timeline(1, "10.commit", "20.commit", "30.inflight", "40.commit")

    def test_latest_is_the_newest_below_the_horizon(self) -> None:
        result = resolved_range(self.LINE, (), always, Incremental(at("10"), Latest()))
        assert result == CommitRange(at("10"), at("20"))

    def test_latest_is_never_before_after(self) -> None:
        result = resolved_range(self.LINE, (), always, Incremental(at("25"), Latest()))
        assert result == CommitRange(at("25"), at("25"))

    @pytest.mark.parametrize("upto", ["30", "35", "40", "99"])
    def test_upto_at_or_after_the_horizon_names_the_pending_instant(self, upto: str) -> None:
        with pytest.raises(ConfigurationError, match=r"instant 30 \(commit, inflight\)"):
            resolved_range(self.LINE, (), always, Incremental(EARLIEST, at(upto)))

    def test_upto_between_instants_is_valid(self) -> None:
        assert resolved_range(self.LINE, (), always, Incremental(EARLIEST, at("29"))).upto == at("29")

    def test_upto_after_the_newest_instant_is_valid_on_layout_2(self) -> None:
        line = timeline(2, "10_11.commit", "20.inflight")
        assert resolved_range(line, (), always, Incremental(EARLIEST, at("99"))).upto == at("99")

    def test_range_that_ends_before_it_starts_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="ends before it starts"):
            resolved_range(self.LINE, (), always, Incremental(at("20"), at("10")))

    def test_bounds_inside_an_instant_are_unchanged(self) -> None:
        inside = Position(InstantTime("10"), 3)
        assert resolved_range(self.LINE, (), always, Incremental(EARLIEST, inside)) == CommitRange(EARLIEST, inside)
        assert resolved_range(self.LINE, (), always, Incremental(inside, at("10"))) == CommitRange(inside, at("10"))


instants = st.dictionaries(st.integers(10, 99), st.tuples(st.integers(0, 9), st.booleans()), max_size=12)


@given(instants, st.integers(1, 4))
def test_capped_positions_visit_every_data_instant_once_in_order(chosen: dict[int, tuple[int, bool]], cap: int) -> None:
    line = timeline(
        2,
        *(
            f"{requested}_{100 + requested + 10 * late}.{'commit' if service else 'deltacommit'}"
            for requested, (late, service) in chosen.items()
        ),
    )
    data = [i for i in completed_in_order(line, ()) if not_commits(i)]
    visited: list[str] = []
    position = EARLIEST
    while True:
        following = newest_position(line, (), not_commits, position, cap)
        if following == position:
            break
        step = CommitRange(position, following)
        inside = [i.requested_time for i in data if step.holds(line.order_key(i))]
        assert inside or not data
        visited += inside
        position = following
    assert visited == [i.requested_time for i in data]
    if data:
        assert position == newest_position(line, (), not_commits)


class TestGoldenTimelines:
    def test_pending_compaction_limits_no_position(self, golden: Golden) -> None:
        table = open_table(str(golden.table("B_v6_timeline_mor_pending_compaction")))
        facts = read_timeline(table)
        assert facts.timeline.pending
        assert horizon(facts.timeline, facts.pending_clusterings) is None

    def test_pending_write_limits_positions_and_is_named(self, golden: Golden) -> None:
        table = open_table(str(golden.table("B_v6_ooo_cow_cdc_pending")))
        assert newest(table, None, 0) == at("20261120214616273")
        facts = read_timeline(table)
        query = Incremental(EARLIEST, at("20261120214636299"))
        with pytest.raises(ConfigurationError, match="20261120214635126"):
            resolved_range(facts.timeline, facts.pending_clusterings, facts.is_data, query)

    def test_layout_2_passes_a_pending_write(self, golden: Golden) -> None:
        case = "B_v8_ooo_cow_cdc_pending"
        table = open_table(str(golden.table(case)))
        facts = read_timeline(table)
        assert facts.timeline.pending
        assert newest(table, None, 0).order_key == max(
            facts.timeline.order_key(item) for item in facts.timeline.completed_writes
        )

    def test_bulk_insert_that_completed_as_commit_is_data(self, golden: Golden) -> None:
        """On a merge-on-read table `commit` mostly means compaction; only the metadata distinguishes them."""
        facts = read_timeline(open_table(str(golden.table("A_clustering_done_v9_h120"))))
        first = facts.timeline.completed_writes[0]
        assert first.action == "commit" and facts.is_data(first)
        services = [i.action for i in facts.timeline.completed_writes if not facts.is_data(i)]
        assert "replacecommit" in services


def commit(requested: str, groups: str, operation: str = "UPSERT", *, replaces: bool = False) -> CommitMetadata:
    """A commit with a write stat for each letter, in this order; capital ones are in partition `a`, others in `b`."""
    stats = tuple(
        WriteStat(
            partition="a" if letter.isupper() else "b",
            file_id=letter.lower(),
            path="",
            num_writes=place,
            num_deletes=0,
            num_inserts=0,
            num_update_writes=0,
            file_size_bytes=0,
            base_file="",
            log_files=(),
            prev_commit="",
        )
        for place, letter in enumerate(groups)
    )
    return CommitMetadata(
        requested_time=InstantTime(requested),
        operation=operation,
        compacted=operation == "COMPACT",
        schema_json="",
        extra={},
        stats=stats,
        replaced=(("a", "z"),) if replaces else (),
    )


class TestCuts:
    """A position inside a commit counts write stats by partition and file group, whatever their order in the file."""

    LINE = timeline(2, "10_11.deltacommit", "20_21.deltacommit")

    @staticmethod
    def inside(index: int, order_key: str = "11") -> Position:
        return Position(InstantTime(order_key), index)

    def test_groups_are_sorted_and_keep_the_order_of_their_stats(self) -> None:
        groups = [(group, [stat.num_writes for stat in stats]) for group, stats in stat_groups(commit("10", "yXbXB"))]
        assert groups == [(("a", "b"), [4]), (("a", "x"), [1, 3]), (("b", "b"), [2]), (("b", "y"), [0])]

    @pytest.mark.parametrize(("index", "before"), [(0, ""), (1, "B"), (3, "BX"), (4, "BXb"), (5, "BXby")])
    def test_position_divides_the_groups(self, index: int, before: str) -> None:
        cut = cut_at(self.inside(index), self.LINE, {"10": commit("10", "yXbXB")}, "t")
        assert cut is not None and (cut.instant, cut.order_key) == ("10", "11")
        expected = {("a" if letter.isupper() else "b", letter.lower()) for letter in before}
        assert cut.before == expected
        assert cut.after == {("a", "b"), ("a", "x"), ("b", "b"), ("b", "y")} - expected

    def test_position_after_a_whole_instant_cuts_nothing(self) -> None:
        assert cut_at(at("11"), self.LINE, {}, "t") is None

    def test_position_between_stats_of_a_group_is_refused(self) -> None:
        nearest = "the nearest position is .*11.*1"
        with pytest.raises(StateVersionError, match=f"of table t is not valid: instant 10 has no boundary.*{nearest}"):
            cut_at(self.inside(2), self.LINE, {"10": commit("10", "yXbXB")}, "t")

    @pytest.mark.parametrize(
        "written", [commit("10", "ab", "COMPACT"), commit("10", "ab", "INSERT_OVERWRITE", replaces=True)]
    )
    def test_services_and_replacements_are_never_cut(self, written: CommitMetadata) -> None:
        with pytest.raises(StateVersionError, match=rf"of table t is not valid: instant 10 \({written.operation}\) is"):
            cut_at(self.inside(1), self.LINE, {"10": written}, "t")

    def test_instants_of_one_order_key_are_never_cut(self) -> None:
        line = timeline(2, "10_21.deltacommit", "20_21.deltacommit")
        with pytest.raises(StateVersionError, match="never cut"):
            cut_at(self.inside(1, "21"), line, {"10": commit("10", "ab"), "20": commit("20", "ab")}, "t")

    def test_unknown_instant_is_expired_or_no_position(self) -> None:
        with pytest.raises(StateVersionError, match="no completed write has order key 15; give a position after"):
            cut_at(self.inside(1, "15"), self.LINE, {}, "t")
        with pytest.raises(PositionExpired, match="table t lies inside an instant that was archived"):
            cut_at(self.inside(1, "05"), self.LINE, {}, "t", complete_from="09")
