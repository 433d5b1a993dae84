"""Values of table services that a server hands out as splits: what a split is, who has it, and how it ended."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

MAX_AVOIDED: Final = 10_000
"""File groups that a clustering leaves out because open writes hold them."""


class Service(enum.StrEnum):
    """A table service, in the order in which they run."""

    COMPACT = "compact"
    """Compaction of a merge-on-read table."""
    CLUSTER = "cluster"
    """Clustering."""
    CLEAN = "clean"
    """Deletion of files that only older states need."""
    ARCHIVE = "archive"
    """Archival of old instants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """How the services of a table are carried out; None and '' for what the table's properties or Hudi's defaults
    say."""

    plan_bytes: int = 0
    """The size of the files of one compaction plan, about; 0: one plan for all file groups."""
    sort_by: tuple[str, ...] | None = None
    """The sort columns of a clustering."""
    compact_after: int | None = None
    """A compaction is due after so many delta commits; an archival leaves them."""
    index: str = ""
    """The index of the table's writers, for a table that does not record it."""
    commits: int | None = None
    """A clean keeps the states at so many newest commits."""
    hours: int | None = None
    """A clean keeps the states of so many hours."""
    file_versions: int | None = None
    """A clean keeps so many slices of each file group."""
    keep_min: int | None = None
    """Completed writes that an archival leaves on the active timeline."""
    keep_max: int | None = None
    """Completed writes above which an archival is due."""
    hold_at_most: str = ""
    """How long a reader may hold the cleaner, such as `48h` or `200 commits`."""
    timeline_timezone: str = ""
    """The zone of the table's writers, for a LOCAL timeline."""


@dataclass(frozen=True, slots=True, order=True)
class ServiceSplitId:
    """A unit of work of a table service."""

    table: str
    """The table's name on the server."""
    service: Service
    """The service."""
    instant: str = ""
    """The planned instant that is carried out. '' of a compaction or clustering: the next plans are made; a clean and
    an archival have no other."""

    def __str__(self) -> str:
        return f"{self.service} {self.instant or '(plan)'} of table {self.table!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSplit:
    """A split that a member of the worker group has."""

    id: ServiceSplitId
    """What is to be done."""
    attempt: int
    """The number of this hand-out; a later one fences it."""
    lease_ms: int
    """How long the member keeps the split without a call."""
    options: ServiceOptions
    """How it is carried out."""
    readers: tuple[str, ...] = ()
    """Names of the consumer groups and streams of the table, which hold a clean and an archival."""
    avoided: frozenset[tuple[str, str]] = frozenset()
    """Partition path and file id of the file groups that open writes hold: a clustering plan leaves them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest:
    """What a member asks for."""

    member: str
    """Its name, which no other member has."""
    table: str = ""
    """The table that it works on; '': all tables."""
    services: tuple[Service, ...] = ()
    """The services that it carries out; none: all."""
    looks_first: bool = False
    """Whether the server looks at the tables now, so that `ServiceAnswer.is_idle` counts writes before this request."""


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """The answer to a request for a split."""

    split: ServiceSplit | None = None
    """The split; None if none is waiting."""
    retry_ms: int = 0
    """Without a split: when to ask again."""
    is_idle: bool = False
    """Without a split: whether of what was asked for nothing waits or is under way. What failed and is paused does not
    count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOutcome:
    """How a member ended a split."""

    code: str = ""
    """The code of the error; '' if it succeeded."""
    text: str = ""
    """The text of the error, or what was done."""


class ServiceSplitState(enum.StrEnum):
    """The state of a split."""

    WAITING = "waiting"
    """A member can get it."""
    RUNNING = "running"
    """A member has it."""
    FAILING = "failing"
    """Its last attempt failed; it is handed out again after a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSplitSummary:
    """A split that is due, for a list."""

    id: ServiceSplitId
    """The split."""
    state: ServiceSplitState
    """Its state."""
    member: str = ""
    """The member that has it; '' without one."""
    age_ms: int = 0
    """Since when it is due."""
    failures: int = 0
    """Its failed attempts since it last succeeded."""
    error: str = ""
    """Code and text of the last error; '' without one."""


NO_OPTIONS: Final = ServiceOptions()
