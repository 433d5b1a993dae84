"""A group in memory in place of a server."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from penstock.engine.group.lease import Runtime


class StoppedHeartbeat:
    """A heartbeat without a thread, because the clock of the test does not advance."""

    def __init__(self, beat: object, pause_s: float) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.fixture
def service(group: Any, clock: Any, reading: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every server address leads to the group in memory; readers neither wait nor send heartbeats in real time."""
    runtime = Runtime(now_ms=clock.now_ms, wait=clock.wait, start_heartbeat=StoppedHeartbeat)
    monkeypatch.setattr(
        "penstock.engine.group.connect.open_group_enumerator", lambda server, access, mergers: nullcontext(group)
    )
    monkeypatch.setattr("penstock.engine.group.reader.Runtime", lambda: runtime)
    return group
