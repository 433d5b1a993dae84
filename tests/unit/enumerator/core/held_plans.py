"""Plans that a coordinator holds on a manual clock: opened, read and settled."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.events import FinishEntry, NextEntry, OpenPlan, UsePlan
from penstock.enumerator.core.records import PlanQuery, QueryKind
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.slot_assigner import Assigned, Sealed
from penstock.enumerator.core.split_facts import sizes_alone
from penstock.enumerator.core.state import HeldPlan, State
from penstock.proto.model.reports import SplitReport

REPORT = SplitReport(rows=1, size_bytes=10)


@dataclass
class Clock:
    """A manual clock."""

    now_ms: int = 1_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class Held:
    """A held plan."""

    store: Store
    plan_id: str

    def next_split(self, slot: int, index: int) -> tuple[Assigned | Sealed, bool]:
        """The entry, and whether it is a replay."""

        assignment = self.store.coordinator.handle(NextEntry(self.plan_id, slot, index)).assignment
        written = self.store.coordinator.read(lambda state: self.plan(state).assigner.entry(slot, index))
        assert written is not None and written == replace(assignment, replayed=True)
        return written, assignment.replayed

    def finish_split(self, slot: int, index: int, report: SplitReport) -> None:
        """Reports on an entry."""
        self.store.coordinator.handle(FinishEntry(self.plan_id, slot, index, report))

    def plan(self, state: State) -> HeldPlan:
        """The state of the plan."""
        return state.plans[self.plan_id]

    def settled(self) -> bool:
        """Whether the plan is read to its end."""
        return self.store.coordinator.read(lambda state: self.plan(state).is_settled)

    def reports(self) -> dict[tuple[int, int], SplitReport]:
        """Reports by (slot, index)."""
        return self.store.coordinator.read(lambda state: self.plan(state).reports)


@dataclass
class Store:
    """Plans of a coordinator of their own."""

    coordinator: Coordinator
    opened: int = 0

    def add(self, splits: int, slots: int, request_id: str = "", stream: str = "") -> Held:
        """Adds a plan of `splits` splits of 10 bytes."""

        event = OpenPlan(
            plan_id=f"plan-{self.opened}",
            request_id=request_id,
            table="t",
            query=PlanQuery(QueryKind.SNAPSHOT),
            facts=sizes_alone([10] * splits),
            slots=min(slots, splits),
            stream=stream,
        )
        held = self.coordinator.handle(event)
        self.opened += 1
        return Held(self, held.plan_id)

    def use(self, plan_id: str) -> str:
        """Uses a plan, which renews its time to live."""
        return self.coordinator.handle(UsePlan(plan_id)).plan_id

    def plan_ids(self) -> tuple[str, ...]:
        """All held plans, the longest idle first."""
        self.coordinator.tick()
        return self.coordinator.read(lambda state: tuple(state.plans))


def store_of(clock: Clock, **limits: int) -> Store:
    """A store on that clock."""
    return Store(Coordinator(clock_ms=clock, settings=CoordinatorSettings(**limits)))


def opened(store: Store, splits: int = 2, slots: int = 1) -> Held:
    """A new plan in the store."""
    return store.add(splits, slots)


def settle(held: Held, splits: int = 2) -> None:
    """Reads slot 0 of a one-slot plan to its end, with reports."""
    for index in range(splits):
        held.next_split(0, index)
        held.finish_split(0, index, REPORT)
    held.next_split(0, splits)
