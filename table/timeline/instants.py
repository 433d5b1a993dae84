"""Instants of a timeline: actions, states, and the names of their files on layouts 1 and 2. Pure.

Source: Hudi `InstantFileNameGeneratorV1/V2`, `InstantGeneratorV1/V2`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from penstock.proto.errors import FormatError
from penstock.proto.model.positions import InstantTime
from penstock.proto.value_classes import dataclass


class Action(StrEnum):
    """The action of an instant, as in its file name."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    REPLACE_COMMIT = "replacecommit"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"


class State(StrEnum):
    """The state of an instant."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """An instant, as one of its files describes it."""

    requested_time: InstantTime
    """Time at which the writer requested the instant; identifies it."""
    completion_time: InstantTime | None
    """Time at which it completed; None if it is pending, and on layout 1."""
    action: Action
    """Its action, as in the file name."""
    state: State
    """Its state, as in the file name."""
    file_name: str
    """Name of the file in the timeline's folder."""

    @property
    def is_completed(self) -> bool:
        """Whether the instant completed."""
        return self.state is State.COMPLETED


WRITE_ACTIONS: Final = frozenset(
    {
        Action.COMMIT,
        Action.DELTA_COMMIT,
        Action.COMPACTION,
        Action.LOG_COMPACTION,
        Action.REPLACE_COMMIT,
        Action.CLUSTERING,
    }
)
"""Actions that write data files (Hudi `getWriteTimeline`)."""

COMPLETES_AS: Final = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}
"""Actions whose completed file has the name of another action (Hudi `InstantComparison.COMPARABLE_ACTIONS`)."""

_MAX_NAME = 255
_MAX_PARSED = 1 << 16
"""Number of cached names: a timeline is listed repeatedly, and most of its files stay the same."""
_SHAPE = re.compile(r"(?P<requested>[0-9]+)(?:_(?P<completed>[0-9]+))?\.(?P<first>\w+)(?:\.(?P<second>[^0-9]+))?", re.A)
_TEMPORARY = re.compile(r".*(?:\.crc|\.tmp|\.bak|\.swp|~|\._COPYING_)", re.S)


def comparable_action(action: Action) -> Action:
    """The action as which an instant completes; all files of an instant have it in common."""
    return COMPLETES_AS.get(action, action)


@lru_cache(maxsize=_MAX_PARSED)
def parse_instant_file(name: str, layout: int, default_completion: str = "") -> Instant | None:
    """The instant of a file in a timeline folder, by its name; None for any other file.

    Other files have names of another form, or are checksums (.crc) and temporary copies (.tmp, .bak, …). FormatError
    for the name of an instant with an unknown action or state, or of the other layout. FormatError also for a completed
    file without a completion time on layout 2, unless `default_completion` gives it. An upgrade leaves such files; Hudi
    uses the time of their last change (`ActiveTimelineV2`).
    """
    match = _SHAPE.fullmatch(name) if len(name) <= _MAX_NAME else None
    if match is None or _TEMPORARY.fullmatch(name):
        return None
    requested, completed, first, second = match.group("requested", "completed", "first", "second")
    if max(len(requested), len(completed or "")) > 24:
        raise FormatError(f"timeline file {name!r}: expected an instant of at most 24 digits")
    action, state = _action_and_state(name, first, second)
    if state is not State.COMPLETED:
        if completed:
            raise FormatError(f"timeline file {name!r}: a {state} instant cannot have a completion time")
    elif action in COMPLETES_AS:
        raise FormatError(f"timeline file {name!r}: a {action} completes as {COMPLETES_AS[action]}, got {action}")
    elif layout == 1 and completed:
        raise FormatError(f"timeline file {name!r} is of timeline layout 2, the table has layout 1")
    elif layout == 2 and not completed:
        if not default_completion:
            raise FormatError(f"timeline file {name!r} has no completion time, which timeline layout 2 requires")
        completed = default_completion
    if layout == 1 and action is Action.CLUSTERING:
        raise FormatError(f"timeline file {name!r}: on layout 1 clustering is a replacecommit, got clustering")
    return Instant(
        requested_time=InstantTime(requested),
        completion_time=InstantTime(completed) if completed else None,
        action=action,
        state=state,
        file_name=name,
    )


def _action_and_state(name: str, first: str, second: str | None) -> tuple[Action, State]:
    if first == State.INFLIGHT and second is None:
        return Action.COMMIT, State.INFLIGHT
    try:
        action = Action(first)
    except ValueError:
        raise FormatError(
            f"timeline file {name!r} has an unknown action: got {first!r}, expected one of {', '.join(Action)}"
        ) from None
    if second is None:
        return action, State.COMPLETED
    if second not in (State.REQUESTED, State.INFLIGHT):
        raise FormatError(
            f"timeline file {name!r} has an unknown state: got {second[:40]!r}, expected requested, inflight or none"
        )
    return action, State(second)


def instant_file_name(
    requested_time: str, action: Action, state: State, completion_time: str | None, layout: int
) -> str:
    """The file name of an instant in this state: the inverse of `parse_instant_file`.

    Only completed instants on layout 2 have a `completion_time`.
    """
    if state is not State.COMPLETED:
        if action is Action.COMMIT and state is State.INFLIGHT:
            return f"{requested_time}.inflight"
        return f"{requested_time}.{action}.{state}"
    stem = requested_time if layout == 1 else f"{requested_time}_{completion_time}"
    return f"{stem}.{comparable_action(action)}"
