"""Which files a clean deletes: no state that is retained changes, and nothing that services or savepoints need goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.model.files import FileRef
from penstock.table.files.names import parse_file_name
from penstock.table.files.slices import (
    CommittedInstants,
    DataFile,
    Everything,
    OrderedUpTo,
    RequestedUpTo,
    View,
    slice_group,
    visible_files,
)
from penstock.writer.table_services.cleaning import CleaningFacts, files_to_delete, needed_files
from penstock.writer.table_services.retention import KeepCommits, KeepFileVersions

GROUP = ("p", "f-0")
COMMITS = KeepCommits(1)


def base(instant: int, group: str = "f-0", token: str = "0-0-0") -> str:
    return f"{group}_{token}_{instant}.parquet"


def log(instant: int, version: int = 1, group: str = "f-0", suffix: str = "") -> str:
    return f".{group}_{instant}.log.{version}_0-0-0{suffix}"


def files_of(*names: str) -> list[DataFile]:
    files = []
    for name in names:
        parsed = parse_file_name(name)
        assert parsed is not None
        files.append(DataFile(partition="p", ref=FileRef(f"p/{name}", 1), name=parsed, listed=True))
    return files


def facts_of(*instants: int, layout: int = 2, start: str = "") -> CleaningFacts:
    """Facts with these completed instants, each of which completed 5 later."""
    order_keys = {str(time): str(time + 5 if layout == 2 else time) for time in instants}
    return CleaningFacts(committed=CommittedInstants(layout=layout, order_keys=order_keys, archived_before=start))


def deleted(names: Sequence[str], facts: CleaningFacts, protected_from: str) -> list[str]:
    gone = files_to_delete(files_of(*names), facts, COMMITS, protected_from)
    assert not {*gone} & {*needed_files(files_of(*names), facts, protected_from)}
    return list(gone)


def versions(names: Sequence[str], facts: CleaningFacts, count: int, protected_from: str = "") -> list[str]:
    gone = files_to_delete(files_of(*names), facts, KeepFileVersions(count), protected_from)
    assert not {*gone} & {*needed_files(files_of(*names), facts, protected_from)}
    return list(gone)


def test_newest_slice_and_newest_before_the_retained_instant_stay() -> None:
    names = [base(time) for time in (10, 20, 30, 40)]
    facts = facts_of(10, 20, 30, 40, 50)
    assert deleted(names, facts, "30") == [base(10)]
    assert deleted(names, facts, "50") == [base(10), base(20), base(30)]
    assert deleted(names, facts, "10") == []
    assert versions(names, facts, 1) == [base(10), base(20), base(30)]
    assert versions(names, facts, 3) == [base(10)]
    assert versions(names, facts, 1, "30") == [base(10)]


def test_logs_and_change_logs_go_with_their_slice() -> None:
    facts = facts_of(10, 12, 20, 30, 40)
    names = [base(10), log(12), base(20), log(20, suffix=".cdc"), base(30), log(30, suffix=".cdc"), base(40)]
    assert deleted(names, facts, "30") == sorted([base(10), log(12)])
    assert deleted(names, facts, "40") == sorted([base(10), log(12), base(20), log(20, suffix=".cdc")])
    old = [log(10, 1), base(10), log(10, 2), base(20), log(20, 1)]
    assert deleted(old, facts_of(10, 12, 20, layout=1), "30") == sorted(old[:3])


def test_change_log_without_base_file_goes_when_it_is_old() -> None:
    facts = facts_of(10, 20, 30)
    names = [log(10, suffix=".cdc"), base(20), base(30)]
    assert deleted(names, facts, "20") == [log(10, suffix=".cdc")]
    assert deleted([log(20, suffix=".cdc"), base(30)], facts, "20") == []
    assert deleted([log(20, suffix=".cdc")], facts, "20") == []


def test_all_attempts_of_a_write_are_files_of_its_slice() -> None:
    names = [base(10), base(10, token="9-0-0"), base(20), base(30)]
    assert deleted(names, facts_of(10, 20, 30), "30") == sorted(names[:2])


def test_files_of_writes_that_are_not_complete_are_needed() -> None:
    facts = facts_of(10, 20)
    names = [base(10), base(20), base(30), log(30)]
    assert deleted(names, facts, "20") == []
    assert needed_files(files_of(*names), facts).keys() == {base(20), base(30), log(30)}


def test_slices_that_pending_services_read_stay() -> None:
    names = [base(10), log(12), base(20), log(22), base(30), base(40)]
    facts = facts_of(10, 12, 20, 22, 30, 40)
    compaction = replace(facts, compaction_inputs={GROUP: "20"}, pending_compactions={GROUP: {"25"}})
    assert deleted(names, compaction, "50") == sorted([base(10), log(12)])
    assert versions(names, compaction, 1) == sorted([base(10), log(12)])
    assert versions(names, compaction, 2) == []
    clustering = replace(facts, clustering_inputs={GROUP: "25"})
    assert deleted(names, clustering, "50") == sorted([base(10), log(12), base(30)])


def test_logs_after_a_pending_compaction_stay() -> None:
    """They belong to the slice that the compaction will write."""
    facts = replace(facts_of(10, 26), compaction_inputs={GROUP: "10"}, pending_compactions={GROUP: {"25"}})
    assert deleted([base(10), log(26)], facts, "40") == []
    assert needed_files(files_of(base(10), log(26)), facts).keys() == {base(10), log(26)}


def test_savepoint_keeps_the_whole_slice() -> None:
    names = [base(10), log(12), log(20, suffix=".cdc"), base(20), base(30), base(40)]
    facts = replace(facts_of(10, 12, 20, 30, 40), savepoints={"12": {("p", log(12))}})
    assert deleted(names, facts, "40") == sorted([base(20), log(20, suffix=".cdc")])
    assert versions(names, facts, 1) == sorted([base(20), log(20, suffix=".cdc"), base(30)])
    other = replace(facts, savepoints={"09": {("q", log(12))}})
    assert base(10) in deleted(names, other, "40")


def test_savepoint_that_lists_nothing_of_a_group_needs_its_newest_slice() -> None:
    """Also if another savepoint lists files of the group. A savepoint that lists some needs no other in a plan of
    Hudi's clean."""
    names = [base(10), log(12), base(20), base(30), base(40)]
    facts = facts_of(10, 12, 20, 30, 40)
    both = replace(facts, savepoints={"12": {("p", log(12))}, "20": set()})
    assert needed_files(files_of(*names), both).keys() == {base(10), log(12), base(20), base(40)}
    assert deleted(names, both, "40") == []
    listed = replace(facts, savepoints={"25": {("p", base(10))}})
    assert needed_files(files_of(*names), listed).keys() == {base(10), log(12), base(40)}
    assert deleted(names, listed, "40") == []


def test_replaced_groups_go_when_their_replacement_is_old() -> None:
    names = [base(10), log(12), log(10, suffix=".cdc"), base(40, "g-0")]
    facts = replace(facts_of(10, 12, 30, 40), replaced={GROUP: "30"})
    assert deleted(names, facts, "30") == []
    assert deleted(names, facts, "31") == sorted(names[:3])
    assert versions(names, facts, 5) == sorted(names[:3])
    assert versions(names, facts, 5, "30") == []
    compacted = replace(facts, compaction_inputs={GROUP: "10"})
    assert deleted(names, compacted, "31") == []
    saved = replace(facts, savepoints={"12": {("p", base(10))}})
    assert deleted(names, saved, "31") == []


def test_archived_instants_count_as_complete() -> None:
    names = [base(10), base(20), base(30)]
    assert deleted(names, facts_of(30, start="30"), "30") == [base(10)]


@st.composite
def groups(draw: st.DrawFn) -> tuple[CleaningFacts, list[str], str]:
    """A file group, and an instant before which everything is complete."""
    layout = draw(st.sampled_from([1, 2]))
    times = sorted(draw(st.sets(st.integers(100, 160), min_size=2, max_size=10)))
    is_base = [True, *(draw(st.booleans()) for _ in times[1:])]
    is_base[0] = draw(st.booleans())
    retained = draw(st.sampled_from(times))
    delays = {time: draw(st.integers(1, 40)) if layout == 2 else 0 for time in times}
    pending = {time for time in times if time >= retained and draw(st.integers(0, 4)) == 0}
    names, slice_key = [], times[0]
    for time, makes_base in zip(times, is_base, strict=True):
        if makes_base:
            names.append(base(time))
            slice_key = slice_key if time in pending else time
            if draw(st.booleans()):
                names.append(log(time, suffix=".cdc"))
        else:
            names.append(log(time) if layout == 2 else log(slice_key, time))
    order_keys = {str(time): str(time + delays[time]) for time in times if time not in pending}
    committed = CommittedInstants(layout=layout, order_keys=order_keys, archived_before="")
    saved = draw(st.sets(st.sampled_from(names), max_size=1)) if draw(st.booleans()) else set()
    listed = {("p", name) for name in saved}
    at = draw(st.lists(st.sampled_from(sorted(order_keys)), max_size=2)) if order_keys else []
    savepoints = {"": listed, **{time: draw(st.sampled_from([set(), listed])) for time in at}}
    return CleaningFacts(committed=committed, savepoints=savepoints), names, str(retained)


def shown(names: Sequence[str], facts: CleaningFacts, view: View) -> list[str]:
    data = [file for file in files_of(*names) if not file.ref.path.endswith(".cdc")]
    seen = visible_files(slice_group(data, (), facts.committed), view, facts.committed)
    return [] if seen is None else [file.ref.path for file in seen.files]


@settings(max_examples=300)
@given(groups())
def test_retained_states_are_the_same_after_a_clean(group: tuple[CleaningFacts, list[str], str]) -> None:
    facts, names, retained = group
    gone = deleted(names, facts, retained)
    left = [name for name in names if name not in gone]
    order_keys = facts.committed.order_keys
    early = max((key for time, key in order_keys.items() if time < retained), default="")
    views: list[View] = [Everything(), *(RequestedUpTo(time) for time in order_keys if time >= retained)]
    views += [OrderedUpTo(key) for key in order_keys.values() if key >= early]
    views += [RequestedUpTo(time) for time in facts.savepoints]
    for view in views:
        assert shown(left, facts, view) == shown(names, facts, view)
    assert not {("p", name) for name in gone} & {file for files in facts.savepoints.values() for file in files}
    assert all(name.startswith((".f-0_", "f-0_")) for name in gone)
