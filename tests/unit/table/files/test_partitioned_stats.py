"""The write stats of some partitions are those that decoding the whole commit gives; others are not decoded."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile
from penstock.table.files.partitioned_stats import PartitionedStats
from penstock.table.timeline.commit_encoder import encode_commit
from penstock.table.timeline.commits import CommitMetadata, parse_commit, parse_commit_lazily
from penstock.table.timeline.instants import Action
from tests.unit.table.timeline.test_commit_encoder import ACTIONS, commits, completed

PARTITIONS = st.sets(st.sampled_from(["", "p=a", "p=β/q=1", "p=none"]))


def differences(whole: CommitMetadata, narrow: CommitMetadata, partitions: Collection[str]) -> list[str]:
    """The fields in which `narrow` is not `whole` with the stats of these partitions only."""
    expected = replace(whole, stats=tuple(stat for stat in whole.stats if stat.partition in partitions))
    fields = ("requested_time", "operation", "compacted", "schema_json", "extra", "stats", "replaced")
    return [name for name in fields if getattr(expected, name) != getattr(narrow, name)]


@given(st.data(), ACTIONS, st.sampled_from([1, 2]), PARTITIONS, PARTITIONS)
def test_stats_of_some_partitions_are_those_of_the_whole_commit(
    data: st.DataObject, action: Action, layout: int, first: set[str], second: set[str]
) -> None:
    metadata = data.draw(commits(action))
    file = encode_commit(metadata, action, layout)
    whole = parse_commit(file, completed(action, layout))
    lazy = parse_commit_lazily(file, completed(action, layout))
    assert set(lazy.partitions) == {stat.partition for stat in metadata.stats}
    for partitions in (first, second, first & second):
        narrow = lazy.within(partitions)
        assert not differences(whole, narrow, partitions)
        assert len(narrow.stats) == len(tuple(narrow.stats))
    assert lazy == whole


def commit_file(**damage: Any) -> bytes:
    stats = {
        name: [{"fileId": "g", "path": f"{name}/g_0-1-2_001.parquet", "numWrites": 1}] for name in ("p=a", "p=b", "p=c")
    }
    stats["p=c"][0].update(damage)
    return json.dumps({"partitionToWriteStats": stats}).encode()


def test_comparison_finds_a_partition_too_few() -> None:
    whole = parse_commit(commit_file(), completed(Action.COMMIT, 1))
    assert differences(whole, whole.within({"p=a"}), {"p=a", "p=b"}) == ["stats"]


def test_only_the_stats_of_the_partitions_are_decoded() -> None:
    commit = parse_commit_lazily(commit_file(), completed(Action.COMMIT, 1))
    assert isinstance(commit.stats, PartitionedStats)
    assert [stat.partition for stat in commit.within({"p=b"}).stats] == ["p=b"]
    assert list(commit.stats.raw(1)) == ["g", "g"]
    commit.decode()
    assert list(commit.stats.raw(1)) == []


def test_damaged_stat_is_an_error_when_its_partition_is_used() -> None:
    commit = parse_commit_lazily(commit_file(numWrites="many"), completed(Action.COMMIT, 1))
    assert len(commit.within({"p=a", "p=b"}).stats) == 2
    for damaged in (commit.within({"p=a", "p=b", "p=c"}), commit.within({"p=c"})):
        with pytest.raises(CorruptFile, match=r"partitionToWriteStats\[p=c\].of\[0\].numWrites"):
            tuple(damaged.stats)


def test_stat_that_is_no_record_is_an_error_at_once() -> None:
    file = json.dumps({"partitionToWriteStats": {"p=a": [], "p=b": [7]}}).encode()
    with pytest.raises(CorruptFile, match=r"partitionToWriteStats\[p=b\].of\[0\]: got '7', expected a record"):
        parse_commit_lazily(file, completed(Action.COMMIT, 1))


@pytest.mark.parametrize("decode_first", [False, True])
def test_file_of_another_writer_is_found_without_decoding(decode_first: bool) -> None:
    path = "p=c/orders_20260101000000000_hudiext"
    for file, expected in ((commit_file(path=path), True), (commit_file(), False)):
        commit = parse_commit_lazily(file, completed(Action.COMMIT, 1))
        if decode_first:
            commit.decode()
        assert commit.has_external_files is expected
