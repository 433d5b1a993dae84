"""The timeline of a table as the coordinator of writes needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import WriteCommit, WriteSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunInstant:
    """A new instant."""

    instant: InstantTime
    """The instant."""
    newest_completed: str
    """Requested time of the newest completed write when it began; '' for none."""
    pending: tuple[str, ...]
    """Requested times of the writes that were pending then, sorted."""


class TableTimeline(Protocol):
    """Changes the timeline of one table, under the lock that Hudi's writers take too. One call at a time.

    Errors are those of `penstock.proto.errors`; after a StorageError it is unknown what the timeline has.
    """

    def begin(self, spec: WriteSpec) -> BegunInstant:
        """Creates an instant with a heartbeat of this process, after it rolled back what killed writers left."""
        ...

    def take_over(self, instant: InstantTime) -> None:
        """Makes the heartbeat of a pending instant that of this process; nothing if it is not pending."""
        ...

    def beat(self, instant: InstantTime) -> None:
        """Renews the heartbeat of an instant."""
        ...

    def complete(self, spec: WriteSpec, begun: BegunInstant, commit: WriteCommit) -> InstantTime:
        """Completes the instant; returns its completion time. WriteConflict, and other errors than StorageError:
        nothing is visible."""
        ...

    def completion(self, instant: InstantTime) -> InstantTime | None:
        """The completion time of a completed instant; None for another one."""
        ...

    def roll_back(self, spec: WriteSpec, instant: InstantTime) -> None:
        """Rolls the instant back. Nothing happens to a completed one, and to one that was rolled back."""
        ...


Timelines = Callable[[str], TableTimeline]
"""The timeline of the table at a path. Errors of the table and of its storage."""
