"""Two observers as one: each is told everything. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.enumerator.observer import (
    Duration,
    GroupGauges,
    KafkaGauges,
    Observer,
    PlannedRound,
    SplitEvent,
    SplitKind,
    TableGauges,
)
from penstock.proto.groups import GroupLag
from penstock.proto.reports import SplitReport


class Both:
    """Tells the first, then the second. The clock is the first one's."""

    def __init__(self, first: Observer, second: Observer) -> None:
        self._first, self._all = first, (first, second)

    def now_s(self) -> float:
        """See `Observer.now_s`."""
        return self._first.now_s()

    def split_events(
        self, event: SplitEvent, table: str, group: str, kind: SplitKind, count: int = 1, *, query: str = ""
    ) -> None:
        """See `Observer.split_events`."""
        for one in self._all:
            one.split_events(event, table, group, kind, count, query=query)

    def group_gauges(self, table: str, group: str, gauges: GroupGauges) -> None:
        """See `Observer.group_gauges`."""
        for one in self._all:
            one.group_gauges(table, group, gauges)

    def group_lag(self, table: str, group: str, lag: GroupLag | None) -> None:
        """See `Observer.group_lag`."""
        for one in self._all:
            one.group_lag(table, group, lag)

    def round_planned(self, table: str, group: str, planned: PlannedRound) -> None:
        """See `Observer.round_planned`."""
        for one in self._all:
            one.round_planned(table, group, planned)

    def discovery_failed(self, table: str, group: str, code: str) -> None:
        """See `Observer.discovery_failed`."""
        for one in self._all:
            one.discovery_failed(table, group, code)

    def thread_failed(self, thread: str) -> None:
        """See `Observer.thread_failed`."""
        for one in self._all:
            one.thread_failed(thread)

    def reader_splits(
        self, event: SplitEvent, table: str, group: str, reader_id: str, splits: Sequence[tuple[str, int]]
    ) -> None:
        """See `Observer.reader_splits`."""
        for one in self._all:
            one.reader_splits(event, table, group, reader_id, splits)

    def group_report(self, table: str, group: str, reader_id: str, report: SplitReport) -> None:
        """See `Observer.group_report`."""
        for one in self._all:
            one.group_report(table, group, reader_id, report)

    def group_gone(self, table: str, group: str) -> None:
        """See `Observer.group_gone`."""
        for one in self._all:
            one.group_gone(table, group)

    def table_gauges(self, table: str, gauges: TableGauges) -> None:
        """See `Observer.table_gauges`."""
        for one in self._all:
            one.table_gauges(table, gauges)

    def table_health(self, table: str, code: str) -> None:
        """See `Observer.table_health`."""
        for one in self._all:
            one.table_health(table, code)

    def kafka(self, table: str, group: str, gauges: KafkaGauges) -> None:
        """See `Observer.kafka`."""
        for one in self._all:
            one.kafka(table, group, gauges)

    def kafka_lost(self, table: str, group: str, records: int) -> None:
        """See `Observer.kafka_lost`."""
        for one in self._all:
            one.kafka_lost(table, group, records)

    def watermark(self, table: str, at_us: int) -> None:
        """See `Observer.watermark`."""
        for one in self._all:
            one.watermark(table, at_us)

    def token_file(self, accepted: int, usable: bool) -> None:
        """See `Observer.token_file`."""
        for one in self._all:
            one.token_file(accepted, usable)

    def leader_epoch(self, epoch: int) -> None:
        """See `Observer.leader_epoch`."""
        for one in self._all:
            one.leader_epoch(epoch)

    def report(self, group: str, report: SplitReport) -> None:
        """See `Observer.report`."""
        for one in self._all:
            one.report(group, report)

    def observe(self, duration: Duration, seconds: float) -> None:
        """See `Observer.observe`."""
        for one in self._all:
            one.observe(duration, seconds)

    def rpc_started(self, service: str, method: str) -> None:
        """See `Observer.rpc_started`."""
        for one in self._all:
            one.rpc_started(service, method)

    def rpc_handled(self, service: str, method: str, code: str, seconds: float) -> None:
        """See `Observer.rpc_handled`."""
        for one in self._all:
            one.rpc_handled(service, method, code, seconds)
