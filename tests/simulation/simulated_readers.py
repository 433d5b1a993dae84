"""Readers of a group: one call at a time, repeated until it is answered; rows become visible with a commit.

A reader stores what a careful consumer stores: the ordinal of its assignment, or of its last answered commit. It may
pause for longer than its lease, die and restart under its id, or run beside a second reader with the same id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.results import Committed, SplitsGranted
from penstock.proto.errors import Fenced, StorageError, TableError, UnknownGroup
from penstock.proto.model.groups import EndOfGroup, Joined, Member, NothingYet, SplitProgress, SplitRef
from tests.simulation.checkers import Place, fail
from tests.simulation.simulated_server import Rows
from tests.simulation.simulated_table import Row

if TYPE_CHECKING:
    from tests.simulation.simulated_world import World


@dataclass(slots=True)
class Held:
    """A split that a reader holds: it began at `start`, rows before `base` are committed, rows before `at` are read."""

    place: Place
    rows: tuple[Row, ...]
    base: int
    at: int
    start: int


class Reader:
    """A process that reads for the group, with a reader id."""

    def __init__(self, world: World, reader_id: str) -> None:
        self.world = world
        self.reader_id = reader_id
        self.alive = True
        self.paused = False
        self.is_slow = False
        self.is_leaving = False
        self.ended = False
        self.member: Member | None = None
        self.sequence = 0
        self.received = 0
        self.held: list[Held] = []
        self.call = 0
        self.joins = 0
        self.life = 0
        self.unheard: list[Callable[[], None]] = []
        self.most = world.rng.choice((1, 1, 2, 4))
        world.readers.append(self)
        world.later(world.rng.randint(0, 300), self._join)
        world.later(world.rng.randint(300, 900), self._heartbeat)

    def pause(self, for_ms: int) -> None:
        """Pauses like a stopped process."""
        self.paused = True
        self.world.later(for_ms, self._go_on)

    def _go_on(self) -> None:
        self.paused = False
        meanwhile, self.unheard = self.unheard, []
        for again in meanwhile:
            again()

    # --- calls

    def _call(self, event: ev.AnyEvent, then: Callable[[Any], None], rows: Rows | None = None) -> None:
        """Calls the server until it answers; one call at a time. Answers to abandoned attempts are dropped: their
        connection is closed."""
        self.call += 1
        number, member, attempts = self.call, self.member, 0

        def answered(answer: Any, attempt: int) -> None:
            if self.call != number or attempt != attempts or not self.alive:
                return
            if self.paused:
                self.unheard.append(lambda: answered(answer, attempt))
                return
            if isinstance(answer, StorageError):
                return  # repeated after the timeout
            self.call += 1
            if isinstance(answer, Fenced | UnknownGroup) and self.member is member:
                self._start_over()
            else:
                then(answer)

        def send() -> None:
            if self.call != number or not self.alive:
                return
            if self.paused:
                self.unheard.append(send)
                return
            nonlocal attempts
            attempts += 1
            attempt = attempts
            self.world.send(self.reader_id, event, lambda answer: answered(answer, attempt), rows)
            self.world.later(self.world.rng.randint(250, 500), send)

        send()

    def _start_over(self) -> None:
        self.life += 1  # what was to be done next is not done
        self.held, self.member = [], None
        self._wait(50, self._join)

    def _wait(self, for_ms: int, then: Callable[[], None]) -> None:
        life = self.life

        def go_on() -> None:
            if not self.alive or self.life != life:
                return
            if self.paused:
                self.unheard.append(go_on)
            else:
                then()

        self.world.later(for_ms, go_on)

    # --- the life of a reader

    def _join(self) -> None:
        if not self.alive:
            return
        self.joins += 1
        request_id = f"{self.world.readers.index(self)}-{self.joins}"
        join = ev.Join(key=self.world.key, reader_id=self.reader_id, scope=self.world.scope, request_id=request_id)
        self._call(join, self._joined)

    def _joined(self, answer: Any) -> None:
        if not isinstance(answer, Joined):
            fail("answer", f"joining was answered by {answer!r}")
        self.member, self.sequence, self.received, self.held = answer.member, 0, 0, []
        self._more()

    def _more(self) -> None:
        if self.member is None:
            return
        if self.is_leaving:
            leave = ev.Leave(self.member)
            self.alive = False
            self.world.send(self.reader_id, leave, lambda answer: None, None)
            return
        self.sequence += 1
        self._call(ev.RequestSplits(self.member, self.most, self.sequence, received=self.received), self._got)

    def _got(self, answer: Any) -> None:
        match answer:
            case NothingYet(retry_ms=retry_ms):
                self._wait(retry_ms + self.world.rng.randint(0, 200), self._more)
            case EndOfGroup():
                self.ended = True
                self._wait(2_000, self._more)
            case (SplitsGranted(splits), dict() as content):
                self.received = self.sequence
                for reported in splits:
                    place = (reported.plan_id, reported.index)
                    if place in content:
                        self.held.append(
                            Held(place, tuple(content[place]), reported.start, reported.start, reported.start)
                        )
                self._wait(self._reading_ms(), self._read)
            case TableError():
                self._wait(600, self._more)
            case _:
                fail("answer", f"a request was answered by {answer!r}")

    def _reading_ms(self) -> int:
        return self.world.rng.randint(400, 2500) if self.is_slow else self.world.rng.randint(5, 60)

    def _read(self) -> None:
        """Reads the next rows in the order of assignment, and commits from time to time."""
        rng = self.world.rng
        unread = [held for held in self.held if held.at < len(held.rows)]
        for held in unread[: rng.randint(1, 3)]:
            held.at = min(len(held.rows), held.at + rng.randint(1, 3))
            if held.at < len(held.rows):
                break
        is_read = all(held.at == len(held.rows) for held in self.held)
        if not is_read and rng.random() < 0.6:
            self._wait(self._reading_ms(), self._read)
            return
        done, rows = [], Rows()
        for held in self.held:
            finished = held.at == len(held.rows)
            if finished or held.at > held.base:
                ref = SplitRef(*held.place)
                done.append(SplitProgress(ref=ref, ordinal=held.at, finished=finished))
                rows[held.place] = (held.base, held.rows[held.base : held.at])
            if not finished:
                break
        if self.member is None:
            return
        self._call(ev.CommitSplits(self.member, tuple(done)), lambda answer: self._committed(answer, tuple(done)), rows)

    def _committed(self, answer: Any, done: tuple[SplitProgress, ...]) -> None:
        if not isinstance(answer, Committed):
            fail("answer", f"a commit of held splits was answered by {answer!r}")
        ordinals = {(item.ref.plan_id, item.ref.index): item for item in done}
        for held in self.held:
            if held.place in ordinals:
                held.base = ordinals[held.place].ordinal
        self.held = [held for held in self.held if held.place not in ordinals or not ordinals[held.place].finished]
        if self.held and not self.is_leaving:
            self._wait(self._reading_ms(), self._read)
        else:
            self._wait(self.world.rng.randint(0, 40), self._more)

    def _heartbeat(self) -> None:
        if not self.alive:
            return
        if self.member is not None and not self.paused:
            member = self.member

            def heard(answer: Any) -> None:
                if isinstance(answer, Fenced) and self.member is member and self.alive and not self.paused:
                    self.call += 1
                    self._start_over()

            self.world.send(self.reader_id, ev.Heartbeat(member), heard, None)
        self.world.later(self.world.rng.randint(700, 1100), self._heartbeat)
