"""The active timeline: which instants there are, how far each is, what counts as committed.

Decisions are pure methods of `Timeline`; `load_timeline` lists one folder. Not here: the order in which commits are
consumed and the horizon (enumerator), archived instants (`history`).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.proto.errors import FormatError, InvariantViolation
from penstock.proto.model.positions import InstantTime
from penstock.table.config.properties import TableProperties
from penstock.table.storage.filesystem import FileInfo, Storage, redacted_uri
from penstock.table.timeline.instants import (
    WRITE_ACTIONS,
    Action,
    Instant,
    State,
    comparable_action,
    parse_instant_file,
)

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_RANK: Final = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The active instants of a table, each once and in its highest state, by requested time, then action."""

    layout: int
    instants: tuple[Instant, ...]
    _completed: Mapping[str, Instant] = field(init=False, repr=False, compare=False)
    _first_active: InstantTime | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        completed = {item.requested_time: item for item in self.completed_writes}
        object.__setattr__(self, "_completed", completed)
        savepoints = {item.requested_time for item in self.instants if item.action is Action.SAVEPOINT}
        writes = (item.requested_time for item in self.instants if item.action in WRITE_ACTIONS)
        first = min((time for time in writes if time not in savepoints), default=None)
        object.__setattr__(self, "_first_active", first)

    @property
    def completed_writes(self) -> tuple[Instant, ...]:
        """Completed commit, deltacommit and replacecommit instants, by requested time."""
        return tuple(item for item in self.instants if item.is_completed and item.action in WRITE_ACTIONS)

    @property
    def pending(self) -> tuple[Instant, ...]:
        """Write instants that are requested or inflight, by requested time.

        On layout 1 a pending replacecommit is a clustering or not by its requested file alone (`plans`).
        """
        return tuple(item for item in self.instants if not item.is_completed and item.action in WRITE_ACTIONS)

    @property
    def completed_cleans(self) -> tuple[Instant, ...]:
        """Completed clean instants, by requested time."""
        return tuple(item for item in self.instants if item.is_completed and item.action is Action.CLEAN)

    @property
    def completed_rollbacks(self) -> tuple[Instant, ...]:
        """Completed rollback and restore instants, by requested time."""
        undoes = (Action.ROLLBACK, Action.RESTORE)
        return tuple(item for item in self.instants if item.is_completed and item.action in undoes)

    @property
    def savepoints(self) -> tuple[Instant, ...]:
        """Completed savepoint instants, by requested time (that of the instant they protect)."""
        return tuple(item for item in self.instants if item.is_completed and item.action is Action.SAVEPOINT)

    @property
    def first_active(self) -> str:
        """The smallest requested time of a write instant without savepoint (any state), '' if there is none.

        Hudi `getFirstNonSavepointCommit`: what is older was archived, and only completed instants are archived.
        """
        return self._first_active or ""

    def is_committed(self, requested_time: str) -> bool:
        """Whether data of this instant counts: it completed, or it is older than the active timeline (Hudi
        `containsOrBeforeTimelineStarts`)."""
        return requested_time in self._completed or requested_time < self.first_active

    def completed_write(self, requested_time: str) -> Instant | None:
        """The active completed write instant of this requested time."""
        return self._completed.get(requested_time)

    def completion_of(self, requested_time: str) -> InstantTime | None:
        """The completion time of an active completed write instant; None for any other, and on layout 1."""
        found = self._completed.get(requested_time)
        return found.completion_time if found else None

    def order_key(self, instant: Instant) -> InstantTime:
        """What orders a completed instant: its completion time on layout 2, its requested time on layout 1."""
        if not instant.is_completed:
            raise InvariantViolation(f"order key of {instant.file_name}, which is {instant.state}")
        return instant.completion_time or instant.requested_time

    def with_archived(self, archived: Iterable[Instant]) -> Timeline:
        """The timeline with completed instants that left it put back; `first_active` stays.

        An instant that is still active and completed counts as it is there.
        """
        instants = {(item.requested_time, comparable_action(item.action)): item for item in self.instants}
        for item in archived:
            known = instants.get((item.requested_time, comparable_action(item.action)))
            if known is None or not known.is_completed:
                instants[item.requested_time, comparable_action(item.action)] = item
        whole = Timeline(self.layout, tuple(sorted(instants.values(), key=_place)))
        object.__setattr__(whole, "_first_active", self._first_active)
        return whole


def _place(item: Instant) -> tuple[str, str, str]:
    return (item.requested_time, item.action, item.state)


def build_timeline(layout: int, files: Iterable[Instant]) -> Timeline:
    """The timeline of these instant files: one instant for each requested time and comparable action.

    Requested, inflight and completed files of an instant normally lie side by side; the highest state counts.
    FormatError if two completed files stand for one instant.
    """
    best: dict[tuple[str, Action], Instant] = {}
    for item in files:
        key = (item.requested_time, comparable_action(item.action))
        known = best.get(key)
        if known is None or _RANK[item.state] > _RANK[known.state]:
            best[key] = item
        elif known.is_completed and item.is_completed:
            raise FormatError(
                f"instant {item.requested_time} is completed twice: got {known.file_name} and {item.file_name}, "
                "expected one completed file"
            )
    ordered = sorted(best.values(), key=_place)
    return Timeline(layout, tuple(ordered))


def load_timeline(storage: Storage, properties: TableProperties) -> Timeline:
    """The active timeline as it is on storage now; empty if the folder is missing (a table without commits).

    FormatError names the table and the file that cannot be placed.
    """
    return timeline_of(list_timeline(storage, properties), properties)


def _appeared(info: FileInfo, properties: TableProperties) -> str:
    """The completion time of a completed file whose name tells none: when it was last changed, in the table's zone, or
    in this process's where the table does not record one (as Hudi)."""
    if properties.layout == 1 or "_" in info.name or info.name.endswith((".requested", ".inflight")):
        return ""
    moment = _EPOCH + datetime.timedelta(milliseconds=info.modified_ns // 1_000_000)
    wall = moment if properties.timezone == "UTC" else moment.astimezone()
    return wall.strftime("%Y%m%d%H%M%S%f")[:17]


def list_timeline(storage: Storage, properties: TableProperties) -> list[FileInfo]:
    """The files of the active timeline's folder, by name; instants' and others."""
    return [info for info in storage.list_dir(properties.timeline_folder) if not info.is_dir]


def timeline_of(listing: Iterable[FileInfo], properties: TableProperties) -> Timeline:
    """The timeline that a listing of its folder shows. Errors as `load_timeline`."""
    try:
        parsed = (parse_instant_file(info.name, properties.layout, _appeared(info, properties)) for info in listing)
        return build_timeline(properties.layout, [item for item in parsed if item is not None])
    except FormatError as error:
        where = f"{properties.timeline_folder} of table {redacted_uri(properties.base_path)}"
        raise type(error)(f"{error} (in {where})") from None
