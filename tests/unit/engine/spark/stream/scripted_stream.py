"""A scripted enumerator of one table, a clock, and the stream reader over both."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import types as st

from penstock.engine.spark.load import Loaded
from penstock.engine.spark.stream.reader import PenstockStreamReader
from penstock.engine.spark.watermark.columns import with_columns
from penstock.engine.stream_offsets import Offset, ScopeId, offset_of, point_of
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription
from penstock.proto.model.splits import CommitTimeOrdering, Scan, VisibleInstants
from penstock.proto.model.streams import (
    END_OF_TIME_US,
    CommitsBatch,
    NextBatch,
    Progress,
    SnapshotBatch,
    SnapshotPlace,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    StreamStart,
    Watermark,
)
from penstock.proto.options.registry import EntryPoint, parse_options

SCHEMA = st.StructType([st.StructField("id", st.LongType())])


TIMED = with_columns(st.StructType([st.StructField("id", st.LongType()), st.StructField("ts", st.TimestampType())]))


EVENT_TIME = {"eventTime": "TS", "maxOutOfOrderness": "1s"}


def avro(**columns: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in columns.items()]})


AVRO = avro(id="long", ts={"type": "long", "logicalType": "timestamp-micros"})


@dataclass
class Script:
    """An enumerator with numbered commits; it records its requests. `schemas`: the schema of a commit, by number."""

    commits: int = 3
    snapshot_splits: int = 0
    requests: list[PlanRequest] = field(default_factory=list)
    scopes: list[StreamScope] = field(default_factory=list)
    starts: list[StreamStart] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    schemas: dict[int, str] = field(default_factory=dict)
    lost: str = ""
    description: TableDescription | None = None

    def describe_table(self, table: str) -> TableDescription:
        assert self.description is not None, "a stream with a known schema does not request it"
        return self.description

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        self._fail()
        return at(self.commits).progress.position

    def start_stream(self, scope: StreamScope, start: StreamStart) -> StreamPoint:
        self._fail()
        self.scopes.append(scope)
        self.starts.append(start)
        match start:
            case StartAfter(position):
                return StreamPoint(progress=Progress(position, layout=2))
            case StartLatest():
                return at(self.commits)
            case StartSnapshot():
                place = SnapshotPlace(done=0, total=self.snapshot_splits, digest="d")
                return replace(at(self.commits), snapshot=place if self.snapshot_splits else None)

    def next_batch(self, scope: StreamScope, point: StreamPoint) -> NextBatch:
        self._fail()
        self.scopes.append(scope)
        place, limits = point.snapshot, scope.limits
        if place is not None and place.done < place.total:
            done = min(place.total, place.done + (limits.max_files or place.total))
            reached = replace(point, snapshot=replace(place, done=done), content=SnapshotBatch(place.done))
            return NextBatch(point=replace(reached, watermark=Watermark(done, 9)), schema_json=AVRO)
        done = number(point)
        top = min([self.commits, *(int(p.order_key[-2:]) for p in (scope.target, scope.upto) if p is not None)])
        end = min(top, done + limits.max_commits) if limits.max_commits else top
        if end <= done:
            return NextBatch(point=point)
        reached = replace(
            at(end),
            content=CommitsBatch(point.progress.position),
            watermark=Watermark(end * 1_000_000, end * 2_000_000),
        )
        if scope.upto is not None and reached.progress.position >= scope.upto:
            reached = replace(reached, ended=True, watermark=Watermark(END_OF_TIME_US, reached.watermark.high_us))
        return NextBatch(point=reached, schema_json=self.schemas.get(end, AVRO), lost=self.lost)

    def open_plan(self, request: PlanRequest, request_id: str = "") -> OpenedPlan:
        self._fail()
        self.requests.append(request)
        scan = Scan(
            table=request.table,
            base_path="/t",
            table_version=9,
            schema_json=AVRO,
            columns=request.columns,
            merge=CommitTimeOrdering(),
            visible=VisibleInstants(frozenset()),
        )
        return OpenedPlan(plan_id=f"plan{len(self.requests)}", slots=2, splits=5, size_bytes=9, scan=scan)

    def describe_plan(self, plan_id: str) -> Scan:
        raise AssertionError("not on the driver")

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        raise AssertionError("not on the driver")

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        raise AssertionError("not on the driver")

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def at(commit: int) -> StreamPoint:
    position = EARLIEST if commit == 0 else Position(InstantTime(f"202601010000000{commit:02}"))
    return StreamPoint(progress=Progress(position, layout=2))


def number(point: StreamPoint) -> int:
    position = point.progress.position
    return 0 if position == EARLIEST else int(position.order_key[-2:])


class Clock:
    """A clock that advances only in pauses or by assignment."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.now_s += seconds


def reader(
    script: Script | None = None,
    *,
    schema: st.StructType = SCHEMA,
    whole_schema: bool = False,
    clock: Clock | None = None,
    **options: str,
) -> PenstockStreamReader:
    options_parsed = parse_options({"server": "127.0.0.1:1", **options}, entry_point=EntryPoint.STREAM)
    clock = clock or Clock()
    return PenstockStreamReader(
        Loaded("t", options_parsed),
        schema,
        whole_schema=whole_schema,
        enumerator=script or Script(),
        clock=clock,
        pause=clock.pause,
    )


def scope_of(stream: PenstockStreamReader) -> ScopeId:
    return ScopeId.parse(str(stream.initialOffset()["scope"]))


def offset_for(stream: PenstockStreamReader, point: StreamPoint) -> Offset:
    return offset_of(point, scope_of(stream))


def through(stream: PenstockStreamReader, limit: Any = None) -> list[StreamPoint]:
    """The ends of micro-batches until no commit is new, as Spark requests them, with offsets through JSON."""
    limit = stream.getDefaultReadLimit() if limit is None else limit
    start, ends = stream.initialOffset(), []
    while (end := stream.latestOffset(start, limit)) != start:
        start = json.loads(json.dumps(end))
        ends.append(point_of(start, scope_of(stream)))
    return ends
