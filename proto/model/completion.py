"""When instants of a timeline completed: what a reader needs for the column `_completion_time`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COMPLETION_TIME: Final = "_completion_time"
"""The column: the time at which the commit of the row, or of the change, completed."""
MAX_COMPLETIONS: Final = 1_000_000
"""The most instants of one scan."""


@dataclass(frozen=True, slots=True)
class CompletionTimes:
    """The completion times of instants. Those of other instants are unknown, and null in the column."""

    instants: tuple[int, ...] = ()
    """Requested times of 14 or 17 digits as numbers, each once, ascending."""
    completed_ms: tuple[int, ...] = ()
    """The completion time of each, in UTC milliseconds since 1970."""
