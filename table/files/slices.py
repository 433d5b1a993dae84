"""File slices: groups base and log files into slices, and selects the files that are visible under a view. Pure.

Decides by file names and committed instants (Hudi `AbstractTableFileSystemView`, `HoodieFileGroup`). The enumerator
chooses the view of a query; the reader decides which blocks of a log count.

One deviation from Hudi: files of uncommitted instants are dropped before slices are formed. Hudi forms a slice for
every base file, and so hides committed logs that fall into the slice of an uncommitted base file.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.proto.model.splits import FileRef
from penstock.proto.value_classes import dataclass
from penstock.table.files.names import BaseName, LogName

GroupId = tuple[str, str]
"""A file group: partition path and file id. The same file id may occur in several partitions."""


class DataFile(NamedTuple):
    """A base or log file, from a listing, from commit metadata, or from both."""

    partition: str
    """Partition path."""
    ref: FileRef
    """Path and size."""
    name: BaseName | LogName
    """The parsed file name."""
    listed: bool
    """Whether a listing contains the file."""
    named_by: str = ""
    """Requested time of a completed instant whose metadata names the file; '' if only a listing does."""
    marked_path: str = ""
    """The path in metadata of a file of another writer (`table.files.external_names`); '' for other files."""

    @property
    def group(self) -> GroupId:
        """The file group the file belongs to."""
        return (self.partition, self.name.file_id)

    @property
    def metadata_path(self) -> str:
        """The file's path in metadata; of a file of another writer, it has the file's mark."""
        return self.marked_path or self.ref.path

    @property
    def file_name(self) -> str:
        """The last part of `metadata_path`."""
        return self.metadata_path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedInstants:
    """The committed write instants of a table."""

    layout: int
    """Timeline layout, 1 or 2."""
    order_keys: Mapping[str, str]
    """Requested time -> order key of completed instants."""
    archived_before: str
    """An instant with an earlier requested time was archived, and so is committed."""

    def holds(self, requested_time: str) -> bool:
        """Whether the instant is committed (Hudi `containsOrBeforeTimelineStarts`)."""
        return requested_time in self.order_keys or requested_time < self.archived_before

    def order_key(self, requested_time: str) -> str:
        """The instant's order key; its requested time if no order key is known."""
        return self.order_keys.get(requested_time, requested_time)


@dataclass(frozen=True, slots=True)
class Everything:
    """The view of all committed files."""


@dataclass(frozen=True, slots=True)
class RequestedUpTo:
    """Hudi's view as of a requested time: slices whose key, and files whose instant, is not after it."""

    instant: str
    """Requested time, inclusive."""


@dataclass(frozen=True, slots=True)
class OrderedUpTo:
    """The view of instants with an order key up to `order_key`."""

    order_key: str
    """Inclusive."""
    services: frozenset[str] = frozenset()
    """Requested times of later table services, which changed no row and are visible too."""


@dataclass(frozen=True, slots=True)
class OrderedBefore:
    """The view of the instants before an instant in commit order.

    These have a lower order key, or the same order key and an earlier requested time.
    """

    order_key: str
    """Order key of the instant, which is not in the view."""
    requested_time: str
    """Requested time of the instant."""


@dataclass(frozen=True, slots=True)
class OrderedThrough:
    """The view of an instant and of those before it in commit order."""

    order_key: str
    """Order key of the instant, which is in the view."""
    requested_time: str
    """Requested time of the instant."""


View = Everything | RequestedUpTo | OrderedUpTo | OrderedBefore | OrderedThrough


class FileSlice(NamedTuple):
    """A base file and the logs written on it."""

    key: str
    """Instant of the base file or of the pending compaction; else of the first log."""
    base: DataFile | None
    """None for a slice of a pending compaction, or of logs only."""
    logs: tuple[DataFile, ...]
    """In scan order."""


class VisibleFiles(NamedTuple):
    """The files of a file group to be read."""

    key: str
    """Key of the newest slice among them."""
    base: DataFile | None
    """The base file, if any."""
    logs: tuple[DataFile, ...]
    """In scan order."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The base file, if any, and the logs."""
        return self.logs if self.base is None else (self.base, *self.logs)


def group_files(files: Iterable[DataFile]) -> dict[GroupId, list[DataFile]]:
    """Files by file group, without change-data-capture logs, which belong to no slice."""
    groups: dict[GroupId, list[DataFile]] = {}
    for file in files:
        name = file.name
        if not (isinstance(name, LogName) and name.is_cdc):
            groups.setdefault((file.partition, name.file_id), []).append(file)
    return groups


def slice_group(
    files: Iterable[DataFile], pending_compactions: Collection[str], committed: CommittedInstants
) -> tuple[FileSlice, ...]:
    """The slices of one file group by ascending key, from committed files only.

    Keys are the instants of base files and of the group's pending compactions. On layout 1 a log belongs to the key in
    its name (its blocks are filtered later, by their own instants). On layout 2 it belongs to the greatest key that is
    not after its completion time. A log without such a key starts a slice of its own.
    """
    bases: dict[str, DataFile] = {}
    logs: list[tuple[LogName, DataFile]] = []
    for file in files:
        name = file.name
        if isinstance(name, BaseName):
            if committed.holds(name.instant):
                other = bases.get(name.instant)
                bases[name.instant] = file if other is None else max(other, file, key=_preference)
        elif not name.is_cdc and (committed.layout == 1 or committed.holds(name.instant)):
            logs.append((name, file))
    keys = sorted({*bases, *pending_compactions})
    if not logs:
        return tuple([FileSlice(key, bases.get(key), ()) for key in keys])
    logs.sort(key=lambda item: item[0].order)
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
    """The greatest of the sorted keys that is not after the completion time."""
    count = bisect_right(keys, completion_time)
    return keys[count - 1] if count else None


def _preference(file: DataFile) -> tuple[bool, bool, str]:
    """Sort key: among base files of one instant (attempts of one task), the one that the commit names is last."""
    return (bool(file.named_by), file.listed, file.ref.path)


def visible_files(slices: Sequence[FileSlice], view: View, committed: CommittedInstants) -> VisibleFiles | None:
    """The files of a group that a snapshot query under the view reads; None if there are none.

    These are the newest visible base file, and every visible log of its slice and later slices. A slice without a
    visible base file (of a pending or later compaction) continues the slice before it.
    """
    candidates = _candidate_slices(slices, view)
    newest: list[FileSlice] = []
    base: DataFile | None = None
    for item in reversed(candidates):
        newest.append(item)
        if item.base is not None and is_visible(item.base, view, committed):
            base = item.base
            break
    logs = [(item.key, log) for item in reversed(newest) for log in item.logs if is_visible(log, view, committed)]
    if base is None and not logs:
        return None
    key = logs[-1][0] if logs else newest[-1].key
    return VisibleFiles(key, base, tuple([log for _, log in logs]))


def newest_base(slices: Sequence[FileSlice], view: View, committed: CommittedInstants) -> VisibleFiles | None:
    """The newest visible base file of a group, for a read-optimized query; None if there is none."""
    for item in reversed(_candidate_slices(slices, view)):
        if item.base and is_visible(item.base, view, committed):
            return VisibleFiles(item.key, item.base, ())
    return None


def _candidate_slices(slices: Sequence[FileSlice], view: View) -> Sequence[FileSlice]:
    """The slices whose files may be visible.

    As of a requested time, a slice with a later key is not visible with any of its logs. A view by order key keeps
    every slice: a visible log may follow a base file that is not visible.
    """
    match view:
        case RequestedUpTo(instant):
            return [item for item in slices if item.key <= instant]
        case Everything() | OrderedUpTo() | OrderedBefore() | OrderedThrough():
            return slices


def is_visible(file: DataFile, view: View, committed: CommittedInstants) -> bool:
    """Whether a committed file is visible under the view, by the instant in its name."""
    return instant_is_visible(file.name.instant, view, committed)


def hidden_instants(requested_times: Iterable[str], view: View, committed: CommittedInstants) -> list[str]:
    """Those of the committed instants whose files are not visible under the view, in the same order."""
    match view:
        case Everything():
            return []
        case OrderedUpTo(order_key, services):
            key_of = committed.order_keys.get
            return [time for time in requested_times if key_of(time, time) > order_key and time not in services]
        case _:
            return [time for time in requested_times if not instant_is_visible(time, view, committed)]


def instant_is_visible(requested_time: str, view: View, committed: CommittedInstants) -> bool:
    """Whether the files of a committed instant are visible under the view."""
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
