"""The active timeline: grouping of files, committed or not, order keys."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import FormatError, InvariantViolation
from penstock.table.config.properties import TableProperties, parse_table_properties
from penstock.table.storage.filesystem import open_storage
from penstock.table.timeline.active import Timeline, build_timeline, list_timeline, timeline_of
from penstock.table.timeline.instants import Action, State, parse_instant_file


def _timeline(layout: int, names: Iterable[str]) -> Timeline:
    parsed = (parse_instant_file(name, layout) for name in names)
    return build_timeline(layout, [item for item in parsed if item is not None])


def load_timeline(base: pathlib.Path, properties: TableProperties) -> Timeline:
    return timeline_of(list_timeline(open_storage(str(base)), properties), properties)


def is_committed(timeline: Timeline, requested_time: str) -> bool:
    return timeline.completed_write(requested_time) is not None or requested_time < timeline.first_active


def completion_of(timeline: Timeline, requested_time: str) -> str | None:
    write = timeline.completed_write(requested_time)
    return write.completion_time if write else None


LAYOUT_1 = [
    "001.commit.requested",
    "001.inflight",
    "001.commit",
    "002.compaction.requested",
    "002.compaction.inflight",
    "002.commit",
    "003.logcompaction.requested",
    "003.deltacommit",
    "004.replacecommit.requested",
    "004.replacecommit.inflight",
    "005.clean",
    "006.deltacommit.requested",
    "006.deltacommit.inflight",
    "007.compaction.requested",
    "008.rollback.requested",
    "009.inflight",
    "hoodie.properties",
]
LAYOUT_2 = [
    "101.deltacommit.requested",
    "101.deltacommit.inflight",
    "101_150.deltacommit",
    "102.clustering.requested",
    "102.clustering.inflight",
    "102_110.replacecommit",
    "103.clustering.requested",
    "104.replacecommit.requested",
    "105_106.clean",
    "101_160.savepoint",
]


def test_layout_1_the_highest_state_of_an_instant_counts() -> None:
    timeline = _timeline(1, LAYOUT_1)
    assert [i.file_name for i in timeline.completed_writes] == ["001.commit", "002.commit", "003.deltacommit"]
    assert [(i.requested_time, i.action, i.state) for i in timeline.pending] == [
        ("004", Action.REPLACE_COMMIT, State.INFLIGHT),
        ("006", Action.DELTA_COMMIT, State.INFLIGHT),
        ("007", Action.COMPACTION, State.REQUESTED),
        ("009", Action.COMMIT, State.INFLIGHT),
    ]
    assert [i.file_name for i in timeline.completed_cleans] == ["005.clean"]
    assert len(timeline.instants) == 9


def test_layout_1_order_key_is_the_requested_time() -> None:
    timeline = _timeline(1, LAYOUT_1)
    assert [timeline.order_key(i) for i in timeline.completed_writes] == ["001", "002", "003"]
    assert completion_of(timeline, "001") is None


def test_layout_2_order_key_is_the_completion_time() -> None:
    timeline = _timeline(2, LAYOUT_2)
    assert [(i.requested_time, timeline.order_key(i)) for i in timeline.completed_writes] == [
        ("101", "150"),
        ("102", "110"),
    ]
    assert (completion_of(timeline, "101"), completion_of(timeline, "103")) == ("150", None)
    assert completion_of(timeline, "105") is None, "a clean writes no data"
    assert [(i.requested_time, i.action) for i in timeline.pending] == [
        ("103", Action.CLUSTERING),
        ("104", Action.REPLACE_COMMIT),
    ]
    with pytest.raises(InvariantViolation):
        timeline.order_key(timeline.pending[0])


def test_first_active_skips_savepointed_instants() -> None:
    timeline = _timeline(2, LAYOUT_2)
    assert timeline.first_active == "102"
    assert is_committed(timeline, "101"), "completed"
    assert is_committed(timeline, "100") and is_committed(timeline, "0999"), "archived"
    assert not is_committed(timeline, "103"), "pending"
    assert not is_committed(timeline, "999"), "never was"
    assert [i.requested_time for i in timeline.savepoints] == ["101"]


def test_first_active_counts_pending_writes() -> None:
    timeline = _timeline(1, ["002.deltacommit", "001.deltacommit.requested", "000.clean"])
    assert timeline.first_active == "001"
    assert not is_committed(timeline, "001") and is_committed(timeline, "0001")


def test_empty_timeline_shows_nothing() -> None:
    timeline = _timeline(2, [])
    assert (timeline.first_active, timeline.completed_writes, timeline.pending) == ("", (), ())
    assert not is_committed(timeline, "0") and not is_committed(timeline, "")


def test_first_active_is_the_first_savepoint_if_all_writes_have_one() -> None:
    """As after an archival and a restore: the rows of archived writes stay (`interop/test_restore.py`)."""
    timeline = _timeline(1, ["001.commit", "001.savepoint", "003.commit", "003.savepoint"])
    assert timeline.first_active == "001" and is_committed(timeline, "001")
    assert is_committed(timeline, "000") and not is_committed(timeline, "002")


def test_two_completed_files_of_one_instant_are_an_error() -> None:
    with pytest.raises(FormatError, match=r"001 is completed twice: got 001_002.commit and 001_003.commit"):
        _timeline(2, ["001_002.commit", "001_003.commit"])


@given(st.permutations(LAYOUT_1), st.permutations(LAYOUT_2))
def test_order_of_the_listing_does_not_matter(first: list[str], second: list[str]) -> None:
    assert _timeline(1, first) == _timeline(1, LAYOUT_1)
    assert _timeline(2, second) == _timeline(2, LAYOUT_2)


@pytest.mark.parametrize(("name", "error"), [("1_2.commit.done", FormatError), ("1.fly", FormatError)])
def test_error_of_loading_names_file_and_table(tmp_path: pathlib.Path, name: str, error: type[Exception]) -> None:
    folder = tmp_path / ".hoodie" / "timeline"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(b"")
    properties = parse_table_properties(b"hoodie.table.name=t\nhoodie.table.version=9\n", str(tmp_path))
    with pytest.raises(error) as caught:
        load_timeline(tmp_path, properties)
    assert name in str(caught.value) and str(tmp_path) in str(caught.value)


def test_missing_timeline_folder_is_a_table_without_commits(tmp_path: pathlib.Path) -> None:
    properties = parse_table_properties(b"hoodie.table.name=t\nhoodie.table.version=9\n", str(tmp_path))
    assert load_timeline(tmp_path, properties).instants == ()


def test_completed_file_without_completion_time_completed_when_it_was_last_changed(tmp_path: pathlib.Path) -> None:
    """As Hudi takes what an upgrade to layout 2 left."""
    folder = tmp_path / ".hoodie" / "timeline"
    folder.mkdir(parents=True)
    left = folder / "20260101000000000.deltacommit"
    left.write_bytes(b"")
    os.utime(left, ns=(0, 1_767_225_600_123_999_999))
    text = b"hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.timeline.timezone=UTC\n"
    (result,) = load_timeline(tmp_path, parse_table_properties(text, str(tmp_path))).instants
    assert (result.requested_time, result.completion_time) == ("20260101000000000", "20260101000000123")
    assert result.file_name == left.name
