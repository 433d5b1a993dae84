"""Counters, histograms and gauges of the Prometheus client, created from entries of `catalog`.

The client is imported late: the module loads without the extra `server`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.enumerator.server.metrics.catalog import FLIGHT_METRICS, METRICS, MetricEntry
from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram
    from prometheus_client.core import GaugeMetricFamily

Values = Mapping[tuple[str, ...], float | None] | Mapping[tuple[str, ...], float]
"""By the values of the labels, in the entry's order; None: not exposed."""


def new_registry() -> CollectorRegistry:
    """A registry for metrics. ConfigurationError without the extra `server`."""
    try:
        from prometheus_client import CollectorRegistry
    except ImportError:
        raise ConfigurationError('metrics need the extra `server`: pip install "penstock[server]"') from None
    return CollectorRegistry()


def counter(name: str, registry: CollectorRegistry) -> Counter:
    """The entry's counter, registered with the registry."""
    from prometheus_client import Counter

    entry = _entry(name)
    return Counter(entry.name, entry.doc, entry.labels, registry=registry)


def histogram(name: str, registry: CollectorRegistry) -> Histogram:
    """The entry's histogram, registered with the registry."""
    from prometheus_client import Histogram

    entry = _entry(name)
    return Histogram(entry.name, entry.doc, entry.labels, buckets=entry.buckets, registry=registry)


def gauge_of(name: str, registry: CollectorRegistry, value: Callable[[], float]) -> None:
    """Registers the entry's gauge, whose value is computed at each scrape."""
    from prometheus_client import Gauge

    entry = _entry(name)
    Gauge(entry.name, entry.doc, registry=registry).set_function(value)


def gauge(name: str, values: Values) -> GaugeMetricFamily:
    """The entry's current gauges, for a collector."""
    from prometheus_client.core import GaugeMetricFamily

    entry = _entry(name)
    family = GaugeMetricFamily(entry.name, entry.doc, labels=entry.labels)
    for key, value in values.items():
        if value is not None:
            family.add_metric(list(key), float(value))
    return family


def _entry(name: str) -> MetricEntry:
    return METRICS.get(name) or FLIGHT_METRICS[name]
