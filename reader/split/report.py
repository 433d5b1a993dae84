"""Counts the cost and the results of reading one split, for the reader's metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import pyarrow as pa

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.reports import PHASES, MergeOutcomes, SplitReport
from penstock.table.arrow_compute import pc

_T = TypeVar("_T")

_DAY_US: Final = 86_400_000_000
_UNITS_US: Final = {"s": 1_000_000, "ms": 1000, "us": 1}


class PhaseClock:
    """Measures the time of phases. One phase runs at a time; time in a nested phase counts for that one. Read a few
    times per batch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: str | None = None
        self._since = 0.0
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)

    def switch(self, name: str | None) -> str | None:
        """From now on time counts for this phase, for none if None; returns the phase before."""
        now, before = self._clock(), self._running
        if before is not None:
            self.seconds[before] += now - self._since
        self._running, self._since = name, now
        return before


class SplitTally:
    """Counts for one split. Pass a new one to each `read_split`, and call `report` when that has ended.

    `clock` returns seconds; only differences count. With `event_time`, a timestamp or date column of the table, or one
    of whole numbers in `event_time_unit` (s, ms, us), the report has the highest value of the returned rows.
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
        self.log_blocks = 0
        """Blocks of logs that count."""
        self.inserted_rows = 0
        """Rows of a log whose keys the base file does not have, after the merge has ended."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time inside to the phase, without that of nested phases; no `yield` may be inside."""
        before = self._phases.switch(name)
        try:
            yield
        finally:
            self._phases.switch(before)

    def timed(self, name: str, items: Iterable[_T]) -> Iterator[_T]:
        """The same items; the time to produce each is added to the phase."""
        source = iter(items)
        while True:
            with self.phase(name):
                item = next(source, self)
            if item is self:
                return
            yield item  # type: ignore[misc]  # only the mark that nothing is left is a SplitTally

    def nested(self) -> SplitTally:
        """A tally for a read that is a part of this one: its phases count here at once, the rest by `absorb`."""
        return SplitTally(self._phases)

    def begin(self, size_bytes: int) -> None:
        """Sets the size of the split on storage, in bytes."""
        self._size_bytes = size_bytes

    def count_batch(self, carried: pa.RecordBatch) -> None:
        """Counts a returned batch, which has the event-time column if one is named."""
        self._rows += carried.num_rows
        if self.event_time:
            highest = max_event_time_us(carried.column(self.event_time), self.event_time, self._unit)
            if highest is not None and (self._max_event_time_us is None or highest > self._max_event_time_us):
                self._max_event_time_us = highest

    def set_outcomes(self, outcomes: MergeOutcomes) -> None:
        """Sets the outcomes of the log's records, after the merge has ended."""
        self._outcomes = outcomes

    def count_gaps(self, gaps: int, size_bytes: int) -> None:
        """Counts damaged parts of a log file that were skipped, and their bytes."""
        self._skipped_gaps += gaps
        self._skipped_bytes += size_bytes

    def absorb(self, inner: SplitTally) -> None:
        """Adds the gaps of a read that is a part of this one (`nested`); its rows are not returned."""
        self._skipped_gaps += inner._skipped_gaps
        self._skipped_bytes += inner._skipped_bytes

    def count_pruned(self, rows: int) -> None:
        """Counts a row group that was not decoded, because the filters keep none of its rows."""
        self._pruned_row_groups += 1
        self._pruned_rows += rows

    def add_count(self, name: str, number: int) -> None:
        """Adds to a named counter of the report."""
        if number:
            self._counts[name] = self._counts.get(name, 0) + number

    def report(self) -> SplitReport:
        """The counts so far."""
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
    """The highest event time in UTC microseconds, a date as its midnight.

    None if there is none, if it is beyond 64 bits, or for numbers without a unit. ConfigurationError for a column that
    is neither a timestamp nor a date, nor of whole numbers.
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
