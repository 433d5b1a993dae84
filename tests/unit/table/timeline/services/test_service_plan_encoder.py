"""Plans of compactions and clusterings: round trips, and the fields of Hudi's own plans."""

from __future__ import annotations

import io
import re
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.instants import Instant, parse_instant_file
from penstock.table.timeline.services.plans import (
    ClusteringGroup,
    ClusteringSlice,
    CompactionGroup,
    RequestedReplace,
    parse_compaction_plan,
    parse_requested_replace,
)
from penstock.table.timeline.services.service_plan_encoder import (
    InputSize,
    encode_clustering_plan,
    encode_compaction_plan,
)

PARTITIONS = st.sampled_from(["", "p=a", "p=β/q=b c"])
FILE_IDS = st.sampled_from(["8d2f6c37-7c7d-47a0-b032-54bc196b1bed-0", "00000000-1"])
BASES = st.sampled_from(["", "f-0_0-1-2_20260131235959123.parquet"])
LOGS = st.lists(st.sampled_from([".f-0_1.log.1_0-1-2", ".f-0_1.log.2_0-1-2"]), max_size=3).map(tuple)
SIZES = st.builds(
    InputSize, base_bytes=st.integers(0, 2**40), log_files=st.integers(0, 99), log_bytes=st.integers(0, 2**40)
)
COMPACTED = st.builds(CompactionGroup, PARTITIONS, FILE_IDS, st.sampled_from(["", "001"]), BASES, LOGS)
CLUSTERED = st.lists(st.builds(ClusteringSlice, PARTITIONS, FILE_IDS, BASES, LOGS), min_size=1, max_size=3).map(
    lambda slices: ClusteringGroup(tuple(slices))
)
PATHS = st.sampled_from(["/lake/t", "file:///lake/t/", "/a b"])


def instant_of(name: str, layout: int = 2) -> Instant:
    instant = parse_instant_file(name, layout)
    assert instant is not None
    return instant


COMPACTION = instant_of("005.compaction.requested")


@given(st.lists(st.tuples(COMPACTED, SIZES), max_size=4), st.sets(PARTITIONS))
def test_compaction_plan_is_decoded_from_its_file(
    groups: list[tuple[CompactionGroup, InputSize]], left_out: set[str]
) -> None:
    data = encode_compaction_plan(groups, left_out)
    assert parse_compaction_plan(data, COMPACTION) == tuple(group for group, _ in groups)
    assert fields_of(data)["missingSchedulePartitions"] == sorted(left_out)


@pytest.mark.parametrize("name", ["005.clustering.requested", "005.replacecommit.requested"])
@given(groups=st.lists(st.tuples(CLUSTERED, SIZES), max_size=3), sort_by=st.sampled_from([(), ("a",), ("a", "β")]))
def test_clustering_plan_is_decoded_from_its_file(
    groups: list[tuple[ClusteringGroup, InputSize]], sort_by: tuple[str, ...], name: str
) -> None:
    data = encode_clustering_plan(groups, sort_by, "/lake/t", ["p"])
    inputs = {(item.partition, item.file_id) for group, _ in groups for item in group.slices}
    assert parse_requested_replace(data, instant_of(name)) == RequestedReplace(
        "CLUSTER", True, tuple(sorted(inputs)), tuple(group for group, _ in groups), sort_by
    )
    assert fields_of(data)["clusteringPlan"]["missingSchedulePartitions"] == ["p"]


@pytest.mark.parametrize("name", ["a/..", "..", "x/\x00"])
def test_names_that_leave_the_partition_are_refused(name: str) -> None:
    group = CompactionGroup("p", "f-0", "1", name, ())
    data = encode_compaction_plan([(group, InputSize(base_bytes=0, log_files=0, log_bytes=0))])
    with pytest.raises(CorruptFile, match="dataFilePath"):
        parse_compaction_plan(data, COMPACTION)


def fields_of(data: bytes) -> dict[str, Any]:
    return next(iter(fastavro.reader(io.BytesIO(data))))


@pytest.mark.golden
@pytest.mark.parametrize("case", ["A_compaction_pending_v9_h120", "A_compaction_pending_v6_h0150"])
def test_compaction_plan_has_the_fields_of_hudi(golden: Any, case: str) -> None:
    layout = 1 if "_v6_" in case else 2
    (file,) = (golden.table(case) / ".hoodie" / ("" if layout == 1 else "timeline")).glob("*.compaction.requested")
    by_hudi = fields_of(file.read_bytes())
    groups = parse_compaction_plan(file.read_bytes(), instant_of(file.name, layout))
    sizes = [
        InputSize(
            base_bytes=0,
            log_files=int(entry["metrics"]["TOTAL_LOG_FILES"]),
            log_bytes=int(entry["metrics"]["TOTAL_LOG_FILES_SIZE"]),
        )
        for entry in by_hudi["operations"]
    ]
    own = fields_of(encode_compaction_plan(list(zip(groups, sizes, strict=True))))
    assert own == {"missingSchedulePartitions": [], **by_hudi}
    assert all(group.base_file and len(group.logs) > 4 for group in groups)


def base_path(plan: bytes) -> str:
    """The base path with which Hudi wrote the plan."""
    found = re.search(rb"(?:file:)?(?:/\w+)+?/[AB]_\w+(?=/)", plan)
    assert found is not None
    return found[0].decode()


@pytest.mark.golden
@pytest.mark.parametrize("case", ["A_clustering_done_v9_h120", "A_clustering_done_v6_h0150"])
def test_clustering_plan_has_the_fields_of_hudi(golden: Any, case: str) -> None:
    layout = 1 if "_v6_" in case else 2
    pattern = "*.replacecommit.requested" if layout == 1 else "*.clustering.requested"
    (file,) = (golden.table(case) / ".hoodie" / ("" if layout == 1 else "timeline")).glob(pattern)
    by_hudi = fields_of(file.read_bytes())
    groups = parse_requested_replace(file.read_bytes(), instant_of(file.name, layout)).groups
    assert len(groups) == 2 and all(len(group.slices) == 2 for group in groups)
    sizes = [
        InputSize(base_bytes=0, log_files=2, log_bytes=int(entry["metrics"]["TOTAL_LOG_FILES_SIZE"]))
        for entry in by_hudi["clusteringPlan"]["inputGroups"]
    ]
    encoded = encode_clustering_plan(list(zip(groups, sizes, strict=True)), (), base_path(file.read_bytes()))
    own = fields_of(encoded)
    by_hudi["clusteringPlan"] = {"missingSchedulePartitions": [], **by_hudi["clusteringPlan"]}
    assert own == by_hudi
