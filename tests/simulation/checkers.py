"""Invariants of every schedule: the ledger of durable decisions and of the rows that became visible with them.

The ledger uses the records only, never the core. It takes position and rounds from a second state, to which it applies
the durable records (`shadow`); the live state must equal it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import records as rec
from penstock.enumerator.core.state import Group, HeldPlan, State, apply
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.proto.model.groups import Member
from penstock.proto.model.positions import Position
from tests.simulation.simulated_table import Row, Table, changes_of, event_time_of, latest_of, position

Place = tuple[str, int]


class CheckFailed(AssertionError):
    """An invariant does not hold. `check` names it."""

    def __init__(self, check: str, text: str) -> None:
        super().__init__(f"{check}: {text}")
        self.check = check


def fail(check: str, text: str) -> NoReturn:
    """Raises."""
    raise CheckFailed(check, text)


@dataclass(slots=True)
class Generation:
    """The rows that became visible between two moves of the group. `ranges`: of its rounds, with their plan ids."""

    number: int
    start: Position
    committed: Position
    planned: Position
    ranges: dict[str, tuple[Position, Position]] = field(default_factory=dict)
    output: list[tuple[str, Row]] = field(default_factory=list)
    last_key: dict[int, int] = field(default_factory=dict)
    is_last: bool = True


@dataclass(slots=True)
class Ledger:
    """The ledger. `is_changes`: the rows are changes, else latest-state rows. `ranges` counts those whose latest-state
    rows were checked, for all keys or for a part of them."""

    table: Table
    is_changes: bool
    shadow: State = field(default_factory=State)
    generations: list[Generation] = field(default_factory=list)
    holders: dict[Place, str] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    done: set[Place] = field(default_factory=set)
    cursors: dict[Place, int] = field(default_factory=dict)
    plan_ids: set[str] = field(default_factory=set)
    numbers: int = 0
    joined: set[tuple[str, int]] = field(default_factory=set)
    assigned: set[tuple[Place, str, int]] = field(default_factory=set)
    ended_slots: dict[tuple[str, int], int] = field(default_factory=dict)
    ranges: Counter[str] = field(default_factory=Counter)
    announced_us: int | None = None
    timed_rows: int = 0

    # --- durable records

    def take(self, record: rec.Durable, cause: ev.AnyEvent, rows: dict[Place, tuple[int, tuple[Row, ...]]]) -> None:
        """Takes a durable record. `rows`: by split, the rows that a committing reader read and their first ordinal."""
        match record:
            case rec.GroupCreated():
                self._number(record.number)
                begin = record.progress.position
                self.generations.append(Generation(record.number, begin, begin, begin))
            case rec.GroupMoved():
                self._number(record.number)
                before, begin = self.generations[-1], record.progress.position
                before.is_last = False
                if record.cause is rec.Moved.RESET:
                    self.announced_us = None
                if isinstance(cause, ev.RangeLost):
                    first = before.committed if cause.plan_id else before.planned
                    if begin < first or (begin == first and not cause.plan_id):
                        fail("backwards", f"onLostRange=earliest moved the group from {first} to {begin}")
                self.generations.append(Generation(record.number, begin, begin, begin))
                self.holders.clear()
                self.epochs.clear()
            case rec.RoundPlanned():
                self._planned(record)
            case rec.ReaderJoined():
                self._number(record.epoch)
                self.epochs[record.reader_id] = record.epoch
                self.joined.add((record.reader_id, record.epoch))
            case rec.SplitsAssigned():
                self._assigned(record)
            case rec.SplitsCommitted():
                self._committed(record, cause, rows)
            case rec.ReaderGone():
                del self.epochs[record.reader_id]
                self.holders = {place: who for place, who in self.holders.items() if who != record.reader_id}
            case rec.GroupStopped(code=code):
                if code not in self.table.injected:
                    fail("cause", f"the group stopped with {code}, and nothing of that kind was done to the table")
            case rec.PlanOpened(plan_id=plan_id):
                self._identity(plan_id)
        before_us = {key: group.watermark.at_us for key, group in self.shadow.groups.items()}
        apply(self.shadow, record)
        self._positions()
        is_reset = isinstance(record, rec.GroupMoved) and record.cause is rec.Moved.RESET
        for key, group in self.shadow.groups.items():
            before = before_us.get(key)
            after_us = group.watermark.at_us
            if not is_reset and before is not None and (after_us is None or after_us < before):
                fail("watermark", f"went from {before} back to {after_us} by {record}")

    def announce(self, watermark_us: int | None, member: Member, *, is_newest: bool) -> None:
        """A reader received the watermark: rows that become visible later must be above it."""
        if self.epochs.get(member.reader_id) != member.epoch:
            return  # fenced: it must drop the answer
        if is_newest and self.announced_us is not None and (watermark_us is None or watermark_us < self.announced_us):
            fail("watermark", f"{watermark_us} was returned after {self.announced_us}")
        if watermark_us is not None:
            self.announced_us = watermark_us if self.announced_us is None else max(watermark_us, self.announced_us)

    def _check_time(self, row: Row) -> None:
        """The row is above the watermark. Not: late instants, and rows that were visible before a lost range."""
        key, order_key, _ = row
        self.timed_rows += 1
        if self.announced_us is None or event_time_of(key, order_key) > self.announced_us:
            return
        excused = any(item.order_key == order_key and (item.is_removed or item.is_excused) for item in self.table.every)
        if not excused and not any(row == other for one in self.generations[:-1] for _, other in one.output):
            fail("watermark", f"{row} of {event_time_of(key, order_key)} became visible after {self.announced_us}")

    def _number(self, number: int) -> None:
        if number <= self.numbers:
            fail("number", f"epoch or generation {number} was given out again: {self.numbers} was already")
        self.numbers = number

    def _identity(self, plan_id: str) -> None:
        if plan_id in self.plan_ids:
            fail("identity", f"plan id {plan_id} stands for two plans")
        self.plan_ids.add(plan_id)

    def _planned(self, record: rec.RoundPlanned) -> None:
        self._identity(record.plan_id)
        now = self.generations[-1]
        if record.commit_range.after != now.planned or record.commit_range.upto <= now.planned:
            fail("position", f"round {record.commit_range} after {now.planned}")
        now.planned = record.commit_range.upto
        now.ranges[record.plan_id] = (record.commit_range.after, record.commit_range.upto)

    def _assigned(self, record: rec.SplitsAssigned) -> None:
        epoch = self.epochs.get(record.reader_id)
        if epoch is None:
            fail("ownership", f"{record.reader_id} is no member and got {record.splits}")
        for place in record.splits:
            if place in self.done:
                fail("ownership", f"{place} is done and was handed out to {record.reader_id}")
            if self.holders.get(place, record.reader_id) != record.reader_id:
                fail("ownership", f"{place} is held by {self.holders[place]} and was given to {record.reader_id}")
            self.holders[place] = record.reader_id
            self.assigned.add((place, record.reader_id, epoch))

    def _committed(
        self, record: rec.SplitsCommitted, cause: ev.AnyEvent, rows: dict[Place, tuple[int, tuple[Row, ...]]]
    ) -> None:
        if not isinstance(cause, ev.CommitSplits):
            fail("ownership", f"rows were committed by {cause}")
        who = cause.member
        if self.epochs.get(who.reader_id) != who.epoch:
            fail(
                "fencing", f"output of {who.reader_id} epoch {who.epoch}: its epoch is {self.epochs.get(who.reader_id)}"
            )
        reported = {(plan_id, index): ordinal for plan_id, index, ordinal in record.ordinals}
        reported.update(dict.fromkeys(record.finished, -1))
        for done in cause.done:
            place = (done.ref.plan_id, done.ref.index)
            if place in reported:
                self._show(place, who.reader_id, rows[place])
                if reported[place] < 0:
                    self.done.add(place)
                    del self.holders[place]

    def _show(self, place: Place, reader_id: str, read: tuple[int, tuple[Row, ...]]) -> None:
        base, rows = read
        if place in self.done or self.holders.get(place) != reader_id:
            fail("ownership", f"{place} is not with {reader_id} (with {self.holders.get(place)}), who committed it")
        if base != self.cursors.get(place, 0):
            fail("exactly once", f"{place} was read from {base} on, {self.cursors.get(place, 0)} rows were committed")
        self.cursors[place] = base + len(rows)
        now = self.generations[-1]
        for row in rows:
            key, order_key, _ = row
            if now.last_key.get(key, -1) > order_key:
                fail("order", f"{row} of {place} became visible after order key {now.last_key[key]} of that key")
            if self.announced_us is not None:
                self._check_time(row)
            now.last_key[key] = order_key
            now.output.append((place[0], row))

    def _positions(self) -> None:
        for group in self.shadow.groups.values():
            now = self.generations[-1]
            if group.committed < now.committed:
                fail("position", f"committed went from {now.committed} back to {group.committed}")
            if group.committed > group.progress.position or group.progress.position != now.planned:
                fail("position", f"committed {group.committed}, planned {group.progress.position}, not {now.planned}")
            now.committed = group.committed

    # --- at the end, or at a restart

    def check_live(self, live: State) -> None:
        """The live state equals that of the records, before and after log compaction."""
        if facts_of_state(live) != facts_of_state(self.shadow):
            fail("replay", difference(facts_of_state(live), facts_of_state(self.shadow)))
        fewer = State()
        for record in compacted_records(live):
            apply(fewer, record)
        if facts_of_state(live) != facts_of_state(fewer):
            fail("shortened", difference(facts_of_state(live), facts_of_state(fewer)))

    def check_output(self) -> None:
        """The visible rows of each generation are those of the table."""
        for one in self.generations:
            excused = {
                item.order_key
                for item in self.table.every
                if (item.is_removed or (item.is_excused and not (one.is_last and not self._is_ended())))
                and item.is_data
            }
            if self.is_changes:
                self._check_changes(one, excused)
            else:
                self._check_latest(one, excused)

    def _is_ended(self) -> bool:
        """Discovery of an ended group stops: it does not detect instants that complete late."""
        return any(group.ended for group in self.shadow.groups.values())

    def _check_changes(self, one: Generation, excused: set[int]) -> None:
        actual = Counter(row for _, row in one.output)
        must = Counter(row for _, row in changes_of(self.table.every, one.start, one.committed))
        may = Counter(row for _, row in changes_of(self.table.every, one.committed, one.planned))
        _compare(one, actual, must, may, excused)

    def _unknown_keys(self, excused: set[int], after: Position, upto: Position) -> set[int]:
        """Keys whose rows of the range depend on when it was looked at: those that an excused instant inside it
        wrote."""
        inside = [
            item
            for item in self.table.every
            if item.order_key in excused and position(item.order_key) > after and position(item.order_key, 0) < upto
        ]
        return {key for item in inside for stat in item.stats for key, _ in stat.rows}

    def _check_latest(self, one: Generation, excused: set[int]) -> None:
        for plan_id, (after, upto) in one.ranges.items():
            unknown = self._unknown_keys(excused, after, upto)
            self.ranges["checked in part" if unknown else "checked"] += 1
            rows = Counter(row for row in latest_of(self.table.every, after, upto) if row[0] not in unknown)
            actual = Counter(row for held, row in one.output if held == plan_id and row[0] not in unknown)
            is_over = upto <= one.committed
            _compare(one, actual, rows if is_over else Counter(), Counter() if is_over else rows, set())


def _compare(one: Generation, actual: Counter[Row], must: Counter[Row], may: Counter[Row], excused: set[int]) -> None:
    twice = [
        row for row, count in actual.items() if count > must[row] + may[row] and not (row[1] in excused and count == 1)
    ]
    missing = [row for row in must if not actual[row] and row[1] not in excused]
    if twice or missing:
        fail(
            "exactly once",
            f"generation {one.number} ({one.start}, {one.committed}]: too often or never written {sorted(twice)[:5]}, "
            f"missing {sorted(missing)[:5]}",
        )


def facts_of_state(state: State) -> dict[str, Any]:
    """The durable part of a state, for comparison."""
    return {
        "last": state.last_number,
        "requests": dict(state.requests),
        "splits": state.plan_splits,
        "plans": {plan_id: _of_plan(held) for plan_id, held in sorted(state.plans.items())},
        "groups": {str(key): _of_group(group) for key, group in sorted(state.groups.items())},
    }


def _of_plan(held: HeldPlan) -> dict[str, Any]:
    lists = [
        [held.assigner.entry(slot, index) for index in range(held.assigner.length(slot) + 1)]
        for slot in range(held.assigner.slots)
    ]
    return {"request": held.request_id, "table": held.table, "facts": held.facts, "lists": lists}


def _of_group(group: Group) -> dict[str, Any]:
    readers = {
        name: (
            reader.epoch,
            reader.request_id,
            list(reader.held),
            list(reader.undelivered),
            [item for item in reader.answered if item in reader.held],
        )
        for name, reader in sorted(group.readers.items())
    }
    rounds = [
        (
            one.plan_id,
            one.commit_range,
            one.facts,
            one.reshaped,
            one.commits,
            one.status.tobytes(),
            sorted(one.holders.items()),
            sorted(one.ordinals.items()),
            list(one.pending_in_order()),
        )
        for one in group.rounds.values()
    ]
    assert all(one.done == int(np.count_nonzero(one.status == 2)) for one in group.rounds.values())
    return {
        "number": group.number,
        "scope": group.scope,
        "limits": group.limits,
        "progress": group.progress,
        "committed": group.committed,
        "stopped": group.stopped,
        "ended": group.ended,
        "watermark": group.watermark,
        "coming": group.coming,
        "readers": readers,
        "rounds": rounds,
    }


def difference(left: Any, right: Any, path: str = "") -> str:
    """The first difference between two results of `facts_of_state`."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted({*left, *right}):
            if left.get(name) != right.get(name):
                return difference(left.get(name), right.get(name), f"{path}/{name}")
    return f"{path}: {left!r} and {right!r}"
