"""The handlers of the calls of consumer groups: decode, call the `GroupService`, encode.

They make no decisions and keep no state. `answered` converts errors to statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import grpc

from penstock.enumerator.call_waits import waiting_by
from penstock.enumerator.server.auth.callers import caller
from penstock.enumerator.server.config.settings import LimitSettings
from penstock.enumerator.server.rpc.handlers import answered
from penstock.enumerator.server.rpc.held_calls import HeldCalls
from penstock.proto.codec import group_calls as calls
from penstock.proto.codec.server_status import status_to_message
from penstock.proto.errors import ConfigurationError
from penstock.proto.group_service import GroupService
from penstock.proto.model.groups import Member
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.version import __version__


class GroupHandlers:
    """One method per call, named as in the .proto. Any thread. Without a `GroupService` every valid call fails with a
    ConfigurationError."""

    def __init__(self, groups: GroupService | None, limits: LimitSettings = LimitSettings()) -> None:  # noqa: B008
        self._optional_groups, self._held = groups, HeldCalls(limits)

    def by_call(self) -> Mapping[str, Callable[..., object]]:
        """The handlers by the names of their calls."""
        handlers = (
            self.JoinGroup,
            self.Heartbeat,
            self.RequestSplits,
            self.CommitSplits,
            self.LeaveGroup,
            self.ListGroups,
            self.DescribeGroup,
            self.ResetGroup,
            self.DeleteGroup,
            self.DescribeServer,
        )
        return {handler.__name__: handler for handler in handlers}

    @property
    def _groups(self) -> GroupService:
        if self._optional_groups is None:
            raise ConfigurationError("this server keeps no consumer groups: use one that does")
        return self._optional_groups

    def JoinGroup(self, request: pb.JoinGroupRequest, context: grpc.ServicerContext) -> pb.JoinGroupResponse:
        """See the .proto."""

        def answer() -> pb.JoinGroupResponse:
            group, reader_id, spec, request_id = calls.join_from_message(request)
            joined = self._groups.join_group(group, reader_id, replace(spec, principal=caller()), request_id)
            return calls.joined_to_message(joined)

        return answered("JoinGroup", request, context, answer)

    def Heartbeat(self, request: pb.HeartbeatRequest, context: grpc.ServicerContext) -> pb.HeartbeatResponse:
        """See the .proto."""

        def answer() -> pb.HeartbeatResponse:
            member = _of_caller(calls.member_of(request))
            return pb.HeartbeatResponse(lease_ms=self._groups.heartbeat(member))

        return answered("Heartbeat", request, context, answer)

    def RequestSplits(
        self, request: pb.RequestSplitsRequest, context: grpc.ServicerContext
    ) -> pb.RequestSplitsResponse:
        """See the .proto."""

        def answer() -> pb.RequestSplitsResponse:
            member, max_splits, sequence, without, received, wait_ms = calls.ask_from_message(request)
            with self._held.hold(context, wait_ms) as held, waiting_by(held.wait):
                member = _of_caller(member)
                splits = self._groups.request_splits(member, max_splits, sequence, without, received, wait_ms)
            return calls.answer_to_message(held.answered(splits))

        return answered("RequestSplits", request, context, answer)

    def CommitSplits(self, request: pb.CommitSplitsRequest, context: grpc.ServicerContext) -> pb.CommitSplitsResponse:
        """See the .proto."""

        def answer() -> pb.CommitSplitsResponse:
            member, done = calls.commit_from_message(request)
            self._groups.commit_splits(_of_caller(member), done)
            return pb.CommitSplitsResponse()

        return answered("CommitSplits", request, context, answer)

    def LeaveGroup(self, request: pb.LeaveGroupRequest, context: grpc.ServicerContext) -> pb.LeaveGroupResponse:
        """See the .proto."""

        def answer() -> pb.LeaveGroupResponse:
            member = _of_caller(calls.member_of(request))
            self._groups.leave_group(member)
            return pb.LeaveGroupResponse()

        return answered("LeaveGroup", request, context, answer)

    def ListGroups(self, request: pb.ListGroupsRequest, context: grpc.ServicerContext) -> pb.ListGroupsResponse:
        """See the .proto."""

        def answer() -> pb.ListGroupsResponse:
            table = calls.listed_table(request)
            return calls.list_to_message(self._groups.list_groups(table))

        return answered("ListGroups", request, context, answer)

    def DescribeGroup(
        self, request: pb.DescribeGroupRequest, context: grpc.ServicerContext
    ) -> pb.DescribeGroupResponse:
        """See the .proto."""

        def answer() -> pb.DescribeGroupResponse:
            group_key = calls.group_from_message(request)
            return calls.description_to_message(self._groups.describe_group(*group_key))

        return answered("DescribeGroup", request, context, answer)

    def ResetGroup(self, request: pb.ResetGroupRequest, context: grpc.ServicerContext) -> pb.ResetGroupResponse:
        """See the .proto."""

        def answer() -> pb.ResetGroupResponse:
            table, group = calls.group_from_message(request)
            start = calls.reset_start(request)
            return calls.outcome_to_message(self._groups.reset_group(table, group, start, dry_run=request.dry_run))

        return answered("ResetGroup", request, context, answer)

    def DeleteGroup(self, request: pb.DeleteGroupRequest, context: grpc.ServicerContext) -> pb.DeleteGroupResponse:
        """See the .proto."""

        def answer() -> pb.DeleteGroupResponse:
            group_key = calls.group_from_message(request)
            self._groups.delete_group(*group_key)
            return pb.DeleteGroupResponse()

        return answered("DeleteGroup", request, context, answer)

    def DescribeServer(
        self, request: pb.DescribeServerRequest, context: grpc.ServicerContext
    ) -> pb.DescribeServerResponse:
        """See the .proto."""

        def answer() -> pb.DescribeServerResponse:
            status = self._groups.describe_server(calls.listed_table(request))
            return status_to_message(replace(status, version=__version__))

        return answered("DescribeServer", request, context, answer)


def _of_caller(member: Member) -> Member:
    """The member with the principal of the current call."""
    return replace(member, principal=caller())
