"""One plan of the plan API in a small scope: a driver that opens it, two slots, two attempts of each slot at a time, of
which one may be a speculative copy, and faults. Every interleaving of the steps is searched.

As in `group_world` a lost request is the same state as one that is not sent, and answers that arrive twice are dropped.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import records as rec
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.records import PlanQuery, QueryKind
from penstock.enumerator.core.results import CoordinatorSettings, Entry, PlanHeld
from penstock.enumerator.core.slot_assigner import Assigned
from penstock.enumerator.core.split_facts import sizes_alone
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from tests.simulation.checkers import fail
from tests.state_space.search import FAULT, Step

NOW_MS: Final = 1_000_000
SETTINGS: Final = CoordinatorSettings()
SIZES: Final = (3, 2, 2)
SLOTS: Final = 2
ATTEMPTS: Final = 2
FAULTS: Final = ("restart", "answer lost", "request doubled", "open doubled", "attempt ended")
END: Final = -1


class Attempt(NamedTuple):
    """An attempt of a slot's task: it requests entry after entry, from the first on."""

    index: int
    """The entry that it requests; END after the end of the list."""
    answer: int | None
    """The split that was answered, or END, while it waits for the log."""


class World(NamedTuple):
    """A state of the search."""

    live: int
    appended: int
    synced: int
    plan_id: str
    """The plan that the driver received; '' before."""
    opening: str | None
    """The answer to the driver that waits for the log."""
    opens: int
    """How many plans were proposed: each repetition of the call proposes another id."""
    attempts: tuple[tuple[Attempt, ...], ...]
    """By slot: the attempts that began."""
    copy: tuple[int, int] | None
    """A second copy of a request for an entry: its slot and index; (-1, -1) of the driver's request."""
    lists: tuple[tuple[int, ...], ...]
    """By slot: the entries that attempts received, with END."""
    faults: frozenset[str]


class PlanWorld:
    """The model that is searched: see `search.Model`."""

    def __init__(self, faults: frozenset[str], most_faults: int) -> None:
        self.kinds, self.most_faults = faults, most_faults
        self.states: list[State] = []
        self._numbers: dict[Any, int] = {}
        self._decided: dict[Any, tuple[int, int, Any]] = {}

    def initial(self) -> World:
        """No plan is open."""
        number = self._number(State())
        return World(number, number, number, "", None, 0, ((),) * SLOTS, None, ((),) * SLOTS, frozenset())

    def is_goal(self, world: World) -> bool:
        """Whether every list ended and the plan is settled."""
        if not world.plan_id or any(not each or each[-1] != END for each in world.lists):
            return False
        splits = sorted(split for each in world.lists for split in each if split != END)
        if splits != list(range(len(SIZES))):
            fail("exactly once", f"the lists are over: {world.lists}")
        return all(any(attempt.index == END for attempt in slot) for slot in world.attempts)

    def steps(self, world: World) -> Iterator[Step[World]]:
        """Every step of every process."""
        for step in self._steps(world):
            state = _ordered(step.state)
            if state != world:
                self._check(state)
                yield step._replace(state=state)

    def _steps(self, world: World) -> Iterator[Step[World]]:
        if not world.plan_id and world.opening is None:
            yield from self._answered("driver", self._opened(world), "opens a plan")
        if world.plan_id:
            yield from self._attempt_steps(world)
        if world.appended != world.synced:
            yield from self._answered("log", world._replace(synced=world.appended), "synced")
        if world.copy is not None:
            yield Step("network", "delivers the second copy", self._copy_delivered(world))
        if len(world.faults) < self.most_faults:
            for kind in sorted(self.kinds - world.faults):
                for text, state in self._faults(world, kind):
                    yield Step(FAULT, f"{kind}{text}", state._replace(faults=world.faults | {kind}))

    def _attempt_steps(self, world: World) -> Iterator[Step[World]]:
        for slot, attempts in enumerate(world.attempts):
            if len(attempts) < ATTEMPTS:
                begun = (*attempts, Attempt(0, None))
                # the first attempt must begin at some time; a speculative copy may
                process = f"slot {slot}" if not attempts else FAULT
                yield Step(process, f"attempt {len(attempts)} of slot {slot}", _with(world, slot, begun))
            for number, attempt in enumerate(attempts):
                if attempt.index != END and attempt.answer is None:
                    called = self._called(world, slot, number)
                    yield from self._answered(f"slot {slot}", called, f"slot {slot} requests entry {attempt.index}")

    def _called(self, world: World, slot: int, number: int) -> World:
        attempt = world.attempts[slot][number]
        event = ev.NextEntry(world.plan_id, slot, attempt.index)
        live, appended, answer = self._handle(world.live, world.appended, event)
        attempts = list(world.attempts[slot])
        attempts[number] = attempt._replace(answer=answer)
        return _with(world._replace(live=live, appended=appended), slot, tuple(attempts))

    def _opened(self, world: World) -> World:
        event = ev.OpenPlan(
            plan_id=f"plan-{world.opens}",
            request_id="job",
            table="t",
            query=PlanQuery(QueryKind.SNAPSHOT),
            facts=sizes_alone(SIZES),
            slots=SLOTS,
        )
        live, appended, answer = self._handle(world.live, world.appended, event)
        return world._replace(live=live, appended=appended, opening=answer, opens=min(world.opens + 1, 3))

    def _answered(self, process: str, world: World, text: str) -> Iterator[Step[World]]:
        """The steps after a call or a sync: the answers are sent if the log is durable, and one may be lost."""
        waiting = [
            (slot, n)
            for slot, each in enumerate(world.attempts)
            for n, one in enumerate(each)
            if one.answer is not None
        ]
        if not self.releases(world.appended == world.synced) or not (waiting or world.opening is not None):
            yield Step(process, text, world)
            return
        yield Step(process, text, self._released(world, waiting))
        if "answer lost" in self.kinds - world.faults and len(world.faults) < self.most_faults:
            faults = world.faults | {"answer lost"}
            for lost in waiting:
                others = [each for each in waiting if each != lost]
                slot, number = lost
                attempts = list(world.attempts[slot])
                attempts[number] = attempts[number]._replace(answer=None)
                state = self._released(_with(world, slot, tuple(attempts)), others)
                yield Step(FAULT, f"{text}, an answer is lost", state._replace(faults=faults))
            if world.opening is not None:
                state = self._released(world._replace(opening=None), waiting)
                yield Step(FAULT, f"{text}, the answer to the driver is lost", state._replace(faults=faults))

    def releases(self, is_durable: bool) -> bool:
        """Whether answers are sent now; broken worlds override it."""
        return is_durable

    def _released(self, world: World, waiting: list[tuple[int, int]]) -> World:
        if world.opening is not None:
            if world.opening not in self.states[world.synced].plans:
                fail("durable", f"the driver received {world.opening}, which is not in the log")
            world = world._replace(plan_id=world.opening, opening=None)
        for slot, number in waiting:
            attempt = world.attempts[slot][number]
            if attempt.answer is None:
                continue
            self._check_entry(world, slot, attempt)
            lists = list(world.lists)
            self._check_sealed(slot, lists[slot], attempt)
            if attempt.index == len(lists[slot]):
                lists[slot] = (*lists[slot], attempt.answer)
            elif attempt.index > len(lists[slot]) or lists[slot][attempt.index] != attempt.answer:
                fail("replay", f"entry {attempt.index} of slot {slot} is {attempt.answer}, received were {lists[slot]}")
            attempts = list(world.attempts[slot])
            attempts[number] = Attempt(END if attempt.answer == END else attempt.index + 1, None)
            world = _with(world._replace(lists=tuple(lists)), slot, tuple(attempts))
        return world

    def _check_sealed(self, slot: int, known: tuple[int, ...], attempt: Attempt) -> None:
        ends = known.index(END) if END in known else None
        if attempt.answer == END:
            if attempt.index != (len(known) if ends is None else ends):
                fail("sealed", f"slot {slot} ended at {attempt.index}, received were {known}")
        elif ends is not None and attempt.index >= ends:
            fail("sealed", f"slot {slot} ended at {ends}, and {attempt.answer} came at {attempt.index}")

    def _check_entry(self, world: World, slot: int, attempt: Attempt) -> None:
        held = self.states[world.synced].plans.get(world.plan_id)
        entry = (
            held.assigner.entry(slot, attempt.index) if held and attempt.index <= held.assigner.length(slot) else None
        )
        durable = None if entry is None else entry.split if isinstance(entry, Assigned) else END
        if durable != attempt.answer:
            fail(
                "durable",
                f"entry {attempt.index} of slot {slot}: {attempt.answer} was answered, {durable} is in the log",
            )

    def _check(self, world: World) -> None:
        received = [split for each in world.lists for split in each if split != END]
        if len(set(received)) != len(received):
            fail("exactly once", f"slots received {world.lists}")
        ended = [slot for slot, each in enumerate(world.lists) if each and each[-1] == END]
        if len(ended) == SLOTS and len(received) != len(SIZES):
            fail("exactly once", f"the lists are over: {world.lists}")
        if _form(self.states[world.live]) != _form(self.states[world.appended]):
            fail("replay", "the state in memory is not that of its records")

    def _copy_delivered(self, world: World) -> World:
        if world.copy is None:
            return world
        slot, index = world.copy
        if slot < 0:
            return self._opened(world)._replace(copy=None, opening=world.opening)
        live, appended, _ = self._handle(world.live, world.appended, ev.NextEntry(world.plan_id, slot, index))
        return world._replace(live=live, appended=appended, copy=None)

    def _faults(self, world: World, kind: str) -> Iterator[tuple[str, World]]:
        match kind:
            case "restart":
                for log in sorted({world.appended, world.synced}):
                    attempts = tuple(tuple(each._replace(answer=None) for each in slot) for slot in world.attempts)
                    yield (
                        "",
                        world._replace(
                            live=self._restarted(log),
                            appended=log,
                            synced=log,
                            opening=None,
                            attempts=attempts,
                        ),
                    )
            case "request doubled" if world.copy is None:
                for slot, attempts in enumerate(world.attempts):
                    for index in sorted({each.index for each in attempts if each.index != END and each.answer is None}):
                        yield f" of slot {slot}", world._replace(copy=(slot, index))
            case "open doubled" if world.copy is None and not world.plan_id:
                yield "", world._replace(copy=(-1, -1))
            case "attempt ended":
                for slot, attempts in enumerate(world.attempts):
                    for number in range(len(attempts)):
                        yield f" in slot {slot}", _with(world, slot, (*attempts[:number], *attempts[number + 1 :]))

    # --- the server

    def decided(self, state: State, event: ev.AnyEvent) -> Any:
        """Decides about the event; broken worlds override it."""
        return decide(state, event, NOW_MS, SETTINGS)

    def appends(self, record: rec.Durable) -> bool:
        """Whether the record is appended to the log; broken worlds override it."""
        return True

    def restored(self, log: int) -> State:
        """The state that a process reads from the log; broken worlds override it."""
        return copy.deepcopy(self.states[log])

    def _handle(self, live: int, appended: int, event: ev.AnyEvent) -> tuple[int, int, Any]:
        key = (live, appended, event)
        if key not in self._decided:
            self._decided[key] = self._computed(live, appended, event)
        return self._decided[key]

    def _computed(self, live: int, appended: int, event: ev.AnyEvent) -> tuple[int, int, Any]:
        decision = self.decided(self.states[live], event)
        state, log = copy.deepcopy(self.states[live]), copy.deepcopy(self.states[appended])
        for record in decision.records:
            if isinstance(record, rec.Durable) and self.appends(record):
                decoded = decode_record(encode_record(record))
                if decoded != record:
                    fail("codec", f"{record} came back as {decoded}")
                apply(log, decoded)
            apply(state, record)
        match decision.answer:
            case PlanHeld(plan_id=plan_id):
                answer: Any = plan_id
            case Entry(assignment):
                answer = assignment.split if isinstance(assignment, Assigned) else END
            case _:
                answer = None
        return self._number(state), self._number(log), answer

    def _restarted(self, log: int) -> int:
        state = self.restored(log)
        for record in self.decided(state, ev.Restarted()).records:
            apply(state, record)
        return self._number(state)

    def _number(self, state: State) -> int:
        form = _form(state)
        if form not in self._numbers:
            fewer = State()
            for record in compacted_records(state):
                apply(fewer, record)
            if _form(fewer) != form:
                fail("shortened", f"{form} became {_form(fewer)} by a compaction of the log")
            self._numbers[form] = len(self.states)
            self.states.append(state)
        return self._numbers[form]


def _form(state: State) -> tuple[Any, ...]:
    return (
        tuple(sorted(state.requests.items())),
        tuple(
            (
                plan_id,
                tuple(
                    tuple(held.assigner.entry(slot, index) for index in range(held.assigner.length(slot) + 1))
                    for slot in range(held.assigner.slots)
                ),
                tuple(held.assigner.upcoming(slot) for slot in range(held.assigner.slots)),
            )
            for plan_id, held in sorted(state.plans.items())
        ),
    )


def _with(world: World, slot: int, attempts: tuple[Attempt, ...]) -> World:
    every = list(world.attempts)
    every[slot] = attempts
    return world._replace(attempts=tuple(every))


def _ordered(world: World) -> World:
    """The state with the attempts of each slot in a fixed order: they behave equally."""
    ordered = (
        sorted(each, key=lambda one: (one.index, one.answer is None, one.answer or 0)) for each in world.attempts
    )
    return world._replace(attempts=tuple(tuple(each) for each in ordered))
