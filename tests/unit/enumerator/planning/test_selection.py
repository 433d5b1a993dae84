"""Groups that a range selects: rows moved by services, delete-only writes, rescaled buckets, archived instants."""

from __future__ import annotations

import pytest

from penstock.enumerator.planning.selection import Selection, TimelineFacts, reaches_back, select
from penstock.proto.errors import PositionExpired
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, Latest, Query, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import AllRows, RowsOf
from penstock.table.files.slices import OrderedUpTo, RequestedUpTo
from penstock.table.timeline.active import build_timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import parse_instant_file


def stat(group: str, *, writes: int = 1, deletes: int = 0, partition: str = "p") -> WriteStat:
    return WriteStat(
        partition=partition, file_id=group, path=f"{partition}/{group}_0-1-1_1.parquet", num_writes=writes,
        num_deletes=deletes, num_inserts=writes, num_update_writes=0, file_size_bytes=1, base_file="", log_files=(),
        prev_commit="",
    )  # fmt: skip


def facts(
    *commits: tuple[str, str, list[WriteStat], list[str]], complete_from: str = "", layout: int = 2
) -> TimelineFacts:
    """Commits as (file name, operation, stats, replaced groups of partition p)."""
    files = [parse_instant_file(name, layout) for name, *_ in commits]
    metadata: dict[str, CommitMetadata] = {}
    for item, (_, operation, stats, replaced) in zip(files, commits, strict=True):
        if item is not None and item.is_completed:
            metadata[item.requested_time] = CommitMetadata(
                requested_time=item.requested_time, operation=operation, compacted=operation == "COMPACT",
                schema_json="", extra={}, stats=tuple(stats), replaced=tuple(("p", group) for group in replaced),
            )  # fmt: skip
    return TimelineFacts(
        table="t", timeline=build_timeline(layout, [item for item in files if item]), commits=metadata,
        pending_clusterings=frozenset(), complete_from=complete_from,
    )  # fmt: skip


def at(order_key: str) -> Position:
    return Position(InstantTime(order_key))


def selected(query: Query, known: TimelineFacts) -> Selection:
    return select(query, known)[0]


def groups(result: Selection) -> dict[str, str]:
    assert result.groups is not None
    return {file_id: str(key) for (_, file_id), key in result.groups.items()}


HISTORY = facts(
    ("10_11.deltacommit", "INSERT", [stat("a"), stat("b")], []),
    ("20_21.deltacommit", "UPSERT", [stat("a"), stat("c", partition="q")], []),
    ("30_31.commit", "COMPACT", [stat("a"), stat("b")], []),
    ("40_41.replacecommit", "CLUSTER", [stat("x"), stat("y", partition="q")], ["a", "b"]),
    ("50_51.replacecommit", "INSERT_OVERWRITE", [stat("z")], ["x"]),
)


class TestTouchedGroups:
    def test_newest_write_gives_the_order_key(self) -> None:
        assert groups(selected(Incremental(at("05"), at("25")), HISTORY)) == {"a": "21", "b": "11", "c": "21"}

    def test_compaction_adds_nothing(self) -> None:
        result = selected(Incremental(at("11"), at("31")), HISTORY)
        assert groups(result) == {"a": "21", "c": "21"}
        assert result.rows == RowsOf(frozenset({InstantTime("20")}))
        alone = selected(Incremental(at("21"), at("31")), HISTORY)
        assert groups(alone) == {} and alone.rows == RowsOf(frozenset())

    def test_clustering_moves_rows_within_a_partition(self) -> None:
        assert groups(selected(Incremental(at("05"), at("41")), HISTORY)) == {"x": "21", "c": "21"}
        assert groups(selected(Incremental(at("31"), at("41")), HISTORY)) == {}

    def test_overwritten_groups_leave_the_range(self) -> None:
        result = selected(Incremental(at("05"), at("51")), HISTORY)
        assert groups(result) == {"z": "51", "c": "21"}
        assert result.rows == RowsOf(frozenset(map(InstantTime, ("10", "20", "50"))))

    @pytest.mark.parametrize(("writes", "deletes", "touched"), [(0, 3, {}), (0, 0, {"a": "11"}), (1, 3, {"a": "11"})])
    def test_write_of_deletes_alone_holds_no_row(self, writes: int, deletes: int, touched: dict[str, str]) -> None:
        """If both counts are zero, they may not be recorded: the file is read."""
        known = facts(("10_11.deltacommit", "DELETE", [stat("a", writes=writes, deletes=deletes)], []))
        assert groups(selected(Incremental(at("05"), at("11")), known)) == touched

    def test_rescale_moves_rows_and_stamps_them(self) -> None:
        known = facts(
            ("10_11.deltacommit", "INSERT", [stat("a")], []),
            ("20_21.replacecommit", "BUCKET_RESCALE", [stat("b")], ["a"]),
            ("30_31.deltacommit", "INSERT", [stat("b")], []),
        )
        result = selected(Incremental(at("05"), at("31")), known)
        assert groups(result) == {"b": "31"}
        assert result.rows == RowsOf(frozenset(map(InstantTime, ("10", "30"))), frozenset({InstantTime("20")}))
        assert groups(selected(Incremental(at("05"), at("21")), known)) == {"b": "11"}
        assert [s.view for s in select(Incremental(at("05"), at("11")), known)] == [OrderedUpTo("11")]
        assert groups(selected(Incremental(at("21"), at("31")), known)) == {"b": "31"}


class TestViews:
    def test_services_after_the_end_are_the_second_choice(self) -> None:
        result = select(Incremental(at("05"), at("21")), HISTORY)
        assert [s.view for s in result] == [OrderedUpTo("21"), OrderedUpTo("21", frozenset({"30", "40"}))]
        assert groups(result[1]) == {"x": "21", "c": "21"}
        assert result[0].rows == result[1].rows

    def test_latest_range_prefers_services_after_the_end(self) -> None:
        known = facts(("10_11.deltacommit", "INSERT", [stat("a")], []), ("20_21.commit", "COMPACT", [stat("a")], []))
        result = select(Incremental(at("05"), Latest()), known)
        assert [s.view for s in result] == [OrderedUpTo("11", frozenset({"20"})), OrderedUpTo("11")]
        assert result[0].commit_range == CommitRange(at("05"), at("11"))

    def test_pending_write_of_layout_1_limits_the_services_after_the_end(self) -> None:
        known = facts(
            ("10.deltacommit", "INSERT", [stat("a")], []),
            ("20.commit", "COMPACT", [stat("a")], []),
            ("30.deltacommit.inflight", "", [], []),
            ("40.commit", "COMPACT", [stat("a")], []),
            layout=1,
        )
        result = select(Incremental(EARLIEST, at("10")), known)
        assert [s.view for s in result] == [OrderedUpTo("10"), OrderedUpTo("10", frozenset({"20"}))]
        assert {type(s.rows) for s in result} == {AllRows} and {s.groups for s in result} == {None}

    def test_time_travel_goes_by_requested_time(self) -> None:
        late = facts(("10_99.deltacommit", "INSERT", [stat("a")], []), ("20_21.deltacommit", "INSERT", [stat("b")], []))
        result = selected(SnapshotAsOf(InstantTime("15")), late)
        assert result.view == RequestedUpTo("15")
        assert result.commit_range == CommitRange(EARLIEST, at("99"))
        assert selected(SnapshotAsOf(InstantTime("05")), late).commit_range.upto == EARLIEST


class TestArchived:
    KNOWN = facts(("20_21.deltacommit", "INSERT", [stat("a")], []), complete_from="18")

    @pytest.mark.parametrize(
        "query", [Incremental(at("17"), at("21")), Incremental(at("01"), Latest()), Incremental(EARLIEST, at("17"))]
    )
    def test_ranges_from_before_the_known_instants_have_expired(self, query: Query) -> None:
        assert reaches_back(query, self.KNOWN)
        with pytest.raises(PositionExpired, match=r"range \(.*archived instants that are gone.*complete from 18"):
            select(query, self.KNOWN)

    @pytest.mark.parametrize(
        "query",
        [Incremental(at("18"), at("21")), Incremental(EARLIEST, at("21")), Incremental(at("05"), at("05")), Snapshot()],
    )
    def test_ranges_within_the_known_instants_have_not_expired(self, query: Query) -> None:
        assert select(query, self.KNOWN) and not reaches_back(query, self.KNOWN)

    def test_time_travel_before_the_first_active_instant_reaches_back(self) -> None:
        with pytest.raises(PositionExpired, match=r"state as of 19 of table t.*gone"):
            select(SnapshotAsOf(InstantTime("19")), self.KNOWN)
        assert select(SnapshotAsOf(InstantTime("20")), self.KNOWN)
