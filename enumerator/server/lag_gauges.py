"""Gauges for Prometheus of how far groups are behind their tables: what `penstock groups describe` prints.

Imports of the library are late: the module loads without the extra `server`. Not here: how lag is found
(`penstock.enumerator.watch.lag`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.enumerator.server.last_told import LastTold
from penstock.enumerator.server.metric_families import gauge
from penstock.proto.groups import GroupLag

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
