"""Requests to the store for a discovery, a plan and a read, as docs/operations.md says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.model.groups import GroupScope, GroupSpec, StartLatest
from penstock.proto.model.queries import Incremental, PlanRequest, Snapshot
from penstock.reader.read_split import read_split

pytestmark = [pytest.mark.ops, pytest.mark.golden]
MERGED = "A_merge_event_long_v9_h120"


def counted(proxy: Any, work: Callable[[], object]) -> Counter[str]:
    """The requests of an action, by kind."""
    proxy.fresh()
    work()
    return Counter(proxy.counts)


def test_discovery_without_new_commits_takes_the_documented_requests(proxy: Any, upload: Callable[[str], str]) -> None:
    service = EnumeratorService({"t": upload(MERGED)}, reads=OpenTables(), poll_ms=None)
    scope = GroupScope(request=PlanRequest(table="t", query=Incremental()))
    service.join_group("g", "r", GroupSpec(scope=scope, start=StartLatest()), "first")
    service.split_discovery.discover()
    idle = counted(proxy, service.split_discovery.discover)
    assert idle == counted(proxy, service.split_discovery.discover)
    print("idle check", dict(idle))
    assert idle.total() <= 13


def test_plan_and_read_of_a_split_take_the_documented_requests(proxy: Any, upload: Callable[[str], str]) -> None:
    uri = upload(MERGED)
    enumerator = EmbeddedEnumerator({"t": uri})
    plans: list[Any] = []
    first = counted(proxy, lambda: plans.append(enumerator.plan(PlanRequest(table="t", query=Snapshot()))))
    (plan,) = plans
    files = sum(1 + len(split.logs) for split in plan.splits)
    reading = counted(proxy, lambda: [list(read_split(plan.scan, split)) for split in plan.splits])
    print("plan", dict(first), "read", dict(reading), "of", files, "files in", len(plan.splits), "splits")
    assert first.total() <= 40
    assert reading["head"] <= files and reading["list"] == 0
    assert reading.total() <= 8 * files
    assert penstock.read(uri).read_all().num_rows > 0
