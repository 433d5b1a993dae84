"""The timeline with its archive added, and the detection of a cut archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from penstock.enumerator.planning.archived_timeline import checked_against, needs_every_partition, with_archive
from penstock.enumerator.planning.commit_order import newest_position
from penstock.enumerator.planning.selection import TimelineFacts, reaches_back, select
from penstock.proto.errors import PositionExpired
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Incremental, Query, Snapshot, SnapshotAsOf
from penstock.table.files.names import parse_file_name
from penstock.table.files.slices import DataFile
from penstock.table.timeline.active import build_timeline
from penstock.table.timeline.archive import Archive
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Instant, parse_instant_file
from penstock.table.timeline.services.plans import CleanMetadata
from tests.unit.enumerator.planning.planner_model import listed_file


def stat(group: str, instant: str, prev: str = "") -> WriteStat:
    return WriteStat(
        partition="p", file_id=group, path=f"p/{group}_0-1-1_{instant}.parquet", num_writes=1, num_deletes=0,
        num_inserts=1, num_update_writes=0, file_size_bytes=1, base_file="", log_files=(), prev_commit=prev,
    )  # fmt: skip


def commit(requested: str, *stats: WriteStat, replaced: tuple[str, ...] = ()) -> CommitMetadata:
    return CommitMetadata(
        requested_time=InstantTime(requested), operation="UPSERT", compacted=False, schema_json="", extra={},
        stats=stats, replaced=tuple(("p", group) for group in replaced),
    )  # fmt: skip


def instants(layout: int, *names: str) -> list[Instant]:
    return [result for name in names if (result := parse_instant_file(name, layout))]


def active(layout: int, commits: Mapping[str, CommitMetadata], *names: str, complete_from: str) -> TimelineFacts:
    return TimelineFacts(
        table="t", timeline=build_timeline(layout, instants(layout, *names)), commits=commits,
        pending_clusterings=frozenset(), complete_from=complete_from,
    )  # fmt: skip


def at(order_key: str) -> Position:
    return Position(InstantTime(order_key))


def as_of(time: str) -> SnapshotAsOf:
    return SnapshotAsOf(InstantTime(time))


def listing(*names: str) -> dict[str, list[DataFile]]:
    return {"p": [listed_file("p", name, 1) for name in names if parse_file_name(name) is not None]}


def layout_1(lost: bool = False) -> TimelineFacts:
    """Archived 10 and 20 (built on 10), active 30. `lost`: the archive lacks 10."""
    commits = {"10": commit("10", stat("a", "10")), "20": commit("20", stat("b", "20"))}
    result = instants(1, "10.commit", "20.commit")
    if lost:
        del commits["10"], result[0]
    facts = active(1, {"30": commit("30", stat("a", "30"))}, "30.commit", complete_from="30")
    return with_archive(facts, Archive(tuple(result), commits, ()))


class TestWithArchive:
    def test_facts_with_archive_equal_those_before_archival(self) -> None:
        facts = layout_1()
        assert [item.requested_time for item in facts.timeline.completed_writes] == ["10", "20", "30"]
        assert facts.commits.keys() == {"10", "20", "30"} and facts.complete_from == ""
        assert facts.timeline.first_active == "30", "what counts as committed stays"
        assert facts.archive_begins == ("10", "10")
        for query in (Incremental(at("05"), at("20")), Incremental(EARLIEST, at("10")), as_of("15")):
            assert not reaches_back(query, facts) and select(query, facts)
        assert select(Incremental(at("10"), at("30")), facts)[0].instants == {"20", "30"}

    def test_interrupted_archival_keeps_the_completed_state(self) -> None:
        """An interrupted archival: 10 is in both timelines, 20 lacks only its completed file."""
        facts = active(1, {"10": commit("10", stat("x", "10"))}, "10.commit", "20.commit.requested", complete_from="10")
        archived = {"10": commit("10", stat("y", "10")), "20": commit("20", stat("y", "20"))}
        whole = with_archive(facts, Archive(tuple(instants(1, "10.commit", "20.commit")), archived, ()))
        assert [item.requested_time for item in whole.timeline.completed_writes] == ["10", "20"]
        assert whole.timeline.pending == ()
        assert whole.commits["10"].stats[0].file_id == "x" and whole.commits["20"].stats[0].file_id == "y"

    def test_instants_of_14_and_17_digits_are_ordered_as_text(self) -> None:
        facts = active(
            1, {"20210102000000000": commit("20210102000000000", stat("a", "3"))}, "20210102000000000.commit",
            complete_from="20210102000000000",
        )  # fmt: skip
        times = ("20210101000000", "20210101000000123")
        archive = Archive(
            tuple(instants(1, *(f"{time}.commit" for time in times))),
            {time: commit(time, stat("a", time)) for time in times}, (),
        )  # fmt: skip
        whole = with_archive(facts, archive)
        place, order_keys = at("20200101000000"), []
        for _ in range(3):
            place = newest_position(whole.timeline, (), whole.is_data, place, 1)
            order_keys.append(place.order_key)
        assert order_keys == [*times, "20210102000000000"]
        assert whole.archive_begins == (times[0], times[0])

    def test_archived_cleans_are_in_the_facts(self) -> None:
        clean = CleanMetadata("", "", ())
        facts = active(1, {"30": commit("30", stat("a", "30"))}, "30.commit", complete_from="30")
        whole = with_archive(facts, Archive(tuple(instants(1, "05.clean")), {}, (("05", clean),)))
        assert whole.archived_cleans == (("05", clean),) and whole.archive_begins == ("30", "30")


class TestCutArchive:
    @pytest.mark.parametrize(
        "telling",
        [commit("30", stat("a", "30", prev="10")), commit("30", stat("c", "30"), replaced=("a",))],
        ids=["built on a lost write", "replaced a group nobody wrote"],
    )
    def test_metadata_reveals_lost_instants(self, telling: CommitMetadata) -> None:
        facts = active(1, {"30": telling}, "30.commit", complete_from="30")
        whole = with_archive(facts, Archive(tuple(instants(1, "20.commit")), {"20": commit("20", stat("b", "20"))}, ()))
        assert (whole.complete_from, whole.oldest_known) == ("20", "20")
        for query in (Incremental(at("05"), at("30")), Incremental(EARLIEST, at("15")), as_of("19")):
            with pytest.raises(PositionExpired, match=r"archived instants that are gone.*complete from 20"):
                select(query, whole)
        for query in (Incremental(at("20"), at("30")), Incremental(EARLIEST, at("20")), as_of("20"), Snapshot()):
            assert select(query, whole)

    def test_lost_archive_answers_nothing_before_the_active_timeline(self) -> None:
        """By completion times: the lost instants completed up to 27, although 25 is the first active one."""
        facts = active(2, {"25": commit("25", stat("a", "25"))}, "25_30.deltacommit", complete_from="27")
        whole = with_archive(facts, Archive((), {}, ()))
        for query in (
            Incremental(at("20"), at("27")),
            Incremental(at("20"), at("30")),
            Incremental(EARLIEST, at("26")),
        ):
            with pytest.raises(PositionExpired, match="archived instants that are gone"):
                select(query, whole)
        for query in (Incremental(at("27"), at("30")), Incremental(EARLIEST, at("30"))):
            assert select(query, whole)

    @pytest.mark.parametrize("query", [Incremental(at("05"), at("30")), as_of("15"), Incremental(EARLIEST, at("15"))])
    def test_file_or_partition_reveals_a_lost_instant(self, query: Query) -> None:
        facts = layout_1(lost=True)
        assert facts.complete_from == "" and needs_every_partition(query, facts)
        assert checked_against(facts, listing("b_0-1-1_20.parquet"), {"p": "20"}, query) is facts
        with pytest.raises(PositionExpired):
            checked_against(facts, listing("a_0-1-1_10.parquet"), {}, query)
        with pytest.raises(PositionExpired):
            checked_against(facts, listing(), {"p": "10"}, query)

    def test_rolled_back_instant_is_not_lost(self) -> None:
        """A crashed write leaves the partitions that it created, and maybe files."""
        facts = replace(layout_1(), rolled_back=frozenset({"15"}))
        query = Incremental(at("05"), at("30"))
        assert checked_against(facts, listing("a_0-1-1_15.parquet"), {"p": "15"}, query) is facts
        with pytest.raises(PositionExpired, match="of instant 16"):
            checked_against(facts, listing("a_0-1-1_15.parquet"), {"p": "16"}, query)

    def test_lost_instants_before_the_range_do_not_matter_on_layout_1(self) -> None:
        facts = layout_1(lost=True)
        query = Incremental(at("20"), at("30"))
        assert not needs_every_partition(query, facts)
        cut = checked_against(facts, listing("a_0-1-1_10.parquet"), {}, query)
        assert cut.complete_from == "20", "files may be missed that nothing names"

    def test_lost_instant_inside_the_range_is_an_error(self) -> None:
        with pytest.raises(PositionExpired, match=r"file p/a_0-1-1_25\.parquet of table t is of instant 25, which is"):
            checked_against(layout_1(), listing("a_0-1-1_25.parquet"), {}, Incremental(at("20"), at("30")))
        assert checked_against(layout_1(), listing("a_0-1-1_25.parquet"), {}, Incremental(at("10"), at("20")))

    def test_lost_instant_has_no_completion_time_on_layout_2(self) -> None:
        facts = active(2, {"30": commit("30", stat("a", "30"))}, "30_31.commit", complete_from="21")
        archive = Archive(tuple(instants(2, "20_21.commit")), {"20": commit("20", stat("b", "20"))}, ())
        whole = with_archive(facts, archive)
        assert whole.archive_begins == ("20", "21")
        with pytest.raises(PositionExpired, match="of instant 10"):
            checked_against(whole, listing("a_0-1-1_10.parquet"), {}, Incremental(at("21"), at("31")))
        assert checked_against(whole, listing("a_0-1-1_10.parquet"), {}, as_of("25")).oldest_known == "20"

    def test_facts_without_the_archive_are_unchanged(self) -> None:
        facts = active(1, {"30": commit("30", stat("a", "30"))}, "30.commit", complete_from="30")
        assert checked_against(facts, listing("a_0-1-1_10.parquet"), {"p": "10"}, Snapshot()) is facts
        assert not needs_every_partition(Snapshot(), facts)
