"""Calls of the group service, each with its response and with what reaches the service."""

from __future__ import annotations

from collections.abc import Callable

from penstock.proto.group_service import GroupService
from penstock.proto.model.groups import (
    AssignedSplit,
    Assignments,
    EndOfGroup,
    GroupDescription,
    GroupLag,
    GroupScope,
    GroupSpec,
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
    StartSnapshot,
)
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, RoundLimits
from penstock.proto.model.reports import SplitReport
from penstock.proto.model.splits import DeleteMarker, FileRef, Split
from penstock.proto.model.streams import EventTimeRule, SnapshotPlace, WatermarkFallback

MEMBER = Member("trips", "g", "r-1", 7)
AT = Position(InstantTime("20260103000000000"), 2)
SCOPE = GroupScope(
    request=PlanRequest(
        table="trips",
        query=Incremental(),
        columns=("id",),
        where="id <> 'ü'",
        delete_marker=DeleteMarker("op", "D"),
        skip_corrupt=True,
    ),
    upto=AT,
    on_lost_range=OnLostRange.SNAPSHOT,
)
SPEC = GroupSpec(scope=SCOPE, start=StartLatest(), limits=RoundLimits(max_commits=1, max_bytes=2**40))
CHANGES = GroupSpec(scope=GroupScope(request=PlanRequest(table="trips", query=Changes("hudi"))), start=StartAt(AT))  # type: ignore[arg-type]
TIMED = GroupSpec(
    scope=GroupScope(
        request=PlanRequest(table="trips", query=Incremental(), event_time="ts", event_time_unit="ms"),
        rule=EventTimeRule(
            max_out_of_orderness_us=2**62, fallback=WatermarkFallback.COMMIT_TIME, timezone="Asia/Kolkata"
        ),
        idle_timeout_us=1,
    ),
    start=StartSnapshot(),
)
SPLIT = Split(
    split_id="s-1",
    partition="",
    partition_values=(),
    file_group="fg",
    order_key=InstantTime("20260101000000000"),
    base=FileRef("fg_0-1-1_20260101000000000.parquet", 3),
    base_instant="20260101000000000",
    logs=(),
)
ASSIGNED = AssignedSplit(SplitRef("plan-1", 3), SPLIT, 17, AT)
DONE = (
    SplitProgress(ref=SplitRef("plan-1", 3), ordinal=17),
    SplitProgress(ref=SplitRef("plan-1", 4), ordinal=0, finished=True, report=SplitReport(rows=3, size_bytes=4)),
)
SUMMARY = GroupSummary(table="trips", group="g", state="running", committed=EARLIEST, planned=AT, readers=1)
READER = ReaderState(reader_id="r-1", epoch=7, held_splits=2, lease_left_ms=900)
FULL = GroupDescription(
    summary=SUMMARY,
    scope=SCOPE,
    limits=RoundLimits(max_rows=5),
    rounds=2,
    pending_splits=8,
    held_splits=2,
    readers=(READER,),
    lag=GroupLag(commits=3, size_bytes=4, seconds=1.5, loss_commits=0, loss_seconds=0.25),
)
IN_SNAPSHOT = GroupDescription(
    summary=SUMMARY,
    scope=TIMED.scope,
    limits=RoundLimits(),
    rounds=1,
    pending_splits=8,
    held_splits=2,
    readers=(),
    watermark_us=-(2**63),
    snapshot=SnapshotPlace(done=3, total=9, digest="0123456789abcdef" * 2),
)
STOPPED = GroupDescription(
    summary=SUMMARY,
    scope=GroupScope(request=PlanRequest(table="trips", query=Incremental())),
    limits=RoundLimits(),
    rounds=0,
    pending_splits=0,
    held_splits=0,
    readers=(),
    lag=GroupLag(commits=0, size_bytes=0, seconds=0.0),
    error_code="POSITION_EXPIRED",
    error="gone",
)

Call = Callable[[GroupService], object]
CALLS: dict[str, tuple[Call, object, tuple[object, ...]]] = {
    "join": (
        lambda d: d.join_group("g", "r-1", SPEC, "q-1"),
        Joined(MEMBER, 10_000),
        ("join", "g", "r-1", SPEC, "q-1"),
    ),
    "join for changes": (
        lambda d: d.join_group("a.b_c-d:e@f/g", "r", CHANGES, "q"),
        Joined(MEMBER, 1),
        ("join", "a.b_c-d:e@f/g", "r", CHANGES, "q"),
    ),
    "join with a watermark": (
        lambda d: d.join_group("g", "r", TIMED, "q"),
        Joined(MEMBER, 1),
        ("join", "g", "r", TIMED, "q"),
    ),
    "splits with a watermark": (
        lambda d: d.request_splits(MEMBER, 4, 1),
        Assignments((ASSIGNED,), 2**63 - 1),
        ("request", MEMBER, 4, 1),
    ),
    "nothing yet with a watermark": (
        lambda d: d.request_splits(MEMBER, 1, 1),
        NothingYet(1, True, (), 0),
        ("request", MEMBER, 1, 1),
    ),
    "end with a watermark": (lambda d: d.request_splits(MEMBER, 1, 1), EndOfGroup(-1), ("request", MEMBER, 1, 1)),
    "describe a snapshot": (lambda d: d.describe_group("trips", "g"), IN_SNAPSHOT, ("describe", "trips", "g")),
    "reset to a snapshot": (
        lambda d: d.reset_group("trips", "g", StartSnapshot(), dry_run=False),
        ResetOutcome(before=AT, after=AT, dropped_splits=0, dry_run=False),
        ("reset", "trips", "g", StartSnapshot(), False),
    ),
    "heartbeat": (lambda d: d.heartbeat(MEMBER), 10_000, ("heartbeat", MEMBER)),
    "splits": (lambda d: d.request_splits(MEMBER, 4, 2**40), Assignments((ASSIGNED,)), ("request", MEMBER, 4, 2**40)),
    "nothing yet": (lambda d: d.request_splits(MEMBER, 1, 1), NothingYet(250), ("request", MEMBER, 1, 1)),
    "caught up": (lambda d: d.request_splits(MEMBER, 1, 1), NothingYet(0, True), ("request", MEMBER, 1, 1)),
    "end": (lambda d: d.request_splits(MEMBER, 1000, 0), EndOfGroup(), ("request", MEMBER, 1000, 0)),
    "commit": (lambda d: d.commit_splits(MEMBER, DONE), None, ("commit", MEMBER, DONE)),
    "commit of nothing": (lambda d: d.commit_splits(MEMBER, ()), None, ("commit", MEMBER, ())),
    "leave": (lambda d: d.leave_group(MEMBER), None, ("leave", MEMBER)),
    "list all": (lambda d: d.list_groups(), (SUMMARY,), ("list", "")),
    "list of a table": (lambda d: d.list_groups("trips"), (), ("list", "trips")),
    "describe": (lambda d: d.describe_group("trips", "g"), FULL, ("describe", "trips", "g")),
    "describe a stopped one": (lambda d: d.describe_group("trips", "g"), STOPPED, ("describe", "trips", "g")),
    "reset": (
        lambda d: d.reset_group("trips", "g", StartLatest(), dry_run=True),
        ResetOutcome(before=EARLIEST, after=AT, dropped_splits=9, dry_run=True),
        ("reset", "trips", "g", StartLatest(), True),
    ),
    "reset to": (
        lambda d: d.reset_group("trips", "g", StartAt(AT), dry_run=False),
        ResetOutcome(before=AT, after=AT, dropped_splits=0, dry_run=False),
        ("reset", "trips", "g", StartAt(AT), False),
    ),
    "delete": (lambda d: d.delete_group("trips", "g"), None, ("delete", "trips", "g")),
}
"""By name: the call, its response, and the call that reaches the service."""
