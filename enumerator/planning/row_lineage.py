"""Who wrote the rows that a service stamped: the file slices in which a range finds out. Pure.

Hudi 1.2.0's log compaction and bucket rescale write their own instant into `_hoodie_commit_time`. Where such rows
have gone into a base file, they do not tell which instant wrote them; the slice that the service rewrote does.
Here: which services' rows a base file may hold, and what they were made of. Not here: looking there (reader).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from penstock.enumerator.planning.selection import RESCALE, Selection, asks_ancestors
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import Exclusions, Origin, RowLineage, RowsOf, Split
from penstock.table.files.slices import (
    DataFile,
    FileSlice,
    GroupId,
    VisibleFiles,
    group_files,
    slice_group,
    visible_files,
)
from penstock.table.timeline.commits import CommitMetadata

_MOST_RESCALES: Final = 8
"""Bucket rescales of one partition inside a range, one on top of the other, that are looked through."""

SplitOf = Callable[[GroupId, VisibleFiles, "RowLineage | None", "Exclusions | None"], Split]


@dataclass(frozen=True, slots=True)
class _Write:
    """A data instant that wrote into a group, and whether it is of the range."""

    order_key: str
    is_inside: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """A file slice that a log compaction wrote into: the `place`-th of its group's."""

    group: GroupId
    slices: tuple[FileSlice, ...]
    place: int

    @property
    def key(self) -> str:
        return self.slices[self.place].key


class RowLineages:
    """The ancestry of a range's splits."""

    def __init__(self, state: TableState, selection: Selection, split_of: SplitOf) -> None:
        """`split_of` makes a split of the files that are read to find out."""
        self._state, self._selection, self._split_of = state, selection, split_of
        rows = selection.rows
        self._services = rows.log_compactions if isinstance(rows, RowsOf) else frozenset()
        self._by_group: dict[GroupId, list[DataFile]] = {}
        self._compacted: dict[GroupId, list[tuple[InstantTime, str]]] = {}
        self._written: dict[GroupId, list[_Write]] = {}
        if asks_ancestors(selection):
            self._by_group = group_files(state.files)
            self._look_into_commits()

    def _look_into_commits(self) -> None:
        """By group: what log compactions wrote into it (instant, path), and which data instants wrote."""
        timeline = self._state.facts.timeline
        self._order_keys = {item.requested_time: timeline.order_key(item) for item in timeline.completed_writes}
        for requested_time, commit in self._state.facts.commits.items():
            order_key = self._order_keys[commit.requested_time]
            for stat in commit.stats:
                group = (stat.partition, stat.file_id)
                write = _Write(order_key, self._selection.holds(requested_time, group))
                if not commit.is_service:
                    self._written.setdefault(group, []).append(write)
                elif requested_time in self._services and stat.path:
                    self._compacted.setdefault(group, []).append((commit.requested_time, stat.path))

    def told(self, group: GroupId, files: VisibleFiles, depth: int = 0) -> tuple[RowLineage | None, Exclusions | None]:
        """What a split with these files must be told."""
        ancestry = self.of(group, files.base, depth)
        left_out = self._left_out(group, files)
        if left_out is not None and left_out.some_rows:
            origin = self._undelivered(group, files, depth)
            ancestry = ancestry or RowLineage()
            if origin is not None:
                origins = sorted((*ancestry.origins, origin), key=lambda item: item.service)
                ancestry = replace(ancestry, origins=tuple(origins))
        return ancestry, left_out

    def _left_out(self, group: GroupId, files: VisibleFiles) -> Exclusions | None:
        """None if the range's ends inside instants make no difference to the group."""
        start, end = self._selection.starts_at, self._selection.ends_at
        rows: frozenset[InstantTime] = frozenset()
        some_rows: frozenset[InstantTime] = frozenset()
        if start is not None and start.before and isinstance(self._selection.rows, RowsOf):
            groups = self._groups_of(group, files)
            if not groups.isdisjoint(start.before):
                own = frozenset([start.instant])
                rows, some_rows = (own, rows) if groups.isdisjoint(start.behind) else (rows, own)
        blocks = end is not None and group in end.behind and bool(files.logs)
        if not (rows or some_rows or blocks):
            return None
        unseen = frozenset([end.instant]) if end is not None and blocks else frozenset()
        return Exclusions(rows=rows, some_rows=some_rows, blocks=unseen)

    def _groups_of(self, group: GroupId, files: VisibleFiles) -> frozenset[GroupId]:
        """The groups whose rows the files may hold."""
        return self._lineage(group, files.base.name.instant)[0] if files.base is not None else frozenset([group])

    def _undelivered(self, group: GroupId, files: VisibleFiles, depth: int) -> Origin | None:
        """Where the rows stand that the range's first instant wrote behind the cut; None if a file is gone.

        A clustering put them side by side with those before the cut, and the groups that it replaced stay as they were.
        """
        start = self._selection.starts_at
        if start is None or depth > _MOST_RESCALES or group in start.behind:
            return None
        splits = []
        for source in sorted(self._groups_of(group, files) & start.behind):
            found = visible_files(self._slices(source), self._selection.view_of(source), self._state.committed)
            if found is None or not all(file.listed for file in found.files):
                return None
            splits.append(self._split_of(source, found, *self.told(source, found, depth + 1)))
        return Origin(start.instant, tuple(splits))

    def of(self, group: GroupId, base: DataFile | None, depth: int = 0) -> RowLineage | None:
        """Of a split with this base file; None if no service can have stamped any of its rows."""
        if not self._services or base is None or depth > _MOST_RESCALES:
            return None
        groups, rescales = self._lineage(group, base.name.instant)
        places = self._places(groups, group, base.name.instant)
        if not places and not rescales:
            return None
        inside: set[InstantTime] = set()
        outside: set[InstantTime] = set()
        origins: list[Origin] = []
        for service, found in places.items():
            writers = [self._writers(service, place) for place in found]
            if not any(mine for mine, _ in writers):
                outside.add(service)
            elif not any(others for _, others in writers):
                inside.add(service)
            elif (slices := self._log_compaction(service, found)) is not None:
                origins.append(Origin(service, slices))
        for service in rescales:
            if not self._wrote_before(service, group[0]):
                outside.add(service)
            elif (slices := self._rescale(service, group[0], depth)) is not None:
                origins.append(Origin(service, slices))
        origins.sort(key=lambda origin: origin.service)
        return RowLineage(inside=frozenset(inside), outside=frozenset(outside), origins=tuple(origins))

    def _lineage(self, group: GroupId, base_instant: str) -> tuple[frozenset[GroupId], tuple[InstantTime, ...]]:
        """(the groups whose rows may have come into the base file by clustering, itself among them; the bucket
        rescales in between that stamped rows)."""
        groups, rescales = {group}, set()
        waiting = [(group, base_instant)]
        while waiting:
            current, upto = waiting.pop()
            for item in self._slices(current):
                commit = self._commit(item)
                if item.key > upto or commit is None or not (commit.is_service and commit.replaced):
                    continue
                if commit.operation == RESCALE:
                    if commit.requested_time in self._services:
                        rescales.add(commit.requested_time)
                    continue
                inputs = {replaced for replaced in commit.replaced if replaced[0] == current[0]} - groups
                groups |= inputs
                waiting += [(replaced, commit.requested_time) for replaced in inputs]
        return frozenset(groups), tuple(sorted(rescales))

    def _places(self, groups: Iterable[GroupId], own: GroupId, base_instant: str) -> dict[InstantTime, list[_Place]]:
        """Where the log compactions wrote whose rows may be in the base file; `own` slices only before it."""
        found: dict[InstantTime, list[_Place]] = {}
        for group in sorted(groups):
            slices = self._slices(group) if group in self._compacted else ()
            for service, path in self._compacted.get(group, ()):
                for place, item in enumerate(slices):
                    if (group != own or item.key < base_instant) and any(log.ref.path == path for log in item.logs):
                        found.setdefault(service, []).append(_Place(group, slices, place))
        return found

    def _slices(self, group: GroupId) -> tuple[FileSlice, ...]:
        pending = self._state.pending_compactions.get(group, frozenset())
        return slice_group(self._by_group.get(group, ()), pending, self._state.committed)

    def _commit(self, item: FileSlice) -> CommitMetadata | None:
        return self._state.facts.commits.get(item.base.name.instant) if item.base else None

    def _writers(self, service: InstantTime, place: _Place) -> tuple[int, int]:
        """How many instants of the range, and how many others, may have written what the log compaction rewrote."""
        mine = others = 0
        for write in self._written.get(place.group, ()):
            if place.key <= write.order_key < self._order_keys[service]:
                mine, others = mine + write.is_inside, others + (not write.is_inside)
        complete_from = self._state.facts.complete_from
        return mine, others + (bool(complete_from) and place.key <= complete_from)

    def _wrote_before(self, service: InstantTime, partition: str) -> bool:
        """Whether an instant of the range wrote into the partition before the service completed."""
        return any(
            write.is_inside and write.order_key < self._order_keys[service]
            for group, writes in self._written.items()
            if group[0] == partition
            for write in writes
        )

    def _log_compaction(self, service: InstantTime, places: Iterable[_Place]) -> tuple[Split, ...] | None:
        """The slices it wrote into, read by what it rewrote; None if a file of them is gone.

        What came out of it has no other writers than its originals, so stamps of other services do not matter there.
        """
        others = RowLineage(outside=self._services - {service})
        splits = []
        for place in places:
            view = self._selection.view_of(place.group)
            found = visible_files(place.slices[: place.place + 1], view, self._state.committed)
            if found is None or not all(file.listed for file in found.files):
                return None
            splits.append(self._split_of(place.group, found, others, self._left_out(place.group, found)))
        return tuple(splits)

    def _rescale(self, service: InstantTime, partition: str, depth: int) -> tuple[Split, ...] | None:
        """The slices of the groups that it replaced; None if a file of them is gone."""
        splits = []
        for group in self._state.facts.commits[service].replaced:
            if group[0] != partition:
                continue
            found = visible_files(self._slices(group), self._selection.view_of(group), self._state.committed)
            if found is None or not all(file.listed for file in found.files):
                return None
            splits.append(self._split_of(group, found, *self.told(group, found, depth + 1)))
        return tuple(splits)
