"""Invariants of a consumer group, checked on its durable records alone: an immutable ledger that takes one record after
the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.enumerator.core import records as rec
from tests.simulation.checkers import fail
from tests.state_space.group_table import Scope, key_of

Ref = tuple[int, int, int]
"""A round: its generation, and the order keys at the start and the end of its range."""
Place = tuple[Ref, int]
"""A split: its round, and its index there."""
Shown = dict[Place, tuple[int, int]]
"""By split of a commit: the ordinals (first, end) of the rows that become visible with it."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the durable records and the rows that became visible with them say so far. Order keys are numbers."""

    numbers: int = 0
    """The highest epoch or generation."""
    generation: int = 0
    """The generation of the group."""
    start: int = 0
    """Where the present generation starts."""
    planned: int = 0
    """The end of its last round."""
    committed: int = 0
    """Everything up to here is finished."""
    rounds: tuple[Ref, ...] = ()
    """The rounds of the generation."""
    epochs: frozenset[tuple[str, int]] = frozenset()
    """Members with their epochs."""
    holders: frozenset[tuple[Place, str]] = frozenset()
    """Splits that readers hold."""
    cursors: frozenset[tuple[Place, int]] = frozenset()
    """Visible rows of splits."""
    done: frozenset[Place] = frozenset()
    """Finished splits."""
    newest: frozenset[tuple[str, int]] = frozenset()
    """By file group: the order key of its last visible row."""

    def take(
        self,
        scope: Scope,
        record: rec.Durable,
        refs: Mapping[str, Ref],
        caller: tuple[str, int] | None,
        shown: Shown,
    ) -> Ledger:
        """The ledger with the record. `refs`: the rounds by plan id. `caller`: the reader, and its epoch, whose commit
        is recorded."""
        match record:
            case rec.GroupCreated():
                start = key_of(record.progress.position)
                return Ledger(self._numbered(record.number).numbers, record.number, start, start, start)
            case rec.GroupMoved():
                start = key_of(record.progress.position)
                return Ledger(self._numbered(record.number).numbers, record.number, start, start, start)
            case rec.RoundPlanned():
                return self._planned(record)
            case rec.ReaderJoined(reader_id=reader_id, epoch=epoch):
                others = {(name, number) for name, number in self.epochs if name != reader_id}
                return replace(self._numbered(epoch), epochs=frozenset({*others, (reader_id, epoch)}))
            case rec.SplitsAssigned():
                return self._assigned(record, refs)
            case rec.SplitsCommitted():
                return self._committed(scope, record, refs, caller, shown)
            case rec.ReaderGone(reader_id=reader_id):
                return replace(
                    self,
                    epochs=frozenset(each for each in self.epochs if each[0] != reader_id),
                    holders=frozenset(each for each in self.holders if each[1] != reader_id),
                )
            case rec.GroupStopped(code=code):
                if code != "LATE_INSTANT":
                    fail("cause", f"the group stopped with {code}")
                return self
            case _:
                return self

    def _numbered(self, number: int) -> Ledger:
        if number <= self.numbers:
            fail("number", f"epoch or generation {number} was given out again: {self.numbers} was already")
        return replace(self, numbers=number)

    def _planned(self, record: rec.RoundPlanned) -> Ledger:
        after, upto = key_of(record.commit_range.after), key_of(record.commit_range.upto)
        if after != self.planned or upto <= self.planned:
            fail("position", f"round ({after}, {upto}] after {self.planned}")
        return replace(self, planned=upto, rounds=(*self.rounds, (self.generation, after, upto)))

    def _assigned(self, record: rec.SplitsAssigned, refs: Mapping[str, Ref]) -> Ledger:
        if record.reader_id not in dict(self.epochs):
            fail("ownership", f"{record.reader_id} is no member and got {record.splits}")
        holders = dict(self.holders)
        for plan_id, index in record.splits:
            place = (refs[plan_id], index)
            if place in self.done:
                fail("ownership", f"{place} is done and was assigned to {record.reader_id}")
            if holders.setdefault(place, record.reader_id) != record.reader_id:
                fail("ownership", f"{place} is held by {holders[place]} and was assigned to {record.reader_id}")
        return replace(self, holders=frozenset(holders.items()))

    def _committed(
        self,
        scope: Scope,
        record: rec.SplitsCommitted,
        refs: Mapping[str, Ref],
        caller: tuple[str, int] | None,
        shown: Shown,
    ) -> Ledger:
        if caller not in self.epochs:
            fail("fencing", f"rows of {caller} became visible: the members are {sorted(self.epochs)}")
        holders, cursors, newest = dict(self.holders), dict(self.cursors), dict(self.newest)
        done = set(self.done)
        places = [((refs[plan_id], index), False) for plan_id, index, _ in record.ordinals]
        places += [((refs[plan_id], index), True) for plan_id, index in record.finished]
        for place, finished in places:
            if place in done or caller is None or holders.get(place) != caller[0]:
                fail("ownership", f"{caller} committed {place}, held by {holders.get(place)}")
            first, end = shown[place]
            if first != cursors.get(place, 0):
                fail("exactly once", f"{place} was read from {first} on, {cursors.get(place, 0)} rows are visible")
            cursors[place] = end
            upto = place[0][2]
            split = scope.splits(upto)[place[1]]
            if newest.get(split.lane, 0) > upto:
                fail("order", f"rows of {upto} in {split.lane} became visible after those of {newest[split.lane]}")
            newest[split.lane] = upto
            if finished:
                if end != len(split.times):
                    fail("exactly once", f"{place} is finished after {end} of {len(split.times)} rows")
                done.add(place)
                del holders[place], cursors[place]
        return replace(
            self,
            holders=frozenset(holders.items()),
            cursors=frozenset(cursors.items()),
            done=frozenset(done),
            newest=frozenset(newest.items()),
        )

    def at(self, committed: int, planned: int) -> Ledger:
        """The ledger after a record that left the group at these positions."""
        if committed < self.committed:
            fail("position", f"committed went from {self.committed} back to {committed}")
        if committed > planned or planned != self.planned:
            fail("position", f"committed {committed}, planned {planned}, not {self.planned}")
        return replace(self, committed=committed)

    def check_loss(self, start: int, *, of_round: bool) -> None:
        """After the loss of the next range the group continues after its position; after the loss of an open round, at
        or after the committed one."""
        first = self.committed if of_round else self.planned
        if start < first or (start == first and not of_round):
            fail("backwards", f"onLostRange=earliest moved the group from {first} to {start}")

    def renamed(self, numbers: Mapping[int, int]) -> Ledger:
        """The ledger with other epochs and generations."""
        rounds = {each: (numbers[each[0]], *each[1:]) for each in self.rounds}
        return replace(
            self,
            numbers=numbers[self.numbers],
            generation=numbers[self.generation],
            rounds=tuple(rounds.values()),
            epochs=frozenset((name, numbers[epoch]) for name, epoch in self.epochs),
            holders=frozenset(((rounds[ref], index), name) for (ref, index), name in self.holders),
            cursors=frozenset(((rounds[ref], index), rows) for (ref, index), rows in self.cursors),
            done=frozenset((rounds[ref], index) for ref, index in self.done),
        )

    def swapped(self, names: Mapping[str, str]) -> Ledger:
        """The ledger with other names of readers."""
        return replace(
            self,
            epochs=frozenset((names[name], epoch) for name, epoch in self.epochs),
            holders=frozenset((place, names[name]) for place, name in self.holders),
        )

    def check_complete(self, scope: Scope, visible: frozenset[int]) -> None:
        """Every row of the visible instants after the start is visible once: each split of each is done."""
        ends = [upto for _, _, upto in self.rounds]
        if ends != sorted(key for key in visible if key > self.start):
            fail("exactly once", f"rounds up to {ends} after {self.start}, the table has {sorted(visible)}")
        must = {(ref, index) for ref in self.rounds for index in range(len(scope.splits(ref[2])))}
        if must - self.done:
            fail("exactly once", f"not visible: {sorted(must - self.done)}")
