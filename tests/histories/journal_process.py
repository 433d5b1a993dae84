"""A process that replays the records of state directories through the core. `main` is its program.

Each line on stdin is a JSON request; a new child, forked from this process, which has no state, answers it with a line
on stdout. Request: `directory` (a copy, which may change), `reports` (what a server said about its groups, by time),
the members that `joined` and `left`, what was `assigned` and `committed`, `entries` of plans, all by time; `causes`:
all calls that may have caused a record, or None if the state is older than the history. Answer: `differences`.

A log that was compacted has nothing of what was over by then. What a server said before that is not compared: reports
before the first one that the records have, members with an older epoch, rounds before the first one that was planned
since, and what was handed out of a round that was open. The causes of its first records, which compacted it, are those
of what they commit.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from penstock.enumerator.coordinator.plan_store import DurablePlanStore
from penstock.enumerator.core.records import Durable, GroupKey, NumbersUsed, ReaderJoined, RoundPlanned, SplitsAssigned
from penstock.enumerator.core.rounds import DONE
from penstock.enumerator.core.slot_assigner import Assigned, Sealed
from penstock.enumerator.core.state import Group, State, apply
from penstock.enumerator.core.stored.codec import decode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.store.sqlite.open import open_sqlite
from tests.histories.journal_causes import OWN, Cause, Causes, Unexplained

Json = dict[str, Any]
MAX_COMPACTED = 1_000
"""Records among which the end of a compaction is looked for."""


def described(group: Group | None) -> Json | None:
    """A group as a server describes it, except what is not stored. None: there is no such group."""
    if group is None:
        return None
    position, planned = group.committed, group.progress.position
    held = sorted([name, reader.epoch, len(reader.held)] for name, reader in group.readers.items())
    return {
        "committed": [position.order_key, position.index],
        "planned": [planned.order_key, planned.index],
        "readers": len(group.readers),
        "rounds": len(group.rounds),
        "pending": group.pending,
        "held": sum(len(each.holders) for each in group.rounds.values()),
        "members": held,
        "watermark_us": group.watermark.at_us,
    }


class Replayed:
    """The state after all records, and each group after each record that concerns it."""

    def __init__(self, directory: str, calls: list[Json] | None) -> None:
        """`calls`: what may have caused records."""
        self.state = State()
        self.store = open_sqlite(directory)
        self.groups: dict[GroupKey, list[tuple[Json | None, Cause]]] = {}
        """Each group after each record that concerns it, and what caused the record."""
        self.unexplained = ""
        """The first record that nothing caused, or that is too late in the log."""
        self.rounds: set[str] = set()
        self.joined: set[tuple[str, int]] = set()
        self.assigned: set[tuple[str, str, int]] = set()
        records = [decode_record(stored) for stored in self.store.records()]
        compacted = _compacted(records)
        self.compacted_at = records[0].last if compacted and isinstance(records[0], NumbersUsed) else None
        """The last number before the compaction of the log; None: it was not compacted."""
        self.open_rounds = {one.plan_id for one in records[:compacted] if isinstance(one, RoundPlanned)}
        """The rounds that were open at the compaction."""
        causes, newest_asked_ns = None if calls is None else Causes(calls), -1
        for place, record in enumerate(records):
            cause = OWN if causes is None else self._cause(causes, record, is_compacted=place < compacted)
            if cause.answered_ns < newest_asked_ns and not self.unexplained:
                self.unexplained = (
                    f"what caused the record {str(record)[:500]} was answered before that of an older one was asked"
                )
            newest_asked_ns = max(newest_asked_ns, cause.asked_ns)
            apply(self.state, record)
            if isinstance(record, RoundPlanned):
                self.rounds.add(record.plan_id)
            elif isinstance(record, ReaderJoined):
                self.joined.add((record.reader_id, record.epoch))
            elif isinstance(record, SplitsAssigned):
                self.assigned |= {(record.reader_id, *split) for split in record.splits}
            key = getattr(record, "key", None)
            if isinstance(key, GroupKey):
                states = self.groups.setdefault(key, [(None, OWN)])
                if place < compacted:  # the state at the compaction is the first one
                    states.clear()
                states.append((described(self.state.groups.get(key)), cause))

    def _cause(self, causes: Causes, record: Durable, *, is_compacted: bool) -> Cause:
        try:
            if not is_compacted:
                return causes.of(record, self.state)
            causes.of_compacted(record)
        except Unexplained as error:
            self.unexplained = self.unexplained or f"nothing caused the record {str(record)[:500]}: {error}"
        return OWN

    def since_compaction(self, said: Iterable[Json], plan_id: Callable[[Any], str]) -> Iterator[Any]:
        """What a server said of rounds, without what it said before the log was compacted."""
        begun = self.compacted_at is None
        for one in said:
            begun = begun or plan_id(one) in self.rounds - self.open_rounds
            if begun or plan_id(one) in self.rounds:
                yield one


def _compacted(records: Sequence[Durable]) -> int:
    """How many of the first records are those that compacted a log; 0: the log was not compacted."""
    state, count = State(), 0
    if records and isinstance(records[0], NumbersUsed):
        for place, record in enumerate(records[:MAX_COMPACTED], 1):
            apply(state, record)
            count = place if list(compacted_records(state)) == list(records[:place]) else count
    return count


def differences(request: Json) -> Iterator[str]:
    """What the records say otherwise than the server did."""
    replayed = Replayed(request["directory"], request["causes"])
    if replayed.unexplained:
        yield replayed.unexplained
    yield from _reports(replayed, request["reports"])
    yield from _members(replayed, request)
    yield from _commits(replayed, request["committed"])
    yield from _entries(replayed, request["entries"])


class Order:
    """The places of the records of a group by the times of what caused them."""

    def __init__(self, causes: Sequence[Cause]) -> None:
        answered = sorted((cause.answered_ns, place) for place, cause in enumerate(causes))
        asked = sorted((cause.asked_ns, place) for place, cause in enumerate(causes))
        self._answered, self._asked = [ns for ns, _ in answered], [ns for ns, _ in asked]
        self._newest = [0, *accumulate((place for _, place in answered), max)]
        oldest = accumulate((place for _, place in reversed(asked)), min, initial=len(causes))
        self._oldest = list(oldest)[::-1]

    def newest_answered_before(self, ns: int) -> int:
        """The newest record whose call was answered before the time."""
        return self._newest[bisect_left(self._answered, ns)]

    def oldest_asked_after(self, ns: int) -> int:
        """The oldest record whose call was asked after the time; their number if there is none."""
        return self._oldest[bisect_right(self._asked, ns)]


def _reports(replayed: Replayed, reports: list[Json]) -> Iterator[str]:
    """Each report is the group after some record: not before that of the report before it, nor before a record whose
    call was answered before the report was asked for, nor after a record whose call was asked after the report."""
    earliest: dict[GroupKey, list[tuple[int, int]]] = {}
    orders: dict[GroupKey, Order] = {}
    for report in reports:
        key = GroupKey(report["table"], report["group"])
        seen = earliest.setdefault(key, [])
        states = replayed.groups.get(key, [(None, OWN)])
        if key not in orders:
            orders[key] = Order([cause for _, cause in states])
        known = (place for place, answered in seen if answered < report["asked_ns"])
        begin = max(orders[key].newest_answered_before(report["asked_ns"]), *known, 0)
        end = orders[key].oldest_asked_after(report["answered_ns"])
        at = next((place for place in range(begin, end) if states[place][0] == report["described"]), None)
        if at is None and (seen or begin or replayed.compacted_at is None):
            yield (
                f"the server said of {key}: {report['described']}; the state after {begin} of its records is "
                f"{states[begin][0]}, and after all {states[-1][0]}"
            )
            return
        if at is not None:
            seen.append((at, report["answered_ns"]))


def _members(replayed: Replayed, request: Json) -> Iterator[str]:
    """Who joined and left, and what was handed out, is in a record."""
    for reader_id, epoch in request["joined"]:
        if epoch > (replayed.compacted_at or 0) and (reader_id, epoch) not in replayed.joined:
            yield f"the server gave epoch {epoch} to {reader_id}, and no record has it"
    for table, group, reader_id, epoch in request["left"]:
        here = replayed.state.groups.get(GroupKey(table, group))
        if here is not None and reader_id in here.readers and here.readers[reader_id].epoch == epoch:
            yield f"{reader_id} left group {group}, and after all records it is a member"
    for reader_id, plan_id, index in replayed.since_compaction(request["assigned"], lambda one: one[1]):
        if (reader_id, plan_id, index) not in replayed.assigned and plan_id not in replayed.open_rounds:
            yield f"the server handed out split {index} of round {plan_id} to {reader_id}, and no record has it"


def _commits(replayed: Replayed, committed: list[Json]) -> Iterator[str]:
    """What was accepted is committed after all records, unless the group was reset or deleted since."""
    for one in replayed.since_compaction(committed, lambda one: one["done"][0]):
        plan_id, index, ordinal, finished = one["done"]
        group = replayed.state.groups.get(GroupKey(one["table"], one["group"]))
        if plan_id not in replayed.rounds:
            yield f"the server accepted a commit of round {plan_id}, and no record plans it"
            return
        if group is None or plan_id not in group.rounds:
            continue
        is_done = group.rounds[plan_id].status[index] == DONE
        if not is_done and (finished or group.rounds[plan_id].ordinals.get(index, 0) < ordinal):
            yield f"the server accepted {one['done']} of group {one['group']}, and no record has it"
            return


def _entries(replayed: Replayed, entries: list[Json]) -> Iterator[str]:
    """The entries of slots are those that the server gave, as long as the plan is kept."""
    plans = DurablePlanStore(replayed.store)
    for one in entries:
        plan_id, slot, index = one["entry"]
        plan = replayed.state.plans.get(plan_id)
        if plan is None:
            continue
        entry = plan.assigner.entry(slot, index)
        stored = None if isinstance(entry, Sealed) else "nothing"
        if isinstance(entry, Assigned):
            stored = plans.splits(plan_id, [entry.split])[0].split_id
        if stored != one["split"]:
            yield f"the server gave {one['split']} as entry {one['entry']}, and the records have {stored}"
            return


def answer(request: Json) -> None:
    """Prints the answer to a request."""
    try:
        lines = list(differences(request))
    except BaseException:  # noqa: BLE001 - told to the caller
        lines = [f"the records cannot be replayed: {traceback.format_exc()[-1500:]}"]
    print(json.dumps({"differences": lines}), flush=True)


def main() -> None:
    """Answers until stdin ends."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            answer(json.loads(line))
            os._exit(0)
        os.waitpid(child, 0)
