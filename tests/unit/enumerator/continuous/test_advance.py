"""`advance` on real tables with scripted timelines: rounds add up, and no position moves without new data."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.enumerator.continuous.advance import advance, start_progress
from penstock.enumerator.continuous.types import Following, NextRound, NothingNew, Progress
from penstock.enumerator.planning import plan as planning
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import ConfigurationError, PositionExpired, StateVersionError, StorageError, TableNotFound
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, Changes, Incremental, PlanRequest, Query, RoundLimits, Snapshot
from penstock.proto.model.splits import Plan
from penstock.reader.read_split import read_split
from penstock.table import hudi_table
from penstock.table.hudi_table import HudiTable, open_table
from tests.scripted_timeline import ScriptedTimeline

ROWS, CHANGES = Incremental(), Changes(ChangeFormat.ROWS)
CASES = ["B_v9_inc_cow", "B_v6_inc_cow", "B_v9_inc_mor", "A_clustering_done_v9_h120", "A_replace_ops_v6_h0150"]
LIMITS = [
    NO_LIMITS,
    RoundLimits(max_commits=1),
    RoundLimits(max_files=1),
    RoundLimits(max_bytes=1),
    RoundLimits(max_rows=3, max_commits=2),
]


def at(order_key: str) -> Position:
    return Position(InstantTime(order_key))


def following(query: Query, progress: Progress, limits: RoundLimits = NO_LIMITS, **more: Any) -> Following:
    request = PlanRequest(table="t", query=query, metadata=False)
    return Following(request=request, progress=progress, limits=limits, **more)


def rounds(table: HudiTable, query: Query, progress: Progress, limits: RoundLimits = NO_LIMITS) -> Iterator[NextRound]:
    """All rounds until nothing is new."""
    for _ in range(200):
        all_rounds = advance(table, "t", following(query, progress, limits))
        if isinstance(all_rounds, NothingNew):
            return
        assert (
            all_rounds.commit_range.after
            == progress.position
            < all_rounds.progress.position
            == all_rounds.commit_range.upto
        )
        progress = all_rounds.progress
        yield all_rounds
    raise AssertionError("no end of rounds")


def bag(plan: Plan) -> Counter[str]:
    batches = [part.batch for split in plan.splits for part in read_split(plan.scan, split)]
    return Counter(repr(row) for batch in batches for row in batch.to_pylist())


@pytest.mark.thorough
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_changes_of_all_rounds_are_those_of_the_table_once(golden: Any, case: str, limits: RoundLimits) -> None:
    table = open_table(str(golden.table(case)))
    (whole,) = rounds(table, CHANGES, start_progress(table, EARLIEST))
    all_rounds = list(rounds(table, CHANGES, start_progress(table, EARLIEST), limits))
    assert sum((bag(item.plan) for item in all_rounds), Counter()) == bag(whole.plan)
    assert all_rounds[-1].progress == whole.progress
    assert len(all_rounds) > 2 or limits == NO_LIMITS


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_rows_of_a_growing_table_are_the_newest_rows_of_each_round(
    golden: Any, tmp_path: pathlib.Path, case: str, limits: RoundLimits
) -> None:
    """Each row of the final table was delivered exactly once, in its final form."""
    table = open_table(str(golden.table(case)))
    delivered: Counter[tuple[str, ...]] = Counter()
    for item in rounds(table, ROWS, start_progress(table, EARLIEST), limits):
        delivered.update(_written(item.plan))
    (at_the_end,) = rounds(table, ROWS, start_progress(table, EARLIEST))
    for row, count in _written(at_the_end.plan).items():
        assert delivered[row] == count, row


def _written(plan: Plan) -> Counter[tuple[str, ...]]:
    names = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_partition_path", "_hoodie_record_key")
    batches = [part.batch for split in plan.splits for part in read_split(plan.scan, split)]
    return Counter(tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("case", ["B_v9_inc_cow", "B_v6_inc_cow"])
def test_instants_of_a_growing_table_are_delivered_when_they_complete(
    golden: Any, tmp_path: pathlib.Path, case: str
) -> None:
    script = ScriptedTimeline(golden.copy(case, tmp_path), tmp_path / "aside")
    instants = script.data
    script.remove_after(instants[0])
    table = script.open()
    progress = start_progress(table, None)
    assert progress.position == at(script.keys[instants[0]]) and progress.consumed == {instants[0]}
    for instant in instants[1:]:
        script.pend(instant)
        assert advance(table, "t", following(CHANGES, progress)) == NothingNew()
        script.give(instant)
        (all_rounds,) = rounds(table, CHANGES, progress)
        assert all_rounds.progress.position == at(script.keys[instant]) and all_rounds.commits == 1
        assert all_rounds.progress.consumed == progress.consumed | {instant}
        progress = all_rounds.progress


def test_weak_point_11_empty_poll_moves_nothing_and_lists_no_partition(golden: Any, tmp_path: pathlib.Path) -> None:
    script = ScriptedTimeline(golden.copy("B_v9_inc_cow", tmp_path), tmp_path / "aside")
    table = script.open()
    progress = start_progress(table, None)
    listed: list[str] = []
    inner = table.storage.list_dir

    class Noting:
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def list_dir(self, path: str) -> Any:
            listed.append(path)
            return inner(path)

    storage = table.storage
    table.storage = Noting()  # type: ignore[assignment]
    assert advance(table, "t", following(ROWS, progress)) == NothingNew()
    assert listed and all(path.startswith(".hoodie") for path in listed)


def test_new_commit_is_listed_before_and_after_planning(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ScriptedTimeline(golden.copy("B_v9_inc_cow", tmp_path), tmp_path / "aside")
    table, listed = script.open(), list[str]()
    progress = start_progress(table, at(script.keys[script.data[-2]]))
    real = hudi_table.list_timeline
    monkeypatch.setattr(hudi_table, "list_timeline", lambda *of, **by: (listed.append("now"), real(*of, **by))[1])

    def planned(*of: Any) -> Plan:
        listed.append("planned")
        return plan_request(*of)

    assert isinstance(advance(table, "t", following(ROWS, progress), planned=planned), NextRound)
    assert listed == ["now", "planned", "now"]


@pytest.mark.parametrize("query", [ROWS, CHANGES], ids=["rows", "changes"])
def test_instant_that_is_rolled_back_during_planning_is_in_no_round(
    golden: Any, tmp_path: pathlib.Path, query: Query
) -> None:
    script = ScriptedTimeline(golden.copy("B_v9_inc_cow", tmp_path), tmp_path / "aside")
    table, (*_, before, last) = script.open(), script.data
    progress, plans = start_progress(table, EARLIEST), list[Plan]()

    def planned(*of: Any) -> Plan:
        plans.append(plan_request(*of))
        if len(plans) == 1:
            script.take(last)
        return plans[-1]

    all_rounds = advance(table, "t", following(query, progress), planned=planned)
    assert isinstance(all_rounds, NextRound) and len(plans) == 2
    assert plans[0].commit_range.upto == at(script.keys[last])
    assert all_rounds.progress.position == at(script.keys[before])


def test_instant_that_completes_inside_the_range_during_planning_is_in_the_round(
    golden: Any, tmp_path: pathlib.Path
) -> None:
    script = ScriptedTimeline(golden.copy("B_v9_inc_cow", tmp_path), tmp_path / "aside")
    table, slow = script.open(), script.data[-2]
    script.pend(slow)
    progress, plans = start_progress(table, EARLIEST), list[Plan]()

    def planned(*of: Any) -> Plan:
        plans.append(plan_request(*of))
        script.give(slow)
        return plans[-1]

    all_rounds = advance(table, "t", following(CHANGES, progress), planned=planned)
    assert isinstance(all_rounds, NextRound) and len(plans) == 2
    assert slow in all_rounds.progress.consumed and all_rounds.commits == len(script.data)


def test_plan_that_fails_is_planned_again_from_a_new_listing(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clean may complete between the listing of the timeline and that of the folders."""
    script = ScriptedTimeline(golden.copy("B_v9_inc_cow", tmp_path), tmp_path / "aside")
    table, real, pinned = script.open().pinned(), planning.discover, list[bool]()

    def discover(table: HudiTable, *of: Any) -> Any:
        pinned.append(table.is_pinned)
        if len(pinned) == 1:
            raise StorageError("a file is gone")
        return real(table, *of)

    monkeypatch.setattr(planning, "discover", discover)
    plan_request(table, "t", PlanRequest(table="t", query=ROWS))
    assert pinned == [True, False]


def test_weak_point_01_cleaned_file_is_an_error_with_table_instant_and_file(
    golden: Any, tmp_path: pathlib.Path
) -> None:
    script = ScriptedTimeline(golden.copy("B_v9_inc_cow", tmp_path), tmp_path / "aside")
    table, first = script.open(), script.data[0]
    removed = [path for path in script.path.rglob("*.parquet") if first in path.name and ".hoodie" not in path.parts]
    for path in removed:
        path.unlink()
    progress = start_progress(table, EARLIEST)
    with pytest.raises(PositionExpired, match=rf"{first}\.parquet of table .*/B_v9_inc_cow is needed .* and gone"):
        advance(table, "t", following(CHANGES, progress, RoundLimits(max_commits=1)))


def test_round_grows_with_a_warning_if_its_limited_end_was_cleaned(
    golden: Any, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = ScriptedTimeline(golden.copy("B_v9_inc_cow", tmp_path), tmp_path / "aside")
    table, (first, second, *_) = script.open(), script.data
    whole = next(rounds(table, ROWS, start_progress(table, at(script.keys[first]))))
    for path in [p for p in script.path.rglob("*.parquet") if second in p.name and ".hoodie" not in p.parts]:
        path.unlink()
    all_rounds = next(rounds(table, ROWS, start_progress(table, at(script.keys[first])), RoundLimits(max_commits=1)))
    assert all_rounds.commits > 1 and "round beyond its limits" in caplog.text
    assert set(bag(whole.plan)) >= set(bag(all_rounds.plan)) or all_rounds.progress.position < whole.progress.position


def test_weak_point_03_missing_table_is_an_error_until_it_exists(golden: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "B_v9_inc_cow"
    with pytest.raises(TableNotFound):
        open_table(str(path))
    golden.copy("B_v9_inc_cow", tmp_path)
    table = open_table(str(path))
    progress = start_progress(table, EARLIEST)
    path.rename(tmp_path / "away")
    with pytest.raises(TableNotFound):
        advance(table, "t", following(ROWS, progress))
    (tmp_path / "away").rename(path)
    assert isinstance(advance(table, "t", following(ROWS, progress)), NextRound)


@pytest.mark.parametrize("query", [ROWS, CHANGES], ids=["rows", "changes"])
def test_round_never_passes_the_end_of_the_group(golden: Any, query: Query) -> None:
    table = open_table(str(golden.table("B_v9_inc_cow")))
    keys = sorted(map(table.timeline().order_key, table.timeline().completed_writes))
    progress = start_progress(table, EARLIEST)
    ends = []
    for _ in range(30):
        all_rounds = advance(table, "t", following(query, progress, RoundLimits(max_files=1), upto=at(keys[2])))
        if isinstance(all_rounds, NothingNew):
            break
        progress = all_rounds.progress
        ends.append(progress.position)
    assert ends[-1] == at(keys[2]) and len(ends) > 2
    inside = Position(InstantTime(keys[0]), 1)
    all_rounds = advance(table, "t", following(query, start_progress(table, EARLIEST), upto=inside))
    assert isinstance(all_rounds, NextRound) and all_rounds.progress.position == inside


@pytest.mark.parametrize("case", ["A_log_compaction_v8_h102", "A_log_compaction_v6_h0150"])
def test_end_is_reached_if_only_services_are_after_it(golden: Any, case: str) -> None:
    table = open_table(str(golden.table(case)))
    timeline = table.timeline()
    *_, data, service = sorted(timeline.completed_writes, key=timeline.order_key)
    assert table.commit(service).is_service and not table.commit(data).is_service
    key = timeline.order_key(service)
    between = str(int(timeline.order_key(data)) + 1)
    for upto in (at(key), at(between)):
        progress, ends = start_progress(table, EARLIEST), []
        while isinstance(all_rounds := advance(table, "t", following(ROWS, progress, upto=upto)), NextRound):
            progress = all_rounds.progress
            ends.append((progress.position, len(all_rounds.plan.splits) > 0))
        assert ends[-1] == (upto, False) and ends[-2] == (at(timeline.order_key(data)), True)
    later = str(int(key) + 1)
    progress = start_progress(table, at(timeline.order_key(data)))
    assert isinstance(advance(table, "t", following(ROWS, progress, upto=at(later))), NothingNew)


def test_start_positions_of_a_group(golden: Any, tmp_path: pathlib.Path) -> None:
    script = ScriptedTimeline(golden.copy("B_v9_inc_cow", tmp_path), tmp_path / "aside")
    table, keys = script.open(), [script.keys[item] for item in script.data]
    assert start_progress(table, EARLIEST).position == EARLIEST
    assert start_progress(table, EARLIEST).consumed == frozenset()
    assert start_progress(table, None).position == at(keys[-1])
    assert start_progress(table, at(keys[1])).consumed == set(script.data[:2])
    assert start_progress(table, Position(InstantTime(keys[0]), 1)).consumed == {script.data[0]}
    with pytest.raises(ConfigurationError, match="after everything in table"):
        start_progress(table, at("29990101000000000"))
    with pytest.raises(StateVersionError, match="the nearest position is"):
        start_progress(table, Position(InstantTime(keys[0]), 7_777))
    with pytest.raises(ConfigurationError, match="expected a range or changes"):
        advance(table, "t", following(Snapshot(), start_progress(table, EARLIEST)))


def test_weak_point_07_group_continues_if_all_its_instants_are_archived(golden: Any) -> None:
    """The position of the group is before the active timeline; no new instant is reported."""
    for case in ("A_archive_v9_h120", "A_archive_v6_h0150"):
        table = open_table(str(golden.table(case)))
        archived = sorted(table.archive().commits)
        newest = start_progress(table, None)
        assert advance(table, "t", following(ROWS, newest)) == NothingNew()
        order_key = table.timeline().with_archived(table.archive().instants)
        keys = sorted(order_key.order_key(item) for item in table.archive().instants if item.requested_time in archived)
        oldest_progress = start_progress(table, at(keys[0]))
        try:
            all_rounds = list(rounds(table, ROWS, oldest_progress, RoundLimits(max_commits=2)))
        except PositionExpired as error:
            assert "gone" in str(error)
            continue
        assert all_rounds and all_rounds[-1].progress.position == newest.position


def test_round_is_the_last_one_if_the_table_has_nothing_after_it(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group is caught up with such a round, without another read of the table."""
    script = ScriptedTimeline(golden.copy("B_v9_inc_cow", tmp_path), tmp_path / "aside")
    table, (*_, before, _, last) = script.open(), script.data
    progress = start_progress(table, at(script.keys[before]))

    def is_last(limits: RoundLimits = NO_LIMITS, **more: Any) -> bool:
        upto = more.pop("upto", None)
        item = advance(table, "t", following(ROWS, progress, limits, upto=upto), **more)
        assert isinstance(item, NextRound)
        return item.is_last

    assert is_last()
    assert is_last(RoundLimits(max_commits=2))
    assert not is_last(RoundLimits(max_commits=1)), "the limit cut it: another commit follows"
    assert not is_last(upto=at(script.keys[last])), "then an end of the group is found by another discovery"
    assert not is_last(hollow_after_ms=10**15), "time alone may bring another round"

    def planned(*of: Any) -> Plan:
        plan = plan_request(*of)
        script.give(last)
        return plan

    script.take(last)
    assert not is_last(planned=planned), "a commit completed during planning"
