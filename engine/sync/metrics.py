"""Metrics of a job for Prometheus. Needs the extra `server`; the Prometheus client is imported late."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from penstock.engine.sync.progress import TableProgress, TableState
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.access import host_and_port

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from penstock.enumerator.server.http.port import HttpPort

MAX_TABLES: Final = 1_000
"""Tables with metrics of their own; the rows of further ones are summed, and their longest lag is exposed, as OTHER."""
OTHER: Final = "other"

_Labels = tuple[str, str, str]
_LABELS: Final = ("target", "table", "source")


class SyncMetrics:
    """A collector: the tables of a job when Prometheus asks."""

    def __init__(
        self,
        tables: Callable[[], Sequence[TableProgress]],
        now_s: Callable[[], float] = time.time,
        max_tables: int = MAX_TABLES,
    ) -> None:
        self._tables, self._now_s, self._max_tables = tables, now_s, max_tables

    def collect(self) -> Iterator[Metric]:
        """The metrics, with the labels `target`, `table` and `source`, or `state`."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        states = dict.fromkeys(TableState, 0)
        rows: defaultdict[_Labels, int] = defaultdict(int)
        lags: dict[_Labels, float] = {}
        stopped: defaultdict[_Labels, int] = defaultdict(int)
        for number, one in enumerate(self._tables()):
            labels = self._labels(number, one)
            states[one.state] += 1
            rows[labels] += one.rows
            stopped[labels] += one.state in (TableState.STOPPED, TableState.RETRYING)
            if one.current_at_s is not None:
                lags[labels] = max(self._now_s() - one.current_at_s, lags.get(labels, 0.0))
        by_state = GaugeMetricFamily("penstock_sync_tables", "Tables of the job by state.", labels=("state",))
        for state, count in states.items():
            by_state.add_metric((state.value,), count)
        yield by_state
        written = CounterMetricFamily("penstock_sync_rows", "Rows written to the target or removed.", labels=_LABELS)
        for labels, count in rows.items():
            written.add_metric(labels, count)
        yield written
        lag = GaugeMetricFamily(
            "penstock_sync_lag_seconds",
            "Time since the target had every commit of the source; absent before the first time.",
            labels=_LABELS,
        )
        for labels, seconds in lags.items():
            lag.add_metric(labels, seconds)
        yield lag
        failing = GaugeMetricFamily("penstock_sync_failing", "1: the table is stopped or retried.", labels=_LABELS)
        for labels, count in stopped.items():
            failing.add_metric(labels, count)
        yield failing

    def _labels(self, number: int, one: TableProgress) -> _Labels:
        if number >= self._max_tables:
            return OTHER, OTHER, OTHER
        return str(one.source.entry.target), one.source.target_table, one.source.name


def serve_metrics(address: str, tables: Callable[[], Sequence[TableProgress]]) -> HttpPort:
    """Serves the metrics at HOST:PORT until it is closed. ConfigurationError: the port is in use, or the extra is
    missing."""
    host, port = host_and_port(address, any_port=True)
    try:
        from prometheus_client import CollectorRegistry

        from penstock.enumerator.server.http.port import HttpPort
    except ImportError:
        raise ConfigurationError('--metrics needs the extra `server`: pip install "penstock[server]"') from None
    registry = CollectorRegistry()
    registry.register(SyncMetrics(tables))
    try:
        return HttpPort(registry, host, port)
    except OSError as error:
        raise ConfigurationError(f"--metrics {address}: cannot listen: {error}") from None
