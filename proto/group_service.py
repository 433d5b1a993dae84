"""`GroupService`, the interface of consumer groups. Its values are in `penstock.proto.model.groups`."""

from __future__ import annotations

from typing import Protocol

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
)


class GroupService(Protocol):
    """Consumer groups. Any thread.

    Calls are idempotent: a `request_id` identifies repeated joins, sequence numbers order the requests of a member.
    Errors are those of `penstock.proto.errors`: Fenced for a member whose epoch is not current, UnknownGroup, and for a
    stopped group the error that stopped it.
    """

    def join_group(self, group: str, reader_id: str, spec: GroupSpec, request_id: str) -> Joined:
        """Joins a group with a new epoch, which fences an earlier reader with the same id. The first join creates the
        group. A reader that joins again within its lease keeps its splits. ConfigurationError: the scope differs."""
        ...

    def heartbeat(self, member: Member) -> int:
        """Renews the lease; returns its length in milliseconds."""
        ...

    def request_splits(
        self,
        member: Member,
        max_splits: int,
        sequence: int,
        without: tuple[str, ...] = (),
        received: int | None = None,
        wait_ms: int = 0,
    ) -> GroupAnswer:
        """Assigns at most `max_splits` further splits. In a group over tables: none of the tables `without`.

        `sequence` grows with each request of the member. Repeating the newest request gives the same answer; an older
        one is refused (Fenced). `received` is the newest request of this epoch whose splits the member received, 0 if
        it received none: splits of a later request are assigned again with this one. None: the member does not say.
        `wait_ms` is how long a server may wait for splits before it answers without any. It may wait for less, or not
        at all: `NothingYet.retry_ms` then says when to ask again.
        """
        ...

    def commit_splits(self, member: Member, done: tuple[SplitProgress, ...]) -> None:
        """Commits progress; durable on return, all of it or nothing.

        Ordinals never decrease. A finished split may be committed again. UnknownSplit for a split that the member does
        not hold.
        """
        ...

    def leave_group(self, member: Member) -> None:
        """Releases all splits of the member at once. Repeated calls are allowed."""
        ...

    def list_groups(self, table: str = "") -> tuple[GroupSummary, ...]:
        """The groups, sorted by table and name."""
        ...

    def describe_group(self, table: str, group: str) -> GroupDescription:
        """The description of a group, with its lag."""
        ...

    def reset_group(self, table: str, group: str, start: GroupStart, *, dry_run: bool) -> ResetOutcome:
        """Moves the group to another position, fences its readers, drops its rounds, and restarts a stopped group.
        ConfigurationError for a position that is not of the table."""
        ...

    def delete_group(self, table: str, group: str) -> None:
        """Deletes the group; ConfigurationError while it has readers."""
        ...

    def describe_server(self, table: str = "") -> ServerStatus:
        """The status of the server, for all tables or one. Cheap: no table is read."""
        ...
