"""Messages and bytes that are refused, by the name of the field, and defaults of fields that older builds leave out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.codec import plan_calls as calls
from penstock.proto.codec.checks import MAX_PATH_CHARS
from penstock.proto.codec.serialized import (
    decode_scan,
    decode_split,
    encode_split,
)
from penstock.proto.codec.splits import scan_to_message, split_to_message
from penstock.proto.errors import ConfigurationError, StateVersionError
from penstock.proto.model.changes import (
    ChangeFormat,
)
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import (
    PlanRequest,
    Snapshot,
    SnapshotPart,
)
from penstock.proto.model.reports import (
    OpenedPlan,
)
from penstock.proto.model.splits import (
    FORMAT_VERSION,
    FileRef,
    NoEventTimes,
    Split,
    UnknownBounds,
)
from penstock.proto.v1 import penstock_pb2 as pb
from tests.plan_bytes import decode_plan, encode_plan
from tests.unit.proto.codec.test_serialized import LOG_ONLY_SPLIT_1, PLAN_1, SCAN_1, SNAPSHOT_SCAN_1, SPLIT_1


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 4_000_000_000])
def test_unknown_format_version_is_refused_by_name_with_both_numbers(version: int) -> None:
    split, scan = split_to_message(SPLIT_1), scan_to_message(SCAN_1)
    split.format_version = scan.format_version = version
    plan = pb.Plan(format_version=version, scan=scan_to_message(SNAPSHOT_SCAN_1))
    for what, refused in (
        ("split", lambda: decode_split(split.SerializeToString())),
        ("scan", lambda: decode_scan(scan.SerializeToString())),
        ("plan", lambda: decode_plan(plan.SerializeToString())),
    ):
        with pytest.raises(StateVersionError, match=f"{what}.* has format version {version}; .* 1 to {FORMAT_VERSION}"):
            refused()


def test_unknown_version_inside_a_plan_is_refused() -> None:
    message = pb.Plan.FromString(encode_plan(PLAN_1))
    message.splits[1].format_version = FORMAT_VERSION + 1
    with pytest.raises(StateVersionError, match="split 's2'"):
        decode_plan(message.SerializeToString())


def _no_files(m: pb.Split) -> None:
    m.ClearField("base")
    m.ClearField("row_groups")


BAD_SPLITS: dict[str, tuple[Callable[[pb.Split], object], str]] = {
    "no id": (lambda m: m.ClearField("split_id"), "`split_id`: got nothing"),
    "long id": (lambda m: setattr(m, "split_id", "x" * 1025), "`split_id`: got 1025 characters, expected at most 1024"),
    "no file at all": (_no_files, "neither a base file nor a log file"),
    "no path": (lambda m: m.base.ClearField("path"), r"`base\.path`: got nothing"),
    "long path": (lambda m: setattr(m.base, "path", "x" * (MAX_PATH_CHARS + 1)), r"`base\.path`: got 4097"),
    "huge size": (lambda m: setattr(m.base, "size_bytes", 2**63), r"`base\.size_bytes`: got 9223372036854775808"),
    "order key": (lambda m: setattr(m, "order_key", "now"), "`order_key`: got 'now', expected 1 to 24 digits"),
    "no order key": (lambda m: m.ClearField("order_key"), "`order_key`: got ''"),
    "base instant": (lambda m: setattr(m, "base_instant", "../x"), "`base_instant`"),
    "empty run": (lambda m: setattr(m.row_groups, "end", 0), "`row_groups`: got 0 to 0"),
    "run with logs": (lambda m: m.logs.add(path="l"), "none unless the split is a base file alone"),
    "write": (lambda m: m.base.writes.writes.add(instant="x"), r"`base\.writes`: got 'x'"),
    "rows": (
        lambda m: m.base.writes.writes.add(instant="1", data_rows=2**63),
        r"`base\.writes`: got 9223372036854775808",
    ),
    "bounds": (lambda m: setattr(m.event_time, "max_us", -6), "`event_time`: got -5 to -6"),
    "bounds and none": (lambda m: m.no_event_times.SetInParent(), "`no_event_times`: got bounds beside it"),
    "values": (lambda m: m.partition_values.extend([pb.PartitionValue()] * 1001), "1003 entries, expected at most"),
}


@pytest.mark.parametrize("case", BAD_SPLITS)
def test_split_that_cannot_be_is_refused_naming_the_field(case: str) -> None:
    damage, message = BAD_SPLITS[case]
    split = split_to_message(SPLIT_1)
    damage(split)
    with pytest.raises(ConfigurationError, match=message):
        decode_split(split.SerializeToString())


BAD_SCANS: dict[str, tuple[Callable[[pb.Scan], object], str]] = {
    "no merge mode": (lambda m: m.ClearField("event_time"), "`merge`"),
    "no columns": (lambda m: m.ClearField("columns"), "`columns`"),
    "empty column": (lambda m: m.columns.append(""), "`columns`: got nothing"),
    "no visible instants": (lambda m: m.ClearField("visible"), "`visible`"),
    "member": (lambda m: m.visible.members.append("x"), r"`visible\.members`: got 'x'"),
    "not after": (lambda m: m.visible.ClearField("not_after"), r"`visible\.not_after`"),
    "rows": (lambda m: m.rows.instants.append("-1"), "`rows`"),
    "no schema": (lambda m: m.ClearField("schema_json"), "`schema_json`"),
    "where": (lambda m: setattr(m, "where", "x" * 70_000), "`where`: got 70000 characters"),
    "dotted": (lambda m: setattr(m.event_time, "dotted_numbers", True), "`dotted_numbers`: got 2 ordering fields"),
    "delete marker": (lambda m: m.delete_marker.SetInParent(), r"`delete_marker\.field`: got nothing"),
    "fill marker": (lambda m: m.fill_marked.SetInParent(), r"`fill_marked\.marker`: got nothing"),
}


@pytest.mark.parametrize("case", BAD_SCANS)
def test_scan_that_cannot_be_is_refused_naming_the_field(case: str) -> None:
    damage, message = BAD_SCANS[case]
    scan = scan_to_message(SCAN_1)
    damage(scan)
    with pytest.raises(ConfigurationError, match=message):
        decode_scan(scan.SerializeToString())


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_an_error_of_the_tree(data: bytes) -> None:
    for decode in (decode_split, decode_scan, decode_plan):
        try:
            decode(data)
        except (ConfigurationError, StateVersionError) as error:
            assert str(error)


@given(st.data())
def test_mutated_bytes_give_a_value_or_an_error_of_the_tree(data: st.DataObject) -> None:
    good = bytearray(encode_plan(PLAN_1))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_plan(bytes(good))
    except (ConfigurationError, StateVersionError) as error:
        assert str(error)


def test_request_without_a_known_query_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="`query`: got no query kind that this build knows"):
        calls.request_from_message(pb.OpenPlanRequest(table="t"))


def test_range_without_its_start_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"`incremental\.after`"):
        calls.request_from_message(pb.OpenPlanRequest(table="t", incremental=pb.Incremental()))


GOOD_PART = SnapshotPart(at=Position(InstantTime("20260101")), first=2, end=5, digest="00ff", changes=ChangeFormat.ROWS)


BAD_PARTS: dict[str, tuple[Callable[[pb.SnapshotPart], object], str]] = {
    "no position": (lambda m: m.ClearField("at"), r"`snapshot_part\.at`: got nothing"),
    "position": (lambda m: setattr(m.at, "order_key", "now"), r"`snapshot_part\.at`: got 'now'"),
    "backwards": (lambda m: setattr(m, "first", 6), r"`snapshot_part\.first`: got 6, expected 0 to 5"),
    "too many": (lambda m: setattr(m, "end", 2_000_001), r"`snapshot_part\.end`: got 2000001, expected 0 to 2000000"),
    "no digest": (lambda m: m.ClearField("digest"), r"`snapshot_part\.digest`: got ''"),
    "long digest": (lambda m: setattr(m, "digest", "0" * 129), r"`snapshot_part\.digest`: got '0+', expected 1 to 128"),
    "digest": (lambda m: setattr(m, "digest", "../x"), r"`snapshot_part\.digest`: got '\.\./x'"),
    "other digits": (lambda m: setattr(m, "digest", "٣"), r"`snapshot_part\.digest`"),
    "line end": (lambda m: setattr(m, "digest", "00\n"), r"`snapshot_part\.digest`"),
    "changes": (lambda m: setattr(m, "changes", "avro"), "`format`: got 'avro', expected rows or hudi"),
}


@pytest.mark.parametrize("case", BAD_PARTS)
def test_invalid_part_of_a_snapshot_is_refused_by_field(case: str) -> None:
    damage, reported = BAD_PARTS[case]
    message = calls.request_to_message(PlanRequest(table="t", query=GOOD_PART))
    assert calls.request_from_message(message).query == GOOD_PART
    damage(message.snapshot_part)
    with pytest.raises(ConfigurationError, match=reported):
        calls.request_from_message(message)


@pytest.mark.parametrize("first", [-1, 2**32])
def test_part_that_no_message_can_hold_is_an_error_of_the_tree(first: int) -> None:
    with pytest.raises(ConfigurationError, match="plan request for table 't' cannot be encoded"):
        calls.request_to_message(PlanRequest(table="t", query=replace(GOOD_PART, first=first)))


@pytest.mark.parametrize("unit", ["ns", "S", " ", "ms "])
def test_unit_of_event_times_that_is_not_known_is_refused(unit: str) -> None:
    message = calls.request_to_message(PlanRequest(table="t", query=Snapshot(), event_time_unit=unit))
    with pytest.raises(ConfigurationError, match=r"`event_time_unit`: got '.*', expected nothing, s, ms, us"):
        calls.request_from_message(message)


def test_split_without_event_times_is_unknown_bounds_to_an_older_reader() -> None:
    split = replace(LOG_ONLY_SPLIT_1, event_time=NoEventTimes())
    data = encode_split(split)
    assert decode_split(data) == split
    older = encode_split(LOG_ONLY_SPLIT_1)
    assert data == older + b"\xa2\x02\x00"  # field 36, nothing in it: an older build leaves it out
    assert decode_split(older).event_time == UnknownBounds()


def test_request_without_a_split_size_gets_the_default() -> None:
    request = calls.request_from_message(pb.OpenPlanRequest(table="t", snapshot=pb.Snapshot()))
    assert request == PlanRequest(table="t", query=Snapshot())


def test_answer_without_split_or_end_is_not_the_end_of_the_slot() -> None:
    with pytest.raises(ConfigurationError, match="`answer`"):
        calls.answer_from_message(pb.NextSplitResponse())


@pytest.mark.parametrize("slots", [0, 3])
def test_opened_plan_with_impossible_slots_is_refused(slots: int) -> None:
    opened = OpenedPlan(plan_id="p", slots=slots, splits=2, size_bytes=1, scan=SCAN_1)
    with pytest.raises(ConfigurationError, match=f"got {slots} for 2 splits"):
        calls.opened_from_message(calls.opened_to_message(opened))


@pytest.mark.parametrize("spent_ms", [float("nan"), float("inf"), -1.0])
def test_phase_that_is_no_duration_is_refused(spent_ms: float) -> None:
    report = pb.SplitReport(phase_ms={"merge": spent_ms})
    with pytest.raises(ConfigurationError, match=r"`phase_ms\[merge\]`"):
        calls.report_from_message(pb.FinishSplitRequest(plan_id="p", report=report))


def test_more_counts_than_a_report_can_have_are_refused() -> None:
    report = pb.SplitReport(counts={f"n{number}": 1 for number in range(65)})
    with pytest.raises(ConfigurationError, match="`counts`: got 65 names"):
        calls.report_from_message(pb.FinishSplitRequest(plan_id="p", report=report))
    remaining = calls.report_from_message(
        pb.FinishSplitRequest(plan_id="p", report=pb.SplitReport(counts={"b": 2, "a": 1, "none": 0}))
    )
    assert remaining.counts == (("a", 1), ("b", 2))


def test_value_that_no_message_can_hold_is_an_error_of_the_tree() -> None:
    with pytest.raises(ConfigurationError, match="split 's' cannot be encoded"):
        encode_split(
            Split(
                split_id="s",
                partition="\ud800",
                partition_values=(),
                file_group="f",
                order_key=InstantTime("1"),
                base=FileRef("f", 1),
            )
        )
