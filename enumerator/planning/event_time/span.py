"""The span of the event times of some rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventTimeSpan:
    """The span of the event times of some rows, UTC microseconds since 1970."""

    low_us: int | None = None
    """No row is earlier; None if no row has an event time."""
    high_us: int | None = None
    """No row is later; None if no row has an event time."""
    is_unbounded: bool = False
    """Whether a row may have any event time."""

    def __or__(self, other: EventTimeSpan) -> EventTimeSpan:
        return EventTimeSpan(
            min((low for low in (self.low_us, other.low_us) if low is not None), default=None),
            max((high for high in (self.high_us, other.high_us) if high is not None), default=None),
            self.is_unbounded or other.is_unbounded,
        )
