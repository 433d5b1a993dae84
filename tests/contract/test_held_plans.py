"""The contract of a held plan, embedded and served: each split is assigned once, the plan ends, its reports count."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from penstock.proto.errors import StorageError, UnknownPlan, UnknownSplit
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.reports import EndOfSlot, MergeOutcomes, SplitReport
from penstock.proto.model.splits import Split
from tests.contract.scripted_table import ALL, drain

if TYPE_CHECKING:
    from tests.contract.scripted_table import Deployment


# --- splits ---


def test_splits_are_assigned_once_and_complete(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=4))
    result = [s for slot in range(4) for s in drain(deployment.enumerator, opened.plan_id, slot)]
    assert sorted(result, key=lambda s: s.split_id) == list(deployment.embedded.plan(ALL).splits)


def test_second_scan_a_retry_and_a_twin_see_the_same_lists(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=3))
    deployment.enumerator.next_split(opened.plan_id, 1, 0)  # a failed attempt
    lists = [drain(deployment.enumerator, opened.plan_id, slot) for slot in (2, 0, 1)]
    assert [drain(deployment.enumerator, opened.plan_id, slot) for slot in (2, 0, 1)] == lists


def test_slot_after_one_split_is_read_completely_by_a_second_scan(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=4))
    deployment.enumerator.next_split(opened.plan_id, 0, 0)
    lists = [drain(deployment.enumerator, opened.plan_id, slot) for slot in range(4)]
    assert all(lists)
    assert sum(map(len, lists)) == 9


def test_slot_without_more_splits_stays_empty(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=2))
    length = len(drain(deployment.enumerator, opened.plan_id, 0))
    drain(deployment.enumerator, opened.plan_id, 1)
    for _ in range(3):
        assert deployment.enumerator.next_split(opened.plan_id, 0, length) == EndOfSlot()
    with pytest.raises(UnknownSplit):
        deployment.enumerator.next_split(opened.plan_id, 0, length + 1)


@pytest.mark.parametrize(("slot", "index"), [(2, 0), (0, 1), (0, 2**31 - 1)])
def test_unknown_slot_or_index_is_an_error(deployment: Deployment, slot: int, index: int) -> None:
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=2))
    with pytest.raises(UnknownSplit):
        deployment.enumerator.next_split(opened.plan_id, slot, index)


def test_splits_are_assigned_once_to_concurrent_readers(deployment: Deployment) -> None:
    deployment.table.commits = [f"2026{n:013}" for n in range(200)]
    deployment.table.sizes = [n % 7 for n in range(200)]
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=4))
    lists: list[list[Split]] = [[] for _ in range(4)]

    def read(slot: int) -> None:
        lists[slot] = drain(deployment.enumerator, opened.plan_id, slot)

    threads = [threading.Thread(target=read, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(s.split_id for part in lists for s in part) == Counter(
        s.split_id for s in deployment.embedded.plan(ALL).splits
    )


# --- plans end ---


def test_unknown_plan_is_an_error_and_never_empty(deployment: Deployment) -> None:
    for ask in (
        lambda: deployment.enumerator.describe_plan("nowhere"),
        lambda: deployment.enumerator.next_split("nowhere", 0, 0),
        lambda: deployment.enumerator.finish_split("nowhere", 0, 0, SplitReport(rows=0, size_bytes=0)),
    ):
        with pytest.raises(UnknownPlan, match=r"no plan 'nowhere' here: .*run the query again"):
            ask()


def test_plan_is_kept_while_it_is_used(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(ALL)
    for _ in range(3):
        deployment.clock.now_ms += 999
        deployment.enumerator.next_split(opened.plan_id, 0, 0)
    deployment.clock.now_ms += 1000
    with pytest.raises(UnknownPlan):
        deployment.enumerator.next_split(opened.plan_id, 0, 0)


def test_plan_beyond_the_limit_is_refused_as_retryable(deployment: Deployment) -> None:
    for _ in range(50):
        deployment.enumerator.open_plan(ALL)
    with pytest.raises(StorageError, match="no room for another plan of 9 splits: 50 plans"):
        deployment.enumerator.open_plan(ALL)


# --- reports ---


def test_report_arrives_complete_and_the_last_one_counts(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=1))
    deployment.enumerator.next_split(opened.plan_id, 0, 0)
    report = SplitReport(
        rows=5,
        size_bytes=2**40,
        phase_ms=(("emit", 0.25), ("open", 1.5)),
        outcomes=MergeOutcomes(won=1, lost_event_time=2, duplicate=3, deleted=4),
        max_event_time_us=-1,
    )
    for options in (SplitReport(rows=1, size_bytes=1), report):
        deployment.enumerator.finish_split(opened.plan_id, 0, 0, options)
    assert deployment.embedded.reports(opened.plan_id) == {(0, 0): report}
    assert deployment.embedded.totals(opened.plan_id) == report


def test_report_of_an_unassigned_split_is_refused(deployment: Deployment) -> None:
    opened = deployment.enumerator.open_plan(ALL)
    with pytest.raises(UnknownSplit):
        deployment.enumerator.finish_split(opened.plan_id, 0, 0, SplitReport(rows=1, size_bytes=1))
