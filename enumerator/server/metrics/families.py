"""Counters, histograms and gauges of the Prometheus client, created from entries of `catalog`.

The client is imported late: the module loads without the extra `server`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.enumerator.server.metrics.catalog import METRICS

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram
    from prometheus_client.core import GaugeMetricFamily

Values = Mapping[tuple[str, ...], float | None] | Mapping[tuple[str, ...], float]
"""By the values of the labels, in the entry's order; None: not exposed."""


def counter(name: str, registry: CollectorRegistry) -> Counter:
    """The entry's counter, registered with the registry."""
    from prometheus_client import Counter

    entry = METRICS[name]
    return Counter(entry.name, entry.doc, entry.labels, registry=registry)


def histogram(name: str, registry: CollectorRegistry) -> Histogram:
    """The entry's histogram, registered with the registry."""
    from prometheus_client import Histogram

    entry = METRICS[name]
    return Histogram(entry.name, entry.doc, entry.labels, buckets=entry.buckets, registry=registry)


def gauge(name: str, values: Values) -> GaugeMetricFamily:
    """The entry's current gauges, for a collector."""
    from prometheus_client.core import GaugeMetricFamily

    entry = METRICS[name]
    family = GaugeMetricFamily(entry.name, entry.doc, labels=entry.labels)
    for key, value in values.items():
        if value is not None:
            family.add_metric(list(key), float(value))
    return family
