"""Gauges of hybrid reads for Prometheus: which phase they are in, how far their topics are ahead of them.

Imports of the library are late: the module loads without the extra `server`. Not here: counters (`metrics`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.enumerator.observer import KafkaGauges
from penstock.enumerator.server.last_told import LastTold
from penstock.enumerator.server.metric_families import gauge
from penstock.proto.hybrid import Phase

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MAX_PARTITIONS: Final = 200
"""Partitions of one topic that have a gauge each; the lag of all others is summed under `other`."""

_STATES: Final = {None: 0, Phase.SWITCHING: 1, Phase.KAFKA: 2}


class TopicGauges(LastTold[KafkaGauges]):
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
