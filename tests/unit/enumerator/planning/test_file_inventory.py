"""Files from listings and metadata: sizes that both know (the greater one for logs, the listing's for the rest), and
partitions that are left out."""

from __future__ import annotations

import pytest

from penstock.enumerator.planning.file_inventory import CleanedFile, files_of_groups
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.model.positions import InstantTime
from penstock.table.timeline.active import build_timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from tests.unit.enumerator.planning.planner_model import listed_file

LOG, BASE, OLDER = ".f-0_001.log.1_0-1-2", "f-0_0-1-2_001.parquet", "f-0_0-1-1_000.parquet"


def stat(name: str, size_bytes: int) -> WriteStat:
    return WriteStat(
        partition="p",
        file_id="f-0",
        path=f"p/{name}",
        num_writes=1,
        num_deletes=0,
        num_inserts=1,
        num_update_writes=0,
        file_size_bytes=size_bytes,
        base_file="",
        log_files=(),
        prev_commit="",
    )


def facts(*stats: WriteStat) -> TimelineFacts:
    commit = CommitMetadata(
        requested_time=InstantTime("002"),
        operation="UPSERT",
        compacted=False,
        schema_json="",
        extra={},
        stats=stats,
        replaced=(),
    )
    return TimelineFacts(
        table="t",
        timeline=build_timeline(1, []),
        commits={"002": commit},
        pending_clusterings=frozenset(),
        complete_from="",
    )


@pytest.mark.parametrize(
    ("listed", "stated", "lag", "expected"),
    [(100, 150, True, 150), (100, 90, True, 100), (100, 150, False, 100), (100, None, True, 100)],
)
def test_log_has_the_greater_size_if_sizes_may_lag(listed: int, stated: int | None, lag: bool, expected: int) -> None:
    listing = {"p": [listed_file("p", name, listed) for name in (LOG, BASE)]}
    stats = [] if stated is None else [stat(LOG, stated), stat(BASE, stated)]
    result = files_of_groups(facts(*stats), listing, (), None, sizes_may_lag=lag)
    assert {file.ref.path: file.ref.size_bytes for file in result} == {f"p/{LOG}": expected, f"p/{BASE}": listed}


def test_files_of_pruned_partitions_are_left_out_whatever_names_them() -> None:
    listing = {"p": [listed_file("p", BASE, 1)]}
    cleaned = [CleanedFile("p", OLDER, "003")]
    known = facts(stat(LOG, 5))
    result = files_of_groups(known, listing, cleaned, None)
    assert {file.ref.path for file in result} == {f"p/{BASE}", f"p/{LOG}", f"p/{OLDER}"}
    assert files_of_groups(known, listing, cleaned, None, {"p"}) == ()
