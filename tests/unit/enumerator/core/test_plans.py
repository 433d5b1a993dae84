"""Held plans: time to live, bounds, unknown ids and reports, with a manual clock."""

from __future__ import annotations

import itertools
import threading

import pytest

from penstock.enumerator.core.events import Restarted
from penstock.enumerator.core.plans import SETTLED_IDLE_MS, STREAM_PLANS, UNSETTLED_IDLE_MS
from penstock.enumerator.core.records import PlanOpened
from penstock.enumerator.core.results import HOUR_MS
from penstock.enumerator.core.slot_assigner import Assigned, Sealed
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.report_totals import total
from penstock.proto.errors import ConfigurationError, StorageError, UnknownPlan, UnknownSplit
from penstock.proto.model.reports import MergeOutcomes, SplitReport
from tests.unit.enumerator.core.held_plans import REPORT, Clock, opened, settle, store_of


def test_plan_is_held_under_its_id() -> None:
    store = store_of(Clock())
    held = opened(store)
    assert held.plan_id == "plan-0"
    assert store.use("plan-0") == held.plan_id


def test_plan_that_was_never_opened_is_an_error_with_advice() -> None:
    with pytest.raises(
        UnknownPlan,
        match=r"no plan 'x' here: .* 24 hours \(less, if room was needed\); run the query again to open a new plan$",
    ):
        store_of(Clock()).use("x")


def test_plan_is_dropped_when_unused_for_its_time_to_live() -> None:
    clock = Clock()
    store = store_of(clock, plan_ttl_ms=2 * HOUR_MS)
    opened(store)
    clock.now_ms += 2 * HOUR_MS
    with pytest.raises(UnknownPlan, match="not used for 2 hours"):
        store.use("plan-0")


def test_time_to_live_is_renewed_by_use() -> None:
    clock = Clock()
    store = store_of(clock, plan_ttl_ms=2 * HOUR_MS)
    held = opened(store)
    for _ in range(5):
        clock.now_ms += 2 * HOUR_MS - 1
        assert store.use("plan-0") == held.plan_id


def test_time_to_live_of_every_plan_starts_again_after_a_restart() -> None:
    """No call could use it while the server was away."""
    clock = Clock()
    store = store_of(clock, plan_ttl_ms=2 * HOUR_MS)
    opened(store)
    opened(store)
    clock.now_ms += 24 * HOUR_MS
    store.coordinator.handle(Restarted())
    assert store.plan_ids() == ("plan-0", "plan-1")
    clock.now_ms += 2 * HOUR_MS
    assert store.plan_ids() == ()


def test_plans_in_use_are_not_dropped_with_idle_ones() -> None:
    clock = Clock()
    store = store_of(clock, plan_ttl_ms=2 * HOUR_MS)
    opened(store)
    opened(store)
    clock.now_ms += HOUR_MS
    store.use("plan-0")
    clock.now_ms += HOUR_MS
    assert store.plan_ids() == ("plan-0",)


def test_plan_beyond_the_bound_is_refused_while_the_others_are_read() -> None:
    store = store_of(Clock(), max_plans=2)
    opened(store)
    opened(store)
    with pytest.raises(StorageError, match="no room for another plan of 2 splits: 2 plans with 4 splits are held"):
        opened(store)
    assert store.plan_ids() == ("plan-0", "plan-1")


def test_plan_beyond_the_bound_of_splits_is_refused() -> None:
    store = store_of(Clock(), max_held_splits=5)
    opened(store, splits=3)
    with pytest.raises(StorageError, match="at most 2000 and 5 are"):
        opened(store, splits=3)
    opened(store, splits=2)


def test_plan_that_can_never_fit_is_an_error_without_retry() -> None:
    with pytest.raises(ConfigurationError, match="the plan of table t has 6 splits, at most 5 are held"):
        opened(store_of(Clock(), max_held_splits=5), splits=6)


@pytest.mark.parametrize("limit", [{"max_plans": 1}, {"max_held_splits": 3}])
def test_expired_plan_makes_room(limit: dict[str, int]) -> None:
    clock = Clock()
    store = store_of(clock, plan_ttl_ms=HOUR_MS, **limit)
    opened(store)
    clock.now_ms += HOUR_MS
    opened(store)
    assert store.plan_ids() == ("plan-1",)


def test_settled_idle_plan_makes_room_and_a_young_unsettled_one_does_not() -> None:
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


def test_unfinished_plans_make_room_after_an_hour_the_longest_idle_first() -> None:
    clock = Clock()
    store = store_of(clock, max_plans=3)
    for _ in range(3):
        opened(store).next_split(0, 0)
        clock.now_ms += 1
    store.use("plan-0")  # plan-1 is now the longest idle
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


def test_stream_drops_its_older_batches_and_no_other_plan() -> None:
    clock = Clock()
    store = store_of(clock)
    opened(store)
    store.add(2, 1, stream="other")
    for _ in range(STREAM_PLANS + 2):
        store.add(2, 1, stream="one")
    names = [f"plan-{number}" for number in range(STREAM_PLANS + 4)]
    assert list(store.plan_ids()) == names, "they are in use"
    clock.now_ms += SETTLED_IDLE_MS
    store.use("plan-3")
    store.add(2, 1, stream="one")
    remaining = [name for name in names if name not in ("plan-2", "plan-4", "plan-5")]
    assert sorted(store.plan_ids()) == sorted([*remaining, f"plan-{STREAM_PLANS + 4}"]), (
        "the newest, and what is in use"
    )
    with pytest.raises(UnknownPlan, match="run the query again"):
        store.use("plan-2")


def test_plan_is_stored_with_its_stream() -> None:
    store = store_of(Clock())
    store.add(2, 1, stream="one")
    opened_ones = [
        item for item in store.coordinator.read(lambda s: list(compacted_records(s))) if isinstance(item, PlanOpened)
    ]
    assert [item.stream for item in opened_ones] == ["one"]
    assert decode_record(encode_record(opened_ones[0])) == opened_ones[0]


def test_refused_plan_evicts_no_other() -> None:
    clock = Clock()
    store = store_of(clock, max_held_splits=5)
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


def test_plan_without_splits_is_settled() -> None:
    assert opened(store_of(Clock()), splits=0).settled()


def test_plan_is_settled_when_every_slot_ended_and_every_split_is_reported() -> None:
    held = opened(store_of(Clock()), splits=1)
    held.next_split(0, 0)
    held.finish_split(0, 0, REPORT)
    assert not held.settled()
    held.next_split(0, 1)
    assert held.settled()


def test_answers_say_whether_they_are_replays() -> None:
    held = opened(store_of(Clock()), splits=1)
    for before in (False, True):
        assert held.next_split(0, 0) == (Assigned(0, replayed=True), before)
    for before in (False, True):
        assert held.next_split(0, 1) == (Sealed(replayed=True), before)


def test_reports_are_stored_by_slot_and_index_and_the_last_one_counts() -> None:
    held = opened(store_of(Clock()))
    held.next_split(0, 0)
    held.next_split(0, 1)
    held.finish_split(0, 1, REPORT)
    held.finish_split(0, 0, REPORT)
    later = SplitReport(rows=2, size_bytes=20)
    held.finish_split(0, 0, later)
    assert held.reports() == {(0, 0): later, (0, 1): REPORT}


def test_report_on_a_split_that_was_not_assigned_is_refused() -> None:
    held = opened(store_of(Clock()))
    held.next_split(0, 0)
    for slot, index in ((0, 1), (1, 0), (0, -1)):
        with pytest.raises(UnknownSplit):
            held.finish_split(slot, index, REPORT)


def test_total_has_the_sums_of_reports_and_the_highest_event_time() -> None:
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


def test_concurrent_threads_get_each_split_once() -> None:
    held = opened(store_of(Clock()), splits=400, slots=4)
    result: list[list[int]] = [[] for _ in range(4)]

    def pull(slot: int) -> None:
        for index in itertools.count():
            answer, _ = held.next_split(slot, index)
            if not isinstance(answer, Assigned):
                return
            result[slot].append(answer.split)

    threads = [threading.Thread(target=pull, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(split for part in result for split in part) == list(range(400))


def test_repeated_request_opens_one_plan() -> None:
    store = store_of(Clock())
    assert store.add(2, 1, request_id="r").plan_id == store.add(2, 1, request_id="r").plan_id == "plan-0"
    assert store.add(2, 1, request_id="other").plan_id == "plan-2"
    assert store.plan_ids() == ("plan-0", "plan-2")
