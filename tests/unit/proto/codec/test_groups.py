"""Every value of the calls of groups round-trips. Any bytes decode to a value or a PenstockError."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.codec import group_calls as calls
from penstock.proto.codec.checks import breach
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import (
    MAX_NAME_CHARS,
    AssignedSplit,
    Assignments,
    EndOfGroup,
    GroupAlignment,
    GroupDescription,
    GroupLag,
    GroupScope,
    GroupSpec,
    GroupStatus,
    GroupSummary,
    Joined,
    Member,
    NothingYet,
    OnLostRange,
    ReaderState,
    ResetOutcome,
    SplitProgress,
    SplitRef,
    StartAt,
    StartLatest,
    TableTrouble,
    checked_name,
    sanitized_name,
)
from penstock.proto.model.hybrid import KafkaPlace, PartitionPlace, Phase
from penstock.proto.model.positions import EARLIEST, WHOLE_INSTANT, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, RoundLimits
from penstock.proto.model.reports import MergeOutcomes, SplitReport
from penstock.proto.model.splits import DeleteMarker, FileRef, Split
from penstock.proto.model.streams import Alignment, EventTimeRule
from penstock.proto.v1 import penstock_pb2 as pb

numbers = st.integers(0, 2**63 - 1)
counts = st.integers(0, 2**31 - 1)
names = st.from_regex(r"[A-Za-z0-9._:@/-]{1,200}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
positions = st.builds(
    Position, st.from_regex(r"[0-9]{1,24}", fullmatch=True).map(InstantTime), st.integers(0, WHOLE_INSTANT)
)
queries = st.one_of(
    st.builds(Incremental, positions, positions), st.builds(Changes, st.sampled_from(ChangeFormat), positions)
)
requests = st.builds(
    PlanRequest,
    table=words,
    query=queries,
    columns=st.lists(words, max_size=3).map(tuple),
    where=texts,
    event_time=texts,
    event_time_unit=st.sampled_from(["", "s", "ms", "us"]),
    scan_event_time=st.booleans(),
    of_stream=st.text(max_size=20),
    target_split_bytes=st.integers(1, 2**63 - 1),
    metadata=st.booleans(),
    delete_marker=st.none() | st.builds(DeleteMarker, words, words),
    skip_corrupt=st.booleans(),
    columns_by_name=st.booleans(),
)
scopes = st.builds(GroupScope, request=requests, upto=st.none() | positions, on_lost_range=st.sampled_from(OnLostRange))
starts = st.just(StartLatest()) | st.builds(StartAt, positions)
limits = st.builds(RoundLimits, max_commits=numbers, max_files=numbers, max_bytes=numbers, max_rows=numbers)
specs = st.builds(GroupSpec, scope=scopes, start=starts, limits=limits)
members = st.builds(Member, words, names, names, numbers)
refs = st.builds(SplitRef, words, counts)
durations = st.floats(0, allow_infinity=False, allow_nan=False)
reports = st.builds(
    SplitReport,
    rows=numbers,
    size_bytes=numbers,
    phase_ms=st.dictionaries(words, durations, max_size=3).map(lambda result: tuple(sorted(result.items()))),
    outcomes=st.builds(MergeOutcomes, won=numbers, duplicate=numbers),
    max_event_time_us=st.none() | st.integers(-(2**63), 2**63 - 1),
    counts=st.dictionaries(words, numbers.filter(bool), max_size=3).map(lambda result: tuple(sorted(result.items()))),
)
progress = st.builds(SplitProgress, ref=refs, ordinal=numbers, finished=st.booleans(), report=st.none() | reports)
KEY = InstantTime("20260101000000000")
PLACE = KafkaPlace(
    phase=Phase.KAFKA,
    topic="orders",
    topic_id="id",
    instant=KEY,
    lake=Position(KEY),
    starts=((0, 3), (2, 0)),
    epochs=((0, 7),),
    places=(PartitionPlace(0, 9, 1_700_000_000_000_000, 4), PartitionPlace(2, 1)),
)
SPLIT = Split(
    split_id="s",
    partition="",
    partition_values=(),
    file_group="fg",
    order_key=KEY,
    base=FileRef("fg_0-1-1_20260101000000000.parquet", 3),
    base_instant=KEY,
    logs=(),
)
assigned = st.builds(AssignedSplit, refs, st.just(SPLIT), numbers, positions)
answers = st.one_of(
    st.lists(assigned, max_size=3).map(lambda result: Assignments(tuple(result))),
    st.builds(NothingYet, numbers, st.booleans()),
    st.just(EndOfGroup()),
)
summaries = st.builds(
    GroupSummary,
    table=words,
    group=names,
    state=st.sampled_from(["running", "paused", "waiting", "stopped", "ended"]),
    committed=positions,
    planned=positions,
    readers=counts,
)
lags = st.builds(
    GroupLag,
    commits=numbers,
    size_bytes=numbers,
    seconds=durations,
    loss_commits=st.none() | numbers,
    loss_seconds=st.none() | durations,
    holds_cleaner=st.booleans(),
)
readers = st.builds(ReaderState, reader_id=names, epoch=numbers, held_splits=counts, lease_left_ms=numbers)
descriptions = st.builds(
    GroupDescription,
    summary=summaries,
    scope=scopes,
    limits=limits,
    rounds=numbers,
    pending_splits=numbers,
    held_splits=numbers,
    readers=st.lists(readers, max_size=3).map(tuple),
    lag=st.none() | lags,
    error_code=texts,
    error=texts,
    kafka=st.none() | st.just(PLACE),
)
outcomes = st.builds(ResetOutcome, before=positions, after=positions, dropped_splits=numbers, dry_run=st.booleans())


def wired(message: Any) -> Any:
    """The message as the other side parses it."""
    return type(message).FromString(message.SerializeToString())


@settings(max_examples=60, deadline=None)
@given(names, names, specs, words)
def test_join_round_trips(group: str, reader_id: str, spec: GroupSpec, request_id: str) -> None:
    message = wired(calls.join_to_message(group, reader_id, spec, request_id))
    assert calls.join_from_message(message) == (group, reader_id, spec, request_id)


@settings(max_examples=30, deadline=None)
@given(members, st.integers(1, 2**63 - 1))
def test_joined_round_trips(member: Member, lease_ms: int) -> None:
    joined = Joined(member, lease_ms)
    assert calls.joined_from_message(wired(calls.joined_to_message(joined))) == joined


@settings(max_examples=30, deadline=None)
@given(members, st.integers(1, 1000), numbers, st.integers(0, 1000))
def test_request_for_splits_round_trips(member: Member, most: int, sequence: int, wait_ms: int) -> None:
    message = wired(calls.ask_to_message(member, most, sequence, wait_ms=wait_ms))
    assert message.HasField("wait_ms") == bool(wait_ms), "without a wait the message is that of an older client"
    assert calls.ask_from_message(message) == (member, most, sequence, (), None, wait_ms)
    message = wired(calls.ask_to_message(member, most, sequence, received=0))
    assert calls.ask_from_message(message) == (member, most, sequence, (), 0, 0)
    message = wired(calls.ask_to_message(member, most, sequence, ("s.a", "s.b"), sequence))
    assert calls.ask_from_message(message) == (member, most, sequence, ("s.a", "s.b"), sequence, 0)


@pytest.mark.parametrize("idle_us", [None, 5])
@pytest.mark.parametrize("ceiling_us", [None, -7])
def test_values_of_an_aligned_group_round_trip(idle_us: int | None, ceiling_us: int | None) -> None:
    request = PlanRequest(table="t", query=Incremental(), event_time="at")
    alignment = Alignment(set="s", max_drift_us=9, idle_timeout_us=idle_us)
    scope = GroupScope(request=request, rule=EventTimeRule(max_out_of_orderness_us=3), alignment=alignment)
    message = wired(calls.join_to_message("g", "r", GroupSpec(scope=scope), "q"))
    assert calls.join_from_message(message)[2].scope == scope
    summary = GroupSummary(table="t", group="g", state="running", committed=EARLIEST, planned=EARLIEST, readers=0)
    aligned = GroupAlignment("s", ceiling_us, held=True, set_number=2**31)
    status = GroupStatus(summary=summary, pending_splits=1, held_splits=0, alignment=aligned)
    description = GroupDescription(
        summary=summary, scope=scope, limits=RoundLimits(), rounds=0, pending_splits=0, held_splits=0, readers=(),
        tables=(status,), alignment=aligned, snapshot_at=Position(KEY),
    )  # fmt: skip
    assert calls.description_from_message(wired(calls.description_to_message(description))) == description


def test_values_of_a_group_over_tables_round_trip() -> None:
    assigned = AssignedSplit(SplitRef("p", 0), SPLIT, 0, Position(KEY), "s.a", 7)
    trouble = TableTrouble("s.b", "TABLE", "it cannot be read")
    for answer in (Assignments((assigned,)), NothingYet(1, True, (trouble,))):
        assert calls.answer_from_message(wired(calls.answer_to_message(answer))) == answer
    bad = calls.answer_to_message(NothingYet(1, True, (trouble,) * 1001))
    with pytest.raises(ConfigurationError, match="troubles"):
        calls.answer_from_message(bad)
    scope = GroupScope(request=PlanRequest(table="s.*", query=Incremental()), over_tables=True)
    message = wired(calls.join_to_message("g", "r", GroupSpec(scope=scope), "q"))
    assert calls.join_from_message(message)[2].scope == scope


@settings(max_examples=60, deadline=None)
@given(answers)
def test_answer_round_trips(answer: Any) -> None:
    assert calls.answer_from_message(wired(calls.answer_to_message(answer))) == answer


@settings(max_examples=60, deadline=None)
@given(members, st.lists(progress, max_size=3).map(tuple))
def test_commit_round_trips(member: Member, done: tuple[SplitProgress, ...]) -> None:
    assert calls.commit_from_message(wired(calls.commit_to_message(member, done))) == (member, done)


@settings(max_examples=30, deadline=None)
@given(st.lists(summaries, max_size=3).map(tuple))
def test_list_round_trips(result: tuple[GroupSummary, ...]) -> None:
    assert calls.list_from_message(wired(calls.list_to_message(result))) == result


@settings(max_examples=60, deadline=None)
@given(descriptions)
def test_description_round_trips(description: GroupDescription) -> None:
    assert calls.description_from_message(wired(calls.description_to_message(description))) == description


@settings(max_examples=30, deadline=None)
@given(words, names, starts, st.booleans(), outcomes)
def test_reset_round_trips(table: str, group: str, start: Any, dry_run: bool, outcome: ResetOutcome) -> None:
    message = wired(calls.reset_to_message(table, group, start, dry_run))
    assert (*calls.group_from_message(message), calls.reset_start(message), message.dry_run) == (
        table,
        group,
        start,
        dry_run,
    )
    assert calls.outcome_from_message(wired(calls.outcome_to_message(outcome))) == outcome


def _scripted(kind: type, decode: Callable[[Any], object]) -> tuple[type, Callable[[Any], object]]:
    return kind, decode


DECODERS = [
    _scripted(pb.JoinGroupRequest, calls.join_from_message),
    _scripted(pb.JoinGroupResponse, calls.joined_from_message),
    _scripted(pb.HeartbeatRequest, calls.member_of),
    _scripted(pb.RequestSplitsRequest, calls.ask_from_message),
    _scripted(pb.RequestSplitsResponse, calls.answer_from_message),
    _scripted(pb.CommitSplitsRequest, calls.commit_from_message),
    _scripted(pb.LeaveGroupRequest, calls.member_of),
    _scripted(pb.ListGroupsRequest, calls.listed_table),
    _scripted(pb.ListGroupsResponse, calls.list_from_message),
    _scripted(pb.DescribeGroupRequest, calls.group_from_message),
    _scripted(pb.DescribeGroupResponse, calls.description_from_message),
    _scripted(pb.ResetGroupRequest, calls.group_from_message),
    _scripted(pb.ResetGroupRequest, calls.reset_start),
    _scripted(pb.ResetGroupResponse, calls.outcome_from_message),
    _scripted(pb.DeleteGroupRequest, calls.group_from_message),
]


@pytest.mark.parametrize(("kind", "decode"), DECODERS)
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_bytes_give_a_value_or_an_error_of_the_tree(
    kind: Any, decode: Callable[[Any], object], data: st.DataObject
) -> None:
    from google.protobuf.message import DecodeError

    spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="t", query=Incremental())))
    seeds = [
        b"",
        calls.join_to_message("g", "r", spec, "q").SerializeToString(),
        calls.answer_to_message(
            Assignments((AssignedSplit(SplitRef("p", 0), SPLIT, 0, Position(KEY)),))
        ).SerializeToString(),
        calls.commit_to_message(Member("t", "g", "r", 1), ()).SerializeToString(),
    ]
    raw = bytearray(data.draw(st.binary(max_size=40) | st.sampled_from(seeds)))
    for _ in range(data.draw(st.integers(0, 4))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PenstockError, DecodeError):
        decode(kind.FromString(bytes(raw)))


@pytest.mark.parametrize("field", ["summary", "scope"])
def test_description_without_a_part_is_refused(field: str) -> None:
    summary = GroupSummary(
        table="t", group="g", state="ended", committed=Position(KEY), planned=Position(KEY), readers=0
    )
    scope = GroupScope(request=PlanRequest(table="t", query=Incremental()))
    message = calls.description_to_message(
        GroupDescription(
            summary=summary, scope=scope, limits=RoundLimits(), rounds=0, pending_splits=0, held_splits=0, readers=()
        )
    )
    message.ClearField(field)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=f"`{field}`: got nothing"):
        calls.description_from_message(message)


def test_empty_answer_is_not_the_end_of_the_group() -> None:
    with pytest.raises(ConfigurationError, match="no answer that this build knows"):
        calls.answer_from_message(pb.RequestSplitsResponse())


class TestNames:
    """Of groups and readers."""

    @given(names)
    def test_valid_names_are_accepted(self, text: str) -> None:
        assert checked_name("group", text) == text
        assert sanitized_name(text) == text

    @given(st.text())
    def test_name_can_be_made_of_any_text(self, text: str) -> None:
        assert checked_name("group", sanitized_name(text))

    @pytest.mark.parametrize("text", ["", " ", "a b", "ä", "a\n", "a\0", "a\\b", "a%", "x" * (MAX_NAME_CHARS + 1), "٣"])
    def test_invalid_names_are_refused(self, text: str) -> None:
        with pytest.raises(ConfigurationError, match="group"):
            checked_name("group", text)


def test_invalid_name_is_not_reported_as_damage() -> None:
    message = str(breach("x", "y", "z", "w"))
    assert "damaged" in message
    with pytest.raises(ConfigurationError) as caught:
        checked_name("group", "a b")
    assert "damaged" not in str(caught.value)
