"""Plans that were opened and whose splits are being handed out, in memory.

Belongs here: holding, counting, forgetting. Not here: who gets which split (`assigner`), the log (`events`). The clock
and the ids are passed in. Thread-safe.

A plan is forgotten when it was not used for its time to live: a batch reader never says that it is done, and may come
back. Beyond `max_plans` or `max_splits` the plans that are *settled* (every list sealed, every split reported) and
idle for SETTLED_IDLE_MS make room, the longest idle first; a stream opens a plan each micro-batch and settles it. If
that is not enough, so do those idle for UNSETTLED_IDLE_MS; else the new plan is refused, and none is forgotten for it.
A forgotten plan is an error (UnknownPlan) to whoever asks, never empty.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.assigner import Assigned, Assigner, Assignment, Sealed
from penstock.proto.errors import ConfigurationError, StorageError, UnknownPlan, UnknownSplit
from penstock.proto.reports import EndOfSlot, MergeOutcomes, NextSplit, SplitAnswer, SplitReport
from penstock.proto.splits import Plan

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
SETTLED_IDLE_MS: Final = 60_000
UNSETTLED_IDLE_MS: Final = HOUR_MS
"""A read that stops early (a limit, Spark's `take`, a failure) never settles its plan, and must not fill the store for
a whole time to live. Who comes back after that gets UnknownPlan: a clear error, never an empty answer."""
MAX_PLANS: Final = 2_000
MAX_HELD_SPLITS: Final = 2_000_000


@dataclass(slots=True)
class HeldPlan:
    """A plan, its slots' lists, the reports that came in. Its methods take its own lock."""

    plan_id: str
    plan: Plan
    assigner: Assigner
    query: str = ""
    _reports: dict[tuple[int, int], SplitReport] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def next_split(self, slot: int, index: int) -> tuple[SplitAnswer, bool]:
        """The answer to (slot, index), and whether it was given before."""
        with self._lock:
            told: Assignment = self.assigner.next(slot, index)
        match told:
            case Assigned(split, replayed):
                return NextSplit(self.plan.splits[split]), replayed
            case Sealed(replayed):
                return EndOfSlot(), replayed

    def finish_split(self, slot: int, index: int, report: SplitReport) -> bool:
        """Keeps the report; a later one of the same entry replaces it. Whether it is the first. UnknownSplit if no such
        split was handed out."""
        with self._lock:
            if not self.assigner.holds(slot, index):
                raise UnknownSplit(f"plan {self.plan_id}: slot {slot} was handed no split {index} to report on")
            first = (slot, index) not in self._reports
            self._reports[slot, index] = report
            return first

    def reports(self) -> dict[tuple[int, int], SplitReport]:
        """By (slot, index), in that order."""
        with self._lock:
            return dict(sorted(self._reports.items()))

    def settled(self) -> bool:
        """Whether every split was handed out and reported, and every slot told its end."""
        with self._lock:
            return self.assigner.finished() and len(self._reports) == len(self.plan.splits)


class PlanStore:
    """Plans by id. `clock_ms` never runs backwards; `new_id` gives a new name each time, not to be guessed."""

    def __init__(
        self,
        *,
        clock_ms: Callable[[], int],
        new_id: Callable[[], str],
        ttl_ms: int = DAY_MS,
        max_plans: int = MAX_PLANS,
        max_splits: int = MAX_HELD_SPLITS,
    ) -> None:
        self._clock_ms = clock_ms
        self._new_id = new_id
        self._ttl_ms = ttl_ms
        self._max_plans = max_plans
        self._max_splits = max_splits
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[HeldPlan, int]] = OrderedDict()  # with the time of last use, oldest first
        self._splits = 0

    def add(self, plan: Plan, assigner: Assigner, query: str = "") -> HeldPlan:
        """Keeps the plan under a new id, with the kind of its query. StorageError if there is no room and nothing may
        be forgotten; ConfigurationError for a plan that would not fit into an empty store."""
        if len(plan.splits) > self._max_splits:
            raise ConfigurationError(
                f"the plan of table {plan.scan.table} has {len(plan.splits)} splits, at most {self._max_splits} are "
                "held: read a shorter range, or larger splits"
            )
        with self._lock:
            now_ms = self._clock_ms()
            self._forget_expired(now_ms)
            self._make_room(len(plan.splits), now_ms)
            held = HeldPlan(self._new_id(), plan, assigner, query)
            self._held[held.plan_id] = (held, now_ms)
            self._splits += len(plan.splits)
            return held

    def use(self, plan_id: str) -> HeldPlan:
        """The plan, whose time to live starts anew. UnknownPlan if it was never opened here or is forgotten."""
        with self._lock:
            now_ms = self._clock_ms()
            self._forget_expired(now_ms)
            entry = self._held.get(plan_id)
            if entry is None:
                raise UnknownPlan(
                    f"no plan {plan_id[:80]!r} here: it was opened by another enumerator or before a restart, or was "
                    f"not used for {self._ttl_ms / HOUR_MS:g} hours (less, if room was needed); run the query again to "
                    "open a new plan"
                )
            self._held[plan_id] = (entry[0], now_ms)
            self._held.move_to_end(plan_id)
            return entry[0]

    def plan_ids(self) -> tuple[str, ...]:
        """Every plan held, the one idle longest first."""
        with self._lock:
            self._forget_expired(self._clock_ms())
            return tuple(self._held)

    def _forget_expired(self, now_ms: int) -> None:
        while self._held:
            plan_id, (_, used_ms) = next(iter(self._held.items()))
            if now_ms - used_ms < self._ttl_ms:
                return
            self._forget(plan_id)

    def _make_room(self, splits: int, now_ms: int) -> None:
        plans_over = len(self._held) + 1 - self._max_plans
        splits_over = self._splits + splits - self._max_splits
        spare = self._spare(now_ms)
        leaving: list[str] = []
        while plans_over > 0 or splits_over > 0:
            held = next(spare, None)
            if held is None:
                raise StorageError(
                    f"no room for another plan of {splits} splits: {len(self._held)} plans with {self._splits} splits "
                    f"are held, at most {self._max_plans} and {self._max_splits} are; those not read to their end are "
                    f"kept until unused for {min(self._ttl_ms, UNSETTLED_IDLE_MS) / HOUR_MS:g} h: try again later, "
                    "or start another server"
                )
            leaving.append(held.plan_id)
            plans_over -= 1
            splits_over -= len(held.plan.splits)
        for plan_id in leaving:
            self._forget(plan_id)

    def _spare(self, now_ms: int) -> Iterator[HeldPlan]:
        """The plans that may make room, in the order in which they do."""
        unsettled: list[HeldPlan] = []
        for held, used_ms in self._held.values():
            if now_ms - used_ms < SETTLED_IDLE_MS:
                break
            if held.settled():
                yield held
            elif now_ms - used_ms >= UNSETTLED_IDLE_MS:
                unsettled.append(held)
        yield from unsettled

    def _forget(self, plan_id: str) -> None:
        held, _ = self._held.pop(plan_id)
        self._splits -= len(held.plan.splits)


def total(reports: Iterable[SplitReport]) -> SplitReport:
    """The sum of reports: phases by name in order, the highest event time. No reports: zeros."""
    rows = size_bytes = won = lost = duplicate = deleted = skipped_gaps = skipped_bytes = 0
    pruned_row_groups = pruned_rows = 0
    phases: dict[str, float] = {}
    event_times: list[int] = []
    for report in reports:
        rows += report.rows
        size_bytes += report.size_bytes
        won += report.outcomes.won
        lost += report.outcomes.lost_event_time
        duplicate += report.outcomes.duplicate
        deleted += report.outcomes.deleted
        skipped_gaps += report.skipped_gaps
        skipped_bytes += report.skipped_bytes
        pruned_row_groups += report.pruned_row_groups
        pruned_rows += report.pruned_rows
        for phase, spent_ms in report.phase_ms:
            phases[phase] = phases.get(phase, 0.0) + spent_ms
        if report.max_event_time_us is not None:
            event_times.append(report.max_event_time_us)
    return SplitReport(
        rows=rows,
        size_bytes=size_bytes,
        phase_ms=tuple(sorted(phases.items())),
        outcomes=MergeOutcomes(won=won, lost_event_time=lost, duplicate=duplicate, deleted=deleted),
        max_event_time_us=max(event_times, default=None),
        skipped_gaps=skipped_gaps,
        skipped_bytes=skipped_bytes,
        pruned_row_groups=pruned_row_groups,
        pruned_rows=pruned_rows,
    )
