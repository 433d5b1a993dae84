"""The active timeline: its instants, their states, and which instants are committed.

`Timeline` is pure; `list_timeline` lists the timeline's folder. `archive` reads instants that left the active timeline.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from penstock.proto.errors import FormatError, InvariantViolation
from penstock.proto.model.positions import InstantTime
from penstock.proto.value_classes import dataclass
from penstock.table.config.properties import TableProperties
from penstock.table.storage.filesystem import Storage
from penstock.table.storage.local_listing import FileVersion, file_versions
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.instants import (
    COMPLETES_AS,
    WRITE_ACTIONS,
    Action,
    Instant,
    State,
    comparable_action,
    parse_instant_file,
)

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_RANK: Final = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}
_ROLLBACKS: Final = (Action.ROLLBACK, Action.RESTORE)
_PENDING: Final = (".requested", ".inflight")
_REPLACE_REQUEST: Final = f".{Action.REPLACE_COMMIT.value}.requested"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The instants of a table's active timeline."""

    layout: int
    """Timeline layout, 1 or 2."""
    instants: tuple[Instant, ...]
    """Each instant once, in its latest state, by requested time, then action."""
    completed_writes: tuple[Instant, ...] = field(init=False, repr=False, compare=False)
    """Completed commit, deltacommit and replacecommit instants, by requested time."""
    writes_in_order: tuple[Instant, ...] = field(init=False, repr=False, compare=False)
    """`completed_writes` by order key, then requested time."""
    order_keys: Mapping[str, InstantTime] = field(init=False, repr=False, compare=False)
    """Requested time -> order key of `completed_writes`."""
    pending: tuple[Instant, ...] = field(init=False, repr=False, compare=False)
    """Write instants that are requested or inflight, by requested time.

    On layout 1 only the requested file says whether a pending replacecommit is a clustering (`services.plans`)."""
    completed_cleans: tuple[Instant, ...] = field(init=False, repr=False, compare=False)
    """Completed clean instants, by requested time."""
    completed_rollbacks: tuple[Instant, ...] = field(init=False, repr=False, compare=False)
    """Completed rollback and restore instants, by requested time."""
    savepoints: tuple[Instant, ...] = field(init=False, repr=False, compare=False)
    """Completed savepoint instants, by requested time, which is that of the protected instant."""
    _completed: Mapping[str, Instant] = field(init=False, repr=False, compare=False)
    _first_active: InstantTime | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        writes = [item for item in self.instants if item.action in WRITE_ACTIONS]
        completed = tuple([item for item in writes if item.state is State.COMPLETED])
        others = [item for item in self.instants if item.action not in WRITE_ACTIONS and item.is_completed]
        keys = {item.requested_time: self.order_key(item) for item in completed}
        in_order = sorted(
            completed, key=lambda item: (item.completion_time or item.requested_time, item.requested_time)
        )
        saved = {item.requested_time for item in self.instants if item.action is Action.SAVEPOINT}
        times = [item.requested_time for item in writes]
        first = min((time for time in times if time not in saved), default=min(times, default=None))
        values: dict[str, object] = {
            "completed_writes": completed,
            "writes_in_order": tuple(in_order),
            "order_keys": keys,
            "pending": tuple(item for item in writes if not item.is_completed),
            "completed_cleans": tuple(item for item in others if item.action is Action.CLEAN),
            "completed_rollbacks": tuple(item for item in others if item.action in _ROLLBACKS),
            "savepoints": tuple(item for item in others if item.action is Action.SAVEPOINT),
            "_completed": {item.requested_time: item for item in completed},
            "_first_active": first,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def first_active(self) -> str:
        """The smallest requested time of a write instant in any state without a savepoint, of all write instants if
        each has a savepoint, as after a restore; '' if there is no write instant.

        Hudi `getFirstNonSavepointCommit`: older instants were archived, and only completed instants are archived.
        """
        return self._first_active or ""

    def completed_write(self, requested_time: str) -> Instant | None:
        """The completed write instant of this requested time on the active timeline, if any."""
        return self._completed.get(requested_time)

    def order_key(self, instant: Instant) -> InstantTime:
        """The order key of a completed instant: its completion time on layout 2, its requested time on layout 1."""
        if instant.state is not State.COMPLETED:
            raise InvariantViolation(f"order key of {instant.file_name}, which is {instant.state}")
        return instant.completion_time or instant.requested_time

    def writes_from(self, order_key: str) -> Sequence[Instant]:
        """The completed writes with this or a later order key, by order key, then requested time."""
        return self.writes_in_order[bisect_left(self.writes_in_order, order_key, key=self.order_key) :]

    def with_archived(self, archived: Iterable[Instant]) -> Timeline:
        """The timeline with archived completed instants added; `first_active` stays the same.

        Of an instant that is also active and completed, the active one is used.
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
    """Builds the timeline of these instant files: one instant for each requested time and comparable action.

    The folder normally has the requested, inflight and completed files of an instant; the latest state counts.
    FormatError if an instant has two completed files.
    """
    best: dict[tuple[str, Action], Instant] = {}
    for item in files:
        key = (item.requested_time, COMPLETES_AS.get(item.action, item.action))  # `comparable_action`, without a call
        known = best.get(key)
        if known is None:
            best[key] = item
        elif item.state is not State.COMPLETED or known.state is not State.COMPLETED:
            if _RANK[item.state] > _RANK[known.state]:
                best[key] = item
        else:
            raise FormatError(
                f"instant {item.requested_time} is completed twice: got {known.file_name} and {item.file_name}, "
                "expected one completed file"
            )
    ordered = sorted(best.values(), key=_place)
    return Timeline(layout, tuple(ordered))


def _without_completion(listing: Mapping[str, FileVersion], properties: TableProperties) -> dict[str, str]:
    """Name -> completion time of the completed files without one in their names, which an upgrade to layout 2 leaves.

    It is the time of the file's last change, in the table's zone; as in Hudi, in the zone of this process if the table
    records none.
    """
    if properties.layout == 1:
        return {}
    names = [name for name in listing if _has_no_completion(name)]
    return {name: _completion_by_mtime(listing[name], properties) for name in names}


def _completion_by_mtime(version: FileVersion, properties: TableProperties) -> str:
    moment = _EPOCH + datetime.timedelta(milliseconds=version[1] // 1_000_000)
    wall = moment if properties.timezone == "UTC" else moment.astimezone()
    return wall.strftime("%Y%m%d%H%M%S%f")[:17]


def list_timeline(
    storage: Storage,
    properties: TableProperties,
    before: Mapping[str, FileVersion] | None = None,
    *,
    names_only: bool = False,
) -> Mapping[str, FileVersion]:
    """Name -> version of all files in the folder of the active timeline, by name; empty if it is missing, as in a table
    without commits. `before` is an earlier result, as for `file_versions`. The version of requested and inflight files
    is (0, 0), but not of the request of a replacecommit: while its writer has not completed it, it is read as that of
    no clustering (`parse_requested_replace`). With `names_only`, it is (0, 0) for all files whose time is not needed as
    completion time."""
    described = _is_described
    if names_only:
        described = _has_no_completion if properties.layout == 2 else _is_never_described
    return file_versions(storage, properties.timeline_folder, described, before)


def _has_no_completion(name: str) -> bool:
    return "_" not in name and _is_completed(name)


def _is_never_described(name: str) -> bool:
    return False


def _is_described(name: str) -> bool:
    return _is_completed(name) or name.endswith(_REPLACE_REQUEST)


def _is_completed(name: str) -> bool:
    return not name.endswith(_PENDING)


def timeline_of(listing: Mapping[str, FileVersion], properties: TableProperties) -> Timeline:
    """The timeline of a listing of its folder. FormatError, with the table, for a file that is no valid instant."""
    try:
        layout, without = properties.layout, _without_completion(listing, properties)
        parsed = [parse_instant_file(name, layout, without.get(name, "")) for name in listing]
        return build_timeline(layout, [item for item in parsed if item is not None])
    except FormatError as error:
        where = f"{properties.timeline_folder} of table {redacted_uri(properties.base_path)}"
        raise type(error)(f"{error} (in {where})") from None
