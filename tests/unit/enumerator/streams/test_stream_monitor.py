"""Lags of streams: one read of a table, failures of one stream, warnings before a loss, statuses for observers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from penstock.enumerator.continuous.types import ReaderPlace
from penstock.enumerator.observer import Observation, StreamsMeasured
from penstock.enumerator.streams.stream_monitor import MEASURE_MS, StreamMonitor, is_close
from penstock.enumerator.streams.stream_registry import StreamRegistry
from penstock.proto.errors import StorageError
from penstock.proto.model.groups import GroupLag
from tests.unit.enumerator.scripted_service import Clock
from tests.unit.enumerator.streams.test_stream_registry import point, scope


@dataclass
class Tables:
    """Answers lags: the number of the position, as commits. Positions in `broken` fail."""

    broken: tuple[int, ...] = ()
    loss_commits: int | None = None
    calls: list[tuple[str, int]] = field(default_factory=list)
    events: list[Observation] = field(default_factory=list)

    def lags(self, table: str, readers: Sequence[ReaderPlace]) -> list[GroupLag]:
        assert [(reader.name or ("", ""))[0] for reader in readers] == ["stream"] * len(readers)
        self.calls.append((table, len(readers)))
        numbers = [int(reader.committed.order_key) for reader in readers]
        if set(numbers) & set(self.broken):
            raise StorageError("the disk is gone")
        return [
            GroupLag(commits=number, size_bytes=0, seconds=1.0, loss_commits=self.loss_commits) for number in numbers
        ]

    def observe(self, event: Observation) -> None:
        self.events.append(event)


def monitored(tables: Tables, *numbers: int) -> tuple[StreamMonitor, StreamRegistry, Clock]:
    clock = Clock()
    registry = StreamRegistry(clock)
    for number in numbers:
        registry.started(scope(f"q{number}"), point(number))
    return StreamMonitor(registry, tables.lags, clock, tables), registry, clock


def test_streams_of_table_are_measured_together_at_intervals() -> None:
    tables = Tables()
    monitor, registry, clock = monitored(tables, 1, 2)
    assert monitor.due() == ["t"]
    monitor.measure_table("t")
    assert tables.calls == [("t", 2)]
    assert [status.lag.commits for status in registry.statuses() if status.lag] == [1, 2]
    assert monitor.due() == []
    registry.started(scope("q3"), point(3))
    assert monitor.due() == ["t"]
    monitor.measure_table("t")
    clock.now_ms += MEASURE_MS - 1
    assert monitor.due() == []
    clock.now_ms += 1
    assert monitor.due() == ["t"]


def test_stream_that_fails_does_not_hide_others() -> None:
    tables = Tables(broken=(1,))
    monitor, registry, _ = monitored(tables, 1, 2)
    monitor.measure_table("t")
    bad, good = registry.statuses()
    assert (bad.lag, bad.error_code) == (None, "STORAGE")
    assert good.lag is not None and not good.error_code


@pytest.mark.parametrize(("loss", "expected"), [(2, 1), (3, 0), (None, 0)])
def test_warning_precedes_loss(loss: int | None, expected: int, caplog: pytest.LogCaptureFixture) -> None:
    monitor, _, _ = monitored(Tables(loss_commits=loss), 7)
    with caplog.at_level(logging.WARNING, logger="penstock"):
        monitor.measure_table("t")
    assert sum("range will be lost" in record.getMessage() for record in caplog.records) == expected


def test_stream_without_lag_is_not_close_to_loss() -> None:
    lag = GroupLag(commits=0, size_bytes=0, seconds=0.0, loss_commits=1, loss_seconds=1.0)
    assert not is_close(lag)
    assert is_close(GroupLag(commits=1, size_bytes=0, seconds=0.0, loss_seconds=3600.0))


def test_observer_receives_all_streams_and_then_none() -> None:
    tables = Tables()
    monitor, registry, clock = monitored(tables)
    monitor.publish()
    assert tables.events == []
    registry.started(scope("q"), point(1))
    monitor.publish()
    clock.now_ms += 10 * 24 * 3_600_000
    monitor.publish()
    monitor.publish()
    assert [len(event.streams) for event in tables.events if isinstance(event, StreamsMeasured)] == [1, 0]
