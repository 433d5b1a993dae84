"""Streams of real tables that read through a server are visible there: by the calls that they make anyway."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.enumerator.server.run import serve
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import PositionExpired, TableNotFound
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, RoundLimits
from penstock.proto.model.server_status import StreamState, StreamStatus
from penstock.proto.model.streams import StartAfter, StreamScope

pytestmark = pytest.mark.golden

CLEANED = "A_archive_v9_h120"
LOST = "B_v9_arch_cow"
"""Files of its oldest commits are cleaned."""


def until(value: Callable[[], Any]) -> Any:
    """Waits until the value is true; fails after 60 s."""
    end_s = time.monotonic() + 60
    while not (result := value()):
        assert time.monotonic() < end_s
        time.sleep(0.05)
    return result


def test_streams_are_listed_with_their_lag_until_loss(golden: Any) -> None:
    one = RoundLimits(max_commits=1)
    named = StreamScope(request=PlanRequest(table="cleaned", query=Incremental()), name="nightly", limits=one)
    old = StreamScope(request=PlanRequest(table="cleaned", query=Incremental(), of_stream="0123456789abcdef"))
    lost = StreamScope(request=PlanRequest(table="lost", query=Changes(ChangeFormat.ROWS)), name="late")
    tables = {"cleaned": str(golden.table(CLEANED)), "lost": str(golden.table(LOST))}
    with serve(tables, "127.0.0.1:0") as server:
        client = EnumeratorClient(server.address)
        assert client.describe_server().streams == ()
        point = client.start_stream(named, StartAfter(EARLIEST))
        after = client.next_batch(named, point).point
        newest = client.next_batch(old, client.start_stream(old, StartAfter(EARLIEST))).point
        client.next_batch(old, newest)
        with pytest.raises(PositionExpired):
            client.next_batch(lost, client.start_stream(lost, StartAfter(EARLIEST)))
        with pytest.raises(TableNotFound):
            client.next_batch(StreamScope(request=PlanRequest(table="nothing", query=Incremental())), point)

        def measured() -> dict[str, StreamStatus] | None:
            streams = client.describe_server("cleaned").streams
            return {each.name: each for each in streams} if all(each.lag for each in streams) else None

        streams = until(measured)
        assert list(streams) == ["nightly", "stream-0123456789ab"]
        nightly, caught_up = streams.values()
        assert (nightly.state, nightly.batches) == (StreamState.RUNNING, 1)
        assert (nightly.committed, nightly.planned) == (point.progress.position, after.progress.position)
        assert nightly.lag.commits > 1 and nightly.lag.loss_commits is not None
        assert (caught_up.state, caught_up.lag.commits) == (StreamState.IDLE, 0)
        assert caught_up.lag.loss_commits > nightly.lag.loss_commits
        (late,) = client.describe_server("lost").streams
        assert (late.state, late.error_code) == (StreamState.FAILED, "POSITION_EXPIRED")
        assert {each.table for each in client.describe_server().streams} == {"cleaned", "lost"}
        client.close()
