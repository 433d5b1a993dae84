"""Cleans: round trips of plans, the fields of Hudi's own files, and plans to delete what is no data file."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, UnsupportedFeature
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.instants import Instant, parse_instant_file
from penstock.table.timeline.metadata_schemas.cleans import CLEAN, CLEAN_PLAN
from penstock.table.timeline.services.clean_encoder import (
    CleanPlan,
    encode_clean,
    encode_clean_plan,
    parse_clean_plan,
    savepoints_entry,
)
from penstock.table.timeline.services.plans import parse_clean

X, T = "20260131235959999", "20260131235959123"
BASE, LOG = f"f-0_0-1-2_{T}.parquet", f".f-0_{T}.log.1_0-1-2"


def instant_of(name: str) -> Instant:
    instant = parse_instant_file(name, 1)
    assert instant is not None
    return instant


PLANNED, COMPLETED = instant_of(f"{X}.clean.requested"), instant_of(f"{X}.clean")
PARTITIONS = st.sampled_from(["", "p=a", "p=β/q=b c"])
PLANS = st.builds(
    CleanPlan,
    policy=st.sampled_from(["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"]),
    earliest=st.just(T),
    earliest_action=st.sampled_from(["commit", "deltacommit", "replacecommit"]),
    last_completed=st.sampled_from(["", T]),
    files=st.dictionaries(PARTITIONS, st.sampled_from([(BASE,), (LOG, f"{LOG}.cdc")]), max_size=3),
    partitions=st.sampled_from([(), ("p=a",)]),
    extra=st.sampled_from([{}, savepoints_entry(["2", "1"])]),
) | st.builds(
    CleanPlan,
    policy=st.just("KEEP_LATEST_FILE_VERSIONS"),
    earliest=st.just(""),
    earliest_action=st.just(""),
    last_completed=st.just(T),
    files=st.just({"": (BASE,)}),
)


@given(PLANS, st.sampled_from(["/lake/t", "file:///lake/t/", "s3://b/t"]))
def test_plan_is_decoded_from_its_file(plan: CleanPlan, base_path: str) -> None:
    assert parse_clean_plan(encode_clean_plan(plan, base_path), PLANNED) == plan


@given(PLANS)
def test_clean_is_decoded_from_its_file(plan: CleanPlan) -> None:
    clean = parse_clean(encode_clean(plan, X, 5, plan.partitions), COMPLETED)
    assert (clean.earliest_to_retain, clean.last_completed) == (plan.earliest, plan.last_completed)
    assert {part.partition: part.file_names for part in clean.partitions} == {
        partition: tuple(sorted(names)) for partition, names in plan.files.items()
    }
    assert all(part.whole is (part.partition in plan.partitions) for part in clean.partitions)
    assert not plan.files or clean.policy == plan.policy
    assert clean.savepoints == (("1", "2") if plan.extra else ())


def fields_of(data: bytes) -> dict[str, Any]:
    return next(iter(fastavro.reader(io.BytesIO(data))))


def base_path(plan: bytes) -> str:
    """The base path with which Hudi wrote the plan."""
    found = re.search(rb"(?:file:)?(?:/\w+)+?/[AB]_\w+(?=/)", plan)
    assert found is not None
    return found[0].decode()


GOLDEN = ("A_archive_v6_h0150", "A_archive_v9_h120", "B_v6_timeline_mor", "B_v9_arch_cow", "B_up_cow_cdc_v8")


@pytest.mark.golden
@pytest.mark.parametrize("case", GOLDEN)
def test_files_have_the_fields_of_hudi(golden: Any, case: str) -> None:
    timeline = golden.table(case) / ".hoodie" / ("" if "_v6_" in case else "timeline")
    planned = min(timeline.glob("*.clean.requested"))
    data = planned.read_bytes()
    plan = parse_clean_plan(data, PLANNED)
    assert json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"]) == CLEAN_PLAN
    assert fields_of(encode_clean_plan(plan, base_path(data))) == fields_of(data)

    (completed,) = timeline.glob(f"{planned.name[:17]}*.clean")
    of_hudi = fields_of(completed.read_bytes())
    assert json.loads(fastavro.reader(io.BytesIO(completed.read_bytes())).metadata["avro.schema"]) == CLEAN
    assert fields_of(encode_clean(plan, planned.name[:17], of_hudi["timeTakenInMillis"])) == of_hudi


def plan_bytes(**changes: Any) -> bytes:
    file = {"filePath": f"/t/p=a/{BASE}", "isBootstrapBaseFile": False}
    fields = {
        "earliestInstantToRetain": None,
        "lastCompletedCommitTimestamp": "",
        "policy": "KEEP_LATEST_COMMITS",
        "filesToBeDeletedPerPartition": {},
        "version": 2,
        "filePathsToBeDeletedPerPartition": {"p=a": [file | changes.pop("file", {})]},
        "partitionsToBeDeleted": None,
        "extraMetadata": None,
    }
    return encode_container(CLEAN_PLAN, fields | changes)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        plan_bytes()[:-5],
        plan_bytes(file={"filePath": "/t/p=a/orders.parquet"}),
        plan_bytes(file={"filePath": "/t/p=a/.hoodie_partition_metadata"}),
        plan_bytes(file={"filePath": f"/t/p=b/{BASE}"}),
        plan_bytes(file={"filePath": "/t/p=a/"}),
        plan_bytes(file={"filePath": None}),
        plan_bytes(filePathsToBeDeletedPerPartition={"../p=a": []}),
        plan_bytes(filePathsToBeDeletedPerPartition={".hoodie/metadata": []}),
        plan_bytes(partitionsToBeDeleted=[".."]),
        plan_bytes(partitionsToBeDeleted=["a/.hoodie"]),
        plan_bytes(filePathsToBeDeletedPerPartition=None, filesToBeDeletedPerPartition={"p=a": ["a/b"]}),
        plan_bytes(earliestInstantToRetain={"timestamp": "x", "action": "commit", "state": "COMPLETED"}),
        plan_bytes(earliestInstantToRetain={"timestamp": T, "action": "drop", "state": "COMPLETED"}),
    ],
)
def test_plan_to_delete_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"clean"):
        parse_clean_plan(data, PLANNED, "/t")


def test_source_files_of_a_bootstrapped_table_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="let Hudi carry it out"):
        parse_clean_plan(plan_bytes(file={"isBootstrapBaseFile": True}), PLANNED)


def test_plan_of_version_1_has_names() -> None:
    data = plan_bytes(
        filePathsToBeDeletedPerPartition=None, filesToBeDeletedPerPartition={"p=a": [BASE, LOG]}, version=1
    )
    assert parse_clean_plan(data, PLANNED).files == {"p=a": (BASE, LOG)}
