"""The plan API: held plans and the lists of their slots. Pure decisions; see `decide`.

A plan is forgotten when it was not used for its time to live: a batch reader does not report its end, and may come
back. Beyond `max_plans` or `max_held_splits` the plans that are *settled* (every list sealed, every split reported) and
idle for SETTLED_IDLE_MS make room, the longest idle first. If that is not enough, so do those idle for
UNSETTLED_IDLE_MS; else the new plan is refused, and none is forgotten for it. A stream opens a plan each micro-batch
and never comes back to an older one: when it opens another, all but its newest STREAM_PLANS are forgotten, if they are
idle.
A call for a forgotten plan is an error (UnknownPlan), never an empty answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import EntryReported, PlanOpened, PlansForgotten, PlanUsed, Record, SlotsAsked
from penstock.enumerator.core.results import HOUR_MS, CoordinatorSettings, Decision, Entry, PlanHeld, Reported
from penstock.enumerator.core.state import HeldPlan, State
from penstock.proto.errors import ConfigurationError, RequestIdReused, StorageError, UnknownPlan, UnknownSplit

SETTLED_IDLE_MS: Final = 60_000
"""How long a settled plan is idle before it may be forgotten to make room."""
STREAM_PLANS: Final = 8
"""Plans of one stream that are held however old they are: a query may scan a table more than once."""
UNSETTLED_IDLE_MS: Final = HOUR_MS
"""A read that stops early (a limit, Spark's `take`, a failure) never settles its plan, and must not fill the state for
a whole time to live. A later call gets UnknownPlan."""


def opened_by(state: State, request_id: str, table: str, digest: str) -> str | None:
    """The plan that a request of this id, table and content opened; None if there is none. RequestIdReused if it opened
    one of another table or content. A plan of a release without digests has none: only its table is compared."""
    plan_id = state.requests.get(request_id) if request_id else None
    if plan_id is None:
        return None
    held = state.plans[plan_id]
    if held.table != table or (held.digest and held.digest != digest):
        raise RequestIdReused(
            f"table {table[:200]!r}: the request id of this call opened a plan of other content, which is still held: "
            "give each new request an id of its own; a repeated call must be equal to the first"
        )
    return plan_id


def open_plan(state: State, event: ev.OpenPlan, now_ms: int, settings: CoordinatorSettings) -> Decision[PlanHeld]:
    """Holds the plan. StorageError if there is no room and nothing may be forgotten; ConfigurationError for a plan that
    would not fit into an empty state; RequestIdReused."""
    held = state.requests.get(event.request_id) if event.request_id else None
    if held is not None and not _is_expired(state.plans[held], now_ms, settings):
        opened_by(state, event.request_id, event.table, event.digest)
        return Decision((PlanUsed(held, now_ms),), _held(state.plans[held]))
    if len(event.facts) > settings.max_held_splits:
        raise ConfigurationError(
            f"the plan of table {event.table} has {len(event.facts)} splits, at most {settings.max_held_splits} are "
            "held: read a shorter range, or larger splits"
        )
    evicted = _evicted(state, len(event.facts), now_ms, settings)
    evicted += tuple(plan_id for plan_id in _older_batches(state, event.stream, now_ms) if plan_id not in evicted)
    forgotten: tuple[Record, ...] = (PlansForgotten(evicted),) if evicted else ()
    opened = PlanOpened(
        plan_id=event.plan_id,
        request_id=event.request_id,
        table=event.table,
        query=event.query,
        facts=event.facts,
        slots=event.slots,
        stream=event.stream,
        digest=event.digest,
    )
    answer = PlanHeld(event.plan_id, event.slots, len(event.facts), int(event.facts.sizes.sum()))
    return Decision((*forgotten, opened, PlanUsed(event.plan_id, now_ms)), answer)


def _held(plan: HeldPlan) -> PlanHeld:
    return PlanHeld(plan.plan_id, plan.assigner.slots, len(plan.facts), int(plan.facts.sizes.sum()))


def use(state: State, plan_id: str, now_ms: int, settings: CoordinatorSettings) -> Decision[PlanHeld]:
    """The time to live of the plan starts again. UnknownPlan if it was never opened here or is forgotten."""
    plan = plan_of(state, plan_id, now_ms, settings)
    return Decision((PlanUsed(plan_id, now_ms),), _held(plan))


def next_entry(state: State, event: ev.NextEntry, now_ms: int, settings: CoordinatorSettings) -> Decision[Entry]:
    """The entry of the list; the next entry is appended to the list. UnknownSplit as in `SlotAssigner.next`."""
    plan = plan_of(state, event.plan_id, now_ms, settings)
    assignment = plan.assigner.entry(event.slot, event.index)
    used = PlanUsed(event.plan_id, now_ms)
    if assignment is not None:
        return Decision((used,), Entry(assignment, plan.table, plan.query))
    entry = Entry(plan.assigner.upcoming(event.slot), plan.table, plan.query)
    return Decision((SlotsAsked(event.plan_id, (event.slot,)), used), entry)


def finish_entry(state: State, event: ev.FinishEntry, now_ms: int, settings: CoordinatorSettings) -> Decision[Reported]:
    """Accepts the report; a later report replaces it. UnknownSplit if no such split was handed out."""
    held = plan_of(state, event.plan_id, now_ms, settings)
    if not held.assigner.holds(event.slot, event.index):
        raise UnknownSplit(f"plan {event.plan_id}: slot {event.slot} was handed no split {event.index} to report on")
    reported = EntryReported(event.plan_id, event.slot, event.index, event.report)
    is_first = (event.slot, event.index) not in held.reports
    answer = Reported(is_first, held.table, held.query)
    return Decision((PlanUsed(event.plan_id, now_ms), reported), answer)


def plan_of(state: State, plan_id: str, now_ms: int, settings: CoordinatorSettings) -> HeldPlan:
    """The plan, or UnknownPlan."""
    held = state.plans.get(plan_id)
    if held is None or _is_expired(held, now_ms, settings):
        raise UnknownPlan(
            f"no plan {plan_id[:80]!r} here: it was opened by another enumerator or before a restart, or was not used "
            f"for {settings.plan_ttl_ms / HOUR_MS:g} hours (less, if room was needed); run the query again to open a "
            "new plan"
        )
    return held


def expired(state: State, now_ms: int, settings: CoordinatorSettings) -> tuple[Record, ...]:
    """Forgets the plans whose time to live has ended."""
    evicted = tuple(_expired_ids(state, now_ms, settings))
    return (PlansForgotten(evicted),) if evicted else ()


def used(state: State, now_ms: int) -> Iterator[Record]:
    """The time to live of every plan starts again."""
    yield from (PlanUsed(plan_id, now_ms) for plan_id in tuple(state.plans))


def _is_expired(held: HeldPlan, now_ms: int, settings: CoordinatorSettings) -> bool:
    return now_ms - held.used_ms >= settings.plan_ttl_ms


def _expired_ids(state: State, now_ms: int, settings: CoordinatorSettings) -> Iterator[str]:
    for plan_id, held in state.plans.items():
        if not _is_expired(held, now_ms, settings):
            return
        yield plan_id


def _older_batches(state: State, stream: str, now_ms: int) -> list[str]:
    """Batches of a stream that are no longer needed when it opens another one; not its newest, nor those in use."""
    if not stream:
        return []
    batches = [plan_id for plan_id, held in state.plans.items() if held.stream == stream]
    older = batches[: max(0, len(batches) + 1 - STREAM_PLANS)]
    return [plan_id for plan_id in older if now_ms - state.plans[plan_id].used_ms >= SETTLED_IDLE_MS]


def _evicted(state: State, splits: int, now_ms: int, settings: CoordinatorSettings) -> tuple[str, ...]:
    """The plans to forget so that another plan of so many splits fits. StorageError if that is impossible."""
    evicted = list(_expired_ids(state, now_ms, settings))
    plans = len(state.plans) - len(evicted)
    held_splits = state.plan_splits - sum(len(state.plans[plan_id].facts) for plan_id in evicted)

    def has_room() -> bool:
        return plans < settings.max_plans and held_splits + splits <= settings.max_held_splits

    for plan_id in _evictable(state, len(evicted), now_ms):
        if has_room():
            break
        evicted.append(plan_id)
        plans -= 1
        held_splits -= len(state.plans[plan_id].facts)
    if not has_room():
        raise StorageError(
            f"no room for another plan of {splits} splits: {len(state.plans)} plans with {state.plan_splits} splits "
            f"are held, at most {settings.max_plans} and {settings.max_held_splits} are; those not read to their end "
            f"are kept until unused for {min(settings.plan_ttl_ms, UNSETTLED_IDLE_MS) / HOUR_MS:g} h: try again later, "
            "or start another server"
        )
    return tuple(evicted)


def _evictable(state: State, skip: int, now_ms: int) -> Iterator[str]:
    """The plans that may be forgotten to make room, in this order."""
    unsettled: list[str] = []
    for number, (plan_id, held) in enumerate(state.plans.items()):
        if number < skip:
            continue
        idle_ms = now_ms - held.used_ms
        if idle_ms < SETTLED_IDLE_MS:
            break
        if held.is_settled:
            yield plan_id
        elif idle_ms >= UNSETTLED_IDLE_MS:
            unsettled.append(plan_id)
    yield from unsettled
