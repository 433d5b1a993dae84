"""Idle groups of a table share one read of the table, also if file times are inconclusive."""

from __future__ import annotations

import os
import pathlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.enumerator.continuous.change_probe import SETTLED_NS
from penstock.enumerator.continuous.types import Advance, Following
from penstock.enumerator.groups.lag_monitor import LagMonitor
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.followed_tables import FollowedTables
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.model.groups import GroupScope, GroupSpec, StartLatest
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.active import Timeline
from tests.scripted_timeline import ScriptedTimeline

pytestmark = pytest.mark.golden

GROUPS = 20
CASE = "B_v9_inc_cow"


@dataclass
class Counted:
    """A service with GROUPS groups at the table's end; `asked` counts reads of the table."""

    script: ScriptedTimeline
    wall_ms: int
    asked: Counter[str] = field(default_factory=Counter)
    service: EnumeratorService = field(init=False)

    def __post_init__(self) -> None:
        reads = OpenTables(wall_ms=lambda: self.wall_ms)
        self.reads = CountedTables(reads)
        self.reads.asked = self.asked
        self.service = EnumeratorService({"t": str(self.script.path)}, reads=reads, follows=self.reads, poll_ms=None)
        scope = GroupScope(request=PlanRequest(table="t", query=Incremental()))
        for number in range(GROUPS):
            self.service.join_group(f"g{number}", "r", GroupSpec(scope=scope, start=StartLatest()), "x")

    def discover(self) -> Counter[str]:
        """The reads of one discovery."""
        self.asked.clear()
        self.service.split_discovery.discover()
        return Counter(self.asked)


class CountedTables(FollowedTables):
    asked: Counter[str]

    def probe(self, path: str) -> Any:
        self.asked["glance"] += 1
        return super().probe(path)

    def advance(self, path: str, name: str, following: Following) -> Advance:
        self.asked["advance"] += 1
        return super().advance(path, name, following)


@pytest.fixture
def counted(golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """A wall clock at which every file time is too recent to be conclusive, as in an object store."""
    script = ScriptedTimeline(golden.copy(CASE, tmp_path), tmp_path / "aside")
    script.remove_after(script.data[-2])
    counted_reads = Counted(script, wall_ms=script.folder.stat().st_mtime_ns // 1_000_000)
    real = HudiTable.timeline

    def timeline(table: HudiTable) -> Timeline:
        counted_reads.asked["timeline"] += 1
        return real(table)

    monkeypatch.setattr(HudiTable, "timeline", timeline)
    return counted_reads


def test_idle_groups_of_a_table_share_one_discovery(counted: Counted) -> None:
    first = counted.discover()
    assert (first["glance"], first["advance"]) == (1, 1), "one look, and one reading for their equal scopes"
    for _ in range(3):
        assert counted.discover() == Counter(glance=1)
    counted.script.give(*{path.name[:17] for path in counted.script.aside.iterdir()})
    later = counted.discover()
    assert (later["glance"], later["advance"]) == (1, 1), "its file times may be unchanged: the listing is compared"
    assert {group.planned.order_key for group in counted.service.list_groups()} == {
        counted.script.keys[counted.script.data[-1]]
    }
    assert counted.discover() == Counter(glance=1), "nothing was after the rounds when they were planned"


def test_table_is_not_read_again_when_its_file_times_have_aged(counted: Counted) -> None:
    properties = counted.script.path / ".hoodie" / "hoodie.properties"
    os.utime(properties, ns=(1, counted.wall_ms * 1_000_000 - 10 * SETTLED_NS))
    assert counted.discover()["advance"] == 1
    for _ in range(3):
        assert counted.discover() == Counter(glance=1)
        counted.wall_ms += SETTLED_NS // 1_000_000
    counted.script.give(*{path.name[:17] for path in counted.script.aside.iterdir()})
    assert counted.discover()["advance"] == 1


def test_commit_that_completes_after_a_round_was_planned_is_planned(counted: Counted) -> None:
    """The round is known to be the last one of a listing, not of the table."""
    *_, second, last = counted.script.data
    counted.script.remove_after(counted.script.data[-3])
    counted.service.split_discovery.discover()
    for group in counted.service.list_groups():
        counted.service.reset_group("t", group.group, StartLatest(), dry_run=False)
    for instant in (second, last):
        counted.script.give(instant)
        assert counted.discover()["advance"] == 1
        planned = {group.planned.order_key for group in counted.service.list_groups()}
        assert planned == {counted.script.keys[instant]}
    assert counted.discover() == Counter(glance=1)


def test_lags_of_all_groups_of_a_table_need_one_read(counted: Counted) -> None:
    counted.discover()
    measurer = LagMonitor(counted.service.split_discovery)
    counted.asked.clear()
    measurer.measure()
    assert counted.asked == Counter(glance=1, timeline=1)
    measurer.measure_table("t")
    assert counted.asked == Counter(glance=2, timeline=1), "nothing has changed, and no group has a lag"
    alone = counted.service.describe_group("t", "g0").lag
    assert alone is not None and alone.commits == 0
