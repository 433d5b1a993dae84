"""What streams of this process keep between two questions, so that nothing immutable is planned twice. Any thread.

Belongs here: bounded caches. Not here: decisions. Losing any of it costs time alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from penstock.enumerator.continuous.change_probe import Look
from penstock.enumerator.streams.watermark import Reach
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import Plan, Split
from penstock.proto.model.streams import EventTimeRule, StreamPoint, StreamScope

MAX_PLANS: Final = 8
MAX_PLAN_SPLITS: Final = 200_000
"""A larger plan is made again rather than kept."""
MAX_REACHES: Final = 20_000
MAX_LISTS: Final = 4
MAX_IDLE: Final = 64
MAX_MISSING: Final = 1_000
MISSING_MS: Final = 30_000
"""How long a file that a completed instant names, and that is not there, may be out of sight before it is damage."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """The newest `most` values by key."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._held: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, now the newest; None if it is not held (any more)."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def take(self, key: K) -> V | None:
        """The value, which is then held no more."""
        with self._lock:
            return self._held.pop(key, None)

    def put(self, key: K, value: V) -> None:
        """Holds the value."""
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)


@dataclass(frozen=True, slots=True)
class IdleAt:
    """Nothing was new behind a point when the table's files looked like this."""

    point: StreamPoint
    look: Look


@dataclass(frozen=True, slots=True)
class StreamMemory:
    """Plans are kept for one use by (path, request), lists of snapshots by (path, request of the whole, format of
    changes), reaches of ranges by (path, request, rule), idle points by path and scope."""

    plans: Kept[tuple[str, PlanRequest], Plan] = field(default_factory=lambda: Kept(MAX_PLANS))
    lists: Kept[tuple[str, PlanRequest, ChangeFormat | None], tuple[Plan, tuple[Split, ...]]] = field(
        default_factory=lambda: Kept(MAX_LISTS)
    )
    reaches: Kept[tuple[str, PlanRequest, EventTimeRule], Reach] = field(default_factory=lambda: Kept(MAX_REACHES))
    idle: Kept[tuple[str, StreamScope], IdleAt] = field(default_factory=lambda: Kept(MAX_IDLE))
    missing: Kept[tuple[str, str], tuple[int, int]] = field(default_factory=lambda: Kept(MAX_MISSING))

    def may_appear(self, file: tuple[str, str], now_ms: int) -> bool:
        """Whether a file (table's path, its own) that is not there is still waited for: MISSING_MS from when it was
        first asked about here, '' never. What nobody has asked about for ten times as long is forgotten."""
        since_ms, last_ms = self.missing.get(file) or (now_ms, now_ms)
        if now_ms - last_ms > 10 * MISSING_MS:
            since_ms = now_ms
        self.missing.put(file, (since_ms, now_ms))
        return bool(file[1]) and now_ms - since_ms < MISSING_MS

    def keep_plan(self, path: str, request: PlanRequest, plan: Plan) -> None:
        """For the one who will ask for it next."""
        if len(plan.splits) <= MAX_PLAN_SPLITS:
            self.plans.put((path, _planned_alike(request)), plan)

    def take_plan(self, path: str, request: PlanRequest) -> Plan | None:
        """A plan that was just made for such a request."""
        return self.plans.take((path, _planned_alike(request)))


def _planned_alike(request: PlanRequest) -> PlanRequest:
    """What splits do not depend on is left out; tables are told apart by path."""
    return replace(request, table="", slots=0, of_stream="")
