"""One instant of a timeline, and the file names that stand for it on layouts 1 and 2.

Pure. Belongs here: names, actions, states (Hudi `InstantFileNameGeneratorV1/V2`, `InstantGeneratorV1/V2`). Not here:
how the files of a table add up (`timeline`), what is in them (`commits`, `plans`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from penstock.proto.errors import FormatError
from penstock.proto.model.positions import InstantTime


class Action(StrEnum):
    """What an instant does to the table."""

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
    """How far an instant is."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """An instant by one of its files. `completion_time` is None unless completed on layout 2."""

    requested_time: InstantTime
    completion_time: InstantTime | None
    action: Action
    state: State
    file_name: str

    @property
    def is_completed(self) -> bool:
        """Whether the instant is part of the table."""
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
"""Actions whose completed file bears another action's name (Hudi `InstantComparison.COMPARABLE_ACTIONS`)."""

_MAX_NAME = 255
_MAX_PARSED = 1 << 16
"""Names remembered: a timeline is listed again and again, and most of its files were there before."""
_SHAPE = re.compile(r"(?P<requested>[0-9]+)(?:_(?P<completed>[0-9]+))?\.(?P<first>\w+)(?:\.(?P<second>[^0-9]+))?", re.A)
_PASSED_OVER = re.compile(r".*(?:\.crc|\.tmp|\.bak|\.swp|~|\._COPYING_)", re.S)


def comparable_action(action: Action) -> Action:
    """The action that the files of one instant have in common: what it completes as."""
    return COMPLETES_AS.get(action, action)


@lru_cache(maxsize=_MAX_PARSED)
def parse_instant_file(name: str, layout: int, appeared: str = "") -> Instant | None:
    """The instant whose file bears this name in a timeline folder; None for a file that is no instant's.

    Not an instant's: names that do not start with digits and a known shape, checksums (.crc) and temporary copies
    (.tmp, .bak, …). FormatError for a name of an instant's shape with an unknown action or state, or of the other
    layout, or a completed one without completion time on layout 2 if `appeared` does not tell it (what an upgrade left;
    Hudi takes the moment at which the file was last changed, `ActiveTimelineV2`).
    """
    match = _SHAPE.fullmatch(name) if len(name) <= _MAX_NAME else None
    if match is None or _PASSED_OVER.fullmatch(name):
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
        raise FormatError(f"timeline file {name!r} is of timeline layout 2, the table says layout 1")
    elif layout == 2 and not completed:
        if not appeared:
            raise FormatError(f"timeline file {name!r} has no completion time, which timeline layout 2 needs")
        completed = appeared
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
    """The name Hudi gives the file of an instant in this state: the inverse of `parse_instant_file`.

    `completion_time` is needed for completed instants on layout 2 alone.
    """
    if state is not State.COMPLETED:
        if action is Action.COMMIT and state is State.INFLIGHT:
            return f"{requested_time}.inflight"
        return f"{requested_time}.{action}.{state}"
    stem = requested_time if layout == 1 else f"{requested_time}_{completion_time}"
    return f"{stem}.{comparable_action(action)}"
