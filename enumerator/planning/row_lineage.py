"""The lineage of rows that a table service rewrote: which slices show the instant that originally wrote a row. Pure.

Hudi 1.2.0's log compaction and bucket rescale write their own instant into `_hoodie_commit_time`. Once such rows are
in a base file, their column no longer holds the instant that wrote them. The slices that the service rewrote still do.
This module decides which services' rows a base file may hold and which slices they came from. It returns the lineage
as values; `slice_planner` turns the slices into splits, and the reader reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.enumerator.planning.selection import RESCALE, Selection, needs_lineage
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import Exclusions, RowsOf
from penstock.proto.value_classes import dataclass
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

_MAX_RESCALES: Final = 8
"""Bucket rescales of one partition inside a range, each on top of the previous one, that are followed."""


class SliceRead(NamedTuple):
    """The files of a group to be read as one slice, and the fate of its rows in the range."""

    group: GroupId
    """(partition, file id)."""
    files: VisibleFiles
    """The files, all listed."""
    lineage: Lineage | None = None
    """The fate of rows that carry a service's instant; None if the slice holds none."""
    exclusions: Exclusions | None = None
    """Instants at the ends of the range that count partly or not at all; None if there are none."""


@dataclass(frozen=True, slots=True)
class OriginSlices:
    """The slices that a service rewrote."""

    service: InstantTime
    """The requested time of the service."""
    slices: tuple[SliceRead, ...]
    """What it rewrote, as it was before."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The fate of a base file's rows that carry the instant of a service.

    The files of a service that is in none of these three were removed.
    """

    inside: frozenset[InstantTime] = frozenset()
    """Services all of whose rows belong to the range."""
    outside: frozenset[InstantTime] = frozenset()
    """Services none of whose rows belongs to the range."""
    origins: tuple[OriginSlices, ...] = ()
    """For other services: the slices that decide row by row, sorted by service."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A data instant that wrote into a group, and whether it belongs to the range."""

    order_key: str
    is_inside: bool


@dataclass(frozen=True, slots=True)
class _CompactedSlice:
    """A file slice that a log compaction wrote into: slice number `index` of its group."""

    group: GroupId
    slices: tuple[FileSlice, ...]
    index: int

    @property
    def key(self) -> str:
        return self.slices[self.index].key


class RowLineages:
    """The lineage of a range's slices. Prepared once a selection from the commit metadata."""

    def __init__(self, state: TableState, selection: Selection) -> None:
        """`selection` is the one that is planned."""
        self._state, self._selection = state, selection
        rows = selection.rows
        self._services = rows.log_compactions if isinstance(rows, RowsOf) else frozenset()
        self._applies = bool(self._services) or selection.starts_at is not None or selection.ends_at is not None
        self._by_group: dict[GroupId, list[DataFile]] = {}
        self._compacted: dict[GroupId, list[tuple[InstantTime, str]]] = {}
        self._writes: dict[GroupId, list[_Write]] = {}
        if needs_lineage(selection):
            self._by_group = group_files(state.files)
            self._index_commits()

    def _index_commits(self) -> None:
        """By group: the files that log compactions wrote (instant, path), and the writes of data instants."""
        timeline = self._state.facts.timeline
        self._order_keys = timeline.order_keys
        for requested_time, commit in self._state.facts.commits.items():
            order_key = self._order_keys[commit.requested_time]
            for stat in commit.stats:
                group = (stat.partition, stat.file_id)
                write = _Write(order_key, self._selection.holds(requested_time, group))
                if not commit.is_service:
                    self._writes.setdefault(group, []).append(write)
                elif requested_time in self._services and stat.path:
                    self._compacted.setdefault(group, []).append((commit.requested_time, stat.path))

    def lineage_of(self, group: GroupId, files: VisibleFiles, depth: int = 0) -> SliceRead:
        """The slice with its lineage and its exclusions."""
        if not self._applies:
            return SliceRead(group, files)
        lineage = self._of_base(group, files.base, depth)
        exclusions = self._exclusions(group, files)
        if exclusions is not None and exclusions.some_rows:
            origin = self._rows_after_start(group, files, depth)
            lineage = lineage or Lineage()
            if origin is not None:
                origins = sorted((*lineage.origins, origin), key=lambda item: item.service)
                lineage = replace(lineage, origins=tuple(origins))
        return SliceRead(group, files, lineage, exclusions)

    def _exclusions(self, group: GroupId, files: VisibleFiles) -> Exclusions | None:
        """None if the instants that the range's ends cut do not affect the group."""
        start, end = self._selection.starts_at, self._selection.ends_at
        rows: frozenset[InstantTime] = frozenset()
        some_rows: frozenset[InstantTime] = frozenset()
        if start is not None and start.before and isinstance(self._selection.rows, RowsOf):
            groups = self._groups_of(group, files)
            if not groups.isdisjoint(start.before):
                cut_instant = frozenset([start.instant])
                rows, some_rows = (cut_instant, rows) if groups.isdisjoint(start.after) else (rows, cut_instant)
        excludes_blocks = end is not None and group in end.after and bool(files.logs)
        if not (rows or some_rows or excludes_blocks):
            return None
        blocks = frozenset([end.instant]) if end is not None and excludes_blocks else frozenset()
        return Exclusions(rows=rows, some_rows=some_rows, blocks=blocks)

    def _groups_of(self, group: GroupId, files: VisibleFiles) -> frozenset[GroupId]:
        """The groups whose rows the files may hold."""
        return self._sources(group, files.base.name.instant)[0] if files.base is not None else frozenset([group])

    def _rows_after_start(self, group: GroupId, files: VisibleFiles, depth: int) -> OriginSlices | None:
        """The slices with the rows that the range's first instant wrote after the cut; None if a file is missing.

        A clustering put these rows beside those before the cut. The groups that it replaced still separate them.
        """
        start = self._selection.starts_at
        if start is None or depth > _MAX_RESCALES or group in start.after:
            return None
        slices = []
        for source in sorted(self._groups_of(group, files) & start.after):
            visible = visible_files(self._slices(source), self._selection.view_of(source), self._state.committed)
            if visible is None or not all(file.listed for file in visible.files):
                return None
            slices.append(self.lineage_of(source, visible, depth + 1))
        return OriginSlices(start.instant, tuple(slices))

    def _of_base(self, group: GroupId, base: DataFile | None, depth: int) -> Lineage | None:
        """The lineage of a slice with this base file; None if no service can have written any of its rows."""
        if not self._services or base is None or depth > _MAX_RESCALES:
            return None
        groups, rescales = self._sources(group, base.name.instant)
        compacted = self._compacted_slices(groups, group, base.name.instant)
        if not compacted and not rescales:
            return None
        inside: set[InstantTime] = set()
        outside: set[InstantTime] = set()
        origins: list[OriginSlices] = []
        for service, items in compacted.items():
            writers = [self._writers(service, item) for item in items]
            if not any(in_range for in_range, _ in writers):
                outside.add(service)
            elif not any(others for _, others in writers):
                inside.add(service)
            elif (slices := self._before_log_compaction(service, items)) is not None:
                origins.append(OriginSlices(service, slices))
        for service in rescales:
            if not self._range_wrote_before(service, group[0]):
                outside.add(service)
            elif (slices := self._before_rescale(service, group[0], depth)) is not None:
                origins.append(OriginSlices(service, slices))
        origins.sort(key=lambda origin: origin.service)
        return Lineage(inside=frozenset(inside), outside=frozenset(outside), origins=tuple(origins))

    def _sources(self, group: GroupId, base_instant: str) -> tuple[frozenset[GroupId], tuple[InstantTime, ...]]:
        """(The groups whose rows a clustering may have moved into the base file, the group itself included; the bucket
        rescales on the way that wrote their instant into rows)."""
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

    def _compacted_slices(
        self, groups: Iterable[GroupId], own: GroupId, base_instant: str
    ) -> dict[InstantTime, list[_CompactedSlice]]:
        """Log compaction -> the slices it wrote into whose rows may be in the base file; of `own` only slices before
        that file."""
        compacted: dict[InstantTime, list[_CompactedSlice]] = {}
        for group in sorted(groups):
            slices = self._slices(group) if group in self._compacted else ()
            for service, path in self._compacted.get(group, ()):
                for index, item in enumerate(slices):
                    if (group != own or item.key < base_instant) and any(log.ref.path == path for log in item.logs):
                        compacted.setdefault(service, []).append(_CompactedSlice(group, slices, index))
        return compacted

    def _slices(self, group: GroupId) -> tuple[FileSlice, ...]:
        pending = self._state.pending_compactions.get(group, frozenset())
        return slice_group(self._by_group.get(group, ()), pending, self._state.committed)

    def _commit(self, item: FileSlice) -> CommitMetadata | None:
        return self._state.facts.commits.get(item.base.name.instant) if item.base else None

    def _writers(self, service: InstantTime, item: _CompactedSlice) -> tuple[int, int]:
        """How many instants of the range, and how many others, may have written what the log compaction rewrote."""
        in_range = others = 0
        for write in self._writes.get(item.group, ()):
            if item.key <= write.order_key < self._order_keys[service]:
                in_range, others = in_range + write.is_inside, others + (not write.is_inside)
        complete_from = self._state.facts.complete_from
        return in_range, others + (bool(complete_from) and item.key <= complete_from)

    def _range_wrote_before(self, service: InstantTime, partition: str) -> bool:
        """Whether an instant of the range wrote into the partition before the service completed."""
        return any(
            write.is_inside and write.order_key < self._order_keys[service]
            for group, writes in self._writes.items()
            if group[0] == partition
            for write in writes
        )

    def _before_log_compaction(
        self, service: InstantTime, items: Iterable[_CompactedSlice]
    ) -> tuple[SliceRead, ...] | None:
        """The slices that the service wrote into, with what it rewrote; None if one of their files is missing.

        The rows it wrote have the same writers as their originals, so the instants of other services in these slices
        do not matter.
        """
        others = Lineage(outside=self._services - {service})
        slices = []
        for item in items:
            view = self._selection.view_of(item.group)
            visible = visible_files(item.slices[: item.index + 1], view, self._state.committed)
            if visible is None or not all(file.listed for file in visible.files):
                return None
            slices.append(SliceRead(item.group, visible, others, self._exclusions(item.group, visible)))
        return tuple(slices)

    def _before_rescale(self, service: InstantTime, partition: str, depth: int) -> tuple[SliceRead, ...] | None:
        """The slices of the groups that the service replaced; None if one of their files is missing."""
        slices = []
        for group in self._state.facts.commits[service].replaced:
            if group[0] != partition:
                continue
            visible = visible_files(self._slices(group), self._selection.view_of(group), self._state.committed)
            if visible is None or not all(file.listed for file in visible.files):
                return None
            slices.append(self.lineage_of(group, visible, depth + 1))
        return tuple(slices)
