"""`penstock.savepoint` and `penstock.delete_savepoint`: protect the files of an instant from cleans."""

from __future__ import annotations

import contextlib
import getpass
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.engine.table_services.serviced_table import open_serviced
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import ConfigurationError, WriteConflict
from penstock.proto.model.files import FileRef
from penstock.proto.model.queries import PlanRequest, Query, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import MAX_SPLIT_BYTES
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline, list_timeline
from penstock.table.timeline.instants import Action, Instant, State, instant_file_name, parse_instant_file
from penstock.table.timeline.services.savepoints import Savepoint, encode_savepoint
from penstock.writer.transaction.failed_writes import completed_name
from penstock.writer.transaction.running_writes import timeline_path
from penstock.writer.transaction.transaction import WriteEnvironment, locked, refuse_restoring


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointResult:
    """A savepoint that was made, or would be."""

    instant: str
    """Requested time of the instant that it protects."""
    files: int
    """Data files that cleans keep for it."""
    protected_bytes: int
    """Their size: what the savepoint costs, once later writes have replaced these files."""


def savepoint(
    path: str,
    instant: str | None = None,
    *,
    comment: str = "",
    user: str | None = None,
    dry_run: bool = False,
    timeline_timezone: str = "",
) -> SavepointResult:
    """Makes a savepoint of a completed write, by default of the newest: no clean of Hudi or Penstock deletes the files
    of its state, and archival stops there, until the savepoint is deleted. `penstock.restore` goes back to it.

    instant: the requested time of the write. comment and user: recorded; the user is by default that of this process.
    dry_run: only tells what it would protect. timeline_timezone: the zone of the table's writers, for a table with a
    LOCAL timeline.

    ConfigurationError for an instant that is no completed write of the active timeline, or has a savepoint;
    PositionExpired if a clean may have deleted its files.
    """
    serviced = open_serviced(str(path), timeline_timezone)  # a metadata table does not list savepoints
    table, storage, environment = serviced.table, serviced.storage, serviced.environment
    with locked(storage, environment):
        refuse_restoring(table, table.timeline())
        pinned = table.pinned()
        target = _target(pinned, pinned.timeline(), instant)
        files = _files(pinned, target)
        result = SavepointResult(
            instant=target.requested_time,
            files=sum(map(len, files.values())),
            protected_bytes=sum(ref.size_bytes for refs in files.values() for ref in refs),
        )
        if not dry_run:
            made = Savepoint(
                files={partition: tuple(sorted(_name(ref) for ref in refs)) for partition, refs in files.items()},
                user=getpass.getuser() if user is None else user,
                saved_at_ms=int(environment.now().timestamp() * 1000),
                comment=comment,
            )
            _create(pinned, storage, environment, target.requested_time, made)
    return result


def delete_savepoint(path: str, instant: str, *, timeline_timezone: str = "") -> None:
    """Deletes the savepoint of an instant: cleans may delete its files again. ConfigurationError if there is none."""
    serviced = open_serviced(str(path), timeline_timezone)  # a metadata table does not list savepoints
    table, storage = serviced.table, serviced.storage
    with locked(storage, serviced.environment):
        refuse_restoring(table, table.timeline())
        if not _remove(table, storage, instant):
            others = ", ".join(item.requested_time for item in table.timeline().savepoints)
            raise ConfigurationError(
                f"table {redacted_uri(table.base_path)}: {instant[:40]!r} has no savepoint; "
                f"{others or 'no instant'} has one"
            )


def change_savepoint(path: str, instant: str, change: Callable[[str], str | None], *, timeline_timezone: str) -> None:
    """Changes the comment of a savepoint, under the table's lock; deletes the savepoint if `change` returns None.
    Nothing happens without such a savepoint: another process deleted it."""
    serviced = open_serviced(path, timeline_timezone)  # a metadata table does not list savepoints
    table, storage = serviced.table, serviced.storage
    with locked(storage, serviced.environment):
        timeline = table.timeline()
        refuse_restoring(table, timeline)
        item = next((item for item in timeline.savepoints if item.requested_time == instant), None)
        if item is None:
            return
        current = table.savepoint(item)
        comment = change(current.comment)
        if comment is None:
            _remove(table, storage, instant)
        elif comment != current.comment:
            data = encode_savepoint(replace(current, comment=comment))
            storage.replace(timeline_path(table.properties, item.file_name), data)


def _remove(table: HudiTable, storage: WritableStorage, instant: str) -> bool:
    """Removes the files of a savepoint, under the lock; whether it has any."""
    listing = list_timeline(storage, table.properties)
    parsed = (parse_instant_file(name, table.properties.layout, instant) for name in listing)
    files = [item for item in parsed if item and item.action is Action.SAVEPOINT and item.requested_time == instant]
    for item in sorted(files, key=lambda item: not item.is_completed):
        storage.remove(timeline_path(table.properties, item.file_name))
    return bool(files)


def _target(table: HudiTable, timeline: Timeline, instant: str | None) -> Instant:
    """The write to make a savepoint of."""
    where = f"table {redacted_uri(table.base_path)}"
    writes = timeline.completed_writes
    if not writes:
        raise ConfigurationError(f"{where} has no completed write to make a savepoint of")
    newest = max(writes, key=timeline.order_key)
    target = newest if instant is None else timeline.completed_write(instant)
    if target is None:
        raise ConfigurationError(
            f"{where}: {str(instant)[:40]!r} is no completed write of the active timeline, which has "
            f"{writes[0].requested_time} to {writes[-1].requested_time}; `penstock timeline` lists them"
        )
    if any(item.requested_time == target.requested_time for item in timeline.savepoints):
        raise ConfigurationError(f"{where}: {target.requested_time} has a savepoint already")
    cleans = [item for item in timeline.instants if item.action is Action.CLEAN and not item.is_completed]
    if cleans and target != newest:  # a clean that was planned before would delete its files nevertheless
        raise WriteConflict(
            f"{where}: clean {cleans[0].requested_time} is pending, and may delete files of {target.requested_time}: "
            "no savepoint was made; try again when it has completed"
        )
    return target


def _files(table: HudiTable, target: Instant) -> dict[str, set[FileRef]]:
    """Partition path -> the files of the state as of an instant. Of the newest one also those of the table now, where a
    write has them that was requested later and completed earlier."""
    timeline = table.timeline()
    queries: list[Query] = [SnapshotAsOf(target.requested_time)]
    if target == max(timeline.completed_writes, key=timeline.order_key):
        queries.append(Snapshot())
    name = redacted_uri(table.base_path)
    files: dict[str, set[FileRef]] = defaultdict(set)
    for query in queries:
        request = PlanRequest(table=name, query=query, slots=1, target_split_bytes=MAX_SPLIT_BYTES, metadata=False)
        for split in plan_request(table, name, request).splits:
            files[split.partition].update(ref for ref in (split.base, *split.logs) if ref is not None)
    return files


def _create(
    table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, target: str, made: Savepoint
) -> None:
    layout = table.properties.layout
    inflight = instant_file_name(target, Action.SAVEPOINT, State.INFLIGHT, None, layout)
    with contextlib.suppress(FileExistsError):  # of a process that was killed here
        storage.create(timeline_path(table.properties, inflight), b"")
    name = completed_name(table, table.timeline(), environment, target, Action.SAVEPOINT)
    storage.create(timeline_path(table.properties, name), encode_savepoint(made))


def _name(ref: FileRef) -> str:
    return ref.path.rpartition("/")[2]
