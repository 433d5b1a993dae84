"""Events of write transactions: calls of writers, results of work on the timeline. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.enumerator.core.event import Event
from penstock.enumerator.core.writes.state import Write
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups, WriteCommit, WriteId, WriteProgress, WriteSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginWrite(Event[Write]):
    """A writer begins a write. Two events with the same request id are one. Earlier epochs of the owner are fenced."""

    id: WriteId
    """The write."""
    request_id: str
    """Id of this call; a retry has the same id."""
    spec: WriteSpec
    """What it is."""
    principal: str = ""
    """Principal of the caller; '' if the server authenticates nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantCreated(Event[Write]):
    """The timeline has an instant for the write. Fenced if the write needs none: the instant is to be rolled back."""

    id: WriteId
    """The write."""
    instant: InstantTime
    """The instant."""
    newest_completed: str
    """Requested time of the newest completed write when it began; '' for none."""
    pending: tuple[str, ...]
    """Requested times of the writes that were pending then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGroups(Event[None]):
    """A writer takes leases, all of them or none."""

    id: WriteId
    """The write."""
    touched: TouchedGroups
    """File groups and partitions; it may hold some of them already."""
    principal: str = ""
    """Principal of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewWrite(Event[None]):
    """A writer renews its lease."""

    id: WriteId
    """The write."""
    progress: WriteProgress
    """What it has written so far."""
    principal: str = ""
    """Principal of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWrite(Event[Write]):
    """A writer commits. The answer is decided, or completed."""

    id: WriteId
    """The write."""
    commit: WriteCommit
    """What it commits."""
    principal: str = ""
    """Principal of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantCompleted(Event[None]):
    """The timeline has the completed instant of a decided write."""

    id: WriteId
    """The write."""
    completion: InstantTime
    """Its completion time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRefused(Event[None]):
    """The timeline does not accept the commit of a decided write, and has nothing of it."""

    id: WriteId
    """The write."""
    code: str
    """Code of the error."""
    text: str
    """Text of the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortWrite(Event[None]):
    """A writer gives its write up. Nothing happens to one that has failed already."""

    id: WriteId
    """The write."""
    principal: str = ""
    """Principal of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantRolledBack(Event[None]):
    """The instant of a failed write is rolled back."""

    id: WriteId
    """The write."""


WriteEvent = (
    BeginWrite
    | InstantCreated
    | LeaseGroups
    | RenewWrite
    | CommitWrite
    | InstantCompleted
    | CommitRefused
    | AbortWrite
    | InstantRolledBack
)
