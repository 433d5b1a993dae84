"""Frozen bytes: those that any version ever wrote decode for ever, and this version writes its own."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.proto.codec.serialized import (
    decode_scan,
    decode_split,
    encode_scan,
    encode_split,
)
from penstock.proto.model.changes import (
    ChangeFormat,
    ChangesOf,
    ChangeStep,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.hybrid import HybridMode, KafkaRange, TopicRecords, ValueFormat
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.splits import (
    FORMAT_VERSION,
    CommitTimeOrdering,
    DeleteMarker,
    EventTimeBounds,
    EventTimeOrdering,
    Exclusions,
    FileRef,
    FillMarked,
    LogWrite,
    NoEventTimes,
    Plan,
    RowGroupRun,
    RowsOf,
    Scan,
    Split,
    UnknownBounds,
    VisibleInstants,
)
from tests.plan_bytes import decode_plan, encode_plan

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "proto"


def _scan(**changes: object) -> Scan:
    arguments = {
        "table": "trips",
        "base_path": "s3://lake/trips",
        "table_version": 9,
        "schema_json": '{"type":"record","name":"trips","fields":[{"name":"id","type":"string"}]}',
        "columns": ("_hoodie_commit_time", "id", "städte"),
        "merge": EventTimeOrdering(("ts", "seq")),
        "visible": VisibleInstants(frozenset({InstantTime("20260101000000000"), InstantTime("20260102000000000")})),
    }
    return Scan(**{**arguments, **changes})  # type: ignore[arg-type]


SPLIT_1 = Split(
    split_id="20260102000000000:part=a/b:fg-1:0-2",
    partition="part=a/day=2026-01-01",
    partition_values=("a", None),
    file_group="fg-1",
    order_key=InstantTime("20260102000000000"),
    base=FileRef("part=a/day=2026-01-01/fg-1_0-1-1_20260101000000000.parquet", 435_678),
    base_instant="20260101000000000",
    part=RowGroupRun(0, 2),
    event_time=EventTimeBounds(-5, 1_767_225_600_000_000),
)


LOG_ONLY_SPLIT_1 = Split(
    split_id="s2",
    partition="",
    partition_values=("", "ü"),
    file_group="fg-2",
    order_key=InstantTime("20260103"),
    base=None,
    logs=(FileRef(".fg-2_20260103.log.1_0-1-1", 10), FileRef(".fg-2_20260103.log.2_0-1-1", 0)),
)


LOG_WRITES_SPLIT_2 = replace(
    LOG_ONLY_SPLIT_1,
    logs=(
        FileRef(".fg-2_20260103.log.1_0-1-1", 10, (LogWrite(InstantTime("20260103"), 7, 2),)),
        FileRef(".fg-2_20260103.log.2_0-1-1", 0, ()),
        FileRef(".fg-2_20260103.log.3_0-1-1", 5, None),
    ),
)


SCAN_1 = _scan(
    where="id > 'a'",
    visible=VisibleInstants(
        frozenset({InstantTime("20260102000000000"), InstantTime("20260101000000000")}),
        archived_before="20251231000000000",
        not_after="20260103000000000",
    ),
    rows=RowsOf(frozenset({InstantTime("20260102000000000")})),
    partition_fields=("part", "day"),
)


SNAPSHOT_SCAN_1 = _scan(merge=CommitTimeOrdering(), partition_fields=("part", "day"))


SKIPPING_SCAN_2 = _scan(skip_corrupt=True)


PLAN_1 = Plan(
    scan=SNAPSHOT_SCAN_1,
    commit_range=CommitRange(EARLIEST, Position(InstantTime("20260103000000000"), 7)),
    splits=(SPLIT_1, LOG_ONLY_SPLIT_1),
)


STATE = SliceFiles(SPLIT_1.base, "20260101000000000", (FileRef(".fg-1_20260102000000000.log.1_0-1-1", 10),))


SPLIT_3 = replace(
    SPLIT_1,
    base=None,
    base_instant="",
    event_time=UnknownBounds(),
    part=GroupChanges(
        (
            ChangeStep(
                instant=InstantTime("20260101000000000"),
                order_key=InstantTime("20260101000009000"),
                place=3,
                source=LoggedImages((FileRef(".fg-1_0.log.1_0-1-1.cdc", 7),), STATE, None, ("id",)),
            ),
            ChangeStep(
                instant=InstantTime("20260102000000000"),
                order_key=InstantTime("20260102000009000"),
                place=0,
                source=ComparedStates(None, STATE),
            ),
            ChangeStep(
                instant=InstantTime("20260103000000000"),
                order_key=InstantTime("20260103000009000"),
                place=1,
                source=StoredKinds(STATE),
            ),
        )
    ),
)


SCAN_3 = _scan(
    rows=ChangesOf(ChangeFormat.ROWS, (InstantTime("20260102000000000"), InstantTime("20260101000000000"))),
    partition_fields=("part", "day"),
)


PLAN_3 = Plan(scan=SCAN_3, commit_range=PLAN_1.commit_range, splits=(SPLIT_3,))


SPLIT_4 = replace(
    SPLIT_1,
    left_out=Exclusions(
        rows=frozenset({InstantTime("20260102000000000")}),
        some_rows=frozenset({InstantTime("20260101000000000"), InstantTime("20260103000000000")}),
        blocks=frozenset({InstantTime("20260104000000000")}),
    ),
)


NO_TIMES_SPLIT_4 = replace(LOG_ONLY_SPLIT_1, event_time=NoEventTimes())


SCAN_4 = SCAN_1


PLAN_4 = replace(PLAN_1, splits=(SPLIT_4, LOG_ONLY_SPLIT_1))


SPLIT_5 = Split(
    split_id="orders:2:17",
    partition="",
    partition_values=(),
    file_group="orders:2",
    order_key=InstantTime("990000000000000000000018"),
    base=None,
    part=KafkaRange(topic="orders", topic_id="H0f_tVwXQEO4Zr8mSsgGAg", partition=2, first=17, end=2**40),
    event_time=EventTimeBounds(-5, 1_767_225_600_000_000),
)


SCAN_5 = _scan(
    rows=ChangesOf(ChangeFormat.ROWS, ()),
    topic=TopicRecords(mode=HybridMode.CHANGELOG, value_format=ValueFormat.DEBEZIUM_AVRO, key_fields=("id", "städte")),
)


PLAN_5 = Plan(
    scan=SCAN_5,
    commit_range=CommitRange(
        Position(InstantTime("20260103000000000"), 7), Position(InstantTime("990000000000000000000018"))
    ),
    splits=(SPLIT_5,),
)


SPLIT_6 = replace(
    LOG_ONLY_SPLIT_1,
    base=FileRef("p=ä/f1_0-1-1_00000000000001.parquet", 2048, source=FileRef("p=ä/part-0.parquet", 2**40)),
    base_instant="00000000000001",
)


SCAN_6 = replace(SNAPSHOT_SCAN_1, bootstrap_base_path="hdfs://nn:8020/sources/städte")


SPLIT_6, SCAN_6 = (replace(value, format_version=6) for value in (SPLIT_6, SCAN_6))


PLAN_6 = replace(PLAN_1, format_version=6, scan=SCAN_6, splits=(SPLIT_6,))


SPLIT_5, SCAN_5 = (replace(value, format_version=5) for value in (SPLIT_5, SCAN_5))


PLAN_5 = replace(PLAN_5, format_version=5, scan=SCAN_5, splits=(SPLIT_5,))


SPLIT_4, SCAN_4, NO_TIMES_SPLIT_4 = (replace(value, format_version=4) for value in (SPLIT_4, SCAN_4, NO_TIMES_SPLIT_4))


PLAN_4 = replace(
    PLAN_4,
    format_version=4,
    scan=replace(SNAPSHOT_SCAN_1, format_version=4),
    splits=(SPLIT_4, replace(LOG_ONLY_SPLIT_1, format_version=4)),
)


SPLIT_3, SCAN_3 = (replace(value, format_version=3) for value in (SPLIT_3, SCAN_3))


PLAN_3 = replace(PLAN_3, format_version=3, scan=SCAN_3, splits=(SPLIT_3,))


SPLIT_2, SCAN_2 = (replace(value, format_version=2) for value in (SPLIT_1, SCAN_1))


PLAN_2 = replace(
    PLAN_1,
    format_version=2,
    scan=replace(SNAPSHOT_SCAN_1, format_version=2),
    splits=(SPLIT_2, replace(LOG_ONLY_SPLIT_1, format_version=2)),
)


LOG_WRITES_SPLIT_2, SKIPPING_SCAN_2 = (
    replace(value, format_version=2) for value in (LOG_WRITES_SPLIT_2, SKIPPING_SCAN_2)
)


SPLIT_1, LOG_ONLY_SPLIT_1, SCAN_1, SNAPSHOT_SCAN_1 = (
    replace(value, format_version=1) for value in (SPLIT_1, LOG_ONLY_SPLIT_1, SCAN_1, SNAPSHOT_SCAN_1)
)


PLAN_1 = replace(PLAN_1, format_version=1, scan=SNAPSHOT_SCAN_1, splits=(SPLIT_1, LOG_ONLY_SPLIT_1))


MERGE_SCAN_2 = _scan(
    format_version=2,
    merge=EventTimeOrdering(("_event_seq",), dotted_numbers=True, deletes_win=True),
    delete_marker=DeleteMarker("op", "D"),
    fill=FillMarked("__unavailable", from_newer=True),
)


FROZEN: dict[str, tuple[object, Callable[[bytes], object]]] = {
    "split.v1": (SPLIT_1, decode_split),
    "split-log-only.v1": (LOG_ONLY_SPLIT_1, decode_split),
    "split-log-writes.v2": (LOG_WRITES_SPLIT_2, decode_split),
    "scan.v1": (SCAN_1, decode_scan),
    "scan-skip-corrupt.v2": (SKIPPING_SCAN_2, decode_scan),
    "scan-snapshot.v1": (SNAPSHOT_SCAN_1, decode_scan),
    "plan.v1": (PLAN_1, decode_plan),
    "split.v2": (SPLIT_2, decode_split),
    "scan.v2": (SCAN_2, decode_scan),
    "scan-merge.v2": (MERGE_SCAN_2, decode_scan),
    "plan.v2": (PLAN_2, decode_plan),
    "split.v3": (SPLIT_3, decode_split),
    "scan.v3": (SCAN_3, decode_scan),
    "plan.v3": (PLAN_3, decode_plan),
    "split.v4": (SPLIT_4, decode_split),
    "split-no-event-times.v4": (NO_TIMES_SPLIT_4, decode_split),
    "scan.v4": (SCAN_4, decode_scan),
    "plan.v4": (PLAN_4, decode_plan),
    "split.v5": (SPLIT_5, decode_split),
    "scan.v5": (SCAN_5, decode_scan),
    "plan.v5": (PLAN_5, decode_plan),
    "split.v6": (SPLIT_6, decode_split),
    "scan.v6": (SCAN_6, decode_scan),
    "plan.v6": (PLAN_6, decode_plan),
}
"""File name -> the value its bytes must give, for ever. tests/fixtures/proto/README.md says how to add one."""


@pytest.mark.parametrize("name", FROZEN)
def test_bytes_that_were_ever_written_still_decode(name: str) -> None:
    value, decode = FROZEN[name]
    assert decode((FIXTURES / f"{name}.bin").read_bytes()) == value


@pytest.mark.parametrize("name", [name for name in FROZEN if name.endswith(f".v{FORMAT_VERSION}")])
def test_this_version_writes_the_frozen_bytes(name: str) -> None:
    value, _ = FROZEN[name]
    match value:
        case Split():
            data = encode_split(value)
        case Scan():
            data = encode_scan(value)
        case Plan():
            data = encode_plan(value)
    assert data == (FIXTURES / f"{name}.bin").read_bytes()


def test_every_version_and_every_fixture_is_covered() -> None:
    assert {file.stem for file in FIXTURES.glob("*.bin")} == set(FROZEN)
    for kind in ("split", "scan", "plan"):
        for version in range(1, FORMAT_VERSION + 1):
            assert f"{kind}.v{version}" in FROZEN


def test_fields_that_a_later_build_adds_are_ignored() -> None:
    later = b"\xa2\x06\x03new"  # field 100, three bytes
    assert decode_split(encode_split(SPLIT_1) + later) == SPLIT_1
