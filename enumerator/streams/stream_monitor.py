"""Measures the lag of registered streams, and warns before a cleaner removes data that a stream has not read.

The groups of a table are measured by `groups.lag_monitor`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.continuous.types import ReaderPlace
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import Observer, StreamsMeasured
from penstock.enumerator.streams.stream_registry import StreamKey, StreamRegistry
from penstock.proto.errors import code_and_text
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.streams import Progress

MEASURE_MS: Final = 30_000
"""Interval of measurements of a table."""
CLOSE_COMMITS: Final = 2
"""See CLOSE_SECONDS."""
CLOSE_SECONDS: Final = 3600.0
"""A stream whose next batch will be lost within so many commits or seconds is logged as a warning, every MEASURE_MS."""

Lags = Callable[[str, Sequence[ReaderPlace]], list[GroupLag]]
"""The lag of each stream on the table of a name, from one read of the table."""


@dataclass(slots=True)
class StreamMonitor:
    """Measures the streams of a registry. Any thread; one measurement per table at a time."""

    streams: StreamRegistry
    """The streams."""
    lags: Lags
    """Reads a table."""
    clock_ms: Callable[[], int]
    """The clock of intervals."""
    observer: Observer
    """Receives the statuses."""
    _measured: dict[str, tuple[int, frozenset[StreamKey]]] = field(default_factory=dict)
    _published: bool = False

    def publish(self) -> None:
        """Sends the statuses of all streams to the observer. Reads no storage."""
        statuses = self.streams.statuses()
        if statuses or self._published:
            self._published = bool(statuses)
            self.observer.observe(StreamsMeasured(statuses))

    def due(self) -> list[str]:
        """The tables whose streams are due, sorted: every MEASURE_MS, and when the table has a new stream."""
        now_ms, streams = self.clock_ms(), self._by_table()
        for table in set(self._measured) - streams.keys():
            self._measured.pop(table, None)
        never = (now_ms - MEASURE_MS, frozenset[StreamKey]())
        return [
            table
            for table, keys in sorted(streams.items())
            if now_ms - (before := self._measured.get(table, never))[0] >= MEASURE_MS or not keys.keys() <= before[1]
        ]

    def measure_table(self, table: str) -> None:
        """Measures each stream of the table. If a lag cannot be measured it is None: the previous lag would be
        wrong."""
        positions = self._by_table().get(table, {})
        self._measured[table] = (self.clock_ms(), frozenset(positions))
        lags = self._measured_together(table, positions)
        for key, progress in positions.items():
            try:
                lag = lags.pop(0) if lags else self._alone(table, key, progress)
            except Exception as error:  # noqa: BLE001 - the other streams are measured all the same
                self._failed(key, error)
                continue
            self.streams.measured(key, lag)
            if is_close(lag):
                log_event(
                    "range will be lost",
                    level=logging.WARNING,
                    table=table,
                    stream=key.name,
                    committed=progress.position,
                    commits_left=lag.loss_commits,
                    seconds_left=lag.loss_seconds,
                )

    def _failed(self, key: StreamKey, error: Exception) -> None:
        code, text = code_and_text(error)
        self.streams.measured(key, None, code)
        log_event(
            "lag cannot be measured",
            level=logging.WARNING,
            table=key.table,
            stream=key.name,
            code=code,
            reason=text[:500],
        )

    def _alone(self, table: str, key: StreamKey, progress: Progress) -> GroupLag:
        return self.lags(table, [_place_of(key, progress)])[0]

    def _measured_together(self, table: str, positions: dict[StreamKey, Progress]) -> list[GroupLag]:
        """The lags of all streams, from one read of the table. Empty if one fails: then each is measured alone."""
        try:
            return self.lags(table, [_place_of(*item) for item in positions.items()]) if positions else []
        except Exception:  # noqa: BLE001 - the stream that fails is then measured alone
            return []

    def _by_table(self) -> dict[str, dict[StreamKey, Progress]]:
        tables: dict[str, dict[StreamKey, Progress]] = {}
        for key, progress in self.streams.positions().items():
            tables.setdefault(key.table, {})[key] = progress
        return tables


def _place_of(key: StreamKey, progress: Progress) -> ReaderPlace:
    return ReaderPlace(progress=progress, committed=progress.position, name=("stream", key.name))


def is_close(lag: GroupLag) -> bool:
    """Whether a reader with this lag is about to lose data to the cleaner."""
    few = lag.loss_commits is not None and lag.loss_commits <= CLOSE_COMMITS
    soon = lag.loss_seconds is not None and lag.loss_seconds <= CLOSE_SECONDS
    return lag.commits > 0 and (few or soon)
