"""Rollbacks: round trips of plans, the fields of Hudi's own files, and plans to delete what is no data file."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.instants import Action, Instant, parse_instant_file
from penstock.table.timeline.metadata_schemas.rollbacks import ROLLBACK, ROLLBACK_PLAN
from penstock.table.timeline.services.plans import parse_rollback
from penstock.table.timeline.services.rollback_encoder import (
    CompletedRollback,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
    encode_rollback,
    encode_rollback_plan,
    parse_rollback_plan,
)

T, R = "20260131235959123", "20260131235959999"
GROUP = "8d2f6c37-7c7d-47a0-b032-54bc196b1bed-0"
BASE, LOG = f"{GROUP}_0-1-2_{T}.parquet", f".{GROUP}_20260131000000000.log.2_0-1-2"


def instant_of(name: str, layout: int = 1) -> Instant:
    instant = parse_instant_file(name, layout)
    assert instant is not None
    return instant


PLANNED, COMPLETED = instant_of(f"{R}.rollback.requested"), instant_of(f"{R}.rollback")
PARTITIONS = st.sampled_from(["", "p=a", "p=β/q=b c"])
REQUESTS = st.builds(
    RollbackRequest, PARTITIONS, st.just(""), st.sampled_from([(BASE,), (BASE, f"{LOG}.cdc")])
) | st.builds(
    RollbackRequest,
    PARTITIONS,
    st.just(GROUP),
    st.just(()),
    st.integers(0, 2**40).map(lambda size: {LOG: size}),
    st.just("20260131000000000"),
)


@given(
    st.lists(REQUESTS, max_size=4),
    st.sampled_from(["/lake/t", "file:///lake/t/", "s3://b/t"]),
    st.sampled_from([Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT]),
)
def test_plan_is_decoded_from_its_file(requests: list[RollbackRequest], base_path: str, action: Action) -> None:
    data = encode_rollback_plan(instant_of(f"{T}.{action}.requested"), requests, base_path)
    assert parse_rollback_plan(data, PLANNED) == RollbackPlan(T, action, tuple(requests))


def test_request_to_delete_files_and_cancel_logs_becomes_two() -> None:
    request = RollbackRequest("p=a", GROUP, (BASE,), {LOG: 7})
    plan = parse_rollback_plan(encode_rollback_plan(instant_of(f"{T}.inflight"), [request], "/t"), PLANNED)
    assert plan.requests == (
        RollbackRequest("p=a", "", (BASE,)),
        RollbackRequest("p=a", GROUP, (), {LOG: 7}, "20260131000000000"),
    )


def fields_of(data: bytes) -> dict[str, Any]:
    return next(iter(fastavro.reader(io.BytesIO(data))))


def base_path(plan: bytes) -> str:
    """The base path with which Hudi wrote the plan."""
    found = re.search(rb"(?:file:)?(?:/\w+)+?/[AB]_\w+(?=/)", plan)
    assert found is not None
    return found[0].decode()


GOLDEN = ("A_rollback_log_v9_h120", "A_rollback_log_v6_h0150", "B_v6_timeline_mor")


@pytest.mark.golden
@pytest.mark.parametrize("case", GOLDEN)
def test_files_have_the_fields_of_hudi(golden: Any, case: str) -> None:
    layout = 1 if "_v6_" in case else 2
    timeline = golden.table(case) / ".hoodie" / ("" if layout == 1 else "timeline")
    planned = min(timeline.glob("*.rollback.requested"))
    plan = parse_rollback_plan(planned.read_bytes(), instant_of(planned.name, layout))
    by_hudi = fields_of(planned.read_bytes())
    header = fastavro.reader(io.BytesIO(planned.read_bytes())).metadata["avro.schema"]
    assert json.loads(header) == ROLLBACK_PLAN
    target = instant_of(f"{plan.target}.{plan.action}.requested", layout)
    names_folder = case == "A_rollback_log_v6_h0150"
    base = "" if names_folder else base_path(planned.read_bytes())
    own = fields_of(encode_rollback_plan(target, plan.requests, base))
    if names_folder:  # Hudi 0.15 names the table's folder instead of the logs
        assert [request.base_instant for request in plan.requests] == [
            request["latestBaseInstant"] for request in by_hudi["RollbackRequests"]
        ]
        for request in (*own["RollbackRequests"], *by_hudi["RollbackRequests"]):
            assert list(request.pop("logBlocksToBeDeleted").values()) == [1]
    assert own == by_hudi

    completed = min(file for file in timeline.glob(f"{planned.name[:17]}*.rollback"))
    of_hudi = fields_of(completed.read_bytes())
    assert json.loads(fastavro.reader(io.BytesIO(completed.read_bytes())).metadata["avro.schema"]) == ROLLBACK
    partitions = tuple(
        RolledBackPartition(
            partition,
            tuple(path.rpartition("/")[2] for path in done["successDeleteFiles"]),
            {path.rpartition("/")[2]: size for path, size in done["rollbackLogFiles"].items()},
            {path.rpartition("/")[2]: size for path, size in done["logFilesFromFailedCommit"].items()},
        )
        for partition, done in of_hudi["partitionMetadata"].items()
    )
    done = CompletedRollback(
        instant=of_hudi["startRollbackTime"],
        target=plan.target,
        action=plan.action,
        partitions=partitions,
        took_ms=of_hudi["timeTakenInMillis"],
    )
    data = encode_rollback(done, base)
    if not names_folder:
        assert fields_of(data) == of_hudi
    assert parse_rollback(data, COMPLETED).instants == (plan.target,)


def test_entries_of_a_partition_are_joined() -> None:
    parts = [RolledBackPartition("p", (BASE,)), RolledBackPartition("p", (), {LOG: 105}, {LOG: 9})]
    fields = fields_of(
        encode_rollback(
            CompletedRollback(instant=R, target=T, action=Action.COMMIT, partitions=tuple(parts), took_ms=5)
        )
    )
    assert fields["totalFilesDeleted"] == 1
    assert fields["partitionMetadata"] == {
        "p": {
            "partitionPath": "p",
            "successDeleteFiles": [f"p/{BASE}"],
            "failedDeleteFiles": [],
            "rollbackLogFiles": {f"p/{LOG}": 105},
            "logFilesFromFailedCommit": {f"p/{LOG}": 9},
        }
    }


def plan_bytes(**changes: Any) -> bytes:
    request = {
        "partitionPath": "p=a",
        "fileId": GROUP,
        "latestBaseInstant": "",
        "filesToBeDeleted": [f"/t/p=a/{BASE}"],
        "logBlocksToBeDeleted": {},
        **{key: value for key, value in changes.items() if key not in ("commitTime", "action")},
    }
    target = {"commitTime": changes.get("commitTime", T), "action": changes.get("action", "commit")}
    return encode_container(ROLLBACK_PLAN, {"instantToRollback": target, "RollbackRequests": [request], "version": 1})


def test_plan_of_hostile_tests_is_otherwise_valid() -> None:
    assert parse_rollback_plan(plan_bytes(), PLANNED).requests[0].file_names == (BASE,)


@pytest.mark.parametrize(
    "changes",
    [
        {"filesToBeDeleted": ["/t/.hoodie/hoodie.properties"]},
        {"filesToBeDeleted": ["/t/p=a/.hoodie_partition_metadata"]},
        {"filesToBeDeleted": ["/t/p=a/.."]},
        {"filesToBeDeleted": [""]},
        {"partitionPath": "../other"},
        {"partitionPath": "/etc"},
        {"partitionPath": ".hoodie/metadata/files"},
        {"commitTime": "x"},
        {"commitTime": ""},
        {"action": "drop"},
        {"logBlocksToBeDeleted": {f"/t/p=a/{LOG}": 1}, "latestBaseInstant": "../1"},
        {"logBlocksToBeDeleted": {"/t/p=a/..": 1}, "latestBaseInstant": T},
        {"logBlocksToBeDeleted": {"/t/p=a": 1}},
    ],
)
def test_plan_that_must_not_be_carried_out_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile):
        parse_rollback_plan(plan_bytes(**changes), PLANNED)


def test_plan_without_an_instant_is_refused() -> None:
    data = encode_container(ROLLBACK_PLAN, {"instantToRollback": None, "RollbackRequests": None, "version": 1})
    with pytest.raises(CorruptFile, match="instantToRollback"):
        parse_rollback_plan(data, PLANNED)


@pytest.mark.parametrize("end", [0, 1, 100, -1])
def test_incomplete_plan_is_refused(end: int) -> None:
    with pytest.raises(CorruptFile):
        parse_rollback_plan(plan_bytes()[:end], PLANNED)
