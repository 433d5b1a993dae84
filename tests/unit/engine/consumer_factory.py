"""Consumers of a group in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine.consumer import Consumer
from penstock.engine.group.lease import Runtime
from tests.unit.engine.fake_group import FakeClock, FakeGroup, FakeHeartbeat

LEASE_MS = 9000


class ConsumerFactory:
    """Creates consumers of group g; the test triggers their `heartbeats`."""

    def __init__(self, group: FakeGroup, clock: FakeClock) -> None:
        self.group, self.clock = group, clock
        self.heartbeats: list[FakeHeartbeat] = []

    def __call__(self, reader_id: str = "r", **options: Any) -> Consumer:
        def start_heartbeat(beat: Callable[[], float | None], pause_s: float) -> FakeHeartbeat:
            heartbeat: Any = type(
                "Heartbeat", (), {"stopped": False, "stop": lambda self: setattr(self, "stopped", True)}
            )()
            heartbeat.beat, heartbeat.pause_s = beat, pause_s
            self.heartbeats.append(heartbeat)
            return heartbeat  # type: ignore[no-any-return]

        runtime = Runtime(now_ms=self.clock.now_ms, wait=self.clock.wait, start_heartbeat=start_heartbeat)
        return Consumer(
            None, "trips", group="g", reader_id=reader_id, enumerator=self.group, runtime=runtime, **options
        )


def polled(consumer: Consumer, max_batches: int = 1000) -> list[tuple[str, int, int, bool]]:
    """(split, first ordinal, next ordinal, end of split) of each batch that is available now."""
    rows = []
    while len(rows) < max_batches and (batch := consumer.poll(0)) is not None:
        assert batch.batch.column("id").to_pylist() == list(range(batch.first_ordinal, batch.next_ordinal))
        rows.append((batch.split_id, batch.first_ordinal, batch.next_ordinal, batch.end_of_split))
    return rows


ALL = [("a", 0, 10, False), ("a", 10, 20, False), ("a", 20, 25, True), ("c", 0, 10, True)]
