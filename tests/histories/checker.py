"""The offline checker: judges a history against the promises of groups, plans and streams. Imports nothing of the
product, and knows its rules from the documentation only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.histories.history import NEVER, OF_A_READER, Call, History, Member, as_member, is_asked_move, is_move
from tests.histories.split_rules import check_splits
from tests.histories.violations import Violation

GroupPlace = tuple[str, str, str]
"""State, table, group."""
Position = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Fence:
    """From when on a member cannot have any effect, and the call that says so."""

    at_ns: int
    by: Call


def violations(history: History) -> list[Violation]:
    """What the history shows to be broken, each with the calls that show it; empty: nothing."""
    fences = fences_of(history)
    return [
        *_epochs(history),
        *_fencing(history, fences),
        *_positions(history),
        *check_splits(history, {key: fence.at_ns for key, fence in fences.items()}),
        *_plans(history),
        *_streams(history),
    ]


def fences_of(history: History) -> dict[tuple[str, Member], Fence]:
    """The first fence of each member, by state and member: its call was answered with FENCED, it left, its reader
    joined again, or its group was moved or deleted."""
    fences: dict[tuple[str, Member], Fence] = {}

    def fence(state: str, member: Member, by: Call) -> None:
        before = fences.get((state, member))
        if before is None or by.answered_ns < before.at_ns:
            fences[state, member] = Fence(by.answered_ns, by)

    joins = [call for call in history.calls if call.name == "JoinGroup" and call.is_ok]
    for call in history.calls:
        refused = call.name in ("Heartbeat", "CommitSplits") and call.code == "FENCED"
        if refused or (call.name == "LeaveGroup" and call.is_ok):
            fence(call.state, call.member, call)
        elif is_move(call) and call.is_ok:
            for join in joins:
                member = as_member(join.answer["member"])
                if join.state == call.state and member[:2] == group_of(call) and join.is_before(call):
                    fence(call.state, member, call)
    for join in joins:
        member = as_member(join.answer["member"])
        for other in joins:
            older = as_member(other.answer["member"])
            if other.state == join.state and older[:3] == member[:3] and older[3] < member[3]:
                fence(join.state, older, join)
    return fences


def group_of(call: Call) -> tuple[str, str]:
    """Table and group of a call about a group."""
    return call.question["table"], call.question["group"]


def _epochs(history: History) -> Iterator[Violation]:
    first_asked_ns: dict[str, int] = {}
    for call in history.calls:
        if call.name == "JoinGroup":
            request = call.question["request"]
            first_asked_ns[request] = min(call.asked_ns, first_asked_ns.get(request, NEVER))
    joins = [call for call in history.calls if call.name == "JoinGroup" and call.is_ok]
    for place, join in enumerate(joins):
        epoch = join.answer["member"][3]
        for later in joins[place + 1 :]:
            # a request that is sent again has the answer of its first attempt
            is_later = join.answered_ns < first_asked_ns[later.question["request"]]
            if is_later and later.state == join.state and later.answer["member"][3] <= epoch:
                text = f"epoch {later.answer['member'][3]} was given out after epoch {epoch}"
                yield Violation("epochs", str(later.answer["member"]), text, (join.where, later.where))


def _fencing(history: History, fences: dict[tuple[str, Member], Fence]) -> Iterator[Violation]:
    for call in history.calls:
        if not call.is_ok or call.name not in OF_A_READER or call.name in ("JoinGroup", "LeaveGroup"):
            continue
        fence = fences.get((call.state, call.member))
        if fence is not None and fence.at_ns < call.asked_ns:
            text = f"{call.name} of {call.member} was accepted after {fence.by.name} had fenced it ({fence.by.code})"
            yield Violation("fencing", str(call.member), text, (fence.by.where, call.where))


def _positions(history: History) -> Iterator[Violation]:
    reports: dict[GroupPlace, list[tuple[Call, Position]]] = defaultdict(list)
    moves: dict[GroupPlace, list[Call]] = defaultdict(list)
    for call in history.calls:
        if is_asked_move(call) and call.may_count:
            moves[(call.state, *group_of(call))].append(call)
        for group in _reported(call) if call.is_ok else ():
            key, index = group["committed"]
            reports[call.state, group["table"], group["group"]].append((call, (key, index)))
    for place, group_reports in reports.items():
        highest: tuple[Call, Position] | None = None
        for call, position in sorted(group_reports, key=lambda each: each[0].answered_ns):
            if highest is not None and position < highest[1] and highest[0].is_before(call):
                first = highest[0]
                asked = [m for m in moves[place] if m.asked_ns < call.answered_ns and m.answered_ns > first.asked_ns]
                if not asked:
                    text = f"committed went from {highest[1]} back to {position}, and no reset was asked for"
                    yield Violation("positions", str(place[1:]), text, (first.where, call.where))
                highest = (call, position)
            elif highest is None or position >= highest[1]:
                highest = (call, position)


def _reported(call: Call) -> list[dict[str, object]]:
    if call.name == "DescribeGroup":
        return [call.answer["described"]]
    return call.answer["groups"] if call.name == "ListGroups" else []


def _plans(history: History) -> Iterator[Violation]:
    """An entry of a slot is the same for all who ask, no split is in two entries, and a slot ends once. When all slots
    of a plan have ended, each of its splits was in one."""
    entries: dict[tuple[str, str], dict[tuple[int, int], tuple[Call, str | None]]] = defaultdict(dict)
    for call in history.calls:
        if call.name != "NextSplit" or not call.is_ok:
            continue
        plan_id, slot, index = call.question["entry"]
        first = entries[call.state, plan_id].setdefault((slot, index), (call, call.answer["split"]))
        if first[1] != call.answer["split"]:
            text = f"slot {slot}, entry {index} is {call.answer['split']}, and was {first[1]}"
            yield Violation("slots", plan_id, text, (first[0].where, call.where))
    opened = {
        (call.state, call.answer["plan"]): call for call in history.calls if call.name == "OpenPlan" and call.is_ok
    }
    for (state, plan_id), answers in entries.items():
        seen: dict[str, tuple[tuple[int, int], Call]] = {}
        for entry, (call, split) in answers.items():
            if split is None:
                continue
            if split in seen:
                text = f"split {split} is in the entries {seen[split][0]} and {entry}"
                yield Violation("slots", plan_id, text, (seen[split][1].where, call.where))
            seen.setdefault(split, (entry, call))
            ends = [each for each, answer in answers.items() if answer[1] is None]
            if end := next((each for each in ends if each[0] == entry[0] and each[1] < entry[1]), None):
                text = f"entry {entry} follows the end of its slot, {end}"
                yield Violation("slots", plan_id, text, (answers[end][0].where, call.where))
        ended = {slot: call for (slot, _), (call, split) in answers.items() if split is None}
        opening = opened.get((state, plan_id))
        if opening is not None and len(ended) == opening.answer["slots"] and len(seen) != opening.answer["splits"]:
            text = f"its slots ended with {len(seen)} splits, and it has {opening.answer['splits']}"
            yield Violation("slots", plan_id, text, (opening.where, *(call.where for call in ended.values())))


def _streams(history: History) -> Iterator[Violation]:
    for call in history.calls:
        if call.name == "NextBatch" and call.is_ok and tuple(call.answer["point"]) < tuple(call.question["point"]):
            text = f"the batch after {call.question['point']} ends at {call.answer['point']}"
            yield Violation("streams", call.where, text, (call.where,))


def last_reports(history: History) -> dict[GroupPlace, Call]:
    """The last description of each group that a server gave."""
    reports: dict[GroupPlace, Call] = {}
    for call in history.calls:
        if call.name == "DescribeGroup" and call.is_ok and call.answered_ns != NEVER:
            reports[(call.state, *group_of(call))] = call
    return reports
