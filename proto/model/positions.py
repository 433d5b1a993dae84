"""Times of a timeline and positions in it: InstantTime, Position, CommitRange, CompletionTimes.

A time is a *requested* time, a *completion* time or an *order key* (the completion time on timeline layout 2, the
requested time on layout 1). The ambiguous "commit time" is not used.
"""

from __future__ import annotations

import enum
import re
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.value_classes import dataclass

_DIGITS = re.compile(r"[0-9]{1,24}")

WHOLE_INSTANT: Final = 2**31 - 1
"""The index of a position after all write stats of its instant."""
COMPLETION_TIME: Final = "_completion_time"
"""The column: the time at which the commit of the row, or of the change, completed."""
MAX_COMPLETIONS: Final = 1_000_000
"""The most instants of one scan."""


class InstantTime(str):
    """A timeline instant's time: 1 to 24 digits, compared as text (Hudi `HoodieInstantTimeGenerator`).

    A 14-digit instant (seconds) therefore sorts before the same second with milliseconds, as in Hudi.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> InstantTime:
        if not _DIGITS.fullmatch(text):
            raise ConfigurationError(
                f"not an instant: got {text[:40]!r}, expected 1 to 24 digits such as 20260131235959123"
            )
        return super().__new__(cls, text)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Exclusive progress: everything up to the first `index` write stats of `order_key` is consumed, nothing after it.

    Positions are ordered by (order_key, index).
    """

    order_key: InstantTime
    """The order key of the last instant that is consumed in whole or in part. A plain string is converted."""
    index: int = WHOLE_INSTANT
    """The number of that instant's write stats, sorted by (partition, file id), that are consumed; WHOLE_INSTANT: all.
    It never divides the write stats of a file group."""

    def __post_init__(self) -> None:
        if not isinstance(self.order_key, InstantTime):
            object.__setattr__(self, "order_key", InstantTime(self.order_key))
        if not 0 <= self.index <= WHOLE_INSTANT:
            raise ConfigurationError(f"position index {self.index}: expected 0 to {WHOLE_INSTANT}")

    @property
    def is_earliest(self) -> bool:
        """Whether the position is before every instant: an order key of zeros, of any length."""
        return not self.order_key.strip("0")

    def touches(self, order_key: str) -> bool:
        """Whether a write stat of an instant with this order key may be consumed."""
        return order_key < self.order_key or (order_key == self.order_key and self.index > 0)

    def holds(self, order_key: str) -> bool:
        """Whether an instant with this order key is consumed as a whole."""
        return order_key < self.order_key or (order_key == self.order_key and self.index == WHOLE_INSTANT)

    def __str__(self) -> str:
        return str(self.order_key) if self.index == WHOLE_INSTANT else f"{self.order_key}+{self.index}"


EARLIEST: Final = Position(InstantTime("0"))
"""The position before every possible instant: nothing is consumed."""


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The instants after `after` up to and including `upto`: (after, upto]. Equal ends are an empty range."""

    after: Position
    """The exclusive start."""
    upto: Position
    """The inclusive end."""

    def __post_init__(self) -> None:
        if self.upto < self.after:
            raise ConfigurationError(
                f"range ({self.after}, {self.upto}] ends before it starts: give an `upto` at or after `after`"
            )

    def holds(self, order_key: str) -> bool:
        """Whether an instant with this order key is completely in the range."""
        return self.upto.holds(order_key) and not self.after.holds(order_key)

    def touches(self, order_key: str) -> bool:
        """Whether a write stat of an instant with this order key may be in the range."""
        return self.upto.touches(order_key) and not self.after.holds(order_key)


@dataclass(frozen=True, slots=True)
class CompletionTimes:
    """The completion times of instants. Those of other instants are unknown, and null in the column."""

    instants: tuple[int, ...] = ()
    """Requested times of 14 or 17 digits as numbers, each once, ascending."""
    completed_ms: tuple[int, ...] = ()
    """The completion time of each, in UTC milliseconds since 1970."""


class OnLostRange(enum.Enum):
    """What a stream or a group does when the range after its position can no longer be read exactly."""

    FAIL = "fail"
    """Stop with PositionExpired."""
    EARLIEST = "earliest"
    """Continue with what still exists, and report the gap."""
    SNAPSHOT = "snapshot"
    """Read the table's rows again and continue after them."""
