"""Streams that register by their calls: states, names, bounds, forgetting."""

from __future__ import annotations

from dataclasses import replace

from penstock.enumerator.streams.alignment import set_number
from penstock.enumerator.streams.stream_registry import (
    FORGET_MS,
    FORGET_UNNAMED_MS,
    STOPPED_MS,
    StreamRegistry,
    stream_key,
)
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.server_status import StreamState, StreamStatus
from penstock.proto.model.streams import (
    Alignment,
    CommitsBatch,
    NextBatch,
    Progress,
    StreamPoint,
    StreamScope,
    Watermark,
)
from tests.unit.enumerator.scripted_service import Clock


def point(number: int, **more: object) -> StreamPoint:
    content = CommitsBatch(Position(InstantTime("000")))
    progress = Progress(Position(InstantTime(f"{number:03d}")))
    return StreamPoint(progress=progress, watermark=Watermark(number, number), content=content, **more)  # type: ignore[arg-type]


def scope(name: str = "orders-query", table: str = "t", principal: str = "", of_stream: str = "") -> StreamScope:
    request = PlanRequest(table=table, query=Incremental(), of_stream=of_stream)
    return StreamScope(request=request, name=name, principal=principal)


def only(registry: StreamRegistry) -> StreamStatus:
    (status,) = registry.statuses()
    return status


def test_status_follows_calls_of_stream() -> None:
    clock = Clock()
    registry = StreamRegistry(clock)
    registry.started(scope(), point(1))
    assert only(registry).state is StreamState.IDLE
    registry.answered(scope(), point(1), NextBatch(point=point(5)))
    clock.now_ms += 700
    status = only(registry)
    assert (status.table, status.name, status.state) == ("t", "orders-query", StreamState.RUNNING)
    assert (str(status.committed), str(status.planned)) == (
        str(point(1).progress.position),
        str(point(5).progress.position),
    )
    assert (status.batches, status.watermark_us, status.silent_ms) == (1, 5, 700)
    registry.answered(scope(), point(5), NextBatch(point=point(5)))
    assert (only(registry).state, only(registry).batches) == (StreamState.IDLE, 1)
    registry.answered(scope(), point(5), NextBatch(point=point(5), held=True))
    assert only(registry).state is StreamState.HELD
    registry.failed(scope(), point(5), "POSITION_EXPIRED")
    assert (only(registry).state, only(registry).error_code) == (StreamState.FAILED, "POSITION_EXPIRED")
    registry.answered(scope(), point(5), NextBatch(point=point(6, ended=True)))
    assert (only(registry).state, only(registry).error_code) == (StreamState.ENDED, "")


def test_silent_streams_are_stopped_then_forgotten() -> None:
    clock = Clock()
    registry = StreamRegistry(clock)
    registry.started(scope(of_stream="a"), point(1))
    registry.started(scope("", of_stream="0123456789abcdef"), point(1))
    clock.now_ms += STOPPED_MS - 1
    assert {status.state for status in registry.statuses()} == {StreamState.IDLE}
    clock.now_ms += 1
    assert {status.state for status in registry.statuses()} == {StreamState.STOPPED}
    clock.now_ms += FORGET_UNNAMED_MS - STOPPED_MS
    assert only(registry).name == "orders-query"
    clock.now_ms += FORGET_MS
    assert registry.statuses() == ()
    assert registry.positions() == {}


def test_stream_that_ended_is_not_stopped_and_not_measured() -> None:
    clock = Clock()
    registry = StreamRegistry(clock)
    registry.answered(scope(), point(1), NextBatch(point=point(2, ended=True)))
    clock.now_ms += STOPPED_MS
    assert only(registry).state is StreamState.ENDED
    assert registry.positions() == {}


def test_generated_names_are_stable_and_differ() -> None:
    first, second = scope("", of_stream="0123456789abcdef"), scope("", of_stream="fedcba9876543210")
    assert stream_key(first).name == stream_key(first).name == "stream-0123456789ab"
    assert stream_key(first) != stream_key(second)
    old, filtered = scope(""), scope("")
    filtered = replace(filtered, request=replace(filtered.request, where="id > 1"))
    assert stream_key(old).name.startswith("unnamed-")
    assert stream_key(old) != stream_key(filtered)
    hostile = scope("", of_stream="\n<script>" + "x" * 10_000)
    assert stream_key(hostile).name == "stream---script-xxx"


def test_streams_of_other_callers_stay_apart() -> None:
    registry = StreamRegistry(Clock())
    registry.answered(scope(principal="token:a"), point(1), NextBatch(point=point(5)))
    registry.failed(scope(principal="token:b"), point(1), "INTERNAL")
    assert [status.state for status in registry.statuses()] == [StreamState.RUNNING, StreamState.FAILED]


def test_full_registry_drops_streams_of_caller_with_most() -> None:
    """A caller with many names loses its own oldest streams, and no other caller's."""
    clock = Clock()
    registry = StreamRegistry(clock, max_streams=4)
    registry.started(scope("mine", principal="token:good"), point(1))
    for number in range(100):
        clock.now_ms += 1
        registry.started(scope(f"n{number:03d}", principal="token:bad"), point(1))
    assert [status.name for status in registry.statuses()] == ["mine", "n097", "n098", "n099"]
    assert len(registry.statuses("t")) == 4
    assert registry.statuses("u") == ()


def test_lag_stays_over_calls_and_goes_with_error() -> None:
    clock = Clock()
    registry = StreamRegistry(clock)
    registry.started(scope(), point(1))
    (key,) = registry.positions()
    lag = GroupLag(commits=3, size_bytes=9, seconds=2.5, loss_commits=1)
    registry.measured(key, lag)
    clock.now_ms += 40
    registry.answered(scope(), point(1), NextBatch(point=point(5)))
    assert (only(registry).lag, only(registry).lag_age_ms) == (lag, 40)
    registry.measured(key, None, "STORAGE")
    assert (only(registry).lag, only(registry).error_code) == (None, "STORAGE")
    registry.measured(key._replace(name="unknown"), lag)
    assert len(registry.statuses()) == 1


def test_alignment_sets_of_one_name_of_different_callers_have_different_numbers() -> None:
    registry = StreamRegistry(Clock())
    aligned = replace(scope(), alignment=Alignment(set="hours", max_drift_us=1))
    for principal, name in (("a", "x"), ("a", "y"), ("b", "z")):
        registry.started(replace(aligned, principal=principal, name=name), point(1))
    registry.started(scope("other"), point(1))
    numbers = {status.name: status.alignment_number for status in registry.statuses()}
    assert numbers["x"] == numbers["y"] == set_number("a", "hours") > 0, "as of the groups of that caller"
    assert numbers["z"] == set_number("b", "hours") != numbers["x"] and numbers["other"] == 0
