"""What the enumerator tells whoever measures it. Pure: values and one protocol; `NoObserver` listens to nothing.

Belongs here: another number that the service knows. Not here: names, labels and buckets of metrics
(`penstock.enumerator.server.metrics.catalog`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from penstock.proto.model.groups import GroupLag
from penstock.proto.model.hybrid import Phase
from penstock.proto.model.reports import SplitReport

if TYPE_CHECKING:
    from penstock.proto.model.groups import GroupLag


class SplitEvent(enum.StrEnum):
    """What happened to a split."""

    DISCOVERED = "discovered"
    ASSIGNED = "assigned"
    RETURNED = "returned"
    FINISHED = "finished"
    FENCED = "fenced"
    EXPIRED = "expired"


class SplitKind(enum.StrEnum):
    """What a split holds: rows of slices, changes, or a stretch of a topic."""

    MOR = "mor"
    CDC = "cdc"
    KAFKA = "kafka"


class Duration(enum.StrEnum):
    """What takes time in the service."""

    TIMELINE_REFRESH = "timeline_refresh"
    PLAN = "plan"
    ASSIGN = "assign"
    LOG_APPEND = "log_append"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGauges:
    """A consumer group now. Instants are seconds since 1970 UTC of its newest planned one, None before the first;
    `discovered_at_s` is the observer's own clock (`Observer.now_s`) when its table was last looked at, so that the age
    grows even if nobody reports; None for a group whose table is not to be looked at (ended, stopped, paused).
    `poll_interval_s`: how often it is to be. `up`: it is followed and not stopped by an error. `error_code`: of what
    stopped it, or of the looks that fail now."""

    pending_splits: int
    assigned_splits: int
    finished_splits: int
    pending_bytes: int = 0
    issued_instant_s: float | None = None
    issued_delay_s: float | None = None
    discovered_at_s: float | None = None
    poll_interval_s: float | None = None
    kind: SplitKind = SplitKind.MOR
    up: bool = True
    error_code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGauges:
    """What is left before the table's cleaner overtakes its slowest group; None: not known."""

    loss_commits: int | None = None
    loss_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaGauges:
    """A hybrid read now. `phase` None: in the lake. `lag`: by partition of the topic, how many offsets lie behind what
    is planned."""

    topic: str
    phase: Phase | None = None
    lag: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRound:
    """A round of a group. `instant_ms`: of its newest instant since 1970 UTC, None where the zone is not known."""

    commits: int
    splits: int
    size_bytes: int = 0
    instant_ms: int | None = None


class Observer(Protocol):
    """Takes numbers in, from any thread; never fails, never waits."""

    def now_s(self) -> float:
        """The clock of `GroupGauges.discovered_at_s`: never runs backwards."""
        ...

    def split_events(
        self, event: SplitEvent, table: str, group: str, kind: SplitKind, count: int = 1, *, query: str = ""
    ) -> None:
        """`count` splits of a group had this happen to them; of a read without one `group` is '' and `query` says what
        is read."""
        ...

    def group_gauges(self, table: str, group: str, gauges: GroupGauges) -> None:
        """Replaces what was last said of the group."""
        ...

    def group_lag(self, table: str, group: str, lag: GroupLag | None) -> None:
        """How far the group is behind its table, None if that cannot be measured; replaces what was last said."""
        ...

    def round_planned(self, table: str, group: str, planned: PlannedRound) -> None:
        """A round was found and is kept."""
        ...

    def discovery_failed(self, table: str, group: str, code: str) -> None:
        """A look for the group failed with the error of this code."""
        ...

    def thread_failed(self, thread: str) -> None:
        """A round of a background thread failed, or the thread ended."""
        ...

    def reader_splits(
        self, event: SplitEvent, table: str, group: str, reader_id: str, splits: Sequence[tuple[str, int]]
    ) -> None:
        """Which splits (round's plan id, index) of a reader had this happen to them: assigned, finished, returned,
        expired; or fenced, with none: the reader itself was."""
        ...

    def group_report(self, table: str, group: str, reader_id: str, report: SplitReport) -> None:
        """A reader of the group finished a split: beside `report`, for whoever asks which group."""
        ...

    def group_gone(self, table: str, group: str) -> None:
        """The group was deleted: nothing more is said of it."""
        ...

    def table_gauges(self, table: str, gauges: TableGauges) -> None:
        """Replaces what was last said of the table."""
        ...

    def table_health(self, table: str, code: str) -> None:
        """The table can be opened ('') or cannot, for the error of this code; replaces what was last said."""
        ...

    def kafka(self, table: str, group: str, gauges: KafkaGauges) -> None:
        """Replaces what was last said of the group's way into its topic."""
        ...

    def kafka_lost(self, table: str, group: str, records: int) -> None:
        """So many more offsets were passed over, for retention took them before they were read."""
        ...

    def watermark(self, table: str, at_us: int) -> None:
        """The watermark of the batch of a stream that was planned last, in UTC microseconds."""
        ...

    def leader_epoch(self, epoch: int) -> None:
        """The epoch under which this process writes its state."""
        ...

    def token_file(self, accepted: int, usable: bool) -> None:
        """So many tokens count now; whether their file can be read and parsed."""
        ...

    def report(self, group: str, report: SplitReport) -> None:
        """A reader finished a split: once a split, whoever repeats it."""
        ...

    def observe(self, duration: Duration, seconds: float) -> None:
        """Something took so long."""
        ...

    def rpc_started(self, service: str, method: str) -> None:
        """A call arrived."""
        ...

    def rpc_handled(self, service: str, method: str, code: str, seconds: float) -> None:
        """It was answered with this status (`OK`, `UNAVAILABLE`, …)."""
        ...


class NoObserver:
    """Nobody measures."""

    def now_s(self) -> float:
        """Always 0."""
        return 0.0

    def split_events(
        self, event: SplitEvent, table: str, group: str, kind: SplitKind, count: int = 1, *, query: str = ""
    ) -> None:
        """Nothing."""

    def group_gauges(self, table: str, group: str, gauges: GroupGauges) -> None:
        """Nothing."""

    def group_lag(self, table: str, group: str, lag: GroupLag | None) -> None:
        """Nothing."""

    def round_planned(self, table: str, group: str, planned: PlannedRound) -> None:
        """Nothing."""

    def discovery_failed(self, table: str, group: str, code: str) -> None:
        """Nothing."""

    def thread_failed(self, thread: str) -> None:
        """Nothing."""

    def reader_splits(
        self, event: SplitEvent, table: str, group: str, reader_id: str, splits: Sequence[tuple[str, int]]
    ) -> None:
        """Nothing."""

    def group_report(self, table: str, group: str, reader_id: str, report: SplitReport) -> None:
        """Nothing."""

    def group_gone(self, table: str, group: str) -> None:
        """Nothing."""

    def table_gauges(self, table: str, gauges: TableGauges) -> None:
        """Nothing."""

    def table_health(self, table: str, code: str) -> None:
        """Nothing."""

    def kafka(self, table: str, group: str, gauges: KafkaGauges) -> None:
        """Nothing."""

    def kafka_lost(self, table: str, group: str, records: int) -> None:
        """Nothing."""

    def watermark(self, table: str, at_us: int) -> None:
        """Nothing."""

    def leader_epoch(self, epoch: int) -> None:
        """Nothing."""

    def token_file(self, accepted: int, usable: bool) -> None:
        """Nothing."""

    def report(self, group: str, report: SplitReport) -> None:
        """Nothing."""

    def observe(self, duration: Duration, seconds: float) -> None:
        """Nothing."""

    def rpc_started(self, service: str, method: str) -> None:
        """Nothing."""

    def rpc_handled(self, service: str, method: str, code: str, seconds: float) -> None:
        """Nothing."""


NO_OBSERVER: Final = NoObserver()


class CompositeObserver:
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
