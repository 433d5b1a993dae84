"""The assigner under any schedule: each split once, answers never change, shares of unstarted slots are kept."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.enumerator.core.slot_assigner import (
    SLOT_BYTES,
    Assigned,
    Sealed,
    SlotAssigner,
    choose_slots,
    shares,
)
from penstock.proto.errors import ConfigurationError, InvariantViolation, UnknownSplit

MB = 1 << 20


def drain(assigner: SlotAssigner, slot: int, start: int = 0) -> list[int]:
    """The splits that one attempt of the slot reads from `start` to the end."""
    result: list[int] = []
    while True:
        match assigner.next(slot, start + len(result)):
            case Assigned(split, _):
                result.append(split)
            case Sealed():
                return result


# --- shares ---


@given(st.lists(st.integers(0, 1 << 40), max_size=60), st.integers(1, 20))
def test_shares_have_every_split_once_in_plan_order(sizes: list[int], slots: int) -> None:
    parts = shares(sizes, slots)
    assert sorted(split for part in parts for split in part) == list(range(len(sizes)))
    assert all(list(part) == sorted(part) for part in parts)
    assert len(parts) == slots
    if len(sizes) >= slots:
        assert all(parts)


@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=60), st.integers(1, 20))
def test_shares_are_balanced(sizes: list[int], slots: int) -> None:
    heaviest = max(sum(sizes[split] for split in part) for part in shares(sizes, slots))
    assert heaviest <= sum(sizes) / slots + max(sizes)


def test_equal_splits_are_assigned_round_robin() -> None:
    assert shares([5] * 12, 4) == ((0, 4, 8), (1, 5, 9), (2, 6, 10), (3, 7, 11))


def test_splits_of_unknown_size_are_assigned_too() -> None:
    assert shares([0, 0, 0, 0], 2) == ((0, 2), (1, 3))


def test_huge_split_has_a_slot_of_its_own() -> None:
    assert shares([1, 1, 1000, 1, 1], 2) == ((2,), (0, 1, 3, 4))


# --- how many slots ---


@pytest.mark.parametrize(
    ("splits", "size_bytes", "requested", "cpus", "slots"),
    [
        (0, 0, 0, 8, 0),
        (0, 0, 5, 8, 0),
        (1, 10, 0, 8, 1),
        (3, 10, 0, 8, 1),
        (7, 7, 0, 8, 1),
        (8, 8, 0, 8, 2),
        (2, 24 << 20, 0, 8, 2),
        (100, 10, 0, 1, 2),
        (100, 10, 0, 8, 8),
        (100, 10 * SLOT_BYTES, 0, 4, 10),
        (100, 10 * SLOT_BYTES + 1, 0, 4, 11),
        (5, 10 * SLOT_BYTES, 0, 4, 5),
        (5000, 5000 * SLOT_BYTES, 0, 4, 1000),
        (100, 10, 3, 8, 3),
        (2, 10, 3, 8, 2),
        (5000, 10, 3000, 8, 3000),
    ],
)
def test_number_of_slots(splits: int, size_bytes: int, requested: int, cpus: int, slots: int) -> None:
    assert choose_slots(splits, size_bytes, requested, cpus) == slots


def test_negative_number_of_slots_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="slots: got -1"):
        choose_slots(1, 1, -1, 1)


# --- the cases Spark brings ---


def test_count_twice_reads_the_same_in_each_slot() -> None:
    assigner = SlotAssigner([MB] * 12, 4)
    first = [drain(assigner, slot) for slot in range(4)]
    assert [drain(assigner, slot) for slot in range(4)] == first
    assert Counter(split for part in first for split in part) == Counter(range(12))


def test_retry_after_two_splits_gets_the_same_two() -> None:
    assigner = SlotAssigner([MB] * 12, 4)
    lost = [assigner.next(0, 0), assigner.next(0, 1)]
    others = [drain(assigner, slot) for slot in (1, 2, 3)]  # and they may steal the rest of slot 0
    again = drain(assigner, 0)
    assert [Assigned(split, True) for split in again[:2]] == [
        Assigned(answer.split, True) for answer in lost if isinstance(answer, Assigned)
    ]
    assert Counter([*again, *(split for part in others for split in part)]) == Counter(range(12))


def test_concurrent_attempts_get_one_list_and_one_end() -> None:
    assigner = SlotAssigner([MB] * 5, 1)
    slow, fast = [assigner.next(0, 0)], drain(assigner, 0)
    slow += [assigner.next(0, index) for index in range(1, 5)]
    assert [answer.split for answer in slow if isinstance(answer, Assigned)] == fast
    assert assigner.next(0, 5) == Sealed(replayed=True)


def test_take_1_then_count_leaves_every_slot_its_share() -> None:
    assigner = SlotAssigner([MB] * 12, 4)
    assigner.next(0, 0)  # take(1): one split of slot 0
    counts = [len(drain(assigner, slot)) for slot in range(4)]
    assert counts == [3, 3, 3, 3]


def test_coalesce_runs_slots_one_after_the_other() -> None:
    assigner = SlotAssigner([MB] * 12, 4)
    assert [len(drain(assigner, slot)) for slot in (0, 1)] == [3, 3]
    assert [len(drain(assigner, slot)) for slot in (3, 2)] == [3, 3]


def test_slot_that_never_started_keeps_its_share() -> None:
    assigner = SlotAssigner([MB] * 12, 4)
    for slot in (0, 1, 2):
        drain(assigner, slot)
    assert assigner.next(0, 3) == Sealed(replayed=True)
    assert drain(assigner, 3) == list(shares([MB] * 12, 4)[3])


def test_fast_slot_steals_from_the_started_slot_with_most_left() -> None:
    sizes = [size * MB for size in (1, 1, 9, 8, 7, 6, 5)]
    assert shares(sizes, 3) == ((0, 1, 2), (3, 6), (4, 5))
    assigner = SlotAssigner(sizes, 3)
    for slot in (1, 2):
        assigner.next(slot, 0)
    assert drain(assigner, 0) == [0, 1, 2, 5, 6]  # slot 2 had 6 MB left, slot 1 had 5 MB
    assert drain(assigner, 1) == [3]
    assert drain(assigner, 2) == [4]


def test_plan_is_finished_only_when_every_slot_got_its_end() -> None:
    assigner = SlotAssigner([MB] * 3, 2)
    drain(assigner, 0)
    assert not assigner.finished()
    drain(assigner, 1)
    assert assigner.finished()


def test_plan_without_splits_has_no_slot_and_is_finished() -> None:
    assigner = SlotAssigner([], 0)
    assert assigner.finished()
    with pytest.raises(UnknownSplit, match="no slot 0: the plan has 0 slots"):
        assigner.next(0, 0)


def test_splits_without_a_slot_are_a_bug() -> None:
    with pytest.raises(InvariantViolation, match="0 slots for 1 splits"):
        SlotAssigner([1], 0)


@pytest.mark.parametrize(("slot", "index"), [(-1, 0), (2, 0), (0, 1), (0, -1), (1, 7)])
def test_index_beyond_the_next_one_is_refused(slot: int, index: int) -> None:
    with pytest.raises(UnknownSplit):
        SlotAssigner([1, 1, 1], 2).next(slot, index)


def test_index_after_the_end_is_refused() -> None:
    assigner = SlotAssigner([1], 1)
    drain(assigner, 0)
    with pytest.raises(UnknownSplit, match="has 1 splits so far: got index 2"):
        assigner.next(0, 2)


# --- any schedule ---


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 8), st.data())
def test_splits_are_assigned_once_under_any_interleaving_of_slots(
    sizes: list[int], slots: int, data: st.DataObject
) -> None:
    assigner = SlotAssigner(sizes, slots)
    running = list(range(slots))
    lists: list[list[int]] = [[] for _ in running]
    while running:
        slot = data.draw(st.sampled_from(running))
        upcoming = assigner.upcoming(slot)
        entry = assigner.next(slot, len(lists[slot]))
        assert upcoming == entry
        match entry:
            case Assigned(split, replayed):
                assert not replayed
                lists[slot].append(split)
            case Sealed():
                running.remove(slot)
    assert Counter(split for part in lists for split in part) == Counter(range(len(sizes)))
    assert assigner.finished()
    assert [drain(assigner, slot) for slot in range(slots)] == lists


class Schedules(RuleBasedStateMachine):
    """Attempts start, advance, die and restart in any order; no answer may contradict an earlier one."""

    attempts = Bundle("attempts")

    @initialize(sizes=st.lists(st.integers(0, 50), max_size=15), slots=st.integers(1, 5))
    def plan(self, sizes: list[int], slots: int) -> None:
        """Creates a plan with splits of these sizes."""
        self.sizes = sizes
        self.own = shares([max(1, size) for size in sizes], slots)
        self.assigner = SlotAssigner(sizes, slots)
        self.answers: dict[tuple[int, int], int | None] = {}
        self.started: set[int] = set()

    @rule(target=attempts, slot=st.integers(0, 4))
    def start(self, slot: int) -> list[int]:
        """Starts an attempt: [slot, next index]."""
        return [slot % self.assigner.slots, 0]

    @rule(attempt=attempts)
    def advance(self, attempt: list[int]) -> None:
        """Sends one request of an attempt, which may repeat that of another attempt."""
        slot, index = attempt
        if index and self.answers[slot, index - 1] is None:
            return
        self.started.add(slot)
        answer = self.assigner.next(slot, index)
        split = answer.split if isinstance(answer, Assigned) else None
        assert answer.replayed == ((slot, index) in self.answers)
        assert self.answers.setdefault((slot, index), split) == split
        attempt[1] += 1

    @rule(attempt=attempts)
    def repeat_request(self, attempt: list[int]) -> None:
        """Repeats the request of a lost answer."""
        slot, index = attempt
        if index:
            answer = self.assigner.next(slot, index - 1)
            assert answer.replayed
            assert self.answers[slot, index - 1] == (answer.split if isinstance(answer, Assigned) else None)

    @rule(slot=st.integers(0, 4), beyond=st.integers(1, 3))
    def request_too_far(self, slot: int, beyond: int) -> None:
        """A request that skips entries is refused and changes nothing."""
        slot %= self.assigner.slots
        length = sum(1 for (s, _), split in self.answers.items() if s == slot and split is not None)
        with pytest.raises(UnknownSplit):
            self.assigner.next(slot, length + beyond)

    @invariant()
    def each_split_is_in_at_most_one_list(self) -> None:
        """Each split is in at most one list."""
        assigned = [split for split in getattr(self, "answers", {}).values() if split is not None]
        assert len(assigned) == len(set(assigned))

    @invariant()
    def sleepers_keep_their_share(self) -> None:
        """No split of a slot that never started is in the list of another."""
        assigned = {split for split in getattr(self, "answers", {}).values() if split is not None}
        for slot, share in enumerate(getattr(self, "own", ())):
            if slot not in self.started:
                assert not assigned & set(share)

    @precondition(lambda self: hasattr(self, "assigner"))
    @rule()
    def run_to_the_end(self) -> None:
        """Reading every slot to its end gives every split once."""
        lists = [drain(self.assigner, slot) for slot in range(self.assigner.slots)]
        assert Counter(split for part in lists for split in part) == Counter(range(len(self.sizes)))
        for slot, part in enumerate(lists):
            self.started.add(slot)
            for index, split in enumerate([*part, None]):
                assert self.answers.setdefault((slot, index), split) == split


Schedules.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestSchedules = Schedules.TestCase
