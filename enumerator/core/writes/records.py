"""Records of write transactions; `core.records` lists all records. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups, WriteCommit, WriteEnd, WriteId, WriteProgress, WriteSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequested:
    """A write begins; it has no instant yet."""

    id: WriteId
    """The write."""
    request_id: str
    """Id of the call that began it."""
    spec: WriteSpec
    """What it is."""
    principal: str = ""
    """Principal of the caller; '' without authentication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBegun:
    """A write has an instant, and may write."""

    id: WriteId
    """The write."""
    instant: InstantTime
    """Its instant."""
    newest_completed: str
    """Requested time of the newest completed write when it began; '' for none."""
    pending: tuple[str, ...]
    """Requested times of the writes that were pending then."""
    order: int
    """Its place among the begins and completions of the table's writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsLeased:
    """A write holds more file groups and partitions."""

    id: WriteId
    """The write."""
    touched: TouchedGroups
    """What it did not hold before; buckets with a bucket index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDecided:
    """The write will be committed. Stored before the timeline changes, so that the server completes the instant also
    after a restart."""

    id: WriteId
    """The write."""
    commit: WriteCommit
    """What it commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCompleted:
    """The instant is complete, and the write holds nothing more."""

    id: WriteId
    """The write."""
    completion: InstantTime
    """Its completion time; on timeline layout 1 the requested time."""
    order: int
    """Its place among the begins and completions of the table's writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFailed:
    """The write will not complete. It holds its file groups until its instant is rolled back."""

    id: WriteId
    """The write."""
    end: WriteEnd
    """Why."""
    text: str = ""
    """For a refused commit: the text of the error."""
    code: str = ""
    """For a refused commit: the code of the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRolledBack:
    """The instant of a failed write is rolled back, and the write holds nothing more."""

    id: WriteId
    """The write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRenewed:
    """Volatile: a write has a new lease, and may have reported its progress."""

    id: WriteId
    """The write."""
    until_ms: int
    """End of the lease, by the clock of this process."""
    progress: WriteProgress | None = None
    """What it has written so far; None: it does not say."""


DurableWriteRecord = (
    WriteRequested | WriteBegun | GroupsLeased | CommitDecided | WriteCompleted | WriteFailed | WriteRolledBack
)
WriteRecord = DurableWriteRecord | WriteRenewed
