"""Faults 12 to 15 and 20 for a consumer: archived, rolled back and late instants, layouts, a lost metadata table.

Real tables whose timelines are rebuilt step by step (`scripted_timeline`).
"""

from __future__ import annotations

import logging
import os
import pathlib
import shutil
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from penstock.enumerator.continuous.advance import advance, start_progress
from penstock.enumerator.continuous.retention import earliest_position
from penstock.enumerator.continuous.types import Following, NextRound, NothingNew, Progress
from penstock.proto.errors import ConfigurationError, DataInvalidated, LateInstant
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, Changes, Incremental, PlanRequest, RoundLimits
from penstock.reader.read_split import read_split
from penstock.table.hudi_table import HudiTable, open_table
from tests.scripted_timeline import ScriptedTimeline

CHANGES = Changes(ChangeFormat.ROWS)
COW = ["B_v9_inc_cow", "B_v6_inc_cow"]


def at(order_key: str) -> Position:
    return Position(InstantTime(order_key))


def following(progress: Progress, limits: RoundLimits = NO_LIMITS, *, metadata: bool = False) -> Following:
    return Following(request=PlanRequest(table="t", query=CHANGES, metadata=metadata), progress=progress, limits=limits)


def everything(table: HudiTable, progress: Progress, limits: RoundLimits = NO_LIMITS) -> tuple[Counter[str], Progress]:
    """All changes after the progress, and the final progress."""
    rows: Counter[str] = Counter()
    for _ in range(100):
        answer = advance(table, "t", following(progress, limits))
        if isinstance(answer, NothingNew):
            return rows, progress
        rows += bag(answer)
        progress = answer.progress
    raise AssertionError("no end of rounds")


def bag(answer: NextRound) -> Counter[str]:
    batches = [part.batch for split in answer.plan.splits for part in read_split(answer.plan.scan, split)]
    return Counter(repr(row) for batch in batches for row in batch.to_pylist())


def scripted(golden: Any, tmp_path: pathlib.Path, case: str) -> ScriptedTimeline:
    return ScriptedTimeline(golden.copy(case, tmp_path), tmp_path / "aside")


def archived_data(table: HudiTable) -> list[InstantTime]:
    """Requested times of the archived data instants: the progress contained all of them while they were active."""
    return sorted(InstantTime(time) for time, commit in table.archive().commits.items() if not commit.is_service)


@pytest.mark.parametrize("case", ["A_archive_v9_h120", "A_archive_v6_h0150"])
def test_fault_12_consumed_instants_that_were_archived_are_no_fault(golden: Any, case: str) -> None:
    table = open_table(str(golden.table(case)))
    newest = start_progress(table, None)
    archived = archived_data(table)
    remembering = replace(newest, consumed=newest.consumed | set(archived))
    assert advance(table, "t", following(remembering)) == NothingNew()
    unknown = replace(newest, consumed=newest.consumed | {InstantTime("20200101000000000")})
    with pytest.raises(DataInvalidated, match=r"20200101000000000 of table .* neither active nor archived"):
        advance(table, "t", following(unknown))


@pytest.mark.parametrize("case", COW)
def test_fault_13_planned_instant_rolled_back_before_reading_is_dropped(
    golden: Any, tmp_path: pathlib.Path, case: str
) -> None:
    """Cases (a) and (b): the position is before the instant, so the next discovery ignores it."""
    script = scripted(golden, tmp_path, case)
    table, last = script.open(), script.data[-1]
    before = start_progress(table, at(script.keys[script.data[-2]]))
    assert isinstance(advance(table, "t", following(before)), NextRound)
    script.take(last)
    assert advance(table, "t", following(before)) == NothingNew()


@pytest.mark.parametrize("case", COW)
def test_fault_13_consumed_instant_that_was_rolled_back_stops_the_group(
    golden: Any, tmp_path: pathlib.Path, case: str
) -> None:
    """Case (c), and a restore to before the position."""
    script = scripted(golden, tmp_path, case)
    table = script.open()
    progress = start_progress(table, None)
    script.take(script.data[-1])
    with pytest.raises(DataInvalidated, match=rf"instant {script.data[-1]} of table .* reset the group"):
        advance(table, "t", following(progress))
    script.remove_after(script.data[1])
    with pytest.raises(DataInvalidated, match="more"):
        advance(table, "t", following(progress))


@pytest.mark.parametrize("case", COW)
def test_fault_13_recreated_table_is_refused(golden: Any, tmp_path: pathlib.Path, case: str) -> None:
    """For every progress of a group: the instants of another table are all later, or all earlier, than its own."""
    script = scripted(golden, tmp_path, case)
    table = script.open()
    old = InstantTime("20200101000000000")
    with pytest.raises(DataInvalidated):
        advance(table, "t", following(replace(start_progress(table, at(old)), consumed=frozenset([old]))))
    beyond = replace(start_progress(table, None), position=at("20990101000000000"))
    with pytest.raises(DataInvalidated, match="after everything in its timeline"):
        advance(table, "t", following(beyond))
    empty = replace(start_progress(table, None), consumed=frozenset())
    script.remove_after("0")
    with pytest.raises(DataInvalidated, match="after everything"):
        advance(table, "t", following(empty))


@pytest.mark.parametrize("case", ["B_v9_ooo_cow_cdc", "B_v9_ooo_mor"])
@pytest.mark.parametrize("limits", [NO_LIMITS, RoundLimits(max_commits=1), RoundLimits(max_files=1)], ids=str)
def test_fault_14_instants_completed_out_of_order_are_each_read_once(
    golden: Any, tmp_path: pathlib.Path, case: str, limits: RoundLimits
) -> None:
    """The instant requested second completes fourth: each instant is read once, for all limits."""
    script = scripted(golden, tmp_path, case)
    table = script.open()
    *early, late, last = script.data
    assert late < early[-1]
    whole, _ = everything(table, start_progress(table, EARLIEST))
    script.remove_after(early[-1])
    script.pend(late)
    rows, progress = everything(table, start_progress(table, EARLIEST), limits)
    assert progress.consumed == set(early) and rows
    for instant in (late, last):
        script.give(instant)
        more, progress = everything(table, progress, limits)
        assert more and instant in progress.consumed and progress.position == at(script.keys[instant])
        rows += more
    assert rows == whole


@pytest.mark.parametrize("case", COW)
def test_fault_14_instant_completed_before_the_position_is_an_error(
    golden: Any, tmp_path: pathlib.Path, case: str
) -> None:
    script = scripted(golden, tmp_path, case)
    table, late = script.open(), script.data[1]
    script.take(late)
    progress = start_progress(table, None)
    script.give(late)
    with pytest.raises(LateInstant, match=rf"instant {late} of table .* order key {script.keys[late]}, .* reset"):
        advance(table, "t", following(progress))


@pytest.mark.parametrize("case", ["A_archive_v9_h120", "A_archive_v6_h0150", "B_v9_arch_mor", "B_v6_arch_mor"])
def test_fault_14_late_instant_archived_before_discovery_is_an_error(golden: Any, case: str) -> None:
    """It completed before the position; the archiver archived it with the consumed instants around it."""
    table = open_table(str(golden.table(case)))
    newest, archived = start_progress(table, None), archived_data(table)
    *known, late = archived
    assert known
    missed = replace(newest, consumed=newest.consumed | set(known))
    with pytest.raises(LateInstant, match=rf"instant {late} of table .* before position {newest.position}, .* reset"):
        advance(table, "t", following(missed))
    for remembered in (archived, archived[1:], archived[-1:]):
        whole = replace(newest, consumed=newest.consumed | set(remembered))
        assert advance(table, "t", following(whole)) == NothingNew()


def test_weak_point_13_layout_1_waits_for_an_abandoned_instant(golden: Any, tmp_path: pathlib.Path) -> None:
    script = scripted(golden, tmp_path, "B_v6_inc_cow")
    table, hollow = script.open(), script.data[1]
    whole, _ = everything(table, start_progress(table, EARLIEST))
    script.pend(hollow)
    discovered, progress = everything(table, start_progress(table, EARLIEST))
    assert progress.position == at(script.data[0])
    with pytest.raises(ConfigurationError, match=f"at or after instant {hollow}"):
        start_progress(table, at(script.data[2]))
    script.give(hollow)
    more, _ = everything(table, progress)
    assert discovered + more == whole


def test_fault_14_abandoned_instant_is_skipped_with_a_warning_and_late_after(
    golden: Any, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = scripted(golden, tmp_path, "B_v6_inc_cow")
    table, hollow = script.open(), script.data[1]
    script.pend(hollow)
    for path in script.folder.glob(f"{hollow}.*"):
        os.utime(path, ns=(10**15, 10**15))
    _, progress = everything(table, start_progress(table, EARLIEST))
    hour_ms, then_ms = 3_600_000, 10**9

    def discover(now_ms: int) -> Any:
        return advance(table, "t", following(progress), hollow_after_ms=hour_ms, clock_ms=lambda: now_ms)

    assert discover(then_ms + hour_ms - 1) == NothingNew() and not caplog.records
    with caplog.at_level(logging.WARNING):
        discovered = discover(then_ms + hour_ms)
    assert isinstance(discovered, NextRound) and discovered.progress.position == at(script.data[-1])
    assert f"hollow instant passed over table=t instant={hollow}" in caplog.text
    script.give(hollow)
    with pytest.raises(LateInstant, match=hollow):
        advance(table, "t", following(discovered.progress))


def test_fault_15_writers_with_clock_skew_are_read_in_order_of_completion(golden: Any, tmp_path: pathlib.Path) -> None:
    """Requested times differ by an hour, and completion is in reverse order; each round ends after the last."""
    script = scripted(golden, tmp_path, "B_v9_inc_cow")
    first, second = script.data[:2]
    script.remove_after(second)
    script.rename(first, str(int(script.keys[second]) + 10_000_000))
    table = script.open()
    progress, seen = start_progress(table, EARLIEST), []
    while isinstance(rows := advance(table, "t", following(progress, RoundLimits(max_commits=1))), NextRound):
        seen += sorted(rows.progress.consumed - progress.consumed)
        assert rows.progress.position > progress.position
        progress = rows.progress
    assert seen == [second, first]


def test_fault_20_lost_or_damaged_metadata_table_changes_no_round(golden: Any, tmp_path: pathlib.Path) -> None:
    table = open_table(str(golden.copy("A_mdt_all_v9_h120", tmp_path)))
    start = start_progress(table, earliest_position(table, PlanRequest(table="t", query=CHANGES)))
    expected = advance(table, "t", following(start, metadata=True))
    assert isinstance(expected, NextRound) and bag(expected)
    folder = pathlib.Path(table.base_path) / ".hoodie" / "metadata"
    for path in [
        path for path in folder.rglob("*") if (path.is_file() and ".hfile" in path.name) or ".log." in path.name
    ]:
        path.write_bytes(b"damaged" * 10)
    again = advance(open_table(table.base_path), "t", following(start, metadata=True))
    assert isinstance(again, NextRound) and bag(again) == bag(expected)
    shutil.rmtree(folder)
    gone = advance(open_table(table.base_path), "t", following(start, metadata=True))
    assert isinstance(gone, NextRound) and bag(gone) == bag(expected)


def test_scenario_13_group_continues_through_an_upgrade(golden: Any, tmp_path: pathlib.Path) -> None:
    """A progress of layout 1 continues on the upgraded table: the same changes in total, without repetition."""
    checked = 0
    for case in sorted(name for name in golden.names() if name.startswith("B_up_") and name.endswith("v9")):
        table = open_table(str(golden.table(case)))
        line = table.timeline()
        requested = sorted(item.requested_time for item in line.completed_writes if not table.commit(item).is_service)
        for place, last in enumerate(requested[:-1]):
            old = Progress(Position(last), 1, frozenset(requested[: place + 1]), table_id=table.properties.name)
            discovered = advance(table, "t", Following(
                request=PlanRequest(table="t", query=Incremental(), metadata=False), progress=old, limits=NO_LIMITS
            ))  # fmt: skip
            assert isinstance(discovered, NextRound)
            new = set(discovered.plan.scan.rows.instants)  # type: ignore[union-attr]
            assert new == set(requested[place + 1 :]), f"{case} after {last}"
            assert discovered.progress.layout == 2
            checked += 1
    assert checked > 2
