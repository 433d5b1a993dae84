"""File slices: which base and log files of a file group belong together, and what of them a point of view shows.

Pure decisions over file names and committed instants (Hudi `AbstractTableFileSystemView`, `HoodieFileGroup`). Belongs
here: slicing, and visibility under a view. Not here: listing, which groups or instants a query asks for (enumerator),
which blocks of a log count (reader).

One deviation from Hudi: files of uncommitted instants are dropped before slices are made. Hudi keys slices by every
base file and so hides committed logs that fell into the slice of an uncommitted one.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.proto.model.splits import FileRef
from penstock.table.files.names import BaseName, LogName

GroupId = tuple[str, str]
"""A file group: partition path and file id (one file id may occur in several partitions)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A base or log file that is known of: from a listing, from metadata that names it, or from both.

    `named_by` is the requested time of a completed instant whose metadata names the file, '' if only a listing does.
    """

    partition: str
    ref: FileRef
    name: BaseName | LogName
    listed: bool
    named_by: str = ""

    @property
    def group(self) -> GroupId:
        """The file group the file belongs to."""
        return (self.partition, self.name.file_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedInstants:
    """The write instants whose data counts. `order_keys` maps requested times of completed ones to their order keys;
    an instant before `archived_before` was archived and so is committed."""

    layout: int
    order_keys: Mapping[str, str]
    archived_before: str

    def holds(self, requested_time: str) -> bool:
        """Whether data of the instant counts (Hudi `containsOrBeforeTimelineStarts`)."""
        return requested_time in self.order_keys or requested_time < self.archived_before

    def order_key(self, requested_time: str) -> str:
        """The instant's order key; the requested time itself where none is known."""
        return self.order_keys.get(requested_time, requested_time)


@dataclass(frozen=True, slots=True)
class Everything:
    """The view of all that is committed."""


@dataclass(frozen=True, slots=True)
class RequestedUpTo:
    """Hudi's view as of a requested time: slices whose key, and files whose instant, is not behind it."""

    instant: str


@dataclass(frozen=True, slots=True)
class OrderedUpTo:
    """The view of instants with an order key up to `order_key`, and of `services` behind it that changed no row."""

    order_key: str
    services: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OrderedBefore:
    """The view of what stands before an instant in commit order: order keys below `order_key`, and of instants with
    that very key those requested before `requested_time`."""

    order_key: str
    requested_time: str


@dataclass(frozen=True, slots=True)
class OrderedThrough:
    """The view of an instant and of what stands before it in commit order."""

    order_key: str
    requested_time: str


View = Everything | RequestedUpTo | OrderedUpTo | OrderedBefore | OrderedThrough


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The files of a group between two keys. `base` is None for a slice of a pending compaction or of logs only."""

    key: str
    base: DataFile | None
    logs: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class VisibleFiles:
    """What of a file group must be read, logs in scan order. `key` is the newest slice key that went into it."""

    key: str
    base: DataFile | None
    logs: tuple[DataFile, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The base file, if any, and the logs."""
        return self.logs if self.base is None else (self.base, *self.logs)


def group_files(files: Iterable[DataFile]) -> dict[GroupId, list[DataFile]]:
    """Files by file group; change-data-capture logs are no part of any slice and left out."""
    groups: dict[GroupId, list[DataFile]] = {}
    for file in files:
        if not (isinstance(file.name, LogName) and file.name.is_cdc):
            groups.setdefault(file.group, []).append(file)
    return groups


def slice_group(
    files: Iterable[DataFile], pending_compactions: Collection[str], committed: CommittedInstants
) -> tuple[FileSlice, ...]:
    """The slices of one file group by ascending key, of committed files alone.

    Keys are the instants of base files and of pending compactions that name the group. On layout 1 a log belongs to
    the key in its name (its blocks are filtered later, by their own instants); on layout 2 to the greatest key not
    behind its completion time. A log without such a key starts a slice of its own.
    """
    bases: dict[str, DataFile] = {}
    logs: list[tuple[LogName, DataFile]] = []
    for file in files:
        match file.name:
            case BaseName(instant=instant):
                if committed.holds(instant):
                    bases[instant] = max(bases.get(instant, file), file, key=_preference)
            case LogName(is_cdc=False) as name:
                if committed.layout == 1 or committed.holds(name.instant):
                    logs.append((name, file))
    logs.sort(key=lambda item: item[0].order)
    keys = sorted({*bases, *pending_compactions})
    by_key: dict[str, list[DataFile]] = {key: [] for key in keys}
    for name, file in logs:
        key = name.instant if committed.layout == 1 else _key_at(keys, committed.order_key(name.instant))
        if key is None or key not in by_key:
            key = name.instant
            insort(keys, key)
            by_key[key] = []
        by_key[key].append(file)
    return tuple(FileSlice(key, bases.get(key), tuple(by_key[key])) for key in keys)


def _key_at(keys: Sequence[str], completion_time: str) -> str | None:
    """The greatest of the sorted keys that is not behind the completion time."""
    place = bisect_right(keys, completion_time)
    return keys[place - 1] if place else None


def _preference(file: DataFile) -> tuple[bool, bool, str]:
    """Of several base files of one instant (attempts of one task) the one that the commit names counts."""
    return (bool(file.named_by), file.listed, file.ref.path)


def visible_files(slices: Sequence[FileSlice], view: View, committed: CommittedInstants) -> VisibleFiles | None:
    """What a snapshot under the view reads of a group: its newest visible base, and every visible log from that slice
    on, slice by slice. None if the group has nothing to show.

    A slice whose base is not there or not visible (a pending or later compaction) continues the slice before it.
    """
    shown = _shown_slices(slices, view)
    with_base = [place for place, item in enumerate(shown) if item.base and is_visible(item.base, view, committed)]
    start = with_base[-1] if with_base else 0
    logs = [(item.key, log) for item in shown[start:] for log in item.logs if is_visible(log, view, committed)]
    base = shown[start].base if with_base else None
    if base is None and not logs:
        return None
    key = logs[-1][0] if logs else shown[start].key
    return VisibleFiles(key, base, tuple(log for _, log in logs))


def newest_base(slices: Sequence[FileSlice], view: View, committed: CommittedInstants) -> VisibleFiles | None:
    """What a read-optimized query reads of a group: its newest visible base file; None if it has none."""
    for item in reversed(_shown_slices(slices, view)):
        if item.base and is_visible(item.base, view, committed):
            return VisibleFiles(item.key, item.base, ())
    return None


def _shown_slices(slices: Sequence[FileSlice], view: View) -> Sequence[FileSlice]:
    """As of a requested time a slice with a later key is not there at all, with whatever logs it has; a view by order
    key keeps every slice, since a log seen by it may lie behind a base that is not."""
    match view:
        case RequestedUpTo(instant):
            return [item for item in slices if item.key <= instant]
        case Everything() | OrderedUpTo() | OrderedBefore() | OrderedThrough():
            return slices


def is_visible(file: DataFile, view: View, committed: CommittedInstants) -> bool:
    """Whether the view shows a committed file, by the instant in its name."""
    return instant_is_visible(file.name.instant, view, committed)


def instant_is_visible(requested_time: str, view: View, committed: CommittedInstants) -> bool:
    """Whether the view shows what a committed instant did."""
    match view:
        case Everything():
            return True
        case RequestedUpTo(instant):
            return requested_time <= instant
        case OrderedUpTo(order_key, services):
            return committed.order_key(requested_time) <= order_key or requested_time in services
        case OrderedBefore(order_key, own):
            return (committed.order_key(requested_time), requested_time) < (order_key, own)
        case OrderedThrough(order_key, own):
            return (committed.order_key(requested_time), requested_time) <= (order_key, own)
