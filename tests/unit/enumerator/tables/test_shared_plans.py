"""Streams of equal scopes share the plans of their batches, as long as the table does not change."""

from __future__ import annotations

import pathlib
from collections import Counter
from typing import Any

import pytest

from penstock.enumerator.planning import plan as planning
from penstock.enumerator.streams import plan_cache
from penstock.enumerator.tables import shared_plans
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Incremental, PlanRequest, RoundLimits
from penstock.proto.model.splits import Plan, Split
from penstock.proto.model.streams import StartAfter, StreamPoint, StreamScope, batch_request
from tests.scripted_timeline import ScriptedTimeline

pytestmark = pytest.mark.golden

CASE = "B_v9_inc_cow"


class Streams:
    """Streams over one table, and the plans that were computed."""

    def __init__(self, path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.tables, self.computed = str(path), OpenTables(), Counter[PlanRequest]()
        plan_request = planning.plan_request

        def counted(table: Any, name: str, request: PlanRequest, *more: Any) -> Plan:
            self.computed[request] += 1
            return plan_request(table, name, request, *more)

        monkeypatch.setattr(planning, "plan_request", counted)

    def scope(self, table: str, **request: Any) -> StreamScope:
        limits = RoundLimits(max_commits=1)
        return StreamScope(request=PlanRequest(table=table, query=Incremental(), **request), limits=limits)

    def batch(self, scope: StreamScope, point: StreamPoint | None = None) -> tuple[StreamPoint, tuple[Split, ...]]:
        """The next batch of the stream, and its plan as its reader requests it."""
        name = scope.request.table
        point = point or self.tables.start_stream(self.path, name, scope, StartAfter(EARLIEST))
        reached = self.tables.next_batch(self.path, name, scope, point).point
        request = batch_request(scope, reached)
        assert reached != point and request is not None
        plan = self.tables.plan(self.path, name, request)
        assert plan.scan.table == name
        return reached, plan.splits


@pytest.fixture
def streams(golden: Any, monkeypatch: pytest.MonkeyPatch) -> Streams:
    return Streams(golden.table(CASE), monkeypatch)


def test_batch_is_planned_once_for_all_streams_of_equal_scopes(streams: Streams) -> None:
    first, splits = streams.batch(streams.scope("t"))
    assert splits and streams.computed.total() == 1
    for name in ("t", "other name", "t"):
        assert streams.batch(streams.scope(name)) == (first, splits)
    assert streams.computed.total() == 1
    second, later = streams.batch(streams.scope("t"), first)
    assert streams.batch(streams.scope("t"), first) == (second, later)
    assert later != splits and streams.computed.total() == 2


def test_other_scopes_are_planned_for_themselves(streams: Streams) -> None:
    streams.batch(streams.scope("t"))
    before = streams.computed.total()
    for different in ({"meta": False}, {"skip_corrupt": True}, {"metadata": False}):
        streams.batch(streams.scope("t", **different))
        before += 1
        assert streams.computed.total() == before


def test_changed_table_is_planned_again(golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ScriptedTimeline(golden.copy(CASE, tmp_path), tmp_path / "aside")
    streams = Streams(script.path, monkeypatch)
    script.take(script.data[-1])
    first = streams.batch(streams.scope("t"))
    script.give(script.data[-1])
    assert streams.batch(streams.scope("t")) == first
    assert streams.computed.total() == 2


def test_large_plans_are_not_kept(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the negative control of the counts: without kept plans each stream plans its batch."""
    monkeypatch.setattr(shared_plans, "MAX_PLAN_SPLITS", 0)
    monkeypatch.setattr(plan_cache, "MAX_BATCH_SPLITS", 0)
    for _ in range(3):
        streams.batch(streams.scope("t"))
    assert streams.computed.total() == 3
