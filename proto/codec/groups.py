"""Encodes and decodes the values of `penstock.proto.model.groups` as messages of `penstock.v1`."""

from __future__ import annotations

from penstock.proto.codec import checks as check
from penstock.proto.codec.checks import position_from_message, position_to_message
from penstock.proto.codec.plan_calls import (
    checked_report,
    report_to_message,
    request_from_message,
    request_to_message,
)
from penstock.proto.codec.splits import split_from_message, split_to_message
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.groups import (
    AssignedSplit,
    GroupAlignment,
    GroupLag,
    GroupScope,
    GroupStart,
    GroupSummary,
    Member,
    OnLostRange,
    ReaderState,
    SplitProgress,
    SplitRef,
    StartAt,
    StartLatest,
    StartSnapshot,
    checked_name,
)
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import Changes, Incremental, RoundLimits
from penstock.proto.model.streams import Alignment, EventTimeRule, WatermarkFallback
from penstock.proto.v1 import penstock_pb2 as pb

STATES = ("running", "paused", "waiting", "stopped", "ended")
"""The states of a group."""


def required_position(what: str, field: str, message: pb.Position | None) -> Position:
    """Decodes a mandatory position. ConfigurationError that names `what` and `field` if it is absent or invalid."""
    if message is None:
        raise check.breach(what, field, "nothing", "a position")
    return position_from_message(what, field, message)


def scope_to_message(scope: GroupScope) -> pb.GroupScope:
    """Encodes a group's scope."""
    return pb.GroupScope(
        request=request_to_message(scope.request),
        upto=None if scope.upto is None else position_to_message(scope.upto),
        on_lost_range=scope.on_lost_range.value,
        over_tables=scope.over_tables,
        rule=None if scope.rule is None else rule_to_message(scope.rule),
        idle_timeout_us=scope.idle_timeout_us,
        alignment=None if scope.alignment is None else alignment_to_message(scope.alignment),
    )


def scope_from_message(what: str, message: pb.GroupScope) -> GroupScope:
    """Decodes a group's scope. ConfigurationError for an invalid field, or a query that no group consumes."""
    if not message.HasField("request"):
        raise check.breach(what, "scope.request", "nothing", "a plan request")
    request = request_from_message(message.request)
    if not isinstance(request.query, Incremental | Changes):
        raise check.breach(what, "scope.request.query", type(request.query).__name__, "incremental or changes")
    known = [policy.value for policy in OnLostRange]
    if message.on_lost_range not in known:
        raise check.breach(what, "scope.on_lost_range", repr(message.on_lost_range[:40]), ", ".join(known))
    upto = position_from_message(what, "scope.upto", message.upto) if message.HasField("upto") else None
    idle_us = None
    if message.HasField("idle_timeout_us"):
        idle_us = check.number(what, "scope.idle_timeout_us", message.idle_timeout_us)
    return GroupScope(
        request=request,
        upto=upto,
        on_lost_range=OnLostRange(message.on_lost_range),
        over_tables=message.over_tables,
        rule=rule_from_message(what, message.rule) if message.HasField("rule") else None,
        idle_timeout_us=idle_us,
        alignment=alignment_from_message(what, message.alignment) if message.HasField("alignment") else None,
    )


def alignment_to_message(alignment: Alignment) -> pb.Alignment:
    """Encodes the membership in an alignment set."""
    return pb.Alignment(
        set=alignment.set, max_drift_us=alignment.max_drift_us, idle_timeout_us=alignment.idle_timeout_us
    )


def alignment_from_message(what: str, message: pb.Alignment) -> Alignment:
    """Decodes the membership in an alignment set. ConfigurationError for an invalid field."""
    idle_us = None
    if message.HasField("idle_timeout_us"):
        idle_us = check.number(what, "scope.alignment.idle_timeout_us", message.idle_timeout_us)
    return Alignment(
        set=checked_name("alignment set", message.set),
        max_drift_us=check.number(what, "scope.alignment.max_drift_us", message.max_drift_us),
        idle_timeout_us=idle_us,
    )


def aligned_to_message(aligned: GroupAlignment) -> pb.GroupAlignment:
    """Encodes how far a group may read."""
    return pb.GroupAlignment(
        set=aligned.set, ceiling_us=aligned.ceiling_us, held=aligned.held, set_number=aligned.set_number
    )


def aligned_from_message(what: str, message: pb.GroupAlignment) -> GroupAlignment:
    """Decodes how far a group may read. ConfigurationError for an invalid field."""
    ceiling_us = message.ceiling_us if message.HasField("ceiling_us") else None
    name = checked_name("alignment set", message.set)
    return GroupAlignment(name, ceiling_us, message.held, message.set_number)


def rule_to_message(rule: EventTimeRule) -> pb.EventTimeRule:
    """Encodes a rule of watermarks."""
    return pb.EventTimeRule(
        max_out_of_orderness_us=rule.max_out_of_orderness_us, fallback=rule.fallback.value, timezone=rule.timezone
    )


def rule_from_message(what: str, message: pb.EventTimeRule) -> EventTimeRule:
    """Decodes a rule of watermarks. ConfigurationError for an invalid field."""
    known = [fallback.value for fallback in WatermarkFallback]
    late_us = check.number(what, "scope.rule.max_out_of_orderness_us", message.max_out_of_orderness_us)
    return EventTimeRule(
        max_out_of_orderness_us=late_us,
        fallback=WatermarkFallback(check.one_of(what, "scope.rule.fallback", message.fallback, known)),
        timezone=check.text(what, "scope.rule.timezone", message.timezone),
    )


def start_from_message(what: str, message: pb.JoinGroupRequest | pb.ResetGroupRequest) -> GroupStart:
    """Decodes the start of a group. There is no default, because a default could lose rows or repeat them."""
    match message.WhichOneof("start"):
        case "start_latest":
            return StartLatest()
        case "start_at":
            return StartAt(position_from_message(what, "start_at", message.start_at))
        case "start_snapshot":
            return StartSnapshot()
        case None:
            known = "start_latest, start_at or start_snapshot"
            raise check.breach(what, "start", "no start that this build knows", known)
        case other:
            raise InvariantViolation(f"the stubs know start {other!r}, the codec does not")


def set_start(message: pb.JoinGroupRequest | pb.ResetGroupRequest, start: GroupStart) -> None:
    """Sets the start of a request."""
    match start:
        case StartLatest():
            message.start_latest.CopyFrom(pb.StartLatest())
        case StartAt(position):
            message.start_at.CopyFrom(position_to_message(position))
        case StartSnapshot():
            message.start_snapshot.CopyFrom(pb.StartSnapshot())


def limits_to_message(limits: RoundLimits) -> pb.RoundLimits:
    """Encodes the limits of a round."""
    return pb.RoundLimits(
        max_commits=limits.max_commits,
        max_files=limits.max_files,
        max_bytes=limits.max_bytes,
        max_rows=limits.max_rows,
    )


def limits_from_message(what: str, message: pb.RoundLimits) -> RoundLimits:
    """Decodes the limits of a round. An absent message sets no limit."""
    return RoundLimits(
        max_commits=check.number(what, "limits.max_commits", message.max_commits),
        max_files=check.number(what, "limits.max_files", message.max_files),
        max_bytes=check.number(what, "limits.max_bytes", message.max_bytes),
        max_rows=check.number(what, "limits.max_rows", message.max_rows),
    )


def member_to_message(member: Member) -> pb.Member:
    """Encodes a member."""
    return pb.Member(table=member.table, group=member.group, reader_id=member.reader_id, epoch=member.epoch)


def member_from_message(what: str, message: pb.Member | None) -> Member:
    """Decodes a member. ConfigurationError for an invalid field."""
    if message is None:
        raise check.breach(what, "member", "nothing", "a value")
    return Member(
        table=check.name(what, "member.table", message.table, check.MAX_PATH_CHARS),
        group=checked_name("group", message.group),
        reader_id=checked_name("reader id", message.reader_id),
        epoch=check.number(what, "member.epoch", message.epoch),
    )


def assigned_to_message(assigned: AssignedSplit) -> pb.AssignedSplit:
    """Encodes an assigned split."""
    return pb.AssignedSplit(
        plan_id=assigned.ref.plan_id,
        index=assigned.ref.index,
        split=split_to_message(assigned.split),
        start=assigned.start,
        position=position_to_message(assigned.position),
        table=assigned.table,
        epoch=assigned.epoch,
        watermark_us=assigned.watermark_us,
    )


def assigned_from_message(what: str, message: pb.AssignedSplit) -> AssignedSplit:
    """Decodes an assigned split. ConfigurationError for an invalid field."""
    if not message.HasField("split"):
        raise check.breach(what, "split", "nothing", "a split")
    return AssignedSplit(
        ref=_ref(what, message),
        split=split_from_message(message.split),
        start=check.number(what, "start", message.start),
        position=required_position(what, "position", message.position if message.HasField("position") else None),
        table=check.text(what, "table", message.table, check.MAX_PATH_CHARS),
        epoch=check.number(what, "epoch", message.epoch),
        watermark_us=message.watermark_us if message.HasField("watermark_us") else None,
    )


def progress_to_message(progress: SplitProgress) -> pb.SplitProgress:
    """Encodes the progress in a split."""
    return pb.SplitProgress(
        plan_id=progress.ref.plan_id,
        index=progress.ref.index,
        ordinal=progress.ordinal,
        finished=progress.finished,
        report=None if progress.report is None else report_to_message(progress.report),
    )


def progress_from_message(what: str, message: pb.SplitProgress) -> SplitProgress:
    """Decodes the progress in a split. ConfigurationError for an invalid field."""
    return SplitProgress(
        ref=_ref(what, message),
        ordinal=check.number(what, "ordinal", message.ordinal),
        finished=message.finished,
        report=checked_report(what, message.report) if message.HasField("report") else None,
    )


def _ref(what: str, message: pb.AssignedSplit | pb.SplitProgress) -> SplitRef:
    return SplitRef(
        check.name(what, "plan_id", message.plan_id), check.number(what, "index", message.index, check.MAX_INDEX)
    )


def summary_to_message(summary: GroupSummary) -> pb.GroupSummary:
    """Encodes a group of a list."""
    return pb.GroupSummary(
        table=summary.table,
        group=summary.group,
        state=summary.state,
        committed=position_to_message(summary.committed),
        planned=position_to_message(summary.planned),
        readers=summary.readers,
        tables=summary.tables,
        over=summary.over,
    )


def summary_from_message(what: str, message: pb.GroupSummary) -> GroupSummary:
    """Decodes a group of a list. ConfigurationError for an invalid field."""
    if message.state not in STATES:
        raise check.breach(what, "state", repr(message.state[:40]), f"one of {', '.join(STATES)}")
    committed = message.committed if message.HasField("committed") else None
    planned = message.planned if message.HasField("planned") else None
    return GroupSummary(
        table=check.name(what, "table", message.table, check.MAX_PATH_CHARS),
        group=checked_name("group", message.group),
        state=message.state,
        committed=required_position(what, "committed", committed),
        planned=required_position(what, "planned", planned),
        readers=check.number(what, "readers", message.readers, check.MAX_INDEX),
        tables=check.number(what, "tables", message.tables, check.MAX_INDEX),
        over=check.text(what, "over", message.over, check.MAX_PATH_CHARS),
    )


def reader_to_message(reader: ReaderState) -> pb.ReaderState:
    """Encodes a reader of a group."""
    return pb.ReaderState(
        reader_id=reader.reader_id,
        epoch=reader.epoch,
        held_splits=reader.held_splits,
        lease_left_ms=reader.lease_left_ms,
    )


def reader_from_message(what: str, message: pb.ReaderState) -> ReaderState:
    """Decodes a reader of a group. ConfigurationError for an invalid field."""
    return ReaderState(
        reader_id=checked_name("reader id", message.reader_id),
        epoch=check.number(what, "readers.epoch", message.epoch),
        held_splits=check.number(what, "readers.held_splits", message.held_splits, check.MAX_INDEX),
        lease_left_ms=check.number(what, "readers.lease_left_ms", message.lease_left_ms),
    )


def lag_to_message(lag: GroupLag) -> pb.GroupLag:
    """Encodes a group's lag."""
    return pb.GroupLag(
        commits=lag.commits,
        size_bytes=lag.size_bytes,
        seconds=lag.seconds,
        loss_commits=lag.loss_commits,
        loss_seconds=lag.loss_seconds,
        holds_cleaner=lag.holds_cleaner,
    )


def lag_from_message(what: str, message: pb.GroupLag) -> GroupLag:
    """Decodes a group's lag. ConfigurationError for an invalid field."""
    loss_commits = (
        check.number(what, "lag.loss_commits", message.loss_commits) if message.HasField("loss_commits") else None
    )
    loss_seconds = (
        check.duration(what, "lag.loss_seconds", message.loss_seconds) if message.HasField("loss_seconds") else None
    )
    return GroupLag(
        commits=check.number(what, "lag.commits", message.commits),
        size_bytes=check.number(what, "lag.size_bytes", message.size_bytes),
        seconds=check.duration(what, "lag.seconds", message.seconds),
        loss_commits=loss_commits,
        loss_seconds=loss_seconds,
        holds_cleaner=message.holds_cleaner,
    )
