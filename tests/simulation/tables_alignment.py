"""Alignment in a schedule of a group over tables: the calls of the service, and independent checks of its decisions.

A table is *moving* if it received or committed splits, or waited, within the idle timeout; no longer ago than the start
of the server, which stores no set. Moving tables are a part of those that must be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import records as rec
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import Committed, SplitsGranted
from penstock.enumerator.core.split_assignment import choose
from penstock.enumerator.core.state import Group, Reader, State
from penstock.enumerator.groups.aligned_groups import AlignedGroups
from penstock.enumerator.streams.alignment_sets import AlignmentSets
from penstock.proto.errors import PenstockError
from penstock.proto.model.groups import GroupScope, NothingYet
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import Alignment, EventTimeCeiling, EventTimeRule
from tests.simulation.checkers import fail
from tests.simulation.tables_ledger import LATENESS_US

if TYPE_CHECKING:
    from tests.simulation.tables_world import World

KEY: Final = GroupKey("s.*", "g")
DRIFT_US: Final = 4_000
IDLE_MS: Final = 3_000
UNLIMITED: Final = EventTimeCeiling(2**63 - 1, 0, is_lowest=True)
"""Withholds nothing."""
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
T = TypeVar("T")


def scope_of(*, is_timed: bool, is_aligned: bool) -> GroupScope:
    """What the group consumes."""
    aligned = Alignment(set="s", max_drift_us=DRIFT_US, idle_timeout_us=IDLE_MS * 1_000)
    return GroupScope(
        request=PlanRequest(table=KEY.table, query=Incremental(), event_time="at" if is_timed else ""),
        over_tables=True,
        rule=EventTimeRule(max_out_of_orderness_us=LATENESS_US) if is_timed else None,
        alignment=aligned if is_aligned else None,
    )


@dataclass(frozen=True, slots=True)
class _Peek:
    """The state of the server, for `AlignedGroups`."""

    world: World

    def peek(self, at: Callable[[State], T]) -> T:
        """The result of `at` on the state."""
        return at(self.world.state)


class SimulatedAlignment:
    """The alignment set of one server process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.groups = AlignedGroups(_Peek(world), AlignmentSets(lambda: world.now))  # type: ignore[arg-type]
        self._moved_ms: dict[str, int] = {}

    def ceilings(self, tables: tuple[str, ...]) -> Mapping[str, EventTimeCeiling]:
        """How far each table may be read; the request is under way."""
        return self.groups.requested(KEY, tables)

    def handled(self, event: ev.Event[Any], answer: Any) -> None:
        """Notes what was handed out and committed."""
        if isinstance(answer, PenstockError) or self.world.scope.alignment is None:
            return
        if isinstance(event, ev.RequestSplits):
            granted = answer.splits if isinstance(answer, SplitsGranted) else ()
            self.groups.answered(KEY, event.ceilings, {one.table for one in granted})
        elif isinstance(event, ev.CommitSplits) and isinstance(answer, Committed):
            key = GroupKey(event.member.table, event.member.group)
            self.groups.committed(key)
            if self.world.state.groups[key].stopped is None:  # one that is stopped does not hold back the others
                self._moved_ms[key.table] = self.world.now

    # --- checks

    def check(self, event: ev.RequestSplits, records: tuple[rec.Record, ...], answer: Any) -> None:
        """No table is read further than the drift above the lowest one that moves, and the lowest of all may always
        go on."""
        if self.world.scope.alignment is None:
            return
        groups = {group.key.table: group for group in self._groups(event.tables)}
        lowest_us = self._lowest_moving(groups)
        for table, group in groups.items():
            at_us = group.watermark.at_us
            if lowest_us is None or at_us is None or at_us <= lowest_us:
                continue
            for high_us in self._new_highs(group, event, records):
                if high_us > lowest_us + DRIFT_US:
                    fail("aligned", f"{table} at {at_us} receives {high_us}, and another table is at {lowest_us}")
            if group.pending and at_us > lowest_us + DRIFT_US and table not in event.without:
                self.world.faults["table waited"] += 1
                self._moved_ms[table] = self.world.now
        for granted in answer.splits if isinstance(answer, SplitsGranted) else ():
            self._moved_ms[granted.table] = self.world.now
        is_new = any(isinstance(record, rec.NothingGranted) for record in records)  # no repeated answer
        if isinstance(answer, NothingYet) and is_new and not event.without:
            self._check_slowest(event, groups)

    def _groups(self, tables: tuple[str, ...]) -> Iterator[Group]:
        for table in tables:
            group = self.world.state.groups.get(GroupKey(table, KEY.group))
            if group is not None and group.stopped is None:
                yield group

    def _lowest_moving(self, groups: Mapping[str, Group]) -> int | None:
        marks = [
            group.watermark.at_us
            for table, group in groups.items()
            if self.world.now - self._moved_ms.get(table, -IDLE_MS) < IDLE_MS and group.watermark.at_us is not None
        ]
        return min(marks, default=None)

    @staticmethod
    def _new_highs(group: Group, event: ev.RequestSplits, records: tuple[rec.Record, ...]) -> Iterator[int]:
        """The upper bounds of the splits that the member did not hold before, where they are known."""
        own = group.readers.get(event.member.reader_id)
        for record in records:
            if isinstance(record, rec.SplitsAssigned) and record.key == group.key:
                for plan_id, index in record.splits:
                    facts = group.rounds[plan_id].facts
                    if (own is None or (plan_id, index) not in own.held) and facts.highs_us is not None:
                        yield int(facts.highs_us[index])  # the lowest number if it is unknown

    def _check_slowest(self, event: ev.RequestSplits, groups: Mapping[str, Group]) -> None:
        whole = self.world.state.groups[KEY]
        if {group.key.table for group in self.world.state.names.of(whole)} != set(groups):
            return  # a table that is stopped or not served may be the slowest one
        marks = [group.watermark.at_us for group in groups.values()]
        for table, group in groups.items():
            at_us = group.watermark.at_us
            is_lowest = at_us is None or all(mark is not None and at_us <= mark for mark in marks)
            reader = group.readers.get(event.member.reader_id) or Reader(event.member.reader_id, 0, "")
            if is_lowest and choose(group, reader, 1, UNLIMITED):
                fail("held", f"{table} at {at_us} is the slowest table, has splits to read, and received none")
