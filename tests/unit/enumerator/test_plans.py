"""Held plans: times to live by the clock that was passed in, room, unknown ids, reports."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field

import pytest

from penstock.enumerator.assigner import SlotAssigner
from penstock.enumerator.plans import HOUR_MS, SETTLED_IDLE_MS, UNSETTLED_IDLE_MS, HeldPlan, PlanStore, total
from penstock.proto.errors import ConfigurationError, StorageError, UnknownPlan, UnknownSplit
from penstock.proto.positions import EARLIEST, CommitRange, InstantTime
from penstock.proto.reports import EndOfSlot, MergeOutcomes, NextSplit, SplitReport
from penstock.proto.splits import CommitTimeOrdering, FileRef, Plan, Scan, Split, VisibleInstants

REPORT = SplitReport(rows=1, size_bytes=10)


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    now_ms: int = 1_000
    ids: itertools.count[int] = field(default_factory=itertools.count)

    def __call__(self) -> int:
        return self.now_ms

    def new_id(self) -> str:
        """plan-0, plan-1, …"""
        return f"plan-{next(self.ids)}"


def plan_of(splits: int) -> Plan:
    """A plan of so many splits of 10 bytes."""
    return Plan(
        scan=Scan(
            table="t",
            base_path="/t",
            table_version=9,
            schema_json="{}",
            columns=("id",),
            merge=CommitTimeOrdering(),
            visible=VisibleInstants(frozenset()),
        ),
        commit_range=CommitRange(EARLIEST, EARLIEST),
        splits=tuple(
            Split(
                split_id=f"s{n}",
                partition="",
                partition_values=(),
                file_group=f"f{n}",
                order_key=InstantTime("1"),
                base=FileRef(f"f{n}.parquet", 10),
            )
            for n in range(splits)
        ),
    )


def store_of(clock: Clock, **limits: int) -> PlanStore:
    """A store on that clock."""
    return PlanStore(clock_ms=clock, new_id=clock.new_id, **limits)


def opened(store: PlanStore, splits: int = 2, slots: int = 1) -> HeldPlan:
    """A new plan in the store."""
    return store.add(plan_of(splits), SlotAssigner([10] * splits, min(slots, splits)))


def settle(held: HeldPlan) -> None:
    """Reads slot 0 of a one-slot plan to its end, with reports."""
    for index in range(len(held.plan.splits)):
        held.next_split(0, index)
        held.finish_split(0, index, REPORT)
    held.next_split(0, len(held.plan.splits))


def test_a_plan_is_held_under_its_id() -> None:
    store = store_of(Clock())
    held = opened(store)
    assert held.plan_id == "plan-0"
    assert store.use("plan-0") is held


def test_a_plan_nobody_opened_is_unknown_and_says_what_to_do() -> None:
    with pytest.raises(
        UnknownPlan,
        match=r"no plan 'x' here: .* not used for 24 hours \(less, if room was needed\); run the query again",
    ):
        store_of(Clock()).use("x")


def test_a_plan_is_forgotten_when_unused_for_its_time_to_live() -> None:
    clock = Clock()
    store = store_of(clock, ttl_ms=2 * HOUR_MS)
    opened(store)
    clock.now_ms += 2 * HOUR_MS
    with pytest.raises(UnknownPlan, match="not used for 2 hours"):
        store.use("plan-0")


def test_use_renews_the_time_to_live() -> None:
    clock = Clock()
    store = store_of(clock, ttl_ms=2 * HOUR_MS)
    held = opened(store)
    for _ in range(5):
        clock.now_ms += 2 * HOUR_MS - 1
        assert store.use("plan-0") is held


def test_only_the_plans_that_idled_are_forgotten() -> None:
    clock = Clock()
    store = store_of(clock, ttl_ms=2 * HOUR_MS)
    opened(store)
    opened(store)
    clock.now_ms += HOUR_MS
    store.use("plan-0")
    clock.now_ms += HOUR_MS
    assert store.plan_ids() == ("plan-0",)


def test_a_plan_too_many_is_refused_while_the_others_are_read() -> None:
    store = store_of(Clock(), max_plans=2)
    opened(store)
    opened(store)
    with pytest.raises(StorageError, match="no room for another plan of 2 splits: 2 plans with 4 splits are held"):
        opened(store)
    assert store.plan_ids() == ("plan-0", "plan-1")


def test_splits_are_bounded_as_well_as_plans() -> None:
    store = store_of(Clock(), max_splits=5)
    opened(store, splits=3)
    with pytest.raises(StorageError, match="at most 2000 and 5 are"):
        opened(store, splits=3)
    opened(store, splits=2)


def test_a_plan_that_can_never_fit_is_not_worth_a_retry() -> None:
    with pytest.raises(ConfigurationError, match="the plan of table t has 6 splits, at most 5 are held"):
        opened(store_of(Clock(), max_splits=5), splits=6)


@pytest.mark.parametrize("limit", [{"max_plans": 1}, {"max_splits": 3}])
def test_an_expired_plan_makes_room(limit: dict[str, int]) -> None:
    clock = Clock()
    store = store_of(clock, ttl_ms=HOUR_MS, **limit)
    opened(store)
    clock.now_ms += HOUR_MS
    opened(store)
    assert store.plan_ids() == ("plan-1",)


def test_a_settled_plan_makes_room_once_it_idles_and_a_young_unsettled_one_does_not() -> None:
    clock = Clock()
    store = store_of(clock, max_plans=2)
    reading = opened(store)
    reading.next_split(0, 0)
    settle(opened(store))
    with pytest.raises(StorageError):
        opened(store)
    clock.now_ms += SETTLED_IDLE_MS
    opened(store)
    assert store.plan_ids() == ("plan-0", "plan-2")
    with pytest.raises(UnknownPlan):
        store.use("plan-1")


def test_reads_left_in_the_middle_make_room_after_their_hour_the_longest_idle_first() -> None:
    clock = Clock()
    store = store_of(clock, max_plans=3)
    for _ in range(3):
        opened(store).next_split(0, 0)
        clock.now_ms += 1
    store.use("plan-0")  # now plan-1 is idle for longest
    clock.now_ms += UNSETTLED_IDLE_MS - 3
    with pytest.raises(StorageError, match="those not read to their end are kept until unused for 1 h:"):
        opened(store)
    clock.now_ms += 1
    opened(store)
    assert store.plan_ids() == ("plan-2", "plan-0", "plan-3")
    with pytest.raises(UnknownPlan, match="run the query again"):
        store.use("plan-1")


def test_settled_plans_make_room_before_unsettled_ones_that_idle_longer() -> None:
    clock = Clock()
    store = store_of(clock, max_plans=2)
    opened(store)
    clock.now_ms += UNSETTLED_IDLE_MS
    settle(opened(store))
    clock.now_ms += SETTLED_IDLE_MS
    opened(store)
    assert store.plan_ids() == ("plan-0", "plan-2")


def test_a_plan_that_is_refused_costs_no_other() -> None:
    clock = Clock()
    store = store_of(clock, max_splits=5)
    opened(store)
    clock.now_ms += UNSETTLED_IDLE_MS
    opened(store)
    with pytest.raises(StorageError, match="no room for another plan of 4 splits: 2 plans with 4 splits are held"):
        opened(store, splits=4)
    assert store.plan_ids() == ("plan-0", "plan-1")
    opened(store, splits=3)
    assert store.plan_ids() == ("plan-1", "plan-2")


def test_settled_plans_are_kept_while_there_is_room() -> None:
    clock = Clock()
    store = store_of(clock, max_plans=3)
    settle(opened(store))
    clock.now_ms += SETTLED_IDLE_MS
    opened(store)
    assert store.plan_ids() == ("plan-0", "plan-1")


def test_a_plan_without_splits_is_settled() -> None:
    assert opened(store_of(Clock()), splits=0).settled()


def test_a_plan_is_settled_when_every_end_was_told_and_every_split_reported() -> None:
    held = opened(store_of(Clock()), splits=1)
    held.next_split(0, 0)
    held.finish_split(0, 0, REPORT)
    assert not held.settled()
    held.next_split(0, 1)
    assert held.settled()


def test_answers_come_with_whether_they_were_told_before() -> None:
    held = opened(store_of(Clock()), splits=1)
    split = held.plan.splits[0]
    assert held.next_split(0, 0) == (NextSplit(split), False)
    assert held.next_split(0, 0) == (NextSplit(split), True)
    assert held.next_split(0, 1) == (EndOfSlot(), False)
    assert held.next_split(0, 1) == (EndOfSlot(), True)


def test_reports_are_kept_by_slot_and_index_and_the_later_one_counts() -> None:
    held = opened(store_of(Clock()))
    held.next_split(0, 0)
    held.next_split(0, 1)
    held.finish_split(0, 1, REPORT)
    held.finish_split(0, 0, REPORT)
    later = SplitReport(rows=2, size_bytes=20)
    held.finish_split(0, 0, later)
    assert list(held.reports().items()) == [((0, 0), later), ((0, 1), REPORT)]


def test_a_report_on_a_split_that_was_not_handed_out_is_unknown() -> None:
    held = opened(store_of(Clock()))
    held.next_split(0, 0)
    for slot, index in ((0, 1), (1, 0), (0, -1)):
        with pytest.raises(UnknownSplit):
            held.finish_split(slot, index, REPORT)


def test_the_total_sums_rows_bytes_phases_outcomes_and_takes_the_highest_event_time() -> None:
    one = SplitReport(
        rows=1,
        size_bytes=10,
        phase_ms=(("open", 1.5), ("merge", 2.0)),
        outcomes=MergeOutcomes(won=1, lost_event_time=2, duplicate=3, deleted=4),
        max_event_time_us=-7,
        skipped_gaps=1,
        skipped_bytes=40,
        pruned_row_groups=3,
        pruned_rows=30,
    )
    two = SplitReport(
        rows=5,
        size_bytes=1,
        phase_ms=(("merge", 1.0),),
        max_event_time_us=-9,
        skipped_gaps=2,
        skipped_bytes=2,
        pruned_rows=1,
    )
    assert total([one, two]) == SplitReport(
        rows=6,
        size_bytes=11,
        phase_ms=(("merge", 3.0), ("open", 1.5)),
        outcomes=MergeOutcomes(won=1, lost_event_time=2, duplicate=3, deleted=4),
        max_event_time_us=-7,
        skipped_gaps=3,
        skipped_bytes=42,
        pruned_row_groups=3,
        pruned_rows=31,
    )
    assert total([]) == SplitReport(rows=0, size_bytes=0)


def test_threads_that_pull_at_once_get_each_split_once() -> None:
    held = opened(store_of(Clock()), splits=400, slots=4)
    found: list[list[str]] = [[] for _ in range(4)]

    def pull(slot: int) -> None:
        for index in itertools.count():
            answer, _ = held.next_split(slot, index)
            if isinstance(answer, EndOfSlot):
                return
            found[slot].append(answer.split.split_id)

    threads = [threading.Thread(target=pull, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for part in found for name in part) == sorted(f"s{n}" for n in range(400))
