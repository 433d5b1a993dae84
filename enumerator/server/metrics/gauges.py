"""Gauges for Prometheus of how far groups are behind their tables: what `penstock groups describe` prints.

Imports of the library are late: the module loads without the extra `server`. Not here: how lag is found
(`penstock.enumerator.continuous.lag`).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock.enumerator.observer import TopicMeasured
from penstock.enumerator.server.metrics.families import gauge
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.hybrid import Phase

T = TypeVar("T")


class LastTold(Generic[T]):
    """The last word on each (table, group), for at most `most` of them: others are not kept. Any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str], T] = {}

    def set(self, table: str, group: str, told: T) -> None:
        """Replaces what was said of the group."""
        with self._lock:
            if (table, group) in self._told or len(self._told) < self._most:
                self._told[table, group] = told

    def drop(self, table: str, group: str) -> None:
        """Nothing more is said of the group."""
        with self._lock:
            self._told.pop((table, group), None)

    def now(self) -> dict[tuple[str, str], T]:
        """All of it."""
        with self._lock:
            return dict(self._told)


if TYPE_CHECKING:
    from prometheus_client.core import Metric


class LagGauges(LastTold[GroupLag]):
    """A collector for a registry."""

    def collect(self) -> Iterator[Metric]:
        """Called by the library at each scrape."""
        told = {(group, table): lag for (table, group), lag in self.now().items()}
        yield gauge("penstock_group_lag_commits", {key: lag.commits for key, lag in told.items()})
        yield gauge("penstock_group_lag_bytes", {key: lag.size_bytes for key, lag in told.items()})
        yield gauge("penstock_group_lag_seconds", {key: lag.seconds for key, lag in told.items()})


if TYPE_CHECKING:
    from prometheus_client.core import Metric

MAX_PARTITIONS: Final = 200
"""Partitions of one topic that have a gauge each; the lag of all others is summed under `other`."""

_STATES: Final = {None: 0, Phase.SWITCHING: 1, Phase.KAFKA: 2}


class TopicGauges(LastTold[TopicMeasured]):
    """A collector for a registry."""

    def collect(self) -> Iterator[Metric]:
        """Called by the library at each scrape."""
        told = self.now()
        states: dict[tuple[str, ...], float] = {
            (group, table): _STATES[gauges.phase] for (table, group), gauges in told.items()
        }
        lags: dict[tuple[str, ...], float] = defaultdict(int)
        for (_, group), gauges in told.items():
            for number, (partition, records) in enumerate(sorted(gauges.lag.items())):
                shown = str(partition) if number < MAX_PARTITIONS else "other"
                lags[group, gauges.topic, shown] += records
        yield gauge("penstock_kafka_switch_state", states)
        yield gauge("penstock_kafka_lag_records", lags)
