"""File slices: keys, uncommitted files, views; scripted file groups, and invariants of random ones."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.model.splits import FileRef
from penstock.table.files.names import parse_file_name
from penstock.table.files.slices import (
    CommittedInstants,
    DataFile,
    Everything,
    FileSlice,
    OrderedBefore,
    OrderedThrough,
    OrderedUpTo,
    RequestedUpTo,
    View,
    VisibleFiles,
    group_files,
    hidden_instants,
    instant_is_visible,
    newest_base,
    slice_group,
    visible_files,
)

FG = "fg-0"


def file(name: str, *, listed: bool = True, named_by: str = "", partition: str = "p") -> DataFile:
    parsed = parse_file_name(name)
    assert parsed is not None, name
    return DataFile(
        partition=partition, ref=FileRef(f"{partition}/{name}", 10), name=parsed, listed=listed, named_by=named_by
    )


def base(instant: str, token: str = "0-1-1", **more: object) -> DataFile:
    return file(f"{FG}_{token}_{instant}.parquet", **more)  # type: ignore[arg-type]


def log(instant: str, version: int = 1, token: str = "_0-1-1", suffix: str = "") -> DataFile:
    return file(f".{FG}_{instant}.log.{version}{token}{suffix}")


def requested(*instants: str, before: str = "") -> CommittedInstants:
    """Layout 1."""
    return CommittedInstants(layout=1, order_keys={i: i for i in instants}, archived_before=before)


def completed(before: str = "", **order_keys: str) -> CommittedInstants:
    """Layout 2: `_10="15"` is requested 10, completed 15."""
    return CommittedInstants(
        layout=2, order_keys={key[1:]: value for key, value in order_keys.items()}, archived_before=before
    )


def names(slices: tuple[FileSlice, ...]) -> list[tuple[str, str, list[str]]]:
    return [(s.key, s.base.name.instant if s.base else "", [log.name.instant for log in s.logs]) for s in slices]


def summary(result: VisibleFiles | None) -> tuple[str, list[str]] | None:
    if result is None:
        return None
    return (result.base.name.instant if result.base else "", [log.ref.path.rpartition("/")[2] for log in result.logs])


def log_name(instant: str, version: int = 1) -> str:
    return f".{FG}_{instant}.log.{version}_0-1-1"


class TestLayout1:
    def test_log_belongs_to_the_base_of_its_name(self) -> None:
        slices = slice_group([log("10"), base("20"), base("10"), log("20")], (), requested("10", "20"))
        assert names(slices) == [("10", "10", ["10"]), ("20", "20", ["20"])]

    def test_log_without_base_starts_a_slice(self) -> None:
        slices = slice_group([log("10", 2), log("10", 1)], (), requested("10", "11"))
        assert names(slices) == [("10", "", ["10", "10"])]

    def test_logs_stay_whatever_instant_their_name_tells_since_blocks_are_filtered(self) -> None:
        slices = slice_group([log("10")], (), requested("11"))
        assert names(slices) == [("10", "", ["10"])]

    def test_uncommitted_base_makes_no_slice_and_hides_nothing(self) -> None:
        slices = slice_group([base("10"), log("10"), base("12")], (), requested("10", "13"))
        assert names(slices) == [("10", "10", ["10"])]

    def test_versions_are_numbers_and_a_missing_token_comes_first(self) -> None:
        files = [log("10", 10), log("10", 9, token=""), log("10", 9), log("10", 1)]
        (one,) = slice_group(files, (), requested("10"))
        assert [item.ref.path for item in one.logs] == [files[i].ref.path for i in (3, 1, 2, 0)]


class TestLayout2:
    def test_log_goes_by_its_completion_not_by_its_request(self) -> None:
        """The log was requested before the compaction at 20 and completed after it."""
        known = completed(_10="11", _15="25", _20="22")
        slices = slice_group([base("10"), log("15"), base("20")], (), known)
        assert names(slices) == [("10", "10", []), ("20", "20", ["15"])]

    def test_logs_alone_share_the_first_ones_slice(self) -> None:
        slices = slice_group([log("12"), log("10")], (), completed(_10="14", _12="13"))
        assert names(slices) == [("10", "", ["10", "12"])]

    def test_uncommitted_base_does_not_take_committed_logs_with_it(self) -> None:
        """Hudi hides log 14 in the slice of base 12, whose writer is pending."""
        slices = slice_group([base("10"), base("12"), log("12"), log("14")], (), completed(_10="11", _14="15"))
        assert names(slices) == [("10", "10", ["14"])]

    def test_pending_compaction_is_a_key_and_its_own_base_is_ignored(self) -> None:
        known = completed(_10="11", _12="13", _30="31")
        slices = slice_group([base("10"), log("12"), base("20"), log("30")], ("20",), known)
        assert names(slices) == [("10", "10", ["12"]), ("20", "", ["30"])]
        everything = visible_files(slices, Everything(), known)
        assert summary(everything) == ("10", [log_name("12"), log_name("30")])
        assert summary(newest_base(slices, Everything(), known)) == ("10", [])

    def test_archived_instants_are_committed_and_may_lack_a_completion_time(self) -> None:
        slices = slice_group([base("10"), log("12")], (), completed(before="20", _20="21"))
        assert names(slices) == [("10", "10", ["12"])]

    def test_archived_log_goes_by_the_completion_time_that_history_knows(self) -> None:
        slices = slice_group([base("10"), base("14"), log("12")], (), completed(before="20", _12="16"))
        assert names(slices) == [("10", "10", []), ("14", "14", ["12"])]


class TestViews:
    KNOWN = completed(_10="11", _12="30", _15="16", _20="22", _25="26")
    SLICES = slice_group([base("10"), log("12"), log("15"), base("20"), log("25")], (), KNOWN)

    def test_slices(self) -> None:
        assert names(self.SLICES) == [("10", "10", ["15"]), ("20", "20", ["12", "25"])]

    @pytest.mark.parametrize(
        ("order_key", "expected"),
        [
            ("10", None),
            ("11", ("10", [])),
            ("16", ("10", [log_name("15")])),
            ("21", ("10", [log_name("15")])),
            ("22", ("20", [])),
            ("26", ("20", [log_name("25")])),
            ("30", ("20", [log_name("12"), log_name("25")])),
        ],
    )
    def test_by_order_key(self, order_key: str, expected: object) -> None:
        assert summary(visible_files(self.SLICES, OrderedUpTo(order_key), self.KNOWN)) == expected

    @pytest.mark.parametrize(
        ("instant", "expected"),
        [
            ("09", None),
            ("10", ("10", [])),
            ("12", ("10", [])),
            ("15", ("10", [log_name("15")])),
            ("20", ("20", [log_name("12")])),
            ("25", ("20", [log_name("12"), log_name("25")])),
        ],
    )
    def test_as_of_a_requested_time(self, instant: str, expected: object) -> None:
        """The log of 12 is after the compaction at 20: as of 12 it is not visible, although it was requested before."""
        assert summary(visible_files(self.SLICES, RequestedUpTo(instant), self.KNOWN)) == expected

    def test_base_after_the_view_continues_the_slice_before_it(self) -> None:
        """Seen from 26, the compaction at 20 (completed 40) is as if pending: its logs lie over the older base."""
        known = completed(_10="11", _15="16", _20="40", _25="26")
        slices = slice_group([base("10"), log("15"), base("20"), log("25")], (), known)
        assert summary(visible_files(slices, OrderedUpTo("26"), known)) == ("10", [log_name("15"), log_name("25")])
        assert summary(visible_files(slices, OrderedUpTo("40"), known)) == ("20", [log_name("25")])

    def test_service_after_the_view_can_be_included(self) -> None:
        view = OrderedUpTo("16", frozenset({"20"}))
        assert summary(visible_files(self.SLICES, view, self.KNOWN)) == ("20", [])

    def test_logs_of_later_slices_keep_slice_order(self) -> None:
        """An early log that completed in a later slice is after the logs of the earlier slice: slices order first."""
        known = completed(_10="11", _12="30", _15="16")
        slices = slice_group([base("10"), log("15"), log("12")], ("20",), known)
        assert summary(visible_files(slices, Everything(), known)) == ("10", [log_name("15"), log_name("12")])

    def test_read_optimized_skips_what_the_view_does_not_show(self) -> None:
        assert summary(newest_base(self.SLICES, OrderedUpTo("21"), self.KNOWN)) == ("10", [])
        assert newest_base(self.SLICES, RequestedUpTo("09"), self.KNOWN) is None
        only_logs = slice_group([log("25")], (), self.KNOWN)
        assert newest_base(only_logs, Everything(), self.KNOWN) is None

    def test_key_is_the_newest_slice_that_went_in(self) -> None:
        known = completed(_10="11", _30="31")
        slices = slice_group([base("10"), log("30")], ("20",), known)
        result = visible_files(slices, Everything(), known)
        assert result is not None and result.key == "20"
        assert [item.name.instant for item in result.files] == ["10", "30"]


def test_of_two_bases_of_one_instant_the_one_its_commit_names_counts() -> None:
    """The file of a second attempt of a task exists."""
    named = base("10", token="0-1-1", named_by="10")
    other = base("10", token="0-1-2")
    for files in ([named, other], [other, named]):
        (one,) = slice_group(files, (), requested("10"))
        assert one.base == named


def test_change_logs_enter_no_slice() -> None:
    files = [base("10"), log("10"), log("12", suffix=".cdc")]
    groups = group_files(files)
    assert groups == {("p", FG): files[:2]}
    assert names(slice_group(files, (), requested("10", "12"))) == [("10", "10", ["10"])]


def test_one_file_id_in_two_partitions_is_two_groups() -> None:
    files = [file(f"{FG}_0-1-1_10.parquet", partition=partition) for partition in ("a", "b")]
    assert list(group_files(files)) == [("a", FG), ("b", FG)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[DataFile], CommittedInstants, tuple[str, ...]]:
    """A group's files at instants 10..99, some uncommitted, some pending compactions; layout 1 or 2."""
    layout = draw(st.sampled_from((1, 2)))
    instants = draw(st.lists(st.integers(10, 99).map(str), unique=True, min_size=1, max_size=8))
    committed = draw(st.sets(st.sampled_from(instants)))
    keys = {i: i if layout == 1 else str(int(i) + draw(st.integers(0, 40))).rjust(2, "0") for i in committed}
    keys = {i: min(key, "99") for i, key in keys.items()}
    files = [base(i) if draw(st.booleans()) else log(i) for i in instants]
    pending = tuple(draw(st.sets(st.sampled_from([str(n) for n in range(10, 100, 7)]), max_size=2)) - committed)
    return files, CommittedInstants(layout=layout, order_keys=keys, archived_before=""), pending


@given(histories(), st.randoms(use_true_random=False))
def test_slicing_neither_depends_on_the_order_of_files_nor_loses_one(
    history: tuple[list[DataFile], CommittedInstants, tuple[str, ...]], shuffler: random.Random
) -> None:
    files, known, pending = history
    slices = slice_group(files, pending, known)
    mixed = list(files)
    shuffler.shuffle(mixed)
    assert slice_group(mixed, pending, known) == slices
    assert [s.key for s in slices] == sorted({s.key for s in slices})
    remaining = [f for s in slices for f in ([s.base] if s.base else []) + list(s.logs)]
    expected = [f for f in files if known.holds(f.name.instant) or (known.layout == 1 and ".log." in f.ref.path)]
    assert sorted(f.ref.path for f in remaining) == sorted(f.ref.path for f in expected)


@given(histories(), st.integers(10, 99).map(str))
def test_view_shows_one_base_and_no_file_after_it(
    history: tuple[list[DataFile], CommittedInstants, tuple[str, ...]], order_key: str
) -> None:
    files, known, pending = history
    result = visible_files(slice_group(files, pending, known), OrderedUpTo(order_key), known)
    if result is None:
        return
    assert all(known.order_key(f.name.instant) <= order_key for f in result.files)
    bases = [f for f in files if ".parquet" in f.ref.path and known.holds(f.name.instant)]
    visible = [f.name.instant for f in bases if known.order_key(f.name.instant) <= order_key]
    assert (result.base.name.instant if result.base else None) == max(visible, default=None)


@pytest.mark.parametrize(
    "view",
    [
        Everything(),
        RequestedUpTo("002"),
        OrderedUpTo("013"),
        OrderedUpTo("012", frozenset({"003", "005"})),
        OrderedBefore("013", "003"),
        OrderedThrough("013", "003"),
    ],
)
def test_hidden_instants_are_those_that_the_view_does_not_show(view: View) -> None:
    order_keys = {"001": "014", "002": "012", "003": "013", "004": "013"}
    committed = CommittedInstants(layout=2, order_keys=order_keys, archived_before="001")
    times = [*order_keys, "000", "005"]  # without an order key: archived, or of another timeline
    hidden = [time for time in times if not instant_is_visible(time, view, committed)]
    assert hidden_instants(times, view, committed) == hidden
