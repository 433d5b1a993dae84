"""Lists of snapshots: a start plans a new one, a read that has begun continues its own, in bounded memory."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.enumerator.snapshots.split_list import digest_of
from penstock.enumerator.streams import known_commits
from penstock.enumerator.streams.known_commits import listed_snapshot
from penstock.enumerator.streams.plan_cache import MAX_LISTS, StreamPlanCache
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest

AT = Position(InstantTime("5"))


class Planner:
    """Plans snapshots; the files of a table change with `version`, as after a cleaner."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache, self.version, self.planned = StreamPlanCache(), 1, Counter[str]()
        monkeypatch.setattr(known_commits, "plan_snapshot", self._plan)

    def _plan(self, table: Any, name: str, *_: Any) -> Any:
        self.planned[name] += 1
        return f"plan of {name}", (SimpleNamespace(split_id=f"{name}-{self.version}"),)

    def listed(self, name: str, digest: str = "") -> Any:
        request = PlanRequest(table=name, query=Incremental())
        return listed_snapshot(None, f"/{name}", name, request, AT, None, self.cache, digest)[1]  # type: ignore[arg-type]


def test_start_plans_anew_and_a_begun_read_continues_its_list(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = Planner(monkeypatch)
    first = planner.listed("t")
    planner.version = 2
    second = planner.listed("t")
    assert first != second and planner.planned["t"] == 2, "files of an earlier list may be cleaned"
    assert planner.listed("t", digest_of(first)) == first
    assert planner.listed("t", digest_of(second)) == second
    assert planner.planned["t"] == 2, "both lists are cached by their digests"


def test_more_snapshots_at_once_than_lists_are_cached_are_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, names = Planner(monkeypatch), [f"t{number}" for number in range(3 * MAX_LISTS)]
    digests = {name: digest_of(planner.listed(name)) for name in names}
    for _ in range(3):
        for name in names:
            assert digest_of(planner.listed(name, digests[name])) == digests[name], "each continues its own list"
    assert set(planner.planned.values()) == {4}, "none is cached at the expense of another one"
    assert len(planner.cache.lists._values) == MAX_LISTS
