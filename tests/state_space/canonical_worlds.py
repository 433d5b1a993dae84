"""States of the group search, and the form that stands for all states that behave equally: numbers and ids that are
only compared have the lowest values, and the two readers have a fixed order."""

from __future__ import annotations

from typing import NamedTuple

from tests.state_space.core_states import Names
from tests.state_space.group_ledger import Ref
from tests.state_space.group_server import READERS, Answer, Call, GroupServer, Numbers

JOINS = ("j0", "j1", "j2", "j3", "j4")
"""Ids of joins: a search never has more of a reader at a time."""


class Held(NamedTuple):
    """A split that a reader holds."""

    ref: Ref
    index: int
    first: int
    """The first row that is not committed."""
    end: int
    """How many rows it has."""


class Reader(NamedTuple):
    """A reader: one call at a time, repeated until it is answered."""

    epoch: int
    sequence: int
    received: int
    """The newest request whose splits it received."""
    held: tuple[Held, ...]
    call: Call
    answer: Answer | None
    """The answer that waits for the log; None: the server has not decided, or its answer is lost."""


class World(NamedTuple):
    """A state of the search."""

    live: int
    appended: int
    synced: int
    visible: frozenset[int]
    """Order keys of the instants of the table that can be seen."""
    readers: tuple[Reader, ...]
    discovery: Call | None
    """A result of a discovery that is not delivered yet."""
    copy: tuple[int, Call] | None
    """A second copy of a request that is not delivered yet, with its reader; -1: of a result of a discovery."""
    faults: frozenset[str]
    """Faults that happened."""
    announced_us: int | None
    """The highest watermark that a reader may have received since the last reset."""


class CanonicalForm:
    """The canonical form of the states of one search."""

    def __init__(self, server: GroupServer) -> None:
        self.server = server
        self._readers: dict[Reader, int] = {}
        self._forms: dict[World, World] = {}

    def of(self, world: World) -> World:
        """The state that stands for this one."""
        form = self._forms.get(world)
        if form is None:
            form = self.ordered(self.renamed(world))
            form = self._forms.setdefault(form, form)
        return form

    def renamed(self, world: World) -> World:
        """The state with the lowest numbers in the same order, and the first ids."""
        numbers, requests, joins = self.used_by(world)
        is_named = all(tuple(each) == JOINS[: len(each)] for each in joins)
        if is_named and all(max(each) == len(each) - 1 for each in (numbers, *requests)):
            return world
        return self.under(
            world,
            {old: rank for rank, old in enumerate(sorted(numbers))},
            [{old: rank for rank, old in enumerate(sorted(each))} for each in requests],
            [dict(zip(each, JOINS, strict=False)) for each in joins],
        )

    def used_by(self, world: World) -> tuple[set[int], list[set[int]], list[dict[str, None]]]:
        """Epochs and generations of the state; by reader the numbers of its requests, and the ids of its joins."""
        used = self.server.used_by(numbers_of(world))
        numbers = set(used.numbers)
        requests, joins = [], []
        for number, reader in enumerate(world.readers):
            call, answer, name = reader.call, reader.answer, READERS[number]
            asked, joined = {0, reader.sequence, reader.received, *used.requests[name]}, {}
            numbers.add(reader.epoch)
            if call[0] == "join":
                joined[call[1]] = None
            else:
                numbers.add(call[1])
            if reader.held:
                numbers.update(each.ref[0] for each in reader.held)
            if answer is not None and answer[0] == "joined":
                numbers.add(answer[1])
            if world.copy is not None and world.copy[0] == number:
                copied = world.copy[1]
                if copied[0] == "join":
                    joined[copied[1]] = None
                else:
                    numbers.add(copied[1])
                if copied[0] == "ask":
                    asked.update(copied[2:])
                elif copied[0] == "commit":
                    numbers.update(part[0][0] for part in copied[2])
            joined.update(used.joins[name])
            requests.append(asked)
            joins.append(joined)
        if world.discovery is not None:
            numbers.add(world.discovery[1])
        if world.copy is not None and world.copy[0] < 0:
            numbers.add(world.copy[1][1])
        return numbers, requests, joins

    def ordered(self, world: World) -> World:
        """The state with its two readers in a fixed order."""
        first, second = (self._readers.setdefault(reader, len(self._readers)) for reader in world.readers)
        if first < second:
            return world
        exchanged = self.exchanged(world)
        return world if first == second and _rest_of(world) <= _rest_of(exchanged) else exchanged

    def exchanged(self, world: World) -> World:
        """The state with its two readers exchanged."""
        numbers = self.server.swapped(numbers_of(world))
        copied = world.copy if world.copy is None or world.copy[0] < 0 else (1 - world.copy[0], world.copy[1])
        return world._replace(**numbers._asdict(), readers=world.readers[::-1], copy=copied)

    def under(self, world: World, new: dict[int, int], asked: list[dict[int, int]], ids: list[dict[str, str]]) -> World:
        """The state with `new` epochs and generations and, by reader, other numbers of requests and other ids of joins.
        All keep their order."""
        names = Names(
            tuple(new.items()),
            tuple((READERS[at], *item) for at, each in enumerate(asked) for item in each.items()),
            tuple((READERS[at], *item) for at, each in enumerate(ids) for item in each.items()),
        )

        def ref_of(ref: Ref) -> Ref:
            return (new[ref[0]], *ref[1:])

        def call_of(number: int, call: Call) -> Call:
            if number < 0:
                return (call[0], new[call[1]], *call[2:])
            match call:
                case ("join", request_id):
                    return ("join", ids[number][request_id])
                case ("ask", epoch, sequence, received):
                    return ("ask", new[epoch], asked[number][sequence], asked[number][received])
            return ("commit", new[call[1]], tuple((ref_of(part[0]), *part[1:]) for part in call[2]))

        def answer_of(answer: Answer | None) -> Answer | None:
            match answer:
                case ("joined", epoch):
                    return ("joined", new[epoch])
                case ("splits", places, watermark_us):
                    return ("splits", tuple((ref_of(place[0]), *place[1:]) for place in places), watermark_us)
            return answer

        renamed = self.server.renamed(numbers_of(world), names)
        return world._replace(
            live=renamed.live,
            appended=renamed.appended,
            synced=renamed.synced,
            readers=tuple(
                Reader(
                    new[reader.epoch],
                    asked[number][reader.sequence],
                    asked[number][reader.received],
                    tuple(each._replace(ref=ref_of(each.ref)) for each in reader.held),
                    call_of(number, reader.call),
                    answer_of(reader.answer),
                )
                for number, reader in enumerate(world.readers)
            ),
            discovery=None if world.discovery is None else call_of(-1, world.discovery),
            copy=None if world.copy is None else (world.copy[0], call_of(*world.copy)),
        )


def _rest_of(world: World) -> tuple[int, int, int, int]:
    return world.live, world.appended, world.synced, -1 if world.copy is None else world.copy[0]


def numbers_of(world: World) -> Numbers:
    """The states of the server."""
    return Numbers(world.live, world.appended, world.synced)
