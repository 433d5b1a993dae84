"""Consumer groups in the alignment sets of a service: how far each may read, and what operators see of it.

A group is a member of its set by its own watermark; of a group over tables each table is a member. The set notices a
group by the requests and commits of its readers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.group_lifecycle import GroupState, state_of
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.rounds import NO_ROWS, span_to_come
from penstock.enumerator.core.split_assignment import withheld
from penstock.enumerator.core.state import Group, State
from penstock.enumerator.streams.alignment import set_number
from penstock.enumerator.streams.alignment_sets import AlignmentSets, GroupMember, SetKey
from penstock.proto.model.groups import GroupAlignment
from penstock.proto.model.streams import Alignment, EventTimeCeiling


@dataclass(slots=True)
class _Members:
    """Groups of one set, with their watermarks."""

    set_key: SetKey
    alignment: Alignment
    watermarks: dict[GroupMember, int | None] = field(default_factory=dict)
    without_times: list[GroupMember] = field(default_factory=list)
    """Those without an event time so far, of which none is known to come: they hold back no other member."""
    ended: list[GroupMember] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AlignedGroups:
    """The aligned groups of a service. Any thread."""

    coordinator: Coordinator
    """Holds the state of the groups."""
    sets: AlignmentSets
    """The alignment sets, of groups and of streams."""

    def requested(self, key: GroupKey, tables: Iterable[str]) -> Mapping[str, EventTimeCeiling]:
        """A reader requests splits of the group, or of these tables of a group over tables: how far the group of each
        table may read. Empty if the group is not aligned. ConfigurationError: the set takes no further member."""
        members = self.coordinator.peek(lambda state: _members(state, _groups(state, key, tables)))
        if members is None:
            return {}
        if members.ended:
            self.sets.left(members.set_key, members.ended)
        ceilings = self.sets.requested(members.set_key, members.alignment, members.watermarks)
        lowest = EventTimeCeiling(None, members.alignment.max_drift_us, is_lowest=True)
        return {
            **{each.table: ceiling for each, ceiling in ceilings.items()},
            **{each.table: lowest for each in members.without_times},
        }

    def answered(self, key: GroupKey, ceilings: Mapping[str, EventTimeCeiling], received: Collection[str]) -> None:
        """The request was answered with splits of the tables `received`. A table that waits for slower ones is not
        idle."""

        def read(state: State) -> _Members | None:
            groups = _groups(state, key, ceilings)
            active = (
                group for group in groups if group.key.table in received or withheld(group, ceilings[group.key.table])
            )
            return _members(state, active)

        if ceilings:
            members = self.coordinator.peek(read)
            if members is not None:
                self.sets.advanced(members.set_key, members.watermarks, members.watermarks)

    def committed(self, key: GroupKey) -> None:
        """A reader committed splits of the group of a table."""
        members = self.coordinator.peek(lambda state: _members(state, _groups(state, key, ())))
        if members is not None:
            self.sets.advanced(members.set_key, members.watermarks, members.watermarks)

    def shown(self, state: State, groups: Iterable[Group]) -> dict[GroupKey, GroupAlignment]:
        """How far each of the groups may read now, those of groups over tables included. Call it under the lock of the
        coordinator."""
        groups = [group for group in groups if group.scope.alignment is not None]
        whole = [group for group in groups if group.scope.over_tables]
        of_tables = {group.key: group for group in groups if not group.scope.over_tables}
        for each in whole:
            of_tables.update((group.key, group) for group in state.names.of(each) if group.fits)
        by_set: defaultdict[tuple[SetKey, Alignment], list[Group]] = defaultdict(list)
        for group in of_tables.values():
            if group.scope.alignment is not None:
                by_set[_set_key(state, group, group.scope.alignment), group.scope.alignment].append(group)
        shown: dict[GroupKey, GroupAlignment] = {}
        for (set_key, alignment), members in by_set.items():
            marks = {GroupMember(each.key.table, each.key.group): each.watermark.at_us for each in members}
            ceilings = self.sets.ceilings(set_key, alignment, marks)
            for group in members:
                ceiling = ceilings[GroupMember(group.key.table, group.key.group)]
                held, number = withheld(group, ceiling), set_number(*set_key)
                shown[group.key] = GroupAlignment(alignment.set, ceiling.until_us, held, number)
        for each in whole:
            shown[each.key] = _merged(each, [shown[group.key] for group in state.names.of(each) if group.key in shown])
        return shown


def _groups(state: State, key: GroupKey, tables: Iterable[str]) -> Iterable[Group]:
    """The group, or the groups of these tables if it is over tables."""
    group = state.groups.get(key)
    if group is None or group.scope.alignment is None:
        return ()
    if not group.scope.over_tables:
        return (group,)
    present = state.names.by_table(group)
    return [each for each in map(present.get, tables) if each is not None and each.fits]


def _members(state: State, groups: Iterable[Group]) -> _Members | None:
    """The groups as members of their set. A group that is stopped does not call."""
    members: _Members | None = None
    for group in groups:
        alignment = group.scope.alignment
        if alignment is None or group.stopped is not None:
            continue
        if members is None:
            members = _Members(_set_key(state, group, alignment), alignment)
        member = GroupMember(group.key.table, group.key.group)
        if state_of(group) is GroupState.ENDED:
            members.ended.append(member)
        elif group.watermark.at_us is not None or span_to_come(group.rounds.values(), group.coming) != NO_ROWS:
            members.watermarks[member] = group.watermark.at_us
        else:
            members.without_times.append(member)
    return members


def _set_key(state: State, group: Group, alignment: Alignment) -> SetKey:
    """The set of a group is that of the principal that created it, or the group over tables to which it belongs."""
    whole = state.names.whole_of(group)
    return SetKey((group if whole is None else whole).principal, alignment.set)


def _merged(whole: Group, tables: Iterable[GroupAlignment]) -> GroupAlignment:
    tables = list(tables)
    ceiling_us = max((each.ceiling_us for each in tables if each.ceiling_us is not None), default=None)
    name = "" if whole.scope.alignment is None else whole.scope.alignment.set
    return GroupAlignment(name, ceiling_us, any(each.held for each in tables), set_number(whole.principal, name))
