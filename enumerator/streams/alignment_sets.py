"""The alignment sets of a service, in bounded memory: their members, by the calls that these make.

Members are streams and consumer groups. Nothing is stored: a member of a set is known from its first call after a
restart of the server. Any thread.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.enumerator.streams.alignment import (
    DEFAULT_IDLE_MS,
    AlignedMember,
    ceiling_of,
    ceilings_of,
    is_held,
    is_silent,
)
from penstock.enumerator.streams.stream_registry import StreamKey, stream_key
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.streams import Alignment, EventTimeCeiling, NextBatch, StreamPoint, StreamScope

MAX_MEMBERS: Final = 100
"""Members of a set. The tables of a group over tables count as one."""
MAX_OF_PRINCIPAL: Final = 1_000
"""Members of all sets of one caller, counted in the same way."""

NextBatchCall = Callable[[StreamScope, StreamPoint], NextBatch]
"""Plans the batch after a point."""


class GroupMember(NamedTuple):
    """Identifies the consumer group of a table. Not equal to any `StreamKey`, which has three fields."""

    table: str
    """The table's name."""
    group: str
    """The group's name."""


MemberKey = StreamKey | GroupMember


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
        self._sets: dict[SetKey, dict[MemberKey, AlignedMember]] = {}

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
        key, now_ms, watermark_us = stream_key(scope), self._clock_ms(), point.watermark.at_us
        with self._lock:
            members = self._called(SetKey(scope.principal, alignment.set), alignment, [(key, watermark_us)], now_ms)
            others = [member for other, member in members.items() if other != key]
        return replace(scope, ceiling=ceiling_of(watermark_us, alignment.max_drift_us, others, now_ms))

    # --- groups

    def requested(
        self, set_key: SetKey, alignment: Alignment, watermarks: Mapping[GroupMember, int | None]
    ) -> dict[GroupMember, EventTimeCeiling]:
        """A reader requests splits of these groups, which have these watermarks: how far each may read.

        ConfigurationError as for `next_batch`.
        """
        now_ms = self._clock_ms()
        with self._lock:
            members = self._called(set_key, alignment, list(watermarks.items()), now_ms)
            return ceilings_of(watermarks, alignment.max_drift_us, members.values(), now_ms)

    def advanced(
        self, set_key: SetKey, watermarks: Mapping[GroupMember, int | None], active: Collection[GroupMember]
    ) -> None:
        """The groups have these watermarks now. `active`: those that received or committed splits, or were held."""
        now_ms = self._clock_ms()
        with self._lock:
            members = self._sets.get(set_key, {})
            for key, at_us in watermarks.items():
                member = members.get(key)
                if member is not None:
                    members[key] = AlignedMember(
                        watermark_us=at_us,
                        idle_timeout_ms=member.idle_timeout_ms,
                        active_ms=now_ms if key in active else member.active_ms,
                        seen_ms=now_ms,
                    )

    def left(self, set_key: SetKey, groups: Iterable[GroupMember]) -> None:
        """The groups read nothing more: they do not hold back the others."""
        with self._lock:
            members = self._sets.get(set_key, {})
            for key in groups:
                members.pop(key, None)

    def ceilings(
        self, set_key: SetKey, alignment: Alignment, watermarks: Mapping[GroupMember, int | None]
    ) -> dict[GroupMember, EventTimeCeiling]:
        """How far each group may read now. Changes nothing."""
        now_ms = self._clock_ms()
        with self._lock:
            members = list(self._sets.get(set_key, {}).values())
        return ceilings_of(watermarks, alignment.max_drift_us, members, now_ms)

    # --- members

    def _called(
        self, set_key: SetKey, alignment: Alignment, watermarks: Sequence[tuple[MemberKey, int | None]], now_ms: int
    ) -> dict[MemberKey, AlignedMember]:
        """The members of the set, after these called. A new member is active at once."""
        self._forget(now_ms)
        members = self._sets.get(set_key, {})
        new = [key for key, _ in watermarks if key not in members]
        if new:
            self._check_room(set_key, members, new)
        members = self._sets.setdefault(set_key, members)
        for key, at_us in watermarks:
            before = members.get(key)
            members[key] = AlignedMember(
                watermark_us=at_us,
                idle_timeout_ms=_idle_ms(alignment),
                active_ms=now_ms if before is None else before.active_ms,
                seen_ms=now_ms,
            )
        return members

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

    def _check_room(
        self, set_key: SetKey, members: Mapping[MemberKey, AlignedMember], more: Iterable[MemberKey]
    ) -> None:
        readers = _readers(members)
        if _readers(more) <= readers:
            return  # further tables of a group over tables
        of_principal = Counter({key.principal: 0 for key in self._sets})
        for key, each in self._sets.items():
            of_principal[key.principal] += len(_readers(each))
        if len(readers) >= MAX_MEMBERS or of_principal[set_key.principal] >= MAX_OF_PRINCIPAL:
            raise ConfigurationError(
                f"alignWith={set_key.name}: the set has {len(readers)} members (at most {MAX_MEMBERS}), and all "
                f"sets of this caller have {of_principal[set_key.principal]} (at most {MAX_OF_PRINCIPAL})"
            )


def _readers(members: Iterable[MemberKey]) -> set[tuple[str, ...]]:
    """The members, those of one group name as one."""
    return {(key.group,) if isinstance(key, GroupMember) else tuple(key) for key in members}


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
