"""A model table: instants of several writers that complete out of order, services, a cleaner, rollbacks.

It holds the content of the table and the oracle's answer for a range; `simulated_discovery` discovers rounds. Times are
whole numbers; no two instants share one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.positions import WHOLE_INSTANT, InstantTime, Position

Group = tuple[str, str]
Row = tuple[int, int, str]
"""(key, order key, op)."""

DATA = ("commit", "replace")
LATENESS_US = 700_000
"""How far an event time may be below the highest one before it."""


@lru_cache(maxsize=100_000)
def instant_time(number: int) -> InstantTime:
    """The time as the timeline writes it."""
    return InstantTime(f"{number:017d}")


@lru_cache(maxsize=100_000)
def position(number: int, index: int = WHOLE_INSTANT) -> Position:
    """A position in the table's history."""
    return Position(instant_time(number), index)


def event_time_of(key: int, order_key: int) -> int:
    """The event time of a row: less than LATENESS_US before the time of its instant."""
    return order_key * 1000 - (key * 7919 + order_key * 104729) % LATENESS_US


def span_of_rows(rows: Sequence[tuple[int, int, str]]) -> EventTimeSpan:
    """The span of the event times of rows. One key has no statistics: any event time may be among its rows."""
    times = [event_time_of(key, order_key) for key, order_key, _ in rows]
    if any(key % 13 == 0 for key, _, _ in rows):
        return EventTimeSpan(is_unbounded=True)
    return EventTimeSpan(min(times, default=None), max(times, default=None))


@dataclass(slots=True)
class Stat:
    """The rows that an instant wrote into a file group."""

    group: Group
    rows: tuple[tuple[int, str], ...]


@dataclass(slots=True, eq=False)
class Instant:
    """One instant. `moves`: the groups of keys after it. `claims`: groups that no other writer touches meanwhile."""

    requested: int
    kind: str
    stats: tuple[Stat, ...]
    replaced: tuple[Group, ...]
    moves: dict[int, Group]
    claims: frozenset[Group]
    completed: int = 0
    order_key: int = 0
    is_removed: bool = False
    is_excused: bool = False

    @property
    def is_data(self) -> bool:
        """Whether it wrote rows of the table."""
        return self.kind in DATA


@dataclass(frozen=True, slots=True)
class View:
    """The visible timeline: completed instants by order key, requested times of pending writes."""

    layout: int
    instants: tuple[Instant, ...]
    pending: tuple[int, ...]
    cleaned: int
    archived: frozenset[int]


@dataclass(slots=True)
class Table:
    """The table. `cleaned`: ranges that begin before it cannot be answered. `injected`: errors that stop groups."""

    rng: random.Random
    layout: int
    groups: dict[Group, list[int]] = field(default_factory=dict)
    pending: list[Instant] = field(default_factory=list)
    hidden: list[Instant] = field(default_factory=list)
    active: list[Instant] = field(default_factory=list)
    every: list[Instant] = field(default_factory=list)
    archived: set[int] = field(default_factory=set)
    cleaned: int = 0
    injected: set[str] = field(default_factory=set)
    last_time: int = 0
    last_key: int = 0
    last_file: int = 0

    def tick(self, now: int) -> int:
        """A unique time, not before now."""
        self.last_time = max(now, self.last_time + 1)
        return self.last_time

    def view(self) -> View:
        """The visible timeline."""
        held = tuple(item.requested for item in self.pending if item.is_data)
        instants = tuple(sorted(self.active, key=lambda item: item.order_key))
        return View(self.layout, instants, held, self.cleaned, frozenset(self.archived))

    # --- writers

    def begin(self, now: int, kind: str) -> Instant | None:
        """Starts a writer or a service; None if another one claims all groups."""
        busy = {group for item in (*self.pending, *self.hidden) for group in item.claims}
        free = [group for group in sorted(self.groups) if group not in busy]
        draft = self._written(kind, free)
        if draft is None:
            return None
        stats, replaced, moves, claims = draft
        instant = Instant(self.tick(now), kind, stats, replaced, moves, frozenset(claims))
        self.pending.append(instant)
        return instant

    def begin_skewed(self, now: int) -> Instant | None:
        """Layout 1: starts a writer with a slow clock, which writes new keys into a group of its own."""
        group = self._new_group(self.rng.choice("pq"))
        stats = (Stat(group, ((self._new_key(), "i"),)),)
        taken = {item.requested for item in (*self.every, *self.pending)}
        requested = max(1, now - self.rng.randint(500, 4000))
        while requested in taken:
            requested += 1
        moves = {key: group for key, _ in stats[0].rows}
        instant = Instant(requested, "commit", stats, (), moves, frozenset({group}), is_excused=True)
        self.injected.add("LATE_INSTANT")
        self.pending.append(instant)
        return instant

    def complete(self, instant: Instant, now: int, hide: bool = False) -> None:
        """Completes an instant. `hide`: it becomes visible to readers later (`show`)."""
        self.pending.remove(instant)
        instant.completed = self.tick(now)
        instant.order_key = instant.completed if self.layout == 2 else instant.requested
        if hide:
            instant.is_excused = True
            self.injected.add("LATE_INSTANT")
            self.hidden.append(instant)
        else:
            self._land(instant)

    def show(self, instant: Instant) -> None:
        """Makes a hidden instant visible."""
        self.hidden.remove(instant)
        self._land(instant)

    def roll_back(self, instant: Instant) -> None:
        """Removes a pending instant."""
        self.pending.remove(instant)

    def restore(self) -> bool:
        """Removes the newest plain commit, which may have been consumed."""
        result = [item for item in self.active if item.kind == "commit" and not item.is_removed]
        if not result or self.pending or self.hidden:
            return False
        newest = max(self.active, key=lambda item: item.completed)
        if newest.kind != "commit":
            return False
        newest.is_removed = True
        self.active.remove(newest)
        self.injected.add("DATA_INVALIDATED")
        return True

    def clean(self, keep: int) -> bool:
        """Makes ranges unanswerable that begin before all but the newest `keep` instants."""
        held = min((item.requested for item in self.pending), default=2**60)  # a cleaner keeps files of pending writes
        keys = sorted(item.order_key for item in self.active if self.layout == 2 or item.order_key < held)
        if len(keys) <= keep or keys[-keep - 1] <= self.cleaned:
            return False
        self.cleaned = keys[-keep - 1]
        self.injected.add("POSITION_EXPIRED")
        return True

    def archive(self) -> bool:
        """Archives instants before the cleaner's; late ones stay until discovery can detect them."""
        removed = [item for item in self.active if item.order_key <= self.cleaned and not item.is_excused]
        for item in removed:
            self.active.remove(item)
            self.archived.add(item.requested)
        return bool(removed)

    def _land(self, instant: Instant) -> None:
        self.active.append(instant)
        self.every.append(instant)
        for group in instant.replaced:
            self.groups.pop(group, None)
        for key, group in instant.moves.items():
            keys = self.groups.setdefault(group, [])
            if key not in keys:
                keys.append(key)

    def _written(
        self, kind: str, free: list[Group]
    ) -> tuple[tuple[Stat, ...], tuple[Group, ...], dict[int, Group], set[Group]] | None:
        if kind == "commit":
            return self._commit(free)
        if not free:
            return None
        if kind == "compaction":
            return (), (), {}, {self.rng.choice(free)}
        partition = self.rng.choice(free)[0]
        old = [group for group in free if group[0] == partition]
        old = self.rng.sample(old, self.rng.randint(1, min(2, len(old))))
        new = self._new_group(partition)
        keys = sorted(key for group in old for key in self.groups[group])
        rows = tuple((key, "u") for key in keys)
        stats = (Stat(new, rows),) if kind == "replace" else ()
        return stats, tuple(old), dict.fromkeys(keys, new), {*old, new}

    def _commit(self, free: list[Group]) -> tuple[tuple[Stat, ...], tuple[Group, ...], dict[int, Group], set[Group]]:
        rng = self.rng
        chosen = rng.sample(free, rng.randint(0, min(3, len(free))))
        if not chosen or (len(self.groups) < 6 and rng.random() < 0.3):
            chosen.append(self._new_group(rng.choice("pq")))
        stats, moves = [], {}
        for group in sorted(chosen):
            keys = self.groups.get(group, [])
            rows = [(key, rng.choice("uud")) for key in rng.sample(keys, rng.randint(0, min(3, len(keys))))]
            if not rows or rng.random() < 0.3:
                rows.append((self._new_key(), "i"))
            moves.update((key, group) for key, _ in rows)
            stats.append(Stat(group, tuple(rows)))
        return tuple(stats), (), moves, set(chosen)

    def _new_group(self, partition: str) -> Group:
        self.last_file += 1
        # names do not grow with time: the order of a commit's write stats is not the order of creation of the groups
        return partition, f"{self.rng.randrange(10**6):06d}-{self.last_file}"

    def _new_key(self) -> int:
        self.last_key += 1
        return self.last_key


def changes_of(instants: list[Instant], after: Position, upto: Position) -> Iterator[tuple[Instant, Row]]:
    """The oracle for changes: each row that an instant wrote in (after, upto], by the instants alone."""
    for item in instants:
        if not item.is_data:
            continue
        for index, stat in enumerate(item.stats):
            if after < position(item.order_key, index + 1) <= upto:
                yield from ((item, (key, item.order_key, op)) for key, op in stat.rows)


def latest_of(instants: list[Instant], after: Position, upto: Position) -> list[Row]:
    """The oracle for latest-state rows: for each key the last write up to `upto`, if it is after `after`."""
    last: dict[int, tuple[Position, Row]] = {}
    for item in sorted(instants, key=lambda item: item.order_key):
        for index, stat in enumerate(item.stats):
            place = position(item.order_key, index + 1)
            if item.is_data and place <= upto:
                last.update((key, (place, (key, item.order_key, op))) for key, op in stat.rows)
    return [row for place, row in last.values() if place > after and row[2] != "d"]
