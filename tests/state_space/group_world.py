"""Everything that happens around one group in a small scope: two readers, their calls, discovery, a writer, an
operator, and faults. Every interleaving of the steps is searched.

Time has no length: a call is repeated at any later time until its answer arrives. A request that is lost is therefore
the same state as one that is not sent yet. An answer that arrives twice is dropped the second time, because its call is
over. Both need no step of their own. A copy of a request arrives at any later time, also at a server that was
restarted since. A result of a discovery is in the memory of its server, and ends with it. The next call of a reader is
chosen when the answer is sent: between the two, nobody else can see a difference, except that the answer may be lost,
which is a fault.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from penstock.enumerator.core.group_lifecycle import needs_discovery
from tests.simulation.checkers import fail
from tests.simulation.simulated_table import instant_time
from tests.state_space.canonical_worlds import CanonicalForm, Held, Reader, World, numbers_of
from tests.state_space.group_ledger import Ref
from tests.state_space.group_server import READERS, SETTINGS, Answer, Call, GroupServer
from tests.state_space.group_table import FIRST, LATE, SECOND, Scope, key_of
from tests.state_space.search import FAULT, Step

FAULTS = ("lease expired", "restart", "answer lost", "request doubled", "discovery doubled", "late commit", "reset")
"""Every kind of fault."""
LOSSES = ("range lost", "round lost")
"""Further kinds, of a group that goes on after a loss. The earliest position that can be answered may be any one, also
before the position of the group: a listing may be old."""
NEW_JOIN = ("join", "new")


class GroupWorld:
    """The model that is searched: see `search.Model`."""

    server_type = GroupServer

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.server = self.server_type(scope)
        self._form = CanonicalForm(self.server)

    def initial(self) -> World:
        """The group exists, the table has no commit, both readers join."""
        numbers = self.server.first()
        readers = tuple(Reader(0, 0, 0, (), NEW_JOIN, None) for _ in READERS)
        return self._form.of(World(*numbers, frozenset(), readers, None, None, frozenset(), None))

    def is_goal(self, world: World) -> bool:
        """Whether both commits are finished, and no reader holds anything."""
        group = self.server.group(world.live)
        if not {FIRST, SECOND} <= world.visible or group.stopped is not None or group.rounds:
            return False
        if world.appended != world.synced or key_of(group.committed) != SECOND:
            return False
        if not group.ended and self._found(world)[0] == "late":
            return False
        self.server.ledger(world.synced).check_complete(self.scope, self._consumable(world))
        return True

    def _consumable(self, world: World) -> frozenset[int]:
        """Instants whose rows the group delivers. A group that ended does not detect late ones."""
        group = self.server.group(world.live)
        consumed = group.progress.consumed
        return frozenset(key for key in world.visible if not group.ended or instant_time(key) in consumed)

    def steps(self, world: World) -> Iterator[Step[World]]:
        """Every step of every process."""
        for step in self.raw_steps(world):
            self.server.check_replay(numbers_of(step.state))
            state = self._form.of(step.state)
            if state != world:
                yield step._replace(state=state)

    def raw_steps(self, world: World) -> Iterator[Step[World]]:
        """Every step, to states that may have any form."""
        for number, reader in enumerate(world.readers):
            if reader.answer is None:
                yield from self._answered(READERS[number], self._called(world, number, reader.call), str(reader.call))
        if world.appended != world.synced:
            yield from self._answered("log", world._replace(synced=world.appended), "synced")
        yield from self._discovery_steps(world)
        if SECOND not in world.visible:
            next_key = SECOND if FIRST in world.visible else FIRST
            yield Step("writer", f"commits {next_key}", world._replace(visible=world.visible | {next_key}))
        if self.server.group(world.live).stopped is not None:
            yield Step("operator", "resets the stopped group", self._reset(world, FIRST))
        if world.copy is not None:
            yield Step("network", "delivers the second copy", self._copy_delivered(world))
        if len(world.faults) < self.scope.most_faults:
            for kind in sorted(self.scope.faults - world.faults):
                for text, state in self._faults(world, kind):
                    yield Step(FAULT, f"{kind}{text}", state._replace(faults=world.faults | {kind}))

    # --- readers

    def _called(self, world: World, number: int, call: Call) -> World:
        """The server decides about the call."""
        live, appended, answer = self.server.call(numbers_of(world), number, call)
        if answer == ("committed",):
            self._check_times(world, appended, call)
        reader = world.readers[number]._replace(answer=answer)
        return _with(world._replace(live=live, appended=appended), number, reader)

    def _answered(self, process: str, world: World, text: str) -> Iterator[Step[World]]:
        """The steps after a call or a sync: the answers are sent if the log is durable, and each may be lost."""
        waiting = [number for number, reader in enumerate(world.readers) if reader.answer is not None]
        if not waiting or not self.releases(world.appended == world.synced):
            yield Step(process, text, world)
            return
        self._check_durable(world, waiting)
        announced = self._announced(world, waiting)
        nexts = [tuple(self.heard(reader)) if reader.answer is not None else (reader,) for reader in world.readers]
        for readers in itertools.product(*nexts):
            calls = " ".join(f"{READERS[number]} next {readers[number].call}" for number in waiting)
            yield Step(process, f"{text} -> {calls}", announced._replace(readers=readers))
        if "answer lost" in self.scope.faults - world.faults and len(world.faults) < self.scope.most_faults:
            faults = world.faults | {"answer lost"}
            for number in waiting:
                lost = [
                    (reader._replace(answer=None),) if at == number else nexts[at]
                    for at, reader in enumerate(world.readers)
                ]
                for readers in itertools.product(*lost):
                    state = announced._replace(readers=readers, faults=faults)
                    yield Step(FAULT, f"{text}, the answer to {READERS[number]} is lost", state)

    def releases(self, is_durable: bool) -> bool:
        """Whether answers are sent now; broken worlds override it."""
        return is_durable

    def heard(self, reader: Reader) -> Iterator[Reader]:
        """The reader after the answer to its call, with each call that it may make next. Broken worlds override
        it."""
        answer: Answer = reader.answer or ()
        match answer[0], reader.call[0]:
            case "joined", "join":
                yield _asks(reader._replace(epoch=answer[1], sequence=0, received=0))
            case "splits", "ask":
                held = tuple(Held(ref, index, start, self._rows(ref, index)) for ref, index, start in answer[1])
                yield from self._commits(reader._replace(held=held, received=reader.sequence))
            case (("nothing" | "end" | "stopped"), "ask"):
                yield _asks(reader)
            case "committed", "commit":
                ends = {(ref, index): end for ref, index, _, end, _ in reader.call[2]}
                held = tuple(each._replace(first=ends.get(each[:2], each.first)) for each in reader.held)
                yield from self._commits(reader._replace(held=tuple(each for each in held if each.first < each.end)))
            case "fenced", ("ask" | "commit"):
                yield Reader(0, 0, 0, (), NEW_JOIN, None)
            case _:
                fail("answer", f"{reader.call} was answered by {answer}")

    def _commits(self, reader: Reader) -> Iterator[Reader]:
        """The commits that a reader may make: one row of a split of several, one whole split, or all."""
        if not reader.held:
            yield _asks(reader)
            return
        oldest = reader.held[0]
        choices = [(_part(oldest, oldest.end),)]
        if oldest.end - oldest.first > 1:
            choices.append((_part(oldest, oldest.first + 1),))
        if len(reader.held) > 1:
            choices.append(tuple(_part(each, each.end) for each in reader.held))
        for parts in choices:
            yield reader._replace(call=("commit", reader.epoch, parts), answer=None)

    def _rows(self, ref: Ref, index: int) -> int:
        return len(self.scope.splits(ref[2])[index].times)

    def _check_times(self, world: World, appended: int, call: Call) -> None:
        """Rows that become visible are above the watermark. Not: rows of a late instant."""
        if world.announced_us is None or appended == world.appended:
            return
        before = self.server.ledger(world.appended)
        for ref, index, first, end, _ in call[2]:
            place = (ref, index)
            if ref[2] == LATE or place in before.done or dict(before.cursors).get(place, 0) >= end:
                continue
            for time in self.scope.splits(ref[2])[index].times[first:end]:
                if time <= world.announced_us:
                    fail("watermark", f"a row of {time} became visible after {world.announced_us}")

    def _announced(self, world: World, waiting: list[int]) -> World:
        """The watermarks of the answers are known to their readers. A fenced reader drops its answer."""
        highest = world.announced_us
        epochs = self.server.ledger(world.appended).epochs
        for number in waiting:
            answer: Answer = world.readers[number].answer or ()
            call = world.readers[number].call
            if answer[0] in ("splits", "nothing", "end") and (READERS[number], call[1]) in epochs:
                highest = max((each for each in (answer[-1], highest) if each is not None), default=None)
        return world._replace(announced_us=highest)

    def _check_durable(self, world: World, waiting: list[int]) -> None:
        """What answers say is in the durable log, unless the group moved on."""
        ledger = self.server.ledger(world.synced)
        holders, cursors = dict(ledger.holders), dict(ledger.cursors)
        for number in waiting:
            answer: Answer = world.readers[number].answer or ()
            call, name = world.readers[number].call, READERS[number]
            is_member = call[0] != "join" and (name, call[1]) in ledger.epochs
            match answer[0]:
                case "joined" if answer[1] > ledger.numbers:
                    fail("durable", f"{name} received {answer}, and the log has numbers up to {ledger.numbers}")
                case "splits" if is_member:
                    lost = [place for *place, _ in answer[1] if holders.get((place[0], place[1])) != name]
                    if lost:
                        fail("durable", f"{name} received {lost}, and the log has holders {holders}")
                case "committed" if is_member:
                    for ref, index, _, end, _ in call[2]:
                        place = (ref, index)
                        if ref in ledger.rounds and place not in ledger.done and cursors.get(place, 0) < end:
                            fail("durable", f"the commit of {place} was answered, and is not in the log")

    # --- discovery, operator, faults

    def _found(self, world: World) -> Call:
        """What a discovery finds now."""
        group = self.server.group(world.live)
        start, consumed = key_of(group.progress.position), group.progress.consumed
        if any(key <= start and instant_time(key) not in consumed for key in world.visible):
            return ("late", group.number, start)
        ends = [key for key in world.visible if key > start]
        if not ends:
            return ("nothing", group.number, start)
        return ("round", group.number, start, min(ends), world.visible)

    def _discovery_steps(self, world: World) -> Iterator[Step[World]]:
        if world.discovery is not None:
            yield Step("discovery", f"{world.discovery}", self._discovered(world, world.discovery, None))
        elif needs_discovery(self.server.group(world.live), SETTINGS):
            found = self._found(world)
            if self._discovered(world, found, None) != world:
                yield Step("discovery", f"reads the table: {found[0]}", world._replace(discovery=found))

    def _discovered(self, world: World, found: Call, remaining: Call | None) -> World:
        live, appended = self.server.discovered(numbers_of(world), found)
        return world._replace(live=live, appended=appended, discovery=remaining)

    def _reset(self, world: World, key: int) -> World:
        live, appended = self.server.reset(numbers_of(world), key, world.visible)
        return world._replace(live=live, appended=appended, announced_us=None)

    def _copy_delivered(self, world: World) -> World:
        if world.copy is None:
            return world
        number, call = world.copy
        if number < 0:
            return self._discovered(world, call, world.discovery)._replace(copy=None)
        live, appended, answer = self.server.call(numbers_of(world), number, call)
        if answer == ("committed",):
            self._check_times(world, appended, call)
        return world._replace(live=live, appended=appended, copy=None)

    def _faults(self, world: World, kind: str) -> Iterator[tuple[str, World]]:
        """Each way in which a fault of the kind can happen now. An answer is lost in `_answered`."""
        match kind:
            case "lease expired":
                for number, name in enumerate(READERS):
                    if name in self.server.group(world.live).readers:
                        live, appended = self.server.expired(numbers_of(world), number)
                        yield f" of {name}", world._replace(live=live, appended=appended)
            case "restart":
                yield ", what was not synced is lost", self._restarted(world, world.synced)
                if world.appended != world.synced:
                    yield " after the log was synced, before answers", self._restarted(world, world.appended)
            case "request doubled" if world.copy is None:
                for number, reader in enumerate(world.readers):
                    if reader.answer is None:
                        yield f" of {READERS[number]}", world._replace(copy=(number, reader.call))
            case "discovery doubled" if world.copy is None and world.discovery is not None:
                yield "", world._replace(copy=(-1, world.discovery))
            case "range lost" if world.discovery is None:
                if needs_discovery(self.server.group(world.live), SETTINGS):
                    yield from self._losses(world, (0, 0))
            case "round lost" if world.discovery is None:
                for each in self.server.group(world.live).rounds.values():
                    yield from self._losses(world, (key_of(each.commit_range.after), key_of(each.commit_range.upto)))
            case "late commit" if SECOND in world.visible:
                yield "", world._replace(visible=world.visible | {LATE})
            case "reset":
                for key in (0, *sorted(world.visible)):
                    yield f" to {key}", self._reset(world, key)

    def _losses(self, world: World, lost: tuple[int, int]) -> Iterator[tuple[str, World]]:
        group = self.server.group(world.live)
        for key in (0, *sorted(world.visible)):
            found = ("lost", group.number, key_of(group.progress.position), key, world.visible, lost)
            yield f" {lost}, goes on after {key}", world._replace(discovery=found)

    def _restarted(self, world: World, log: int) -> World:
        live, appended = self.server.restarted(log)
        readers = tuple(each._replace(answer=None) for each in world.readers)
        copy = world.copy if world.copy is not None and world.copy[0] >= 0 else None
        return world._replace(live=live, appended=appended, synced=appended, readers=readers, discovery=None, copy=copy)


def _asks(reader: Reader) -> Reader:
    sequence = reader.sequence + 1
    received = reader.received
    return Reader(reader.epoch, sequence, received, (), ("ask", reader.epoch, sequence, received), None)


def _part(held: Held, end: int) -> tuple[Ref, int, int, int, bool]:
    return (held.ref, held.index, held.first, end, end == held.end)


def _with(world: World, number: int, reader: Reader) -> World:
    readers = list(world.readers)
    readers[number] = reader
    return world._replace(readers=tuple(readers))
