"""The alignment sets of a service, in bounded memory: their members, by the calls that these make.

Nothing is stored: a member of a set is known from its first call after a restart of the server. Any thread.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.enumerator.streams.alignment import DEFAULT_IDLE_MS, AlignedMember, ceiling_of, is_held, is_silent
from penstock.enumerator.streams.stream_registry import StreamKey, stream_key
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.streams import Alignment, NextBatch, StreamPoint, StreamScope

MAX_MEMBERS: Final = 100
"""Members of a set."""
MAX_OF_PRINCIPAL: Final = 1_000
"""Members of all sets of one caller."""

NextBatchCall = Callable[[StreamScope, StreamPoint], NextBatch]
"""Plans the batch after a point."""


class SetKey(NamedTuple):
    """Identifies a set."""

    principal: str
    """The caller: sets of different callers are different."""
    name: str
    """The name of the set."""


class AlignmentSets:
    """Decides how far aligned streams may read. `clock_ms` never runs backwards."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._sets: dict[SetKey, dict[StreamKey, AlignedMember]] = {}

    def next_batch(
        self, scope: StreamScope, alignment: Alignment, point: StreamPoint, plan: NextBatchCall
    ) -> tuple[StreamScope, NextBatch]:
        """The scope with its ceiling, and the batch after the point, which `plan` plans unless the stream is held.

        ConfigurationError: the set has MAX_MEMBERS, or the caller MAX_OF_PRINCIPAL.
        """
        scope = self._with_ceiling(scope, alignment, point)
        if scope.ceiling is not None and is_held(point.watermark.at_us, scope.ceiling):
            batch = NextBatch(point=point, held=True)
        else:
            batch = plan(scope, point)
        self._answered(scope, alignment, point, batch)
        return scope, batch

    def _with_ceiling(self, scope: StreamScope, alignment: Alignment, point: StreamPoint) -> StreamScope:
        if point.ended:
            return scope
        key, now_ms = stream_key(scope), self._clock_ms()
        with self._lock:
            self._forget(now_ms)
            set_key = SetKey(scope.principal, alignment.set)
            members = self._sets.get(set_key, {})
            if key not in members:
                self._check_room(set_key, members)
            before = members.get(key)
            watermark_us = point.watermark.at_us
            members = self._sets.setdefault(set_key, {})
            members[key] = AlignedMember(
                watermark_us=watermark_us,
                idle_timeout_ms=_idle_ms(alignment),
                active_ms=now_ms if before is None else before.active_ms,
                seen_ms=now_ms,
            )
            others = [member for other, member in members.items() if other != key]
        return replace(scope, ceiling=ceiling_of(watermark_us, alignment.max_drift_us, others, now_ms))

    def _answered(self, scope: StreamScope, alignment: Alignment, point: StreamPoint, batch: NextBatch) -> None:
        key, set_key, now_ms = stream_key(scope), SetKey(scope.principal, alignment.set), self._clock_ms()
        with self._lock:
            members = self._sets.get(set_key, {})
            member = members.get(key)
            if member is None:
                return
            if _has_finished(scope, point, batch):
                del members[key]
            elif batch.held or batch.point != point:
                members[key] = replace(member, watermark_us=batch.point.watermark.at_us, active_ms=now_ms)

    def _forget(self, now_ms: int) -> None:
        """Removes members that have not called for their idle timeout. An idle member that still calls remains, so
        that its next call does not make it active again."""
        for set_key, members in list(self._sets.items()):
            for key in [key for key, member in members.items() if is_silent(member, now_ms)]:
                del members[key]
            if not members:
                del self._sets[set_key]

    def _check_room(self, set_key: SetKey, members: dict[StreamKey, AlignedMember]) -> None:
        of_principal = Counter({key.principal: 0 for key in self._sets})
        for key, each in self._sets.items():
            of_principal[key.principal] += len(each)
        if len(members) >= MAX_MEMBERS or of_principal[set_key.principal] >= MAX_OF_PRINCIPAL:
            raise ConfigurationError(
                f"alignWith={set_key.name}: the set has {len(members)} members (at most {MAX_MEMBERS}), and all "
                f"sets of this caller have {of_principal[set_key.principal]} (at most {MAX_OF_PRINCIPAL})"
            )


def _idle_ms(alignment: Alignment) -> int:
    idle_us = alignment.idle_timeout_us
    return DEFAULT_IDLE_MS if idle_us is None else max(1, idle_us // 1000)


def _has_finished(scope: StreamScope, point: StreamPoint, batch: NextBatch) -> bool:
    """Whether the stream reads nothing more in this run: it leaves its set at once, so that a run with a fixed end can
    read the rest of the other streams."""
    if batch.point.ended:
        return True
    if scope.target is None or batch.held:
        return False
    place = batch.point.snapshot
    in_snapshot = place is not None and place.done < place.total
    return batch.point == point or (not in_snapshot and batch.point.progress.position >= scope.target)
