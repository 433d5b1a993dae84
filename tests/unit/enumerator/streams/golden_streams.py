"""Streams over golden tables: their scopes, points and rows."""

from __future__ import annotations

import pathlib
from typing import Protocol

import pyarrow as pa

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query
from penstock.proto.model.streams import StreamPoint, StreamScope, StreamStart, batch_request
from penstock.reader.read_split import output_schema, read_split

ROWS = Incremental()
CHANGES = Changes(ChangeFormat.ROWS)
TABLES = ["A_fuzz_event_long_s1_v9_h120", "B_v9_cdc_mor_data_before", "B_v6_inc_mor", "A_replace_ops_v9_h120"]


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...
    def names(self) -> list[str]: ...


def scope(path: pathlib.Path, query: Query = ROWS, **more: object) -> StreamScope:
    return StreamScope(request=PlanRequest(table=str(path), query=query), **more)  # type: ignore[arg-type]


def all_points(enumerator: EmbeddedEnumerator, of: StreamScope, start: StreamStart | StreamPoint) -> list[StreamPoint]:
    """All points of a stream until nothing is new."""
    points = [start if isinstance(start, StreamPoint) else enumerator.start_stream(of, start)]
    while (following := enumerator.next_batch(of, points[-1]).point) != points[-1]:
        points.append(following)
        assert len(points) < 200
    return points


def rows(enumerator: EmbeddedEnumerator, of: StreamScope, point: StreamPoint) -> pa.Table | None:
    """The rows of a point's batch; None without a batch."""
    request = batch_request(of, point)
    if request is None:
        return None
    plan = enumerator.plan(request)
    batches = [part.batch for split in plan.splits for part in read_split(plan.scan, split)]
    return pa.Table.from_batches(batches, output_schema(plan.scan))


def texts(tables: list[pa.Table]) -> list[str]:
    """All rows as sorted text."""
    return sorted(str(row) for table in tables for row in table.to_pylist())


def together(enumerator: EmbeddedEnumerator, of: StreamScope, points: list[StreamPoint]) -> list[pa.Table]:
    """The batches of the points, without empty points."""
    result = (rows(enumerator, of, point) for point in points)
    return [table for table in result if table is not None]
