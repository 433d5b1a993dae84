"""Messages of table services: what is decoded is what was encoded, and fields that cannot be are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.codec import service_split_calls as calls
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.service_splits import (
    Service,
    ServiceAnswer,
    ServiceOptions,
    ServiceOutcome,
    ServiceRequest,
    ServiceSplit,
    ServiceSplitId,
    ServiceSplitState,
    ServiceSplitSummary,
)
from penstock.proto.v1 import penstock_pb2 as pb

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
COUNT = st.none() | st.integers(0, 2**32 - 1)
MEMBER = st.from_regex(r"[A-Za-z0-9._:@/-]{1,20}", fullmatch=True)
IDS = st.builds(ServiceSplitId, NAME, st.sampled_from(list(Service)), TEXT)
OPTIONS = st.builds(
    ServiceOptions,
    plan_bytes=st.integers(0, 2**63 - 1),
    sort_by=st.none() | st.lists(NAME, max_size=3).map(tuple),
    compact_after=COUNT,
    index=TEXT,
    commits=COUNT,
    hours=COUNT,
    file_versions=COUNT,
    keep_min=COUNT,
    keep_max=COUNT,
    hold_at_most=TEXT,
    timeline_timezone=TEXT,
)
SPLITS = st.builds(
    ServiceSplit,
    id=IDS,
    attempt=st.integers(0, 2**63 - 1),
    lease_ms=st.integers(1, 2**63 - 1),
    options=OPTIONS,
    readers=st.lists(NAME, max_size=3).map(tuple),
    avoided=st.frozensets(st.tuples(TEXT, NAME), max_size=4),
)
ANSWERS = st.builds(ServiceAnswer, SPLITS) | st.builds(
    ServiceAnswer, st.none(), st.integers(0, 2**63 - 1), st.booleans()
)
SUMMARIES = st.builds(
    ServiceSplitSummary,
    id=IDS,
    state=st.sampled_from(list(ServiceSplitState)),
    member=TEXT,
    age_ms=st.integers(0, 2**63 - 1),
    failures=st.integers(0, 2**32 - 1),
    error=TEXT,
)


SERVICES = st.lists(st.sampled_from(list(Service)), max_size=4).map(tuple)


@given(ANSWERS)
def test_answers(answer: ServiceAnswer) -> None:
    assert calls.answer_from_message(calls.answer_to_message(answer)) == answer


@given(st.builds(ServiceRequest, member=MEMBER, table=TEXT, services=SERVICES, looks_first=st.booleans()))
def test_requests(request: ServiceRequest) -> None:
    assert calls.request_from_message(calls.request_to_message(request)) == request


@given(IDS, MEMBER, st.integers(0, 2**63 - 1), st.builds(ServiceOutcome, code=TEXT, text=TEXT))
def test_renewals_and_ends(split: ServiceSplitId, member: str, attempt: int, outcome: ServiceOutcome) -> None:
    renewal = calls.renew_to_message(split, member, attempt)
    assert calls.renew_from_message(renewal) == (split, member, attempt)
    end = calls.finish_to_message(split, member, attempt, outcome)
    assert calls.finish_from_message(end) == (split, member, attempt, outcome)


@given(st.lists(SUMMARIES, max_size=4).map(tuple))
def test_lists(splits: tuple[ServiceSplitSummary, ...]) -> None:
    assert calls.list_from_message(calls.list_to_message(splits)) == splits


def test_long_text_of_an_outcome_is_cut() -> None:
    split = ServiceSplitId("t", Service.CLEAN)
    message = calls.finish_to_message(split, "m", 1, ServiceOutcome(code="X", text="x" * 10_000))
    assert len(calls.finish_from_message(message)[3].text) == calls.MAX_TEXT


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.RenewServiceSplitRequest(split=pb.ServiceSplitId(table="t", service="drop"), member="m"), "service"),
        (pb.RenewServiceSplitRequest(split=pb.ServiceSplitId(service="clean"), member="m"), "table"),
        (pb.RenewServiceSplitRequest(split=pb.ServiceSplitId(table="t", service="clean")), "member"),
        (pb.RenewServiceSplitRequest(split=pb.ServiceSplitId(table="t", service="clean"), member="a b"), "member"),
    ],
)
def test_hostile_fields(message: pb.RenewServiceSplitRequest, field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        calls.renew_from_message(message)


def test_hostile_lengths() -> None:
    text = pb.FinishServiceSplitRequest(
        split=pb.ServiceSplitId(table="t", service="clean"), member="m", text="x" * (calls.MAX_TEXT + 1)
    )
    with pytest.raises(ConfigurationError, match="text"):
        calls.finish_from_message(text)
    with pytest.raises(ConfigurationError, match="services"):
        calls.request_from_message(pb.RequestServiceSplitRequest(member="m", services=["clean"] * 5))
    with pytest.raises(ConfigurationError, match="lease_ms"):
        calls.renewed_from_message(pb.RenewServiceSplitResponse())
