"""Plans and clean metadata: groups and names only, whatever paths the writer put there."""

from __future__ import annotations

import io
import json
import pathlib
from typing import Any

import fastavro
import pytest

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.instants import Instant, parse_instant_file
from penstock.table.timeline.services.plans import (
    CleanedPartition,
    ClusteringGroup,
    ClusteringSlice,
    CompactionGroup,
    RequestedReplace,
    parse_clean,
    parse_compaction_plan,
    parse_requested_replace,
)


def _instant(name: str, layout: int = 2) -> Instant:
    result = parse_instant_file(name, layout)
    assert result is not None
    return result


COMPACTION = _instant("005.compaction.requested")
CLUSTERING = _instant("006.clustering.requested")
CLEAN = _instant("007_008.clean")


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def test_compaction_plan() -> None:
    operation = {
        "baseInstantTime": "001",
        "deltaFilePaths": ["file:/other/host/p=a/.f-0_002.log.1_0-1-2"],
        "dataFilePath": "file:/other/host/p=a/f-0_0-1-2_001.parquet",
        "fileId": "f-0",
        "partitionPath": "p=a",
    }
    plan = {"operations": [operation, {"fileId": "g-0", "partitionPath": "", "baseInstantTime": None}], "version": 2}
    assert parse_compaction_plan(_json(plan), COMPACTION) == (
        CompactionGroup("p=a", "f-0", "001", "f-0_0-1-2_001.parquet", (".f-0_002.log.1_0-1-2",)),
        CompactionGroup("", "g-0", ""),
    )
    assert parse_compaction_plan(_json({"operations": None}), COMPACTION) == ()


def test_requested_clustering() -> None:
    part = {"dataFilePath": "s3://elsewhere/p=a/f-0.parquet", "fileId": "f-0", "partitionPath": "p=a"}
    other = {"fileId": "e-0", "partitionPath": "p=a", "deltaFilePaths": ["/abs"]}
    plan = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": [part]}, {"slices": [other]}]}}
    assert parse_requested_replace(_json(plan), CLUSTERING) == RequestedReplace(
        "CLUSTER",
        True,
        (("p=a", "e-0"), ("p=a", "f-0")),
        (
            ClusteringGroup((ClusteringSlice("p=a", "f-0", "f-0.parquet"),)),
            ClusteringGroup((ClusteringSlice("p=a", "e-0", "", ("abs",)),)),
        ),
    )


@pytest.mark.parametrize(
    ("data", "operation"),
    [
        (b"", ""),
        (_json({"operationType": None, "clusteringPlan": None}), ""),
        (b'{"operationType":"insert"}', "INSERT"),
    ],
)
def test_requested_replace_without_plan_is_no_clustering(data: bytes, operation: str) -> None:
    assert parse_requested_replace(data, _instant("006.replacecommit.requested")) == RequestedReplace(
        operation, False, ()
    )


def test_clean_keeps_names_only() -> None:
    cleaned = {
        "p=b": {"successDeleteFiles": [], "isPartitionDeleted": True},
        "p=a": {"successDeleteFiles": ["file:/host/p=a/b.parquet", "/abs/p=a/a.parquet", "c.parquet"]},
    }
    result = parse_clean(_json({"earliestCommitToRetain": "003", "partitionMetadata": cleaned}), CLEAN)
    assert (result.earliest_to_retain, result.last_completed) == ("003", "")
    assert result.partitions == (
        CleanedPartition("p=a", ("a.parquet", "b.parquet", "c.parquet"), False),
        CleanedPartition("p=b", (), True),
    )


@pytest.mark.parametrize(
    ("call", "instant", "value"),
    [
        (parse_compaction_plan, COMPACTION, {"operations": [{"partitionPath": "p=a"}]}),
        (parse_compaction_plan, COMPACTION, {"operations": [{"partitionPath": "../p", "fileId": "f"}]}),
        (parse_compaction_plan, COMPACTION, {"operations": ["x"]}),
        (parse_requested_replace, CLUSTERING, {"operationType": "CLUSTER"}),
        (parse_requested_replace, CLUSTERING, {"clusteringPlan": 5}),
        (parse_requested_replace, CLUSTERING, {"clusteringPlan": {"inputGroups": [{"slices": [{}]}]}}),
        (parse_clean, CLEAN, {}),
        (parse_clean, CLEAN, {"partitionMetadata": {"/p": {}}}),
        (parse_clean, CLEAN, {"partitionMetadata": {"p": {"successDeleteFiles": ["p/"]}}}),
        (parse_clean, CLEAN, {"partitionMetadata": {"p": None}}),
    ],
)
def test_damage_names_the_file(call: Any, instant: Instant, value: object) -> None:
    with pytest.raises(CorruptFile, match=instant.file_name):
        call(_json(value), instant, "/base")


def test_empty_plan_or_clean_is_corrupt() -> None:
    for call, instant in ((parse_compaction_plan, COMPACTION), (parse_clean, CLEAN)):
        with pytest.raises(CorruptFile, match="empty"):
            call(b"", instant)


def test_truncated_avro_plan_is_corrupt() -> None:
    fields = [{"name": "fileId", "type": "string"}, {"name": "partitionPath", "type": "string"}]
    operations = {"type": "array", "items": {"type": "record", "name": "Op", "fields": fields}}
    schema = {"type": "record", "name": "Plan", "fields": [{"name": "operations", "type": operations}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"operations": [{"fileId": "f-0", "partitionPath": "p"}]}])
    assert parse_compaction_plan(out.getvalue(), COMPACTION) == (CompactionGroup("p", "f-0", ""),)
    for end in range(1, len(out.getvalue())):
        with pytest.raises(CorruptFile):
            parse_compaction_plan(out.getvalue()[:end], COMPACTION)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("case", "folder", "layout", "clustering"),
    [
        ("B_v6_timeline_mor", ".hoodie", 1, "replacecommit.requested"),
        ("B_v9_timeline_mor", ".hoodie/timeline", 2, "clustering.requested"),
    ],
)
def test_real_plans(golden: Any, case: str, folder: str, layout: int, clustering: str) -> None:
    timeline: pathlib.Path = golden.table(case) / folder
    replaces = {
        file.name: parse_requested_replace(file.read_bytes(), _instant(file.name, layout))
        for file in timeline.glob(f"*.{clustering}")
    }
    clusterings = [plan for plan in replaces.values() if plan.is_clustering]
    assert clusterings and all(plan.input_groups and plan.operation == "CLUSTER" for plan in clusterings)
    for file in timeline.glob("*.compaction.requested"):
        groups = parse_compaction_plan(file.read_bytes(), _instant(file.name, layout))
        assert groups and all(group.partition.startswith("p=") and group.base_instant for group in groups)
    cleans = [parse_clean(file.read_bytes(), _instant(file.name, layout)) for file in timeline.glob("*.clean")]
    assert cleans and any(names.file_names for clean in cleans for names in clean.partitions)
