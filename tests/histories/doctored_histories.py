"""Histories that break a rule each: what is done to the good history of `two_readers`, and the rule that finds it."""

from __future__ import annotations

from collections.abc import Callable

from tests.histories.scripted_history import ROWS, Script

Doctor = Callable[[Script], None]


def _split_finished_twice(script: Script) -> None:
    script.join("c", 8)
    script.read("c", 8, "r1", 1)


def _split_handed_out_from_wrong_row(script: Script) -> None:
    script.join("c", 8, reads=False)
    script.assign("c", 8, "r2", 0)
    script.commit("c", 8, "r2", 0, 4)
    script.join("d", 9, reads=False)
    script.assign("d", 9, "r2", 0, 3)


def _commit_after_split_moved(script: Script) -> None:
    script.join("c", 8, reads=False)
    script.join("d", 9, reads=False)
    script.assign("c", 8, "r2", 0)
    script.assign("d", 9, "r2", 0)
    script.commit("c", 8, "r2", 0)


def _lost_commit_counts_after_fence(script: Script) -> None:
    """The answer to a commit is lost, its member is fenced, and later the rows count."""
    script.join("c", 8, reads=False)
    script.join("d", 9, reads=False)
    script.assign("c", 8, "r2", 0)
    script.commit("c", 8, "r2", 0, 4, code="")
    script.call("c", "Heartbeat", {"member": ["t", "g", "c", 8]}, code="FENCED")
    script.assign("d", 9, "r2", 0, 0)
    script.join("e", 10, reads=False)
    script.assign("e", 10, "r2", 0, 4)


def _fenced_member_commits(script: Script) -> None:
    script.join("c", 8, reads=False)
    script.assign("c", 8, "r2", 0)
    script.call("c", "Heartbeat", {"member": ["t", "g", "c", 8]}, code="FENCED")
    script.commit("c", 8, "r2", 0)


def _member_of_older_epoch_commits(script: Script) -> None:
    script.join("c", 8, reads=False)
    script.assign("c", 8, "r2", 0)
    script.join("c", 9, reads=False)
    script.commit("c", 8, "r2", 0)


def _member_commits_after_reset(script: Script) -> None:
    script.join("c", 8, reads=False)
    script.assign("c", 8, "r2", 0)
    script.reset()
    script.commit("c", 8, "r2", 0)


def _epoch_given_twice(script: Script) -> None:
    script.join("c", 8)
    script.join("d", 8)


def _position_goes_back(script: Script) -> None:
    script.describe("r1")
    script.reset(dry_run=True)
    script.describe("r0")


def _rows_returned_twice(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 0, 5)
    script.deliver("c", 8, "r2", 0, 4, ROWS)
    script.commit("c", 8, "r2", 0)


def _batch_left_out(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    for first in range(3):
        script.deliver("c", 8, "r2", 0, first, first + 1)
    batches = [line for line in script.files["c"] if "delivered" in line]
    batches[1].pop("delivered")


def _split_begun_at_another_row(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 4, ROWS, start=4)


def _commit_of_rows_that_were_not_returned(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 0, 5)
    script.commit("c", 8, "r2", 0, 7)


def _split_finished_after_half_of_its_rows(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 0, 5)
    script.commit("c", 8, "r2", 0)


def _split_finished_without_its_rows(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.commit("c", 8, "r2", 0)


def _split_finished_before_its_last_batch(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 0, 5)
    script.commit("c", 8, "r2", 0, 5, finished=True)
    script.deliver("c", 8, "r2", 0, 5, ROWS)


def _rows_between_two_batches_left_out(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.scan("c", "r2")
    script.deliver("c", 8, "r2", 0, 0, 3)
    script.deliver("c", 8, "r2", 0, 5, ROWS)
    script.commit("c", 8, "r2", 0)


def _split_is_shorter_for_another_reader(script: Script) -> None:
    script.join("c", 8)
    script.join("d", 9)
    script.scan("c", "r2")
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 0, ROWS)
    script.assign("d", 9, "r2", 0)
    script.commit("d", 9, "r2", 0, 0, finished=True)


def _commit_before_its_rows_are_returned(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.commit("c", 8, "r2", 0, 5)
    script.deliver("c", 8, "r2", 0, 0, 5)


def _split_committed_that_nobody_received(script: Script) -> None:
    script.join("c", 8)
    script.commit("c", 8, "r2", 0)


def _later_change_first(script: Script) -> None:
    script.join("c", 8)
    script.join("d", 9)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 0, 3)
    script.commit("c", 8, "r2", 0, 3)
    script.read("d", 9, "r3", 0)
    script.deliver("c", 8, "r2", 0, 3, ROWS)
    script.commit("c", 8, "r2", 0)


def _group_ends_early(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.end_of_group("c", 8)


def _group_ends_early_although_it_may_lose_ranges(script: Script) -> None:
    script.join("c", 8, "earliest")
    script.assign("c", 8, "r2", 0)
    script.end_of_group("c", 8)


def _later_change_first_although_it_may_lose_ranges(script: Script) -> None:
    script.join("e", 7, "snapshot")
    _later_change_first(script)


def _range_of_another_table_is_lost(script: Script) -> None:
    script.join("c", 8, "earliest")
    script.assign("c", 8, "r2", 0)
    script.lose_range("other")
    script.end_of_group("c", 8)


def _split_of_a_round_is_left_out(script: Script) -> None:
    script.join("c", 8)
    script.read("c", 8, "r2", 0)
    script.read("c", 8, "r2", 2)
    script.end_of_group("c", 8)


def _split_of_a_plan_is_left_out(script: Script) -> None:
    script.open_plan("p2", splits=3, slots=2)
    for slot, index, split in ((0, 0, "x"), (1, 0, "y"), (0, 1, None), (1, 1, None)):
        script.call("task", "NextSplit", {"entry": ["p2", slot, index]}, {"split": split})


def _entry_changes(script: Script) -> None:
    script.call("task2", "NextSplit", {"entry": ["p", 0, 1]}, {"split": "z"})


def _split_in_two_slots(script: Script) -> None:
    script.call("task2", "NextSplit", {"entry": ["p", 1, 0]}, {"split": "x"})


def _slot_goes_on_after_its_end(script: Script) -> None:
    script.call("task2", "NextSplit", {"entry": ["p", 0, 3]}, {"split": "z"})


def _stream_goes_back(script: Script) -> None:
    script.call("task", "NextBatch", {"point": ["2", 0]}, {"point": ["1", 7]})


DOCTORED: dict[Doctor, str] = {
    _split_finished_twice: "exactly once",
    _split_handed_out_from_wrong_row: "exactly once",
    _commit_after_split_moved: "exactly once",
    _lost_commit_counts_after_fence: "exactly once",
    _fenced_member_commits: "fencing",
    _member_of_older_epoch_commits: "fencing",
    _member_commits_after_reset: "fencing",
    _epoch_given_twice: "epochs",
    _position_goes_back: "positions",
    _rows_returned_twice: "rows",
    _batch_left_out: "rows",
    _split_begun_at_another_row: "rows",
    _commit_of_rows_that_were_not_returned: "rows",
    _split_finished_after_half_of_its_rows: "rows",
    _split_finished_without_its_rows: "rows",
    _split_finished_before_its_last_batch: "rows",
    _rows_between_two_batches_left_out: "rows",
    _split_is_shorter_for_another_reader: "rows",
    _commit_before_its_rows_are_returned: "rows",
    _split_committed_that_nobody_received: "exactly once",
    _later_change_first: "order",
    _group_ends_early: "complete",
    _later_change_first_although_it_may_lose_ranges: "order",
    _group_ends_early_although_it_may_lose_ranges: "complete",
    _range_of_another_table_is_lost: "complete",
    _split_of_a_round_is_left_out: "complete",
    _split_of_a_plan_is_left_out: "slots",
    _entry_changes: "slots",
    _split_in_two_slots: "slots",
    _slot_goes_on_after_its_end: "slots",
    _stream_goes_back: "streams",
}
"""What is done to the good history, and the rule that finds it."""
