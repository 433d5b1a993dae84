"""Members of the simulated group over tables: one call at a time, repeated until it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import Committed, SplitsGranted
from penstock.proto.errors import Fenced, UnknownGroup
from penstock.proto.model.groups import Joined, Member, NothingYet, SplitProgress, SplitRef
from tests.simulation.checkers import CheckFailed, fail
from tests.simulation.tables_ledger import Row
from tests.simulation.tables_world import KEY, LEASE_MS, Rows, World, created


@dataclass(slots=True)
class Held:
    """A split that a member holds: rows before `base` are committed, rows before `at` are read."""

    member: Member
    place: tuple[str, int]
    rows: tuple[Row, ...]
    base: int
    at: int


class Reader:
    """A process that reads for the group over tables. Only heartbeats and joins renew its lease as it counts it."""

    def __init__(self, world: World, reader_id: str) -> None:
        self.world, self.reader_id = world, reader_id
        self.alive, self.paused = True, False
        self.member: Member | None = None
        self.sequence = self.received = self.call = self.joins = 0
        self.held: list[Held] = []
        self.lease_until = 0
        self.most = world.rng.choice((1, 1, 2, 5))
        self.bad: frozenset[str] = frozenset()
        world.readers.append(self)
        world.later(world.rng.randint(0, 300), self._join)
        world.later(world.rng.randint(300, 900), self._heartbeat)

    def holds(self, key: GroupKey, reader_id: str, epoch: int) -> bool:
        """Whether this process is that member of the group of a table, and has splits of it."""
        member = Member(key.table, key.group, reader_id, epoch)
        return self.alive and any(each.member == member for each in self.held)

    def _call(self, make: Callable[[], ev.Event[Any]], then: Callable[[Any], None], rows: Rows | None = None) -> None:
        self.call += 1
        number, attempts = self.call, 0

        def answered(answer: Any, attempt: int) -> None:
            if self.call == number and attempt == attempts and self.alive:
                self._when_running(lambda: self._heard(answer, number, then))

        def send() -> None:
            nonlocal attempts
            if self.call != number or not self.alive:
                return
            attempts += 1
            attempt = attempts
            if not self.paused:
                self.world.call(make, lambda answer: answered(answer, attempt), rows)
            self.world.later(self.world.rng.randint(250, 500), send)

        send()

    def _heard(self, answer: Any, number: int, then: Callable[[Any], None]) -> None:
        if self.call == number and self.alive:
            self.call += 1
            then(answer)

    def _when_running(self, do: Callable[[], None]) -> None:
        if self.paused:
            self.world.later(100, lambda: self._when_running(do))
        else:
            do()

    def _wait(self, for_ms: int, then: Callable[[], None]) -> None:
        number = self.call

        def go_on() -> None:
            if self.alive and self.call == number:
                self._when_running(lambda: then() if self.call == number else None)

        self.world.later(for_ms, go_on)

    def _start_over(self) -> None:
        self.call += 1
        self.held, self.member = [], None
        self._wait(50, self._join)

    def _join(self) -> None:
        self.joins += 1
        request_id = f"{self.world.readers.index(self)}-{self.joins}"
        sent = self.world.now

        def join() -> ev.Event[Any]:
            if KEY not in self.world.state.groups:
                self.world.handle(created(self.world))
            return ev.Join(key=KEY, reader_id=self.reader_id, scope=self.world.scope, request_id=request_id)

        self._call(join, lambda answer: self._joined(answer, sent))

    def _joined(self, answer: Any, sent: int) -> None:
        if not isinstance(answer, Joined):
            fail("answer", f"joining was answered by {answer!r}")
        self.member, self.sequence, self.received, self.held = answer.member, 0, 0, []
        self.lease_until = sent + LEASE_MS
        self._more()

    def _more(self) -> None:
        member = self.member
        if member is None:
            return
        self.sequence += 1
        sequence, received = self.sequence, self.received
        tables = sorted(self.world.tables)
        self.bad = frozenset(tables[:1]) if self.world.strikes("member wants no table", 0.05) else frozenset()
        bad = self.bad

        def request() -> ev.Event[Any]:
            served = self.world.served()
            if KEY in self.world.state.groups:
                self.world.handle(ev.AddTables(KEY, served))
            ceilings = self.world.aligned.ceilings(served)
            return ev.RequestSplits(member, self.most, sequence, served, bad, ceilings, received)

        self._call(request, self._got)

    def _got(self, answer: Any) -> None:
        match answer:
            case Fenced() | UnknownGroup():
                self._start_over()
            case NothingYet(retry_ms=retry_ms):
                self._wait(retry_ms + self.world.rng.randint(0, 200), self._more)
            case (SplitsGranted(splits), dict() as content):
                self.received = self.sequence
                unwanted = frozenset() if (self.member, self.sequence) in self.world.missed else self.bad
                for one in splits:
                    place = (one.plan_id, one.index)
                    if any(each.place == place for each in self.held) or one.table in unwanted:
                        fail("answer", f"{one} was assigned twice, or not wanted")
                    member = Member(one.table, KEY.group, self.reader_id, one.epoch)
                    self.held.append(Held(member, place, content[place], one.start, one.start))
                self._wait(self.world.rng.randint(5, 60), self._read)
            case _:
                fail("answer", f"a request was answered by {answer!r}")

    def _read(self) -> None:
        """Reads in the order of assignment, and commits one table after the other."""
        rng = self.world.rng
        for held in [each for each in self.held if each.at < len(each.rows)][: rng.randint(1, 3)]:
            held.at = min(len(held.rows), held.at + rng.randint(1, 3))
            if held.at < len(held.rows):
                break
        self._commit(sorted({held.member.table for held in self.held if held.at > held.base}))

    def _commit(self, tables: list[str]) -> None:
        if not tables:
            pause = self.world.rng.randint(5, 60)
            self._wait(pause, self._read if self.held else self._more)
            return
        mine = [held for held in self.held if held.member.table == tables[0] and held.at > held.base]
        member = mine[0].member
        mine = [held for held in mine if held.member == member]
        done = tuple(
            SplitProgress(ref=SplitRef(*held.place), ordinal=held.at, finished=held.at == len(held.rows))
            for held in mine
        )
        rows = {held.place: (held.base, held.rows[held.base : held.at]) for held in mine}

        def committed(answer: Any) -> None:
            if isinstance(answer, Fenced | UnknownGroup):
                self.held = [held for held in self.held if held.member != member]
            elif isinstance(answer, Committed):
                for held in mine:
                    held.base = held.at
                self.held = [held for held in self.held if held.base < len(held.rows)]
            else:
                fail("answer", f"a commit of held splits was answered by {answer!r}")
            self._commit(tables[1:])

        self._call(lambda: ev.CommitSplits(member, done), committed, rows)

    def _heartbeat(self) -> None:
        if not self.alive:
            return
        member, sent = self.member, self.world.now
        if member is not None and not self.paused:

            def heard(answer: Any) -> None:
                if self.member is not member or not self.alive:
                    return
                if isinstance(answer, Fenced | UnknownGroup):
                    self._when_running(self._start_over)
                else:
                    self.lease_until = max(self.lease_until, sent + LEASE_MS)

            self.world.call(lambda: ev.Heartbeat(member), heard)
        self.world.later(self.world.rng.randint(600, 800), self._heartbeat)

    def leave(self) -> None:
        """Leaves the group, as a process that ends."""
        member, self.alive = self.member, False
        if member is not None:
            self.world.call(lambda: ev.Leave(member), lambda answer: None)


def happenings(world: World) -> None:
    """Faults of members, until the calm: they die, leave, pause, or run twice under one id."""
    running = [reader for reader in world.readers if reader.alive]
    if world.calm:
        return
    reader = world.rng.choice(running)
    kind = world.rng.choice(("died", "left", "paused", "twice", "", ""))
    if kind:
        world.faults[f"reader {kind}"] += 1
    if kind == "died":
        reader.alive = False
    elif kind == "left":
        reader.leave()
    elif kind == "paused":
        reader.paused = True
        world.later(world.rng.randint(500, 5_000), lambda: setattr(reader, "paused", False))
    if kind in ("died", "left", "twice"):
        Reader(world, reader.reader_id if world.rng.random() < 0.7 else f"r{len(world.readers)}")
    world.later(world.rng.randint(300, 1_500), lambda: happenings(world))


def run_tables_schedule(seed: int) -> World:
    """Runs one schedule. CheckFailed with the seed for any failure."""
    world = World(seed)
    for number in range(world.rng.randint(1, 3)):
        Reader(world, f"r{number}")
    world.later(700, lambda: happenings(world))
    try:
        world.run()
    except Exception as error:
        check = error.check if isinstance(error, CheckFailed) else "core failed"
        raise CheckFailed(check, f"seed {seed}, at {world.now} ms: {type(error).__name__}: {error}") from error
    return world
