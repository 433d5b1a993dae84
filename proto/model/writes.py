"""Values of write transactions that a server coordinates: who writes, what a write changes, and how it ended."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from penstock.proto.model.positions import InstantTime

GroupId = tuple[str, str]
"""Partition path and file id of a file group."""
BUCKET_DIGITS: Final = 8
"""With a bucket index, the first characters of a file id are the number of its bucket."""
MAX_GROUPS_A_LEASE: Final = 10_000
"""File groups and partitions of one request for leases."""
MAX_GROUPS_A_WRITE: Final = 20_000
"""File groups and partitions that one write holds."""
MAX_COMMIT_BYTES: Final = 3 << 20
"""The largest commit metadata of one write, compressed. A request has at most 4 MiB."""
MAX_REQUESTED_BYTES: Final = 64 << 10
"""The largest content of a requested file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedGroups:
    """What an instant changes."""

    groups: frozenset[GroupId] = frozenset()
    """The file groups that it writes or replaces."""
    inserted_into: frozenset[str] = frozenset()
    """The partitions in which it added rows to base files."""
    keys_of_table: bool = False
    """Whether its keys are unique in the table (global index), so that it conflicts with inserts into any partition."""

    @property
    def size(self) -> int:
        """The number of file groups and partitions."""
        return len(self.groups) + len(self.inserted_into)

    def by_bucket(self) -> TouchedGroups:
        """With buckets for file groups: there, two writers that create a group of one bucket conflict, and inserts
        into one partition do not, because the bucket of a key determines its group."""
        return TouchedGroups(groups=buckets_of(self.groups))

    def united(self, other: TouchedGroups) -> TouchedGroups:
        """What both change."""
        return TouchedGroups(
            groups=self.groups | other.groups,
            inserted_into=self.inserted_into | other.inserted_into,
            keys_of_table=self.keys_of_table or other.keys_of_table,
        )

    def without(self, other: TouchedGroups) -> TouchedGroups:
        """What only this one changes."""
        return TouchedGroups(
            groups=self.groups - other.groups,
            inserted_into=self.inserted_into - other.inserted_into,
            keys_of_table=self.keys_of_table,
        )

    def conflicts_with(self, other: TouchedGroups, *, by_bucket: bool) -> str:
        """A group or partition that both change, for an error; '' if there is none."""
        mine, others = (self.by_bucket(), other.by_bucket()) if by_bucket else (self, other)
        if both := mine.groups & others.groups:
            partition, file_id = min(both)
            return f"{'bucket' if by_bucket else 'file group'} {file_id} of partition {partition!r}"
        if not mine.inserted_into or not others.inserted_into:
            return ""
        if self.keys_of_table or other.keys_of_table:
            return f"inserts into partition {min(others.inserted_into)!r}"
        partitions = mine.inserted_into & others.inserted_into
        return f"inserts into partition {min(partitions)!r}" if partitions else ""


def buckets_of(groups: frozenset[GroupId]) -> frozenset[GroupId]:
    """The groups by the bucket in their file id."""
    return frozenset((partition, file_id[:BUCKET_DIGITS]) for partition, file_id in groups)


@dataclass(frozen=True, slots=True, order=True)
class WriteId:
    """A write transaction: an epoch of an owner."""

    table: str
    """The table's name on the server."""
    owner: str
    """The name of the writer. Of two epochs of one owner, the earlier one is fenced when the later one begins."""
    epoch: int
    """The epoch, which the writer chooses; 1 or more."""

    def __str__(self) -> str:
        return f"write {self.owner!r}, epoch {self.epoch}, of table {self.table!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSpec:
    """What a write is, when it begins."""

    action: str
    """Hudi's action: `commit`, `deltacommit` or `replacecommit`."""
    requested: bytes = b""
    """The content of the requested file."""
    timeline_timezone: str = ""
    """The zone of the table's writers, for a LOCAL timeline."""
    keeps_metadata: bool = True
    """Whether the metadata table is kept current, or removed when the write completes."""
    by_bucket: bool = False
    """Whether the table has a bucket index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunWrite:
    """A write that has begun."""

    instant: InstantTime
    """Its instant, later than all of the timeline."""
    newest_completed: str
    """Requested time of the newest completed write when it began; '' for none."""
    pending: tuple[str, ...]
    """Requested times of the writes that were pending then, sorted."""
    lease_ms: int
    """How long the write stays open without a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCommit:
    """What a write commits."""

    metadata: bytes
    """The commit metadata, as the completed file of the instant has it, compressed with zlib."""
    touched: TouchedGroups
    """What it changed; leases for all of it are held."""
    writes_base_files: bool
    """Whether it wrote base files."""


@dataclass(frozen=True, slots=True)
class WriteProgress:
    """What a write has written so far, as its writer reports it."""

    files: int = 0
    """Data files."""
    size_bytes: int = 0
    """Their size."""


NO_PROGRESS: Final = WriteProgress()


class WriteState(enum.Enum):
    """The state of a write transaction."""

    REQUESTED = "requested"
    """The server has accepted it, and creates its instant."""
    OPEN = "open"
    """It has an instant, and may write."""
    DECIDED = "decided"
    """Its commit is durable at the server, which completes the instant."""
    COMPLETED = "completed"
    """Its instant is complete."""
    FAILED = "failed"
    """It will not complete; its instant is to be rolled back."""
    ABORTED = "aborted"
    """It did not complete, and its instant was rolled back."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing remains to be done."""
        return self in (WriteState.COMPLETED, WriteState.ABORTED)


class WriteEnd(enum.Enum):
    """Why a write did not complete."""

    ABORTED = "aborted"
    """Its writer gave it up."""
    EXPIRED = "expired"
    """Its lease ended."""
    FENCED = "fenced"
    """A later epoch of its owner began."""
    REFUSED = "refused"
    """The timeline did not accept its commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSummary:
    """A write transaction that has not ended, for a list."""

    id: WriteId
    """The write."""
    state: WriteState
    """Its state."""
    instant: str
    """Its instant; '' before it has one."""
    groups: int
    """How many file groups and partitions it holds."""
    progress: WriteProgress
    """What it has written."""
    lease_left_ms: int
    """After how long without a call it ends; 0 if its commit or rollback is under way."""
