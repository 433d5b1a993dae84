"""Bounded caches of the streams of this process, so that no plan is computed twice. Any thread.

Losing an entry costs time only.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from penstock.proto.value_classes import dataclass

if TYPE_CHECKING:  # a read that is no stream has these caches too, and needs none of these modules
    from penstock.enumerator.continuous.change_probe import TableFingerprint
    from penstock.enumerator.planning.event_time.span import EventTimeSpan
    from penstock.proto.model.changes import ChangeFormat
    from penstock.proto.model.queries import PlanRequest
    from penstock.proto.model.splits import Plan, Split
    from penstock.proto.model.streams import EventTimeRule, NextBatch, StreamPoint, StreamScope

MAX_PLANS: Final = 8
MAX_PLAN_SPLITS: Final = 200_000
"""A plan with more splits is not cached; it is planned again."""
MAX_SPANS: Final = 20_000
MAX_LISTS: Final = 4
MAX_IDLE: Final = 4_096
MAX_BATCHES: Final = 64
MAX_BATCH_SPLITS: Final = 1_000
"""A batch with more splits is not kept for other streams: it is not that of a new commit, but of a backlog."""
MAX_MISSING: Final = 1_000
MISSING_MS: Final = 30_000
"""How long a file that a completed instant names may be missing before that counts as damage."""

AnswerKey: TypeAlias = "tuple[str, StreamScope, StreamPoint]"
"""The path of a table, what a stream reads of it, and the point after which it asks."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """The most recently used values by key, up to a maximum number."""

    def __init__(self, max_size: int) -> None:
        self._max_size, self._lock = max_size, threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, marked as used; None if it is not cached."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def take(self, key: K) -> V | None:
        """Remove and return the value; None if it is not cached."""
        with self._lock:
            return self._values.pop(key, None)

    def put(self, key: K, value: V) -> None:
        """Cache the value."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._max_size:
                self._values.popitem(last=False)


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """The answer to a call of a stream, which holds for equal calls while the table does not change."""

    batch: NextBatch
    """The answer."""
    fingerprint: TableFingerprint
    """The table's fingerprint, taken before the table was read."""
    plan: Plan | None
    """The plan of the batch; None if nothing was new."""


@dataclass(frozen=True, slots=True)
class StreamPlanCache:
    """The caches of all streams of one process."""

    plans: LruCache[tuple[str, PlanRequest], Plan] = field(default_factory=lambda: LruCache(MAX_PLANS))
    """Plans by (path, request). Each is used once."""
    lists: LruCache[tuple[str, PlanRequest, ChangeFormat | None, str], tuple[Plan, tuple[Split, ...]]] = field(
        default_factory=lambda: LruCache(MAX_LISTS)
    )
    """Snapshots by (path, request of the whole snapshot, format of changes, digest of the splits)."""
    spans: LruCache[tuple[str, PlanRequest, EventTimeRule], EventTimeSpan] = field(
        default_factory=lambda: LruCache(MAX_SPANS)
    )
    """Event-time spans of ranges by (path, request, rule)."""
    idle: LruCache[AnswerKey, KnownAnswer] = field(default_factory=lambda: LruCache(MAX_IDLE))
    """Answers that nothing is new."""
    batches: LruCache[AnswerKey, KnownAnswer] = field(default_factory=lambda: LruCache(MAX_BATCHES))
    """Answers with a batch of a new commit."""
    missing: LruCache[tuple[str, str], tuple[int, int]] = field(default_factory=lambda: LruCache(MAX_MISSING))
    """Missing files by (path of the table, path of the file): the first and last time, ms, when one was needed."""

    def known(self, key: AnswerKey) -> KnownAnswer | None:
        """The last answer to an equal call."""
        return self.idle.get(key) or self.batches.get(key)

    def keep_answer(self, key: AnswerKey, answer: KnownAnswer) -> None:
        """Cache the answer for equal calls, instead of an earlier one."""
        self.idle.take(key)
        self.batches.take(key)
        if answer.batch.point == key[2]:
            self.idle.put(key, answer)
        elif answer.plan is not None and len(answer.plan.splits) <= MAX_BATCH_SPLITS:
            self.batches.put(key, answer)

    def may_appear(self, file: tuple[str, str], now_ms: int) -> bool:
        """Whether a missing file (path of the table, path of the file) may still appear.

        It may for MISSING_MS after it was first needed here; '' never. After ten times as long without a call the file
        is forgotten.
        """
        since_ms, last_ms = self.missing.get(file) or (now_ms, now_ms)
        if now_ms - last_ms > 10 * MISSING_MS:
            since_ms = now_ms
        self.missing.put(file, (since_ms, now_ms))
        return bool(file[1]) and now_ms - since_ms < MISSING_MS

    def keep_plan(self, path: str, request: PlanRequest, plan: Plan) -> None:
        """Cache a plan that the client requests next."""
        if len(plan.splits) <= MAX_PLAN_SPLITS:
            self.plans.put((path, _plan_key(request)), plan)

    def kept_plan(self, path: str, request: PlanRequest) -> Plan | None:
        """The plan that is cached for an equal request, which stays cached."""
        return self.plans.get((path, _plan_key(request)))

    def take_plan(self, path: str, request: PlanRequest) -> Plan | None:
        """Remove and return the plan that was cached for an equal request."""
        return self.plans.take((path, _plan_key(request)))


def answer_key(path: str, scope: StreamScope, point: StreamPoint) -> AnswerKey:
    """The key of a call: equal for streams that differ only in who they are."""
    request = replace(scope.request, table="", slots=0, of_stream="")
    return path, replace(scope, request=request, name="", principal="", alignment=None, ceiling=None), point


def _plan_key(request: PlanRequest) -> PlanRequest:
    """The request without the fields that do not affect splits. The path identifies the table."""
    return replace(request, table="", slots=0, of_stream="")
