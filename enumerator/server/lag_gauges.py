"""Gauges for Prometheus of how far groups are behind their tables: what `penstock groups describe` prints.

Imports of the library are late: the module loads without the extra `server`. Not here: how lag is found
(`penstock.enumerator.watch.lag`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.proto.groups import GroupLag

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class LagGauges:
    """What was last said of each group, at most `most` of them. Any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str], GroupLag] = {}

    def set(self, table: str, group: str, lag: GroupLag) -> None:
        """Replaces what was said of the group."""
        with self._lock:
            if (table, group) in self._told or len(self._told) < self._most:
                self._told[table, group] = lag

    def drop(self, table: str, group: str) -> None:
        """Nothing more is said of the group."""
        with self._lock:
            self._told.pop((table, group), None)

    def collect(self) -> Iterator[Metric]:
        """Called by the library at each scrape."""
        from prometheus_client.core import GaugeMetricFamily

        with self._lock:
            told = dict(self._told)
        labels = ["group", "table"]
        commits = GaugeMetricFamily("penstock_group_lag_commits", "Commits not yet committed", labels=labels)
        size = GaugeMetricFamily("penstock_group_lag_bytes", "Bytes of those commits", labels=labels)
        seconds = GaugeMetricFamily("penstock_group_lag_seconds", "Since the oldest of them completed", labels=labels)
        for (table, group), lag in told.items():
            commits.add_metric([group, table], lag.commits)
            size.add_metric([group, table], lag.size_bytes)
            seconds.add_metric([group, table], lag.seconds)
        yield from (commits, size, seconds)
