"""`penstock.archive`: moves old instants from the active timeline to the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Final

from penstock.engine.table_services.archival_files import (
    InstantFiles,
    InstantKey,
    archived_already,
    merge_history,
    write_archive,
)
from penstock.engine.table_services.metadata_services import (
    logged_errors,
    metadata_kept_from,
    metadata_policy,
    open_metadata_serviced,
)
from penstock.engine.table_services.serviced_table import ServicedTable, open_serviced
from penstock.proto.model.positions import Position
from penstock.table.files.markers import TEMPORARY_FOLDER
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.filesystem import FileInfo
from penstock.table.timeline.active import Timeline, list_timeline
from penstock.table.timeline.archive_v1_encoder import StateFile
from penstock.table.timeline.commits import MAX_COMMIT_BYTES, parse_commit
from penstock.table.timeline.instants import Action, Instant, State, comparable_action, parse_instant_file
from penstock.table.timeline.services.plans import parse_clean, parse_rollback
from penstock.writer.metadata_table.archived import drop_outdated, last_compaction
from penstock.writer.table_services.archival import ArchivePolicy, instants_to_archive
from penstock.writer.table_services.maintenance import stored_clean_policy
from penstock.writer.table_services.retention import (
    CleanPolicy,
    KeepHours,
    archived_up_to,
    archived_up_to_clean,
    needed_from,
    reader_position,
)
from penstock.writer.transaction.failed_writes import remove_traces_of_ended
from penstock.writer.transaction.running_writes import timeline_path
from penstock.writer.transaction.transaction import locked, remove_traces

_CHUNK_BYTES: Final = 64 << 20
"""Size of the state files of the instants that are archived in one file, unless one has more."""
_STATES: Final = tuple(State)
_Files = dict[InstantKey, list[tuple[Instant, FileInfo]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveResult:
    """An archival."""

    instants: tuple[str, ...]
    """Requested times of the instants that left the active timeline, ascending; in a dry run of those that would."""
    kept: int
    """Completed writes that stay on the active timeline."""


def archive(
    path: str,
    *,
    keep_min: int = 20,
    keep_max: int = 30,
    delta_commits: int = 5,
    hours: int | None = None,
    dry_run: bool = False,
    keep_from: Position | str | None = None,
    timeline_timezone: str = "",
) -> ArchiveResult:
    """Moves the oldest instants of the table at `path` to its archive, if there are more than `keep_max` completed
    writes on the active timeline; about `keep_min` stay. No row changes, and readers still see all instants.

    More stay while they are needed: those from the earliest pending write on, from the first savepoint on, of a merge-
    on-read table the newest `delta_commits` deltacommits since the last compaction, a replacecommit until a clean has
    deleted what it replaced, and of a table with a metadata table all that its last compaction has not merged. Cleans
    and rollbacks before the last archived write are archived too, and then instants of the metadata table.
    * hours: of a table that is cleaned by hours, the hours of its cleans: writes of the last so many hours are not
      archived, nor is the one before them. `penstock.clean` by hours deletes nothing while such a write is archived. By
      default those of `hoodie.properties` (KEEP_LATEST_BY_HOURS); else, if the last clean was by hours, no write is
      archived that it retained, nor the one before them.
    * dry_run: nothing changes; the result says what would be archived.
    * keep_from: the position of a reader, or an order key that it has read: no later write is archived.
    * timeline_timezone: the zone of the table's writers, for a table with a LOCAL timeline.

    CorruptFile, and nothing is archived, for an instant that readers could not read from the archive, and for a last
    clean that cannot be read; ConfigurationError for a wrong property of cleans; WriteConflict if another process holds
    the table's lock; UnsupportedFeature for a table that is not archived.
    """
    policy = ArchivePolicy(keep_min=keep_min, keep_max=keep_max, delta_commits=delta_commits)
    given = None if hours is None else KeepHours(hours)
    serviced = open_serviced(str(path), timeline_timezone)
    clean = given or stored_clean_policy(serviced.table.properties.raw, serviced.where)
    by_hours = clean if isinstance(clean, KeepHours) else None
    return archive_serviced(serviced, policy, reader_position(keep_from), by_hours, dry_run=dry_run)


def archive_serviced(
    serviced: ServicedTable,
    policy: ArchivePolicy,
    reader: Position | None,
    clean: CleanPolicy | None,
    *,
    dry_run: bool,
) -> ArchiveResult:
    """Archives a table as `archive`; the reader that is furthest behind is at `reader`. A clean by the policy `clean`
    retains the same afterwards as before; if it is None, by that of the last clean."""

    def kept_from(table: HudiTable) -> str:
        timeline, environment = table.timeline(), serviced.environment
        if clean is not None:
            cleaned = archived_up_to(timeline, clean, environment.now(), environment.zone)
        else:
            last = timeline.completed_cleans[-1:]
            cleaned = archived_up_to_clean(timeline, table.clean(last[0])) if last else ""
        return min(filter(None, (needed_from(timeline, reader), cleaned)), default="")

    if dry_run:
        table = serviced.table.pinned()
        return _result(table.timeline(), _selected(table, policy, kept_from(table)))
    remove_traces_of_ended(serviced.table, serviced.storage, serviced.environment)
    with locked(serviced.storage, serviced.environment) as check_lock:
        drop_outdated(serviced.unchanged(), serviced.storage)
        table = serviced.unchanged().pinned()
        instants = _selected(table, policy, kept_from(table))
        _archive(serviced, table, instants, check_lock)
        with logged_errors(serviced):
            metadata = open_metadata_serviced(serviced)
            if metadata is not None:
                own = metadata.table.pinned()
                kept = metadata_kept_from(serviced.table.unpinned().timeline(), own.timeline())
                _archive(metadata, own, _selected(own, metadata_policy(policy), kept), check_lock)
    return _result(table.timeline(), instants)


def _archive(
    serviced: ServicedTable, table: HudiTable, instants: Sequence[Instant], check_lock: Callable[[], None]
) -> None:
    """Moves these instants of a pinned table to its archive."""
    if not instants:
        return
    files = _state_files(table)
    keys = [_key(item) for item in instants]
    done = archived_already(serviced, table, keys)
    for chunk in _chunks(serviced, table, [files[key] for key in keys if key not in done]):
        check_lock()
        write_archive(serviced, table, chunk)
    check_lock()
    _delete(serviced, table, [files[key] for key in keys])
    if table.properties.layout == 2:
        merge_history(serviced, table)


def _result(timeline: Timeline, instants: Sequence[Instant]) -> ArchiveResult:
    archived = {item.requested_time for item in instants}
    return ArchiveResult(
        instants=tuple(str(item.requested_time) for item in instants),
        kept=sum(item.requested_time not in archived for item in timeline.completed_writes),
    )


def _selected(table: HudiTable, policy: ArchivePolicy, keep_from: str = "") -> tuple[Instant, ...]:
    """The instants to archive, all before `keep_from` if that is not ''. If replacecommits are among them, the folders
    of the replaced file groups are listed."""
    timeline = table.timeline()
    select = partial(
        instants_to_archive,
        timeline,
        policy,
        is_merge_on_read=table.properties.is_merge_on_read,
        metadata_compaction=last_compaction(table),
        keep_from=keep_from,
    )
    early = select(not_cleaned=())
    not_cleaned = [item.requested_time for item in early if _has_replaced_files(table, item)]
    return select(not_cleaned=not_cleaned) if not_cleaned else early


def _has_replaced_files(table: HudiTable, instant: Instant) -> bool:
    """Whether a file group that a replacecommit replaced still has files. One with files of another writer has: their
    names do not tell."""
    if instant.action is not Action.REPLACE_COMMIT:
        return False
    replaced = table.commit(instant).replaced
    if any("." in file_id for _, file_id in replaced):
        return True
    for partition in {partition for partition, _ in replaced}:
        if any(file.group in replaced for file in table.list_partition(partition)):
            return True
    return False


def _state_files(table: HudiTable) -> _Files:
    """Key -> the state files of each instant, in the order of their states."""
    properties = table.properties
    files: _Files = {}
    for info in list_timeline(table.storage, properties):
        default = "0" if properties.layout == 2 else ""  # `timeline` has the completion times
        instant = parse_instant_file(info.name, properties.layout, default)
        if instant is not None:
            files.setdefault(_key(instant), []).append((instant, info))
    known = {_key(item): item for item in table.timeline().instants if item.is_completed}
    return {
        key: sorted(
            ((known[key] if item.is_completed else item, info) for item, info in items),
            key=lambda pair: _STATES.index(pair[0].state),
        )
        for key, items in files.items()
        if key in known
    }


def _key(instant: Instant) -> InstantKey:
    return (instant.requested_time, comparable_action(instant.action))


def _chunks(
    serviced: ServicedTable, table: HudiTable, instants: Sequence[list[tuple[Instant, FileInfo]]]
) -> Iterator[list[InstantFiles]]:
    """The instants with the content of their files, in parts of limited size. Each completed file is decoded first:
    readers could not read a damaged one from the archive either."""
    zone = serviced.environment.zone
    for items in instants:
        for instant, info in items:
            if instant.is_completed:
                _check(instant, _read(table, info), serviced.where)
    chunk: list[InstantFiles] = []
    size = 0
    for items in instants:
        chunk.append(
            InstantFiles(tuple(StateFile(instant, _read(table, info), _changed(info, zone)) for instant, info in items))
        )
        size += sum(info.size_bytes for _, info in items)
        if size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _read(table: HudiTable, info: FileInfo) -> bytes:
    return table.storage.read_bytes(timeline_path(table.properties, info.name), MAX_COMMIT_BYTES)


def _check(instant: Instant, data: bytes, where: str) -> None:
    match instant.action:
        case Action.CLEAN:
            parse_clean(data, instant, where)
        case Action.ROLLBACK:
            parse_rollback(data, instant, where)
        case _:
            parse_commit(data, instant, where)


def _changed(info: FileInfo, zone: tzinfo) -> str:
    moment = datetime.fromtimestamp(info.modified_ns // 1_000_000 / 1000, UTC)
    return moment.astimezone(zone).strftime("%Y%m%d%H%M%S%f")[:17]


def _delete(serviced: ServicedTable, table: HudiTable, instants: Sequence[list[tuple[Instant, FileInfo]]]) -> None:
    """Deletes the state files of archived instants: first those that are not completed, else an instant would seem
    to be pending, and be rolled back; then the completed ones, the oldest first, so that the timeline has no gap."""
    pairs = [pair for items in instants for pair in items]
    for is_completed in (False, True):
        for instant, info in pairs:
            if instant.is_completed is is_completed:
                serviced.storage.remove(timeline_path(table.properties, info.name))
    left = {info.name for info in serviced.storage.list_dir(TEMPORARY_FOLDER)}
    for instant, _ in pairs:
        if instant.is_completed and instant.requested_time in left:
            remove_traces(serviced.storage, instant.requested_time)
