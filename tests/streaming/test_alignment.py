"""Aligned streams of tables: one reads ten times as much event time per batch as the other."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.run import RunningServer, serve
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, RoundLimits
from penstock.proto.model.server_status import StreamState
from penstock.proto.model.streams import (
    Alignment,
    EventTimeRule,
    StartAfter,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    StreamStart,
    WatermarkFallback,
    batch_request,
)
from penstock.reader.read_split import output_schema, read_split
from tests.streaming.event_tables import START_S, S, instant, write_events

COMMITS, SPAN_S, ROWS = 8, 10, 4
DRIFT_S = 10
DAY_US = 86_400 * S
"""The idle timeout: a slow machine does not end the membership of a stream."""
LAST = Position(InstantTime(instant(COMMITS - 1)))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("aligned")
    return {name: str(write_events(folder / name, COMMITS, SPAN_S, ROWS)) for name in ("fast", "slow")}


@pytest.fixture(scope="module")
def server(tables: dict[str, str]) -> Iterator[RunningServer]:
    with serve(tables, "127.0.0.1:0", poll_interval_ms=200) as running:
        yield running


def scope_of(table: str, commits: int, *, aligned: bool, set_name: str = "s") -> StreamScope:
    request = PlanRequest(table=table, query=Incremental(), event_time="ts")
    return StreamScope(
        request=request,
        name=f"{set_name}-{table}",
        limits=RoundLimits(max_commits=commits, max_files=commits),
        rule=EventTimeRule(max_out_of_orderness_us=0, fallback=WatermarkFallback.HOLD),
        upto=LAST,
        alignment=Alignment(set=set_name, max_drift_us=DRIFT_S * S, idle_timeout_us=DAY_US) if aligned else None,
    )


def rows_of(tables: dict[str, str], scope: StreamScope, point: StreamPoint) -> pa.Table:
    """The rows of a batch, planned by another process that knows nothing of alignment."""
    request = batch_request(scope, point)
    assert request is not None
    plan = EmbeddedEnumerator(tables).plan(request)
    batches = [part.batch for split in plan.splits for part in read_split(plan.scan, split)]
    return pa.Table.from_batches(batches, output_schema(plan.scan))


def second(time: Any) -> float:
    return float(time.timestamp() - START_S)


@pytest.mark.parametrize("start", [StartAfter(EARLIEST), StartSnapshot()], ids=["earliest", "snapshot"])
@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "alone"])
def test_fast_stream_stays_within_drift_of_slow_one(
    tables: dict[str, str], server: RunningServer, aligned: bool, start: StreamStart
) -> None:
    """Every row once; the lead of the fast stream is at most the drift, and without alignment the whole table."""
    set_name = f"{type(start).__name__}-{aligned}"
    scopes = {"fast": scope_of("fast", 10, aligned=aligned, set_name=set_name),
              "slow": scope_of("slow", 1, aligned=aligned, set_name=set_name)}  # fmt: skip
    client = EnumeratorClient(server.address)
    points = {name: client.start_stream(scope, start) for name, scope in scopes.items()}
    read: dict[str, list[pa.Table]] = {"fast": [], "slow": []}
    leads: list[float] = []
    held = 0
    while not all(point.ended for point in points.values()):
        for name in ("fast", "fast", "slow"):
            scope = scopes[name]
            batch = client.next_batch(scope, points[name])
            assert not (name == "slow" and batch.held)
            if batch.held:
                assert batch.point == points[name]
                (status,) = [each for each in client.describe_server("fast").streams if each.name == scope.name]
                assert (status.state, status.alignment) == (StreamState.HELD, set_name)
                assert status.ceiling_us is not None
            held += batch.held
            if batch.point != points[name] and batch_request(scope, batch.point) is not None:
                read[name].append(rows_of(tables, scope, batch.point))
            points[name] = batch.point
        slow_s = points["slow"].watermark.at_us
        assert slow_s is not None
        if read["fast"] and not points["slow"].ended:
            highest_s = max(second(pc.max(table["ts"]).as_py()) for table in read["fast"])
            leads.append(highest_s - (slow_s / S - START_S))
        assert len(leads) < 100
    for name in scopes:
        ids = pa.concat_tables(read[name])["id"].to_pylist()
        assert len(ids) == len(set(ids)) == COMMITS * ROWS
    assert (held > 0) is aligned
    if aligned:
        assert max(leads) <= DRIFT_S + SPAN_S
    else:
        assert max(leads) > 2 * (DRIFT_S + SPAN_S)
    client.close()


def window_join(left: Any, right: Any) -> Any:
    """Pairs of rows of one window and group."""
    one, other = (stream.select(F.window("ts", "10 seconds").alias("w"), "g", "n") for stream in (left, right))
    return one.alias("l").join(other.alias("r"), ["w", "g"]).select("w.start", "g", "l.n", "r.n")


def joined(spark: Any, server: RunningServer, name: str, checkpoint: pathlib.Path, aligned: bool) -> tuple[Any, int]:
    """(The windows of the join, the most rows in its state) of a run to the end."""
    streams = []
    for table, commits in (("fast", 10), ("slow", 1)):
        options = {"server": server.address, "eventTime": "ts", "maxOutOfOrderness": "0 s", "after": "earliest"}
        options |= {"maxCommitsPerTrigger": str(commits), "upto": instant(COMMITS - 1), "slots": "1"}
        options |= {"streamName": f"{name}-{table}"}
        options |= {"alignWith": name, "maxDrift": f"{DRIFT_S} s", "idleTimeout": "1 day"} if aligned else {}
        streams.append(spark.readStream.format("penstock").options(**options).load(table))
    from penstock.spark import with_source_watermark

    result = window_join(*(with_source_watermark(stream, "ts", 0) for stream in streams))
    writer = result.toDF("start", "g", "left", "right").writeStream.format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(300)
    finally:
        query.stop()
    sizes = [sum(one["numRowsTotal"] for one in progress["stateOperators"]) for progress in query.recentProgress]
    return sorted(map(tuple, spark.table(name).collect())), max(sizes)


@pytest.mark.long
def test_state_of_join_is_bounded_by_drift(
    spark: Any, tables: dict[str, str], server: RunningServer, tmp_path: pathlib.Path
) -> None:
    """The same windows as the join of the whole tables, with the state of a few windows instead of all of them."""
    windows, state = joined(spark, server, "aligned", tmp_path / "aligned", True)
    whole = [spark.read.format("penstock").load(tables[name]) for name in ("fast", "slow")]
    assert windows == sorted(map(tuple, window_join(*whole).collect()))
    assert len(windows) == COMMITS * ROWS * ROWS // 2
    others, state_alone = joined(spark, server, "alone", tmp_path / "alone", False)
    assert others == windows
    assert state <= ROWS * (DRIFT_S // SPAN_S + 3)
    assert state_alone > 2 * state
