"""Waiting for the end of a stream: the conditions of an end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.engine.spark.stream.await_end import await_end
from penstock.engine.stream_offsets import ScopeId, offset_of
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.streams import Progress, StreamPoint

WAITING = {"isDataAvailable": False, "message": "Waiting for data to arrive"}
WORKING = {"isDataAvailable": True, "message": "Processing new data"}
CLOSING = {"isDataAvailable": False, "message": "No new data but cleaning up state"}


def ends(*flags: bool | None, as_text: bool = True) -> dict[str, Any]:
    """Spark's progress with one end offset per source: of Penstock (ended or not) or of another source (None)."""
    progress: list[Any] = [
        {"0": 7}
        if flag is None
        else offset_of(StreamPoint(progress=Progress(EARLIEST), ended=flag), ScopeId("s", is_hybrid=False))
        for flag in flags
    ]
    return {"sources": [{"endOffset": json.dumps(end) if as_text else end} for end in progress]}


@dataclass
class Query:
    """Steps of (progress, status), one per wait; the last step repeats. `ends_at`: the wait in which the query ends."""

    steps: list[tuple[dict[str, Any] | None, dict[str, Any]]]
    ends_at: int = 10**6
    now_s: float = 0.0
    waits: int = 0
    stopped: bool = False
    failure: Exception | None = None
    calls: list[str] = field(default_factory=list)

    def awaitTermination(self, timeout: float) -> bool:
        self.waits += 1
        self.now_s += timeout
        if self.waits >= self.ends_at:
            if self.failure is not None:
                raise self.failure
            return True
        return False

    @property
    def _step(self) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        return self.steps[min(self.waits, len(self.steps)) - 1]

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self._step[0]

    @property
    def status(self) -> dict[str, Any]:
        return self._step[1]

    def stop(self) -> None:
        self.stopped = True


def wait_for(query: Query, timeout_s: float = 60) -> None:
    await_end(query, timeout_s, clock=lambda: query.now_s)  # type: ignore[arg-type]


@pytest.mark.parametrize("as_text", [True, False])
def test_await_end_stops_after_the_micro_batch_that_closes_windows(as_text: bool) -> None:
    end = ends(True, as_text=as_text)
    query = Query([(None, WAITING), (ends(False), WAITING), (end, WORKING), (end, CLOSING), (end, WAITING)])
    wait_for(query)
    assert (query.stopped, query.waits) == (True, 5)


def test_await_end_waits_for_every_penstock_source() -> None:
    query = Query([(ends(True, False), WAITING), (ends(True, None, True), WAITING)])
    wait_for(query)
    assert query.waits == 2


@pytest.mark.parametrize(
    "progress", [None, {"sources": []}, ends(None), {"sources": [{"endOffset": "not json"}]}, ends(False)]
)
def test_await_end_waits_while_no_source_has_ended(progress: dict[str, Any] | None) -> None:
    query = Query([(progress, WAITING)])
    with pytest.raises(TimeoutError, match=r"did not end within 2 s"):
        wait_for(query, 2)
    assert not query.stopped
    assert 19 <= query.waits <= 22


def test_query_that_ends_by_itself() -> None:
    query = Query([(ends(False), WORKING)], ends_at=3)
    wait_for(query)
    assert not query.stopped


def test_query_that_fails() -> None:
    query = Query([(ends(False), WORKING)], ends_at=3, failure=RuntimeError("the sink"))
    with pytest.raises(RuntimeError, match="the sink"):
        wait_for(query)
