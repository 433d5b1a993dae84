"""Requests and answers of `GroupService` as messages of `penstock.v1`."""

from __future__ import annotations

from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.codec import groups as groups
from penstock.proto.codec.checks import position_from_message, position_to_message
from penstock.proto.codec.hybrid.messages import place_from_message, place_to_message
from penstock.proto.codec.server_status import group_status_from_message, group_status_to_message
from penstock.proto.codec.streams import snapshot_from_message, snapshot_to_message
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.groups import (
    MAX_SPLITS_A_REQUEST,
    MAX_TABLES_SHOWN,
    Assignments,
    EndOfGroup,
    GroupAnswer,
    GroupDescription,
    GroupSpec,
    GroupStart,
    GroupSummary,
    Joined,
    Member,
    NothingYet,
    ResetOutcome,
    SplitProgress,
    TableTrouble,
    checked_name,
)
from penstock.proto.v1 import penstock_pb2 as pb

MAX_DONE: Final = 10_000
"""The maximum number of splits of one commit."""
MAX_GROUPS: Final = 100_000
MAX_READERS: Final = 100_000
MAX_GROUP_ERROR_CHARS: Final = 64 << 10

_OfMember = pb.HeartbeatRequest | pb.RequestSplitsRequest | pb.CommitSplitsRequest | pb.LeaveGroupRequest
_OfGroup = pb.DescribeGroupRequest | pb.ResetGroupRequest | pb.DeleteGroupRequest


def join_to_message(group: str, reader_id: str, spec: GroupSpec, request_id: str) -> pb.JoinGroupRequest:
    """A join; a bad name is refused before it is sent."""
    checked_name("group", group)
    checked_name("reader id", reader_id)
    with check.encoding(f"join of group {group}"):
        message = pb.JoinGroupRequest(
            group=group,
            reader_id=reader_id,
            scope=groups.scope_to_message(spec.scope),
            limits=groups.limits_to_message(spec.limits),
            request_id=request_id,
        )
        groups.set_start(message, spec.start)
        return message


def join_from_message(message: pb.JoinGroupRequest) -> tuple[str, str, GroupSpec, str]:
    """(group, reader id, spec, request id). ConfigurationError for a field that cannot be."""
    group, reader_id = checked_name("group", message.group), checked_name("reader id", message.reader_id)
    what = f"join of group {group}"
    if not message.HasField("scope"):
        raise check.breach(what, "scope", "nothing", "a scope")
    spec = GroupSpec(
        scope=groups.scope_from_message(what, message.scope),
        start=groups.start_from_message(what, message),
        limits=groups.limits_from_message(what, message.limits),
    )
    return group, reader_id, spec, check.name(what, "request_id", message.request_id)


def joined_to_message(joined: Joined) -> pb.JoinGroupResponse:
    """The answer to a join."""
    with check.encoding("joined"):
        return pb.JoinGroupResponse(member=groups.member_to_message(joined.member), lease_ms=joined.lease_ms)


def joined_from_message(message: pb.JoinGroupResponse) -> Joined:
    """ConfigurationError for a field that cannot be."""
    member = groups.member_from_message("joined", message.member if message.HasField("member") else None)
    return Joined(member, lease_from_message("joined", message.lease_ms))


def lease_from_message(what: str, lease_ms: int) -> int:
    """A lease of at least a millisecond: one of nothing would fence its reader at once, for ever."""
    if not lease_ms:
        raise check.breach(what, "lease_ms", "0", "1 or more")
    return check.number(what, "lease_ms", lease_ms)


def member_of(message: _OfMember) -> Member:
    """The calling member. ConfigurationError for an invalid field."""
    what = type(message).__name__
    return groups.member_from_message(what, message.member if message.HasField("member") else None)


def ask_to_message(
    member: Member,
    max_splits: int,
    sequence: int,
    without: tuple[str, ...] = (),
    received: int | None = None,
    wait_ms: int = 0,
) -> pb.RequestSplitsRequest:
    """A request for splits."""
    checked_max_splits(max_splits)
    with check.encoding("request for splits"):
        return pb.RequestSplitsRequest(
            member=groups.member_to_message(member),
            max_splits=max_splits,
            sequence=sequence,
            without_tables=without[:MAX_TABLES_SHOWN],
            received=received,
            wait_ms=wait_ms or None,
        )


def ask_from_message(message: pb.RequestSplitsRequest) -> tuple[Member, int, int, tuple[str, ...], int | None, int]:
    """(member, max_splits, sequence, the tables that it leaves out, the newest request whose splits it received, how
    long the call may be held)."""
    member, what = member_of(message), "request for splits"
    without = check.counted(what, "without_tables", message.without_tables, MAX_TABLES_SHOWN)
    return (
        member,
        checked_max_splits(message.max_splits),
        check.number(what, "sequence", message.sequence),
        tuple(check.name(what, "without_tables", each, check.MAX_PATH_CHARS) for each in without),
        check.number(what, "received", message.received) if message.HasField("received") else None,
        check.number(what, "wait_ms", message.wait_ms),
    )


def checked_max_splits(max_splits: int) -> int:
    """1 to MAX_SPLITS_A_REQUEST, or ConfigurationError."""
    if not 1 <= max_splits <= MAX_SPLITS_A_REQUEST:
        raise ConfigurationError(f"max_splits of a request: got {max_splits}, expected 1 to {MAX_SPLITS_A_REQUEST}")
    return max_splits


def answer_to_message(answer: GroupAnswer) -> pb.RequestSplitsResponse:
    """Splits, a pause, or the end."""
    match answer:
        case Assignments(splits, watermark_us):
            with check.encoding("assigned splits"):
                assignments = pb.Assignments(splits=[groups.assigned_to_message(each) for each in splits])
                return pb.RequestSplitsResponse(assignments=assignments, watermark_us=watermark_us)
        case NothingYet(retry_ms, caught_up, troubles, watermark_us):
            with check.encoding("nothing yet"):
                message = pb.NothingYet(retry_ms=retry_ms, caught_up=caught_up)
                for each in troubles:
                    message.troubles.add(table=each.table, code=each.code, text=each.text)
                return pb.RequestSplitsResponse(nothing_yet=message, watermark_us=watermark_us)
        case EndOfGroup(watermark_us):
            with check.encoding("end of group"):
                return pb.RequestSplitsResponse(end_of_group=pb.EndOfGroup(), watermark_us=watermark_us)


def answer_from_message(message: pb.RequestSplitsResponse) -> GroupAnswer:
    """ConfigurationError if it is none of them: never taken for the end."""
    what = "assigned splits"
    watermark_us = message.watermark_us if message.HasField("watermark_us") else None
    match message.WhichOneof("answer"):
        case "assignments":
            splits = check.counted(what, "splits", message.assignments.splits, MAX_SPLITS_A_REQUEST)
            return Assignments(tuple(groups.assigned_from_message(what, each) for each in splits), watermark_us)
        case "nothing_yet":
            retry_ms = check.number("nothing yet", "retry_ms", message.nothing_yet.retry_ms)
            caught_up, troubles = message.nothing_yet.caught_up, _troubles(message.nothing_yet)
            return NothingYet(retry_ms, caught_up, troubles, watermark_us)
        case "end_of_group":
            return EndOfGroup(watermark_us)
        case None:
            known = "assignments, nothing_yet or end_of_group"
            raise check.breach(what, "answer", "no answer that this build knows", known)
        case other:
            raise InvariantViolation(f"the stubs know answer {other!r}, the codec does not")


def _troubles(message: pb.NothingYet) -> tuple[TableTrouble, ...]:
    what = "nothing yet"
    return tuple(
        TableTrouble(
            check.name(what, "troubles.table", each.table, check.MAX_PATH_CHARS),
            check.name(what, "troubles.code", each.code),
            check.text(what, "troubles.text", each.text, MAX_GROUP_ERROR_CHARS),
        )
        for each in check.counted(what, "troubles", message.troubles, MAX_TABLES_SHOWN)
    )


def commit_to_message(member: Member, done: tuple[SplitProgress, ...]) -> pb.CommitSplitsRequest:
    """A commit; ConfigurationError for more than MAX_DONE splits."""
    if len(done) > MAX_DONE:
        raise ConfigurationError(f"commit of {len(done)} splits: expected at most {MAX_DONE} at a time")
    with check.encoding("commit of splits"):
        return pb.CommitSplitsRequest(
            member=groups.member_to_message(member), done=[groups.progress_to_message(each) for each in done]
        )


def commit_from_message(message: pb.CommitSplitsRequest) -> tuple[Member, tuple[SplitProgress, ...]]:
    """The member, and the progress of its splits."""
    member = member_of(message)
    done = check.counted("commit of splits", "done", message.done, MAX_DONE)
    return member, tuple(groups.progress_from_message("commit of splits", each) for each in done)


def listed_table(message: pb.ListGroupsRequest | pb.DescribeServerRequest) -> str:
    """The table whose groups are requested; empty for all."""
    return check.text("list of groups", "table", message.table, check.MAX_PATH_CHARS)


def list_to_message(summaries: tuple[GroupSummary, ...]) -> pb.ListGroupsResponse:
    """A list of groups."""
    with check.encoding("list of groups"):
        return pb.ListGroupsResponse(groups=[groups.summary_to_message(each) for each in summaries])


def list_from_message(message: pb.ListGroupsResponse) -> tuple[GroupSummary, ...]:
    """ConfigurationError for a field that cannot be."""
    listed = check.counted("list of groups", "groups", message.groups, MAX_GROUPS)
    return tuple(groups.summary_from_message("list of groups", each) for each in listed)


def group_from_message(message: _OfGroup) -> tuple[str, str]:
    """The (table, group) of an operator's request."""
    what = type(message).__name__
    table = check.name(what, "table", message.table, check.MAX_PATH_CHARS)
    return table, checked_name("group", message.group)


def description_to_message(description: GroupDescription) -> pb.DescribeGroupResponse:
    """A group in full."""
    with check.encoding(f"description of group {description.summary.group}"):
        return pb.DescribeGroupResponse(
            summary=groups.summary_to_message(description.summary),
            scope=groups.scope_to_message(description.scope),
            limits=groups.limits_to_message(description.limits),
            rounds=description.rounds,
            pending_splits=description.pending_splits,
            held_splits=description.held_splits,
            readers=[groups.reader_to_message(each) for each in description.readers],
            lag=None if description.lag is None else groups.lag_to_message(description.lag),
            error_code=description.error_code,
            error=description.error,
            kafka=None if description.kafka is None else place_to_message(description.kafka),
            tables=[group_status_to_message(each) for each in description.tables],
            watermark_us=description.watermark_us,
            snapshot=None if description.snapshot is None else snapshot_to_message(description.snapshot),
            snapshot_at=None if description.snapshot_at is None else position_to_message(description.snapshot_at),
            alignment=None if description.alignment is None else groups.aligned_to_message(description.alignment),
        )


def description_from_message(message: pb.DescribeGroupResponse) -> GroupDescription:
    """ConfigurationError for a field that cannot be."""
    what = "description of a group"
    for field in ("summary", "scope"):
        if not message.HasField(field):
            raise check.breach(what, field, "nothing", f"a {field}")
    readers = check.counted(what, "readers", message.readers, MAX_READERS)
    return GroupDescription(
        summary=groups.summary_from_message(what, message.summary),
        scope=groups.scope_from_message(what, message.scope),
        limits=groups.limits_from_message(what, message.limits),
        rounds=check.number(what, "rounds", message.rounds),
        pending_splits=check.number(what, "pending_splits", message.pending_splits),
        held_splits=check.number(what, "held_splits", message.held_splits),
        readers=tuple(groups.reader_from_message(what, each) for each in readers),
        lag=groups.lag_from_message(what, message.lag) if message.HasField("lag") else None,
        error_code=check.text(what, "error_code", message.error_code),
        error=check.text(what, "error", message.error, MAX_GROUP_ERROR_CHARS),
        kafka=place_from_message(what, "kafka", message.kafka) if message.HasField("kafka") else None,
        tables=tuple(
            group_status_from_message(what, each)
            for each in check.counted(what, "tables", message.tables, MAX_TABLES_SHOWN)
        ),
        watermark_us=message.watermark_us if message.HasField("watermark_us") else None,
        snapshot=snapshot_from_message(what, message.snapshot) if message.HasField("snapshot") else None,
        snapshot_at=(
            position_from_message(what, "snapshot_at", message.snapshot_at) if message.HasField("snapshot_at") else None
        ),
        alignment=groups.aligned_from_message(what, message.alignment) if message.HasField("alignment") else None,
    )


def reset_to_message(table: str, group: str, start: GroupStart, dry_run: bool) -> pb.ResetGroupRequest:
    """A reset."""
    with check.encoding(f"reset of group {group!r}"):
        message = pb.ResetGroupRequest(table=table, group=checked_name("group", group), dry_run=dry_run)
        groups.set_start(message, start)
        return message


def reset_start(message: pb.ResetGroupRequest) -> GroupStart:
    """Where a group is to be moved."""
    return groups.start_from_message("reset of a group", message)


def outcome_to_message(outcome: ResetOutcome) -> pb.ResetGroupResponse:
    """What a reset did."""
    with check.encoding("outcome of a reset"):
        return pb.ResetGroupResponse(
            before=position_to_message(outcome.before),
            after=position_to_message(outcome.after),
            dropped_splits=outcome.dropped_splits,
            dry_run=outcome.dry_run,
        )


def outcome_from_message(message: pb.ResetGroupResponse) -> ResetOutcome:
    """ConfigurationError for a field that cannot be."""
    what = "outcome of a reset"
    before = message.before if message.HasField("before") else None
    after = message.after if message.HasField("after") else None
    return ResetOutcome(
        before=groups.required_position(what, "before", before),
        after=groups.required_position(what, "after", after),
        dropped_splits=check.number(what, "dropped_splits", message.dropped_splits),
        dry_run=message.dry_run,
    )
