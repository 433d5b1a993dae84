"""Which instants are archived, and which files of the history are merged and kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError
from penstock.table.timeline.active import Timeline, build_timeline
from penstock.table.timeline.archive_v2 import HistoryFile
from penstock.table.timeline.instants import WRITE_ACTIONS, Action, parse_instant_file
from penstock.writer.table_services.archival import (
    ArchivePolicy,
    files_to_merge,
    instants_to_archive,
    manifests_to_keep,
)

SMALL = ArchivePolicy(keep_min=2, keep_max=3, delta_commits=1)


def timeline_of(*names: str, layout: int = 1) -> Timeline:
    files = [parse_instant_file(name, layout) for name in names]
    return build_timeline(layout, [file for file in files if file])


def commits(count: int, action: str = "commit") -> list[str]:
    return [f"{n}0.{action}" for n in range(1, count + 1)]


def archived(
    timeline: Timeline,
    policy: ArchivePolicy = SMALL,
    *,
    is_mor: bool = False,
    not_cleaned: tuple[str, ...] = (),
    metadata_compaction: str | None = None,
) -> list[str]:
    instants = instants_to_archive(
        timeline, policy, is_merge_on_read=is_mor, not_cleaned=not_cleaned, metadata_compaction=metadata_compaction
    )
    return [item.requested_time for item in instants]


def test_writes_that_a_reader_has_not_read_stay() -> None:
    timeline = timeline_of(*commits(6))
    for unread, expected in (("", 4), ("30", 2), ("10", 0), ("0", 0), ("90", 4)):
        instants = instants_to_archive(timeline, SMALL, is_merge_on_read=False, not_cleaned=(), keep_from=unread)
        assert len(instants) == expected


def test_oldest_writes_go_if_there_are_too_many() -> None:
    assert archived(timeline_of(*commits(3))) == []
    assert archived(timeline_of(*commits(5))) == ["10", "20", "30"]
    assert archived(timeline_of(*commits(5)), ArchivePolicy(keep_min=4, keep_max=5)) == []


def test_writes_from_before_the_earliest_pending_one_stay() -> None:
    assert archived(timeline_of(*commits(6), "35.commit.inflight")) == ["10", "20"]
    assert archived(timeline_of(*commits(6), "35.compaction.requested")) == ["10", "20"]
    assert archived(timeline_of(*commits(6), "05.commit.requested")) == []
    assert archived(timeline_of(*commits(6), "15.commit.requested")) == []
    assert archived(timeline_of(*commits(6), "15.rollback.requested")) == ["10", "20", "30", "40"]


def test_writes_from_the_first_savepoint_on_stay() -> None:
    assert archived(timeline_of(*commits(6), "30.savepoint", "20.savepoint")) == ["10"]


def test_writes_that_no_compaction_of_the_metadata_table_merged_stay() -> None:
    """By their completion, as Hudi's archiver."""
    files = ("10_11.commit", "20_35.commit", "30_31.commit", "40_41.commit", "50_51.commit", "60_61.commit")
    timeline = timeline_of(*files, layout=2)
    assert archived(timeline) == ["10", "20", "30", "40"]
    assert archived(timeline, metadata_compaction="") == [], "it was never compacted"
    assert archived(timeline, metadata_compaction="33") == ["10"]
    assert archived(timeline, metadata_compaction="36") == ["10", "20", "30"]
    assert archived(timeline, metadata_compaction="70") == ["10", "20", "30", "40"]


def test_replacements_that_are_not_cleaned_stay() -> None:
    timeline = timeline_of(*commits(2), "30.replacecommit", *commits(7)[3:])
    assert archived(timeline, not_cleaned=("30",)) == ["10", "20"]
    assert archived(timeline, not_cleaned=("99",)) == ["10", "20", "30", "40", "50"]


def test_deltacommits_since_the_last_compaction_stay() -> None:
    deltas = timeline_of(*commits(9, "deltacommit"))
    assert archived(deltas, ArchivePolicy(keep_min=2, keep_max=3, delta_commits=5), is_mor=True) == [
        "10",
        "20",
        "30",
        "40",
    ]
    assert len(archived(deltas, ArchivePolicy(keep_min=2, keep_max=3, delta_commits=5))) == 7
    compacted = timeline_of(*commits(9, "deltacommit"), "35.commit", "45.commit")
    policy = ArchivePolicy(keep_min=2, keep_max=3, delta_commits=6)
    assert archived(compacted, policy, is_mor=True) == ["10", "20", "30", "35", "40"]
    layout_2 = timeline_of("10_11.deltacommit", "20_45.deltacommit", "30_31.deltacommit", "40_41.commit", layout=2)
    assert archived(layout_2, ArchivePolicy(keep_min=1, keep_max=2, delta_commits=1), is_mor=True) == ["10"]


def test_cleans_and_rollbacks_before_the_last_archived_write_go_too() -> None:
    names = ["11.clean", "12.rollback", "31.clean", "13.clean.requested", "14.restore", "15.savepoint"]
    assert archived(timeline_of(*commits(5), *names[:3])) == ["10", "11", "12", "20", "30"]
    assert archived(timeline_of(*commits(5), *names[:4])) == ["10", "11", "12", "20", "30"]
    assert "14" not in archived(timeline_of(*commits(5), names[4]))


def test_nothing_goes_during_a_restore() -> None:
    assert archived(timeline_of(*commits(9), "95.restore.inflight")) == []


@pytest.mark.parametrize(("low", "high", "deltas"), [(0, 5, 1), (5, 5, 1), (1, 2, 0)])
def test_policy_without_sense_is_refused(low: int, high: int, deltas: int) -> None:
    with pytest.raises(ConfigurationError, match="expected 1 <= keep_min < keep_max"):
        ArchivePolicy(keep_min=low, keep_max=high, delta_commits=deltas)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    names = []
    for time in range(100, 100 + draw(st.integers(0, 20))):
        action = draw(st.sampled_from(["commit", "deltacommit", "replacecommit", "clean", "rollback", "savepoint"]))
        pending = action != "savepoint" and draw(st.integers(0, 9)) == 0
        state = ".requested" if pending else ""
        names.append(f"{time}.{action}{state}" if pending else f"{time}_{time + draw(st.integers(0, 5))}.{action}")
    return timeline_of(*names, layout=2)


@given(timelines(), st.integers(1, 5), st.booleans())
def test_no_pending_write_becomes_older_than_the_timeline(timeline: Timeline, low: int, is_mor: bool) -> None:
    """What is archived is a prefix of the completed writes, and every pending write still has one before it, or is the
    first: so no file of it counts as committed."""
    policy = ArchivePolicy(keep_min=low, keep_max=low + 2, delta_commits=2)
    gone = instants_to_archive(timeline, policy, is_merge_on_read=is_mor, not_cleaned=())
    writes = [item for item in gone if item.action in WRITE_ACTIONS]
    assert writes == list(timeline.completed_writes[: len(writes)])
    left = Timeline(2, tuple(item for item in timeline.instants if item not in gone))
    assert all(item.requested_time >= left.first_active for item in timeline.pending)
    assert len(left.completed_writes) >= min(low, len(timeline.completed_writes))
    assert all(item.is_completed and item.action is not Action.SAVEPOINT for item in gone)
    assert not gone or max(item.requested_time for item in gone) == writes[-1].requested_time


def history(count: int, layer: int = 0, size: int = 1) -> list[HistoryFile]:
    return [HistoryFile(str(n), str(n), layer, size) for n in range(100, 100 + count)]


def test_ten_files_of_a_layer_are_merged() -> None:
    assert files_to_merge(history(9), 0) == ()
    assert files_to_merge(list(reversed(history(12))), 0) == tuple(history(10))
    assert files_to_merge([*history(9), *history(10, layer=1)], 0) == ()
    assert len(files_to_merge([*history(9), *history(10, layer=1)], 1)) == 10


def test_large_files_are_not_merged_again() -> None:
    large = 1001 << 20
    assert files_to_merge(history(12, size=large), 0) == ()
    assert files_to_merge(history(12, size=400 << 20), 0) == tuple(history(3, size=400 << 20))
    first = [HistoryFile("1", "1", 0, large), *history(11)]
    assert files_to_merge(first, 0) == tuple(history(10))


def test_last_manifests_are_kept() -> None:
    assert manifests_to_keep((5, 1, 2, 3, 4), 0) == (3, 4, 5)
    assert manifests_to_keep((1, 2, 3, 4, 5), 1) == (2, 3, 4, 5)
    assert manifests_to_keep((7,), 0) == (7,)
