"""Streams of Hudi tables through both enumerators: the same points, plans and errors."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from penstock.engine.event_time_scan import scan_event_time
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.assembly import TableFunctions
from penstock.enumerator.server.run import serve
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError, DataInvalidated, LateInstant, PenstockError, PositionExpired
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query, RoundLimits, SnapshotPart
from penstock.proto.model.reports import EndOfSlot
from penstock.proto.model.splits import EventTimeBounds, Scan, Split
from penstock.proto.model.streams import (
    CommitsBatch,
    EventTimeRule,
    NextBatch,
    SnapshotBatch,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    StreamStart,
    WatermarkFallback,
    batch_request,
)

pytestmark = pytest.mark.golden

TABLES = {
    "v9": "A_positions_v9_h120",
    "v6": "A_compaction_pending_v6_h0150",
    "services": "B_v9_cdc_mor_op_key_only",
}
LOST = "B_v9_arch_cow"
"""Files of its oldest commits are cleaned."""
SCAN = WatermarkFallback.SCAN
IN_BASE_FILES = "B_v9_colstats_cow"
"""All of its event times have bounds in footers; their order differs from that of the splits' ids."""
RULE = EventTimeRule(max_out_of_orderness_us=1_000_000, fallback=WatermarkFallback.COMMIT_TIME, timezone="Asia/Kolkata")


def scope_of(query: Query, **changes: Any) -> StreamScope:
    """One commit, or two files, per batch, by event time."""
    request = PlanRequest(table="t", query=query, event_time="ts", event_time_unit="ms")
    options = {"limits": RoundLimits(max_commits=1, max_files=2), "rule": RULE, **changes}
    return StreamScope(request=request, **options)


@contextmanager
def both(path: pathlib.Path) -> Iterator[tuple[EmbeddedEnumerator, EnumeratorClient]]:
    """The embedded enumerator and the client of a server, for one table named `t`."""
    with serve(
        {"t": str(path)}, "127.0.0.1:0", functions=TableFunctions(scan_event_time=scan_event_time), poll_interval_ms=50
    ) as server:
        client = EnumeratorClient(server.address)
        yield EmbeddedEnumerator({"t": str(path)}, reads=OpenTables(scan_event_time=scan_event_time)), client
        client.close()


def read_stream(enumerator: Enumerator, scope: StreamScope, point: StreamPoint) -> list[NextBatch]:
    """Every batch, until there is no new data; each is requested twice."""
    batches: list[NextBatch] = []
    while True:
        batch = enumerator.next_batch(scope, point)
        assert enumerator.next_batch(scope, point) == batch
        if batch.point == point:
            return batches
        batches.append(batch)
        point = batch.point


def read_plan(enumerator: Enumerator, request: PlanRequest) -> tuple[Scan, list[Split]]:
    """The splits that a plan's readers get, by split id."""
    opened = enumerator.open_plan(replace(request, slots=1))
    result: list[Split] = []
    while opened.slots and not isinstance(answer := enumerator.next_split(opened.plan_id, 0, len(result)), EndOfSlot):
        result.append(answer.split)
    return opened.scan, sorted(result, key=lambda split: split.split_id)


def read_batch_plan(enumerator: Enumerator, scope: StreamScope, batch: NextBatch) -> tuple[Scan, list[Split]]:
    """The plan of the batch's point."""
    request = batch_request(scope, batch.point)
    assert request is not None
    return read_plan(enumerator, request)


@pytest.mark.sampled(2, rest=18)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("start", [StartSnapshot(), StartLatest(), StartAfter(EARLIEST)])
@pytest.mark.parametrize("query", [Incremental(), Changes(ChangeFormat.ROWS)])
@pytest.mark.parametrize("fallback", WatermarkFallback)
def test_stream_is_the_same_from_both_enumerators(
    golden: Any, name: str, start: StreamStart, query: Query, fallback: WatermarkFallback
) -> None:
    scope = scope_of(query, rule=replace(RULE, fallback=fallback))
    with both(golden.table(TABLES[name])) as (embedded, client):
        begun = client.start_stream(scope, start)
        assert begun == embedded.start_stream(scope, start)
        batches = read_stream(client, scope, begun)
        assert batches == read_stream(embedded, scope, begun)
        splits = 0
        for batch in batches:
            scan, members = read_batch_plan(client, scope, batch)
            assert (scan, members) == read_batch_plan(embedded, scope, batch)
            splits += len(members)
        newest = embedded.newest_position("t")
    match start:
        case StartLatest():
            assert (begun.progress.position, batches) == (newest, [])
            return
        case StartSnapshot():
            assert begun.progress.position == newest
            assert {type(batch.point.content) for batch in batches} == {SnapshotBatch}
            assert batches[-1].point.snapshot is not None
            assert batches[-1].point.snapshot.done == splits == batches[-1].point.snapshot.total > 1
        case StartAfter():
            assert {type(batch.point.content) for batch in batches} == {CommitsBatch}
            assert splits > 3
    assert len(batches) > 1
    assert batches[-1].point.progress.position == newest
    marks = [batch.point.watermark.at_us for batch in batches]
    assert marks == sorted(marks, key=lambda mark: -(2**63) if mark is None else mark)
    assert marks[-1] is not None


@pytest.mark.parametrize("query", [Incremental(), Changes(ChangeFormat.ROWS)])
def test_snapshot_parts_are_its_splits_in_order_of_event_times(golden: Any, query: Query) -> None:
    scope = scope_of(query)
    scope = replace(scope, request=replace(scope.request, event_time="et", event_time_unit=""))
    with both(golden.table(IN_BASE_FILES)) as (embedded, client):
        begun = client.start_stream(scope, StartSnapshot())
        place = begun.snapshot
        assert place is not None
        form = query.format if isinstance(query, Changes) else None
        request = scope.request
        part = SnapshotPart(at=begun.progress.position, first=0, end=place.total, digest=place.digest, changes=form)
        whole = read_plan(client, replace(request, query=part))
        assert whole == read_plan(embedded, replace(request, query=part))
        assert len(whole[1]) == place.total
        singles = [
            read_plan(client, replace(request, query=replace(part, first=n, end=n + 1)))[1] for n in range(place.total)
        ]
        assert sorted((split for (split,) in singles), key=lambda split: split.split_id) == whole[1]
        bounds = [split.event_time for (split,) in singles]
        error_of = [(known.min_us, known.max_us) for known in bounds if isinstance(known, EventTimeBounds)]
        assert error_of == sorted(error_of)
        assert len(error_of) == place.total == 3
        assert len(set(error_of)) > 1
        if form is None:
            state = read_plan(embedded, replace(request, query=Incremental(EARLIEST, begun.progress.position)))
            assert state == whole
        assert read_plan(client, replace(request, query=replace(part, first=1, end=1)))[1] == []


def hidden(path: pathlib.Path, first: int, end: int = 1000) -> list[tuple[pathlib.Path, pathlib.Path]]:
    """Moves the instants `first` up to `end` of a table of layout 2 away: (new path, original path)."""
    timeline = path / ".hoodie" / "timeline"
    completed = sorted(file.name for file in timeline.iterdir() if "_" in file.name)
    later = {name.partition("_")[0] for name in completed[first:end]}
    aside = path.parent / "aside"
    aside.mkdir()
    files = [file for file in timeline.iterdir() if file.name.partition(".")[0].partition("_")[0] in later]
    for file in files:
        file.rename(aside / file.name)
    return [(aside / file.name, file) for file in files]


def test_commits_after_a_snapshot_are_delivered_after_it(golden: Any, tmp_path: pathlib.Path) -> None:
    path = golden.copy(TABLES["v9"], tmp_path)
    revealed = hidden(path, 4)
    scope = scope_of(Incremental())
    with both(path) as (embedded, client):
        begun = client.start_stream(scope, StartSnapshot())
        assert begun == embedded.start_stream(scope, StartSnapshot())
        first = read_stream(client, scope, begun)
        assert first == read_stream(embedded, scope, begun)
        for aside, file in revealed:
            aside.rename(file)
        rest = read_stream(client, scope, first[-1].point)
        assert rest == read_stream(embedded, scope, first[-1].point)
        contents = [batch.point.content for batch in rest]
        assert [batch.point.snapshot for batch in rest] == [None] * len(rest)
        assert isinstance(contents[0], CommitsBatch)
        assert contents[0].after == first[-1].point.progress.position
        assert rest[-1].point.progress.position == embedded.newest_position("t") > contents[0].after
        assert [read_batch_plan(client, scope, batch) for batch in rest] == [
            read_batch_plan(embedded, scope, batch) for batch in rest
        ]


@pytest.mark.parametrize("end_watermark_us", [None, 7])
def test_stream_ends_at_its_upto(golden: Any, end_watermark_us: int | None) -> None:
    with both(golden.table(TABLES["v9"])) as (embedded, client):
        upto = embedded.newest_position("t", EARLIEST, 3)
        scope = scope_of(Incremental(), upto=upto, end_watermark_us=end_watermark_us)
        begun = client.start_stream(scope, StartAfter(EARLIEST))
        batches = read_stream(client, scope, begun)
        assert batches == read_stream(embedded, scope, begun)
        assert batches[-1].point.progress.position == upto
        assert [batch.point.ended for batch in batches] == [False] * (len(batches) - 1) + [True]


def error_of(enumerator: Enumerator, scope: StreamScope, point: StreamPoint) -> tuple[type[PenstockError], str]:
    """The error of a stream, and of its plan if only the plan fails."""
    with pytest.raises(PenstockError) as caught:
        enumerator.next_batch(scope, point)
    return type(caught.value), str(caught.value)


def test_instant_that_completed_before_the_point_is_late_for_both(golden: Any, tmp_path: pathlib.Path) -> None:
    path = golden.copy(TABLES["v9"], tmp_path)
    revealed = hidden(path, 3, 4)
    scope = scope_of(Incremental())
    with both(path) as (embedded, client):
        begun = client.start_stream(scope, StartAfter(EARLIEST))
        end = read_stream(client, scope, begun)[-1].point
        for aside, file in revealed:
            aside.rename(file)
        assert error_of(client, scope, end) == error_of(embedded, scope, end)
        assert error_of(client, scope, end)[0] is LateInstant


def test_lost_range_is_skipped_and_reported_by_both(golden: Any) -> None:
    scope = scope_of(Changes(ChangeFormat.ROWS))
    lost_start = StartAfter(Position(InstantTime("20200101000000000")))
    with both(golden.table(LOST)) as (embedded, client):
        begun = client.start_stream(scope, lost_start)
        assert begun == embedded.start_stream(scope, lost_start)
        assert error_of(client, scope, begun) == error_of(embedded, scope, begun)
        cls, why = error_of(client, scope, begun)
        assert cls is PositionExpired
        lenient = replace(scope, on_lost_range=OnLostRange.EARLIEST)
        batches = read_stream(client, lenient, begun)
        assert batches == read_stream(embedded, lenient, begun)
        assert [batch.lost for batch in batches] == [why] + [""] * (len(batches) - 1)
        assert batches[-1].point.progress.position == embedded.newest_position("t")


def test_errors_are_the_same_from_both_enumerators(golden: Any) -> None:
    scope = scope_of(Incremental())
    with both(golden.table(TABLES["v9"])) as (embedded, client):
        begun = embedded.start_stream(scope, StartSnapshot())
        place = begun.snapshot
        assert place is not None
        other = replace(begun, snapshot=replace(place, digest="00" * 16))
        assert error_of(client, scope, other) == error_of(embedded, scope, other)
        assert error_of(client, scope, other)[0] is DataInvalidated
        part = SnapshotPart(at=begun.progress.position, first=0, end=1, digest="00" * 16)
        errors = []
        for enumerator in (client, embedded):
            with pytest.raises(DataInvalidated) as caught:
                enumerator.open_plan(replace(scope.request, query=part))
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
        for wrong in (
            replace(scope, request=replace(scope.request, event_time="")),
            replace(scope, request=replace(scope.request, event_time="nowhere")),
            replace(scope, request=replace(scope.request, event_time_unit=""), rule=replace(RULE, fallback=SCAN)),
            replace(
                scope,
                request=replace(scope.request, query=Changes(ChangeFormat.ROWS)),
                on_lost_range=OnLostRange.SNAPSHOT,
            ),
            replace(scope, rule=replace(RULE, fallback=WatermarkFallback.COMMIT_TIME, timezone="No/Where")),
            replace(scope, rule=replace(RULE, fallback=WatermarkFallback.COMMIT_TIME, timezone="../../etc/passwd")),
            replace(scope, rule=replace(RULE, fallback=WatermarkFallback.COMMIT_TIME, timezone="\0")),
        ):
            start = embedded.start_stream(scope, StartAfter(EARLIEST))
            assert error_of(client, wrong, start) == error_of(embedded, wrong, start), wrong
            assert error_of(client, wrong, start)[0] is ConfigurationError, wrong
