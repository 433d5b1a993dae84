"""Readers of the plan API: slots with retries and speculative attempts, like tasks of a cluster.

Each attempt requests the list of its slot from the beginning; all attempts must get the same list and the same end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import PlanQuery, QueryKind
from penstock.enumerator.core.results import PlanHeld
from penstock.enumerator.core.slot_assigner import Assigned, Sealed
from penstock.enumerator.core.split_facts import sizes_alone
from penstock.proto.errors import StorageError
from penstock.proto.model.reports import SplitReport
from tests.simulation.checkers import fail

if TYPE_CHECKING:
    from tests.simulation.simulated_world import World


class Job:
    """One plan, which slots read to its end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sizes = [world.rng.randint(1, 9) for _ in range(world.rng.randint(1, 7))]
        self.slots = world.rng.randint(1, min(3, len(self.sizes)))
        self.plan_id = ""
        self.opened = 0
        self.lists: dict[int, list[int]] = {}
        self.ends: dict[int, int] = {}
        self.is_done = False
        world.later(world.rng.randint(0, 3000), self._open)

    def _open(self) -> None:
        if self.plan_id or self.is_done:
            return
        self.opened += 1
        event = ev.OpenPlan(
            plan_id=f"plan-{self.world.jobs.index(self)}-{self.opened}",
            request_id=f"job-{self.world.jobs.index(self)}",
            table="t",
            query=PlanQuery(QueryKind.SNAPSHOT),
            facts=sizes_alone(self.sizes),
            slots=self.slots,
        )
        self.world.send("driver", event, self._held, None)
        self.world.later(600, self._open)

    def _held(self, answer: Any) -> None:
        if isinstance(answer, StorageError) or self.plan_id:
            return
        if not isinstance(answer, PlanHeld):
            fail("answer", f"opening a plan was answered by {answer!r}")
        self.plan_id = answer.plan_id
        for slot in range(self.slots):
            self.world.later(self.world.rng.randint(0, 2500), lambda slot=slot: self._attempt(slot))

    def _attempt(self, slot: int) -> None:
        rng = self.world.rng
        Attempt(self, slot)
        if not self.world.calm and rng.random() < 0.2:
            self.world.count("speculative attempt")
            self.world.later(rng.randint(0, 400), lambda: Attempt(self, slot))

    def record_entry(self, slot: int, index: int, split: int | None) -> None:
        """Checks an entry of the slot's list that an attempt received; None is the end."""
        known = self.lists.setdefault(slot, [])
        if split is None:
            if self.ends.setdefault(slot, index) != index or index != len(known):
                fail("sealed", f"slot {slot} of {self.plan_id} ended at {index}, has {known}, end {self.ends[slot]}")
        elif slot in self.ends and index >= self.ends[slot]:
            fail("sealed", f"slot {slot} of {self.plan_id} ended at {self.ends[slot]}, {split} came at {index}")
        elif index < len(known):
            if known[index] != split:
                fail("replay", f"entry {index} of slot {slot} of {self.plan_id} was {known[index]}, is {split}")
        else:
            known.append(split)
        every = sorted(split for known in self.lists.values() for split in known)
        if len(set(every)) != len(every):
            fail("exactly once", f"slots of {self.plan_id} got {self.lists}")
        if len(self.ends) == self.slots:
            if every != list(range(len(self.sizes))):
                fail("exactly once", f"{self.plan_id} of {len(self.sizes)} splits is over: {self.lists}")
            self.is_done = True


class Attempt:
    """One attempt of a slot's task. It reads entry by entry to the end; if it dies, another attempt begins."""

    def __init__(self, job: Job, slot: int) -> None:
        self.job, self.slot, self.index, self.call = job, slot, 0, 0
        self._next()

    def _next(self) -> None:
        self.call += 1
        number, world = self.call, self.job.world

        def answered(answer: Any) -> None:
            if self.call != number or isinstance(answer, StorageError):
                return
            self.call += 1
            self._on_answer(answer)

        def send() -> None:
            if self.call == number:
                world.send("task", ev.NextEntry(self.job.plan_id, self.slot, self.index), answered, None)
                world.later(world.rng.randint(250, 500), send)

        send()

    def _on_answer(self, answer: Any) -> None:
        job, world = self.job, self.job.world
        match answer:
            case Assigned(split):
                job.record_entry(self.slot, self.index, split)
            case Sealed():
                job.record_entry(self.slot, self.index, None)
                if not world.calm and world.rng.random() < 0.4:
                    # a second scan of the same plan after its end
                    world.later(world.rng.randint(0, 800), lambda: Attempt(job, self.slot))
                return
            case _:
                fail("answer", f"an entry was answered by {answer!r}")
        report = ev.FinishEntry(job.plan_id, self.slot, self.index, SplitReport(rows=1, size_bytes=1))
        world.send("task", report, lambda answer: None, None)
        if world.strikes("task died", 0.06):
            world.later(world.rng.randint(0, 300), lambda: Attempt(job, self.slot))
            return
        self.index += 1
        world.later(world.rng.randint(5, 60) if world.calm else world.rng.randint(5, 600), self._next)
