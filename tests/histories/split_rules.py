"""Rules about the splits of groups: delivered once, in order, by the member that holds them, and completely."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.histories.history import RANGE_LOST, Call, Delivered, History, Member, is_move
from tests.histories.split_model import SplitState, Step, ordered
from tests.histories.violations import Violation

Place = tuple[str, int]
"""Plan id and index."""


@dataclass(slots=True)
class SplitHistory:
    """All that happened to one split."""

    state: str
    place: Place
    split_id: str
    lane: tuple[str, ...]
    position: tuple[str, int]
    group: tuple[str, str]
    topic: list[Any] | None
    assigned: list[tuple[Call, Member, int]] = field(default_factory=list)
    """The calls that handed it out, to whom, and from which row on."""
    committed: list[tuple[Call, int, bool]] = field(default_factory=list)
    """The calls that committed it, up to which row, and whether to its end."""

    def finishes(self) -> list[Call]:
        """The calls that may have finished it."""
        return [call for call, _, finished in self.committed if finished]

    def __str__(self) -> str:
        return f"split {self.split_id} (round {self.place[0][:8]}, {self.place[1]}) of group {self.group[1]}"


def check_splits(history: History, fences: Mapping[tuple[str, Member], int]) -> Iterator[Violation]:
    """The violations of all rules about splits of groups. `fences`: when each member was fenced."""
    splits = splits_of(history)
    batches: dict[tuple[str, str], list[Delivered]] = defaultdict(list)
    for batch in history.delivered:
        batches[batch.plan_id, batch.split_id].append(batch)
    for split in splits.values():
        begin = split.assigned[0][2] if split.state in history.inherited else 0
        yield from _once(split, SplitState(ordinal=begin), fences)
        yield from _delivered(split, batches[split.place[0], split.split_id], history)
    moves = Moves(history)
    yield from _held(history, splits)
    yield from _lanes(splits, history.readers, moves)
    yield from _complete(history, splits, moves)
    yield from _sequences(history.delivered)


def splits_of(history: History) -> dict[tuple[str, Place], SplitHistory]:
    """All splits that a group handed out."""
    splits: dict[tuple[str, Place], SplitHistory] = {}
    for call in history.calls:
        if call.name != "RequestSplits" or not call.is_ok:
            continue
        for one in call.answer["splits"]:
            table, epoch = one["of"]
            member = (table, call.member[1], call.member[2], epoch) if table else call.member
            place = (one["place"][0], one["place"][1])
            lane = (one["topic"][0], str(one["topic"][1])) if "topic" in one else tuple(one["lane"])
            position = (one["position"][0], one["position"][1])
            split = splits.setdefault(
                (call.state, place),
                SplitHistory(call.state, place, one["split"], lane, position, member[:2], one.get("topic")),
            )
            split.assigned.append((call, member, one["start"]))
    for call in history.calls:
        if call.name == "CommitSplits" and call.may_count:
            for plan_id, index, ordinal, finished in call.question["done"]:
                if (split := splits.get((call.state, (plan_id, index)))) is not None:
                    split.committed.append((call, ordinal, finished))
    return splits


def _once(split: SplitHistory, initial: SplitState, fences: Mapping[tuple[str, Member], int]) -> Iterator[Violation]:
    """The model of a split allows an order of its calls, each between its question and its answer."""
    steps = [
        Step(call.where, call.asked_ns, call.answered_ns, member[2:], is_commit=False, ordinal=start)
        for call, member, start in split.assigned
    ]
    for call, ordinal, finished in split.committed:
        until = call.answered_ns if call.is_ok else fences.get((call.state, call.member), call.answered_ns)
        begin = min(call.asked_ns, until)
        counts = call.is_ok
        steps.append(Step(call.where, begin, until, call.member[2:], True, ordinal, finished, counts))
    if (result := ordered(steps, initial)).stuck:
        known = "; ".join(map(str, result.order[-4:])) or "nothing"
        stuck = result.stuck[0]
        shown = tuple(step.where for step in (*result.order[-4:], stuck))
        yield Violation("exactly once", str(split), f"after: {known}: this cannot happen: {stuck}", shown)


def _delivered(split: SplitHistory, of_split: list[Delivered], history: History) -> Iterator[Violation]:
    """A reader returns no row twice, begins with the row at which the split was handed out, and commits what it
    returned. Rows may be missing between two batches only if the reader drops rows: those that a condition or a range
    excludes, and offsets of a topic without a row."""
    has_every_row = split.place[0] in history.unfiltered and not split.topic
    for place, (call, member, start) in enumerate(split.assigned):
        if any(other == member for _, other, _ in split.assigned[:place]):
            continue  # the same answer again
        batches = [each for each in of_split if each.member[2] == member[2] and _session_of(each, split, member)]
        at = start
        for batch in batches:
            is_next = batch.first == at if has_every_row else batch.first >= at
            if not is_next or batch.next < batch.first or batch.start != start:
                text = f"{member[2]} began at row {batch.start}, and returned {batch.first} to {batch.next} after {at}"
                yield Violation("rows", str(split), text, (call.where, batch.where))
            at = batch.next
        if call.member in history.readers:
            commits = [each for each in split.committed if each[0].member == member]
            yield from _committed(split, batches, start, commits)
    ends = {batch.next: batch for batch in of_split}
    for commit, ordinal, finished in split.committed if has_every_row and ends else ():
        if finished and ordinal < max(ends):
            text = f"{commit.member[2]} finished it at row {ordinal}, and it has rows up to {max(ends)}"
            yield Violation("rows", str(split), text, (ends[max(ends)].where, commit.where))


def _committed(
    split: SplitHistory, batches: list[Delivered], start: int, commits: list[tuple[Call, int, bool]]
) -> Iterator[Violation]:
    """A reader commits up to the end of a batch that it returned before, and finishes a split at the end of its last
    batch, or at the beginning if it returned none."""
    for commit, ordinal, finished in commits:
        ends = [start, *(batch.next for batch in batches if batch.at_ns < commit.asked_ns)]
        if finished:
            ends = [start, *(batch.next for batch in batches)][-1:]
        if ordinal not in ends:
            what = "finished it at" if finished else "committed up to"
            text = f"{commit.member[2]} {what} row {ordinal}, and had returned batches up to {sorted(ends)[-5:]}"
            yield Violation("rows", str(split), text, (*(batch.where for batch in batches[-1:]), commit.where))


def _held(history: History, splits: Mapping[tuple[str, Place], SplitHistory]) -> Iterator[Violation]:
    """Nobody commits a split that nobody received. What was handed out before a history is not in it."""
    for call in history.calls:
        if call.name != "CommitSplits" or not call.is_ok or call.state in history.inherited:
            continue
        for plan_id, index, ordinal, _ in call.question["done"]:
            if (call.state, (plan_id, index)) not in splits:
                text = f"{call.member[2]} committed up to row {ordinal}, and nobody received it"
                yield Violation("exactly once", f"split {index} of round {plan_id[:8]}", text, (call.where,))


def _sequences(delivered: tuple[Delivered, ...]) -> Iterator[Violation]:
    """The batches of a member are numbered without gaps: none was returned that the history does not have."""
    last: dict[Member, Delivered] = {}
    for batch in delivered:
        before = last.get(batch.member)
        if before is not None and batch.sequence != before.sequence + 1:
            text = f"returned batch {batch.sequence} after batch {before.sequence}"
            yield Violation("rows", str(batch.member), text, (before.where, batch.where))
        last[batch.member] = batch


def _session_of(batch: Delivered, split: SplitHistory, member: Member) -> bool:
    """Whether the member returned the batch. A member of a group over tables has another epoch in each table: then it
    is the last that received the split before the batch."""
    if batch.member[0] == member[0]:
        return batch.member[3] == member[3]
    earlier = [each for call, each, _ in split.assigned if each[2] == member[2] and call.answered_ns <= batch.at_ns]
    return bool(earlier) and earlier[-1] == member


class Moves:
    """When groups were moved: by a reset or a delete that was asked for, or past data that a cleaner removed."""

    def __init__(self, history: History) -> None:
        self._calls = [call for call in history.calls if is_move(call) and call.may_count]

    def may_drop(self, split: SplitHistory, before: Call) -> bool:
        """Whether the group may have dropped the split before the answer of a call. A move of a group over tables moves
        the groups of its tables."""
        begin = split.assigned[0][0].asked_ns
        moves = [call for call in self._calls if begin < call.answered_ns and call.asked_ns < before.answered_ns]
        return any(
            call.state == split.state
            and call.question["group"] == split.group[1]
            and (call.name != RANGE_LOST or call.question["table"] == split.group[0])
            for call in moves
        )


def _lanes(
    splits: Mapping[tuple[str, Place], SplitHistory], readers: Collection[Member], moves: Moves
) -> Iterator[Violation]:
    """The rows of a file group, and of a partition of a topic, become visible in the order of the table. A server lets
    one member hold several splits of them, and the member commits them in order, if it is one of `readers`,
    which return batches: others are tests that call the server themselves."""
    lanes: dict[tuple[str, tuple[str, str], tuple[str, ...]], list[SplitHistory]] = defaultdict(list)
    for split in splits.values():
        lanes[split.state, split.group, split.lane].append(split)
    for lane in lanes.values():
        lane.sort(key=lambda split: (split.position, split.topic or [], split.place[1]))
        for earlier, later in pairwise(lane):
            if earlier.place[0] == later.place[0] and earlier.position == later.position and not earlier.topic:
                continue  # two parts of a file
            for commit, _, _ in later.committed:
                finished = [call for call in earlier.finishes() if not commit.is_before(call)]
                holders = {member[2] for _, member, _ in earlier.assigned}
                callers = {call.member for call, member, _ in later.assigned if member == commit.member}
                excused = moves.may_drop(earlier, commit) or (
                    commit.member[2] in holders and not callers & set(readers)
                )
                if commit.is_ok and not finished and not excused:
                    text = f"its rows became visible before {earlier} was finished"
                    shown = (*(call.where for call in earlier.finishes()), commit.where)
                    yield Violation("order", str(later), text, shown)
                    break


def _complete(history: History, splits: Mapping[tuple[str, Place], SplitHistory], moves: Moves) -> Iterator[Violation]:
    """At the end of a group every split that it handed out is finished, and it handed out each split of its rounds:
    they are numbered from 0."""
    for call in history.calls:
        if call.name != "RequestSplits" or not call.is_ok or call.answer["kind"] != "end_of_group":
            continue
        rounds: dict[str, set[int]] = defaultdict(set)
        for split in splits.values():
            if split.state != call.state or split.group != call.member[:2] or moves.may_drop(split, call):
                continue
            before = [finish for finish in split.finishes() if finish.asked_ns < call.answered_ns]
            rounds[split.place[0]].add(split.place[1])
            if not before and any(each.is_before(call) for each, _, _ in split.assigned):
                text = "the group ended, and nobody finished it"
                yield Violation("complete", str(split), text, (split.assigned[-1][0].where, call.where))
        for plan_id, indexes in rounds.items() if call.state not in history.inherited else ():
            if lost := set(range(max(indexes))) - indexes:
                text = f"the group ended, and nobody received its splits {sorted(lost)[:5]}"
                yield Violation("complete", f"round {plan_id[:8]} of group {call.member[1]}", text, (call.where,))
