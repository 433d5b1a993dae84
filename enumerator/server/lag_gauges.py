"""Gauges for Prometheus of how far groups are behind their tables: what `penstock groups describe` prints.

Imports of the library are late: the module loads without the extra `server`. Not here: how lag is found
(`penstock.enumerator.watch.lag`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.enumerator.server.last_told import LastTold
from penstock.proto.groups import GroupLag

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class LagGauges(LastTold[GroupLag]):
    """A collector for a registry."""

    def collect(self) -> Iterator[Metric]:
        """Called by the library at each scrape."""
        from prometheus_client.core import GaugeMetricFamily

        told = self.now()
        labels = ["group", "table"]
        commits = GaugeMetricFamily("penstock_group_lag_commits", "Commits not yet committed", labels=labels)
        size = GaugeMetricFamily("penstock_group_lag_bytes", "Bytes of those commits", labels=labels)
        seconds = GaugeMetricFamily("penstock_group_lag_seconds", "Since the oldest of them completed", labels=labels)
        for (table, group), lag in told.items():
            commits.add_metric([group, table], lag.commits)
            size.add_metric([group, table], lag.size_bytes)
            seconds.add_metric([group, table], lag.seconds)
        yield from (commits, size, seconds)
