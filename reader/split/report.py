"""What reading one split cost and did, gathered while it runs: the only way back for a reader's metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.reports import PHASES, MergeOutcomes, SplitReport

_T = TypeVar("_T")

_DAY_US: Final = 86_400_000_000
_UNITS_US: Final = {"s": 1_000_000, "ms": 1000, "us": 1}


class PhaseClock:
    """Where time goes: one phase at a time, and of phases in each other the inner one. Read a few times a batch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: str | None = None
        self._since = 0.0
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)

    def switch(self, name: str | None) -> str | None:
        """From now on time counts for this phase, for none if None; returns the one before."""
        now, before = self._clock(), self._running
        if before is not None:
            self.seconds[before] += now - self._since
        self._running, self._since = name, now
        return before


class SplitTally:
    """Counts for one split. Hand a new one to each `read_split`, ask for the `report` when that has ended.

    `clock` gives seconds; only differences count. With `event_time`, a timestamp or date column of the table, or one of
    plain numbers in `event_time_unit` (s, ms, us), the report has the highest value among the rows handed on.
    """

    def __init__(
        self,
        clock: Callable[[], float] | PhaseClock = time.perf_counter,
        *,
        event_time: str = "",
        event_time_unit: str = "",
    ) -> None:
        self.event_time, self._unit = event_time, event_time_unit
        self._phases = clock if isinstance(clock, PhaseClock) else PhaseClock(clock)
        self._rows = 0
        self._size_bytes = 0
        self._outcomes = MergeOutcomes()
        self._max_event_time_us: int | None = None
        self._skipped_gaps = self._skipped_bytes = 0
        self._pruned_row_groups = self._pruned_rows = 0
        self._counts: dict[str, int] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time inside to the phase, but for what phases within take; no `yield` lies inside."""
        before = self._phases.switch(name)
        try:
            yield
        finally:
            self._phases.switch(before)

    def timed(self, name: str, items: Iterable[_T]) -> Iterator[_T]:
        """The same items; the time to make each is added to the phase."""
        source = iter(items)
        while True:
            with self.phase(name):
                item = next(source, self)
            if item is self:
                return
            yield item  # type: ignore[misc]  # only the mark that nothing is left is a SplitTally

    def nested(self) -> SplitTally:
        """A tally for a read that is part of this one: its phases count here at once, the rest by `absorb`."""
        return SplitTally(self._phases)

    def begin(self, size_bytes: int) -> None:
        """The bytes on storage of the split that is read."""
        self._size_bytes = size_bytes

    def count_batch(self, carried: pa.RecordBatch) -> None:
        """A batch that goes out, with the event-time column if one is named."""
        self._rows += carried.num_rows
        if self.event_time:
            highest = max_event_time_us(carried.column(self.event_time), self.event_time, self._unit)
            if highest is not None and (self._max_event_time_us is None or highest > self._max_event_time_us):
                self._max_event_time_us = highest

    def set_outcomes(self, outcomes: MergeOutcomes) -> None:
        """What became of the log's records, once the merge has ended."""
        self._outcomes = outcomes

    def count_gaps(self, gaps: int, size_bytes: int) -> None:
        """Damaged stretches of a log file that were passed over, and their length together."""
        self._skipped_gaps += gaps
        self._skipped_bytes += size_bytes

    def absorb(self, inner: SplitTally) -> None:
        """The gaps of a read within this one (`nested`); its rows are not handed on."""
        self._skipped_gaps += inner._skipped_gaps
        self._skipped_bytes += inner._skipped_bytes

    def count_pruned(self, rows: int) -> None:
        """A row group of so many rows that was not decoded, for the filters keep none of them."""
        self._pruned_row_groups += 1
        self._pruned_rows += rows

    def add_count(self, name: str, number: int) -> None:
        """So many more of what the report counts under this name."""
        if number:
            self._counts[name] = self._counts.get(name, 0) + number

    def report(self) -> SplitReport:
        """What was counted so far."""
        return SplitReport(
            rows=self._rows,
            size_bytes=self._size_bytes,
            phase_ms=tuple((name, seconds * 1000) for name, seconds in self._phases.seconds.items()),
            outcomes=self._outcomes,
            max_event_time_us=self._max_event_time_us,
            skipped_gaps=self._skipped_gaps,
            skipped_bytes=self._skipped_bytes,
            pruned_row_groups=self._pruned_row_groups,
            pruned_rows=self._pruned_rows,
            counts=tuple(sorted(self._counts.items())),
        )


def max_event_time_us(values: pa.Array, name: str, unit: str = "") -> int | None:
    """The highest event time in UTC microseconds, a date as its midnight; None if there is none, if it is beyond 64
    bits, or of plain numbers whose unit nobody tells.

    ConfigurationError for a column that is neither a timestamp nor a date, nor of whole numbers.
    """
    kind = values.type
    if pa.types.is_int64(kind):
        number, factor = pc.max(values).as_py(), _UNITS_US.get(unit, 0)
        return number * factor if number is not None and factor and abs(number * factor) < 2**63 else None
    if not (pa.types.is_timestamp(kind) or pa.types.is_date32(kind)):
        raise ConfigurationError(f"event-time column {name!r} is {kind}: expected a timestamp or a date")
    highest = pc.max(values.view(pa.int64() if kind.bit_width == 64 else pa.int32())).as_py()
    if highest is None:
        return None
    return int(highest) * _DAY_US if pa.types.is_date32(kind) else int(highest)
