"""`GroupCalls`: the methods of `EnumeratorClient` for consumer groups, one per call of `GroupService`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from penstock.proto.codec import group_calls as calls
from penstock.proto.codec.checks import encoding
from penstock.proto.codec.groups import member_to_message
from penstock.proto.codec.server_status import status_from_message
from penstock.proto.model.groups import (
    GroupAnswer,
    GroupDescription,
    GroupSpec,
    GroupStart,
    GroupSummary,
    Joined,
    Member,
    ResetOutcome,
    ServerStatus,
    SplitProgress,
    checked_name,
)
from penstock.proto.v1 import penstock_pb2 as pb

_A = TypeVar("_A")

GroupRequest = (
    pb.JoinGroupRequest
    | pb.HeartbeatRequest
    | pb.RequestSplitsRequest
    | pb.CommitSplitsRequest
    | pb.LeaveGroupRequest
    | pb.ListGroupsRequest
    | pb.DescribeGroupRequest
    | pb.ResetGroupRequest
    | pb.DeleteGroupRequest
    | pb.DescribeServerRequest
)


class GroupCalls(ABC):
    """A `GroupService` over calls to a server. Each call may be repeated: a join is identified by its request id, a
    request for splits by its sequence number, and the other calls are idempotent."""

    @abstractmethod
    def _call_group(self, name: str, request: GroupRequest, answer_type: type[_A]) -> _A:
        """The server's answer."""

    def join_group(self, group: str, reader_id: str, spec: GroupSpec, request_id: str) -> Joined:
        """See `GroupService.join_group`."""
        message = calls.join_to_message(group, reader_id, spec, request_id)
        return calls.joined_from_message(self._call_group("JoinGroup", message, pb.JoinGroupResponse))

    def heartbeat(self, member: Member) -> int:
        """See `GroupService.heartbeat`."""
        with encoding("heartbeat"):
            message = pb.HeartbeatRequest(member=member_to_message(member))
        answer = self._call_group("Heartbeat", message, pb.HeartbeatResponse)
        return calls.lease_from_message("heartbeat", answer.lease_ms)

    def request_splits(
        self,
        member: Member,
        max_splits: int,
        sequence: int,
        without: tuple[str, ...] = (),
        received: int | None = None,
        wait_ms: int = 0,
    ) -> GroupAnswer:
        """See `GroupService.request_splits`."""
        message = calls.ask_to_message(member, max_splits, sequence, without, received, wait_ms)
        return calls.answer_from_message(self._call_group("RequestSplits", message, pb.RequestSplitsResponse))

    def commit_splits(self, member: Member, done: tuple[SplitProgress, ...]) -> None:
        """See `GroupService.commit_splits`."""
        self._call_group("CommitSplits", calls.commit_to_message(member, done), pb.CommitSplitsResponse)

    def leave_group(self, member: Member) -> None:
        """See `GroupService.leave_group`."""
        with encoding("leave group"):
            message = pb.LeaveGroupRequest(member=member_to_message(member))
        self._call_group("LeaveGroup", message, pb.LeaveGroupResponse)

    def list_groups(self, table: str = "") -> tuple[GroupSummary, ...]:
        """See `GroupService.list_groups`."""
        with encoding("list groups"):
            message = pb.ListGroupsRequest(table=table)
        return calls.list_from_message(self._call_group("ListGroups", message, pb.ListGroupsResponse))

    def describe_group(self, table: str, group: str) -> GroupDescription:
        """See `GroupService.describe_group`."""
        with encoding("describe group"):
            message = pb.DescribeGroupRequest(table=table, group=checked_name("group", group))
        return calls.description_from_message(self._call_group("DescribeGroup", message, pb.DescribeGroupResponse))

    def reset_group(self, table: str, group: str, start: GroupStart, *, dry_run: bool) -> ResetOutcome:
        """See `GroupService.reset_group`."""
        message = calls.reset_to_message(table, group, start, dry_run)
        return calls.outcome_from_message(self._call_group("ResetGroup", message, pb.ResetGroupResponse))

    def delete_group(self, table: str, group: str) -> None:
        """See `GroupService.delete_group`."""
        with encoding("delete group"):
            message = pb.DeleteGroupRequest(table=table, group=checked_name("group", group))
        self._call_group("DeleteGroup", message, pb.DeleteGroupResponse)

    def describe_server(self, table: str = "") -> ServerStatus:
        """See `GroupService.describe_server`."""
        with encoding("describe server"):
            message = pb.DescribeServerRequest(table=table)
        answer = self._call_group("DescribeServer", message, pb.DescribeServerResponse)
        return status_from_message(answer)
