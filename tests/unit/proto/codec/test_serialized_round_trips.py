"""Every value survives its encoding, and equal values have equal bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.proto.codec import plan_calls as calls
from penstock.proto.codec.checks import position_from_message, position_to_message
from penstock.proto.codec.serialized import (
    decode_scan,
    decode_split,
    encode_scan,
    encode_split,
)
from penstock.proto.codec.splits import scan_to_message
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import (
    PlanRequest,
)
from penstock.proto.model.reports import (
    EndOfSlot,
    NextSplit,
    OpenedPlan,
    SplitReport,
    TableDescription,
)
from penstock.proto.model.splits import (
    Origin,
    Plan,
    RowLineage,
    RowsOf,
    Scan,
    Split,
    VisibleInstants,
)
from penstock.proto.v1 import penstock_pb2 as pb
from tests.plan_bytes import decode_plan, encode_plan
from tests.unit.proto.codec.serialized_values import (
    counts,
    descriptions,
    names,
    plans,
    positions,
    reports,
    requests,
    scans,
    sizes,
    splits,
)
from tests.unit.proto.codec.test_serialized import LOG_ONLY_SPLIT_1, _scan


@given(splits())
def test_split_round_trips(split: Split) -> None:
    assert decode_split(encode_split(split)) == split


def test_ancestors_are_bounded() -> None:
    split = LOG_ONLY_SPLIT_1
    for number in range(11):
        origin = Origin(InstantTime("20260101000000000"), (split,))
        split = replace(split, split_id=f"s{number}", ancestry=RowLineage(origins=(origin,)))
    with pytest.raises(ConfigurationError, match="`ancestry`"):
        decode_split(encode_split(split))


@given(scans)
def test_scan_round_trips(scan: Scan) -> None:
    assert decode_scan(encode_scan(scan)) == scan


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_plan_round_trips(plan: Plan) -> None:
    assert decode_plan(encode_plan(plan)) == plan


@given(positions)
def test_position_round_trips(position: Position) -> None:
    assert position_from_message("test", "position", position_to_message(position)) == position


@given(requests)
def test_plan_request_round_trips(request: PlanRequest) -> None:
    assert calls.request_from_message(calls.request_to_message(request)) == request


@given(descriptions)
def test_description_round_trips(description: TableDescription) -> None:
    assert calls.description_from_message(calls.description_to_message(description)) == description


@given(names, st.none() | positions, counts)
def test_newest_request_round_trips(table: str, after: Position | None, max_commits: int) -> None:
    message = calls.newest_to_message(table, after, max_commits)
    assert calls.newest_from_message(message) == (table, after, max_commits)


@given(scans, names, st.integers(1, 1000), st.integers(0, 1000), sizes)
def test_opened_plan_round_trips(scan: Scan, plan_id: str, slots: int, more: int, size_bytes: int) -> None:
    opened = OpenedPlan(plan_id=plan_id, slots=slots, splits=slots + more, size_bytes=size_bytes, scan=scan)
    assert calls.opened_from_message(calls.opened_to_message(opened)) == opened


@given(st.builds(NextSplit, splits()) | st.just(EndOfSlot()))
def test_answer_round_trips(answer: NextSplit | EndOfSlot) -> None:
    assert calls.answer_from_message(calls.answer_to_message(answer)) == answer


@given(reports)
def test_report_round_trips(report: SplitReport) -> None:
    message = pb.FinishSplitRequest(plan_id="p", report=calls.report_to_message(report))
    assert calls.report_from_message(message) == report


def test_equal_values_give_equal_bytes_whatever_the_order_of_their_sets() -> None:
    times = [InstantTime(f"2026010100000{n}000") for n in range(10)]
    one = _scan(visible=VisibleInstants(frozenset(times)), rows=RowsOf(frozenset(times)))
    other = _scan(visible=VisibleInstants(frozenset(times[::-1])), rows=RowsOf(frozenset(times[::-1])))
    assert encode_scan(one) == encode_scan(other)
    assert list(scan_to_message(one).visible.members) == sorted(times)
