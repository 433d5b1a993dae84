"""Rolls back writes that their writers will not complete: the caller's own after an error, and those of killed writers.

Source: Hudi `BaseRollbackActionExecutor`, `MarkerBasedRollbackStrategy`, `HoodieTimelineArchiver`. A write without a
rollback would become visible when the active timeline begins after its instant, because archived instants count as
committed.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator

from penstock.proto.errors import CorruptFile, PenstockError, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.table.files.markers import (
    MARKER_TYPE_FILE,
    MAX_MARKER_BYTES,
    TEMPORARY_FOLDER,
    Marker,
    has_marker_lists,
    marker_folder,
    parse_marker,
    parse_marker_list,
)
from penstock.table.files.names import LogName, log_file_name, parse_file_name
from penstock.table.files.slices import GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.log.block_encoder import rollback_block
from penstock.table.storage.filesystem import redacted_uri
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant, State, instant_file_name
from penstock.table.timeline.services.rollback_encoder import (
    RollbackRequest,
    RolledBackPartition,
    encode_rollback,
    encode_rollback_plan,
)
from penstock.writer.transaction.clock import newest_time, next_time
from penstock.writer.transaction.heartbeat import EXPIRES_S, age_s, writer_is_dead
from penstock.writer.transaction.heartbeat import FOLDER as HEARTBEATS
from penstock.writer.transaction.transaction import (
    Transaction,
    WriteEnvironment,
    joined,
    locked,
    pending_rollbacks,
    remove_traces,
    rollback_plan,
    timeline_path,
)

log = logging.getLogger("penstock.writer")

_ROLLED_BACK = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)


@contextlib.contextmanager
def rolled_back_on_error(begun: Transaction) -> Iterator[None]:
    """Rolls the write back if the block ends with an error. If that fails, the next writer does it."""
    try:
        yield
    except BaseException:
        if begun.is_complete:
            raise
        try:
            begun.restore_markers()
            roll_back(begun.table, begun.storage, begun.environment, begun.requested_time)
        except PenstockError as error:
            name = redacted_uri(begun.table.base_path)
            log.warning("table %s: instant %s stays pending: %s", name, begun.requested_time, error)
        raise


def roll_back_failed(
    table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, *, sole_writer: bool
) -> tuple[InstantTime, ...]:
    """Rolls back the pending writes of writers that no longer run, the newest first. Returns their instants.

    These are writes whose heartbeat expired or whose process of this machine ended; with `sole_writer` all. Writes with
    a heartbeat are left alone. WriteConflict for a write without a heartbeat: a writer of Hudi with its default policy
    has none, so that nobody can tell whether it runs.
    """
    timeline = table.timeline()
    for instant in pending_rollbacks(timeline):
        _finish(table, storage, environment, instant)
    failed = []
    for instant in reversed(_rollable(table, table.timeline())):
        if _has_failed(table, storage, environment, instant, sole_writer=sole_writer):
            roll_back(table, storage, environment, instant.requested_time)
            failed.append(instant.requested_time)
    remove_traces_of_ended(table, storage, environment)
    return tuple(failed)


def remove_traces_of_ended(table: HudiTable, storage: WritableStorage, environment: WriteEnvironment) -> None:
    """Removes markers and heartbeats that writers left which were killed after their instant was completed or rolled
    back, or before it was requested. Under the lock: a writer creates its heartbeat before its instant."""
    folders = [folder for folder in (HEARTBEATS, TEMPORARY_FOLDER) if storage.list_dir(folder)]
    if not folders:
        return
    with locked(storage, environment):
        timeline = table.timeline()
        pending = {item.requested_time for item in timeline.instants if not item.is_completed}
        ended = {item.requested_time for item in timeline.instants if item.is_completed}
        names = {info.name for folder in folders for info in storage.list_dir(folder) if info.name.isdigit()}
        late = [name for name in sorted(names - pending - ended) if _has_late_files(table, storage, timeline, name)]
        for name in sorted(names - pending - {*late}):
            if name in ended or name < timeline.first_active or writer_is_dead(storage, name):
                remove_traces(storage, name)
    for name in late:
        roll_back(table, storage, environment, name)


def _has_late_files(table: HudiTable, storage: WritableStorage, timeline: Timeline, name: str) -> bool:
    """Whether a writer that no longer runs, or can no longer complete, created files after another one had rolled its
    instant back: as soon as the active timeline begins after the instant, Hudi would show them."""
    if age_s(storage, name, 0) is not None and not writer_is_dead(storage, name):
        return False
    if not any(storage.file_info(joined(marker.partition, marker.file_name)) for marker in markers_of(storage, name)):
        return False
    is_archived = name < timeline.first_active and table.has_archived()
    return not is_archived or all(item.requested_time != name for item in table.archive().instants)


def _has_failed(
    table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, instant: Instant, *, sole_writer: bool
) -> bool:
    age = age_s(storage, instant.requested_time, environment.now().timestamp())
    if age is None:
        if sole_writer:
            return True
        raise WriteConflict(
            f"table {redacted_uri(table.base_path)}: {instant.action} {instant.requested_time} is pending without a "
            "heartbeat: its writer runs, or was killed: nothing was written; if no writer runs, roll it back by "
            "`penstock rollback`, or write with sole_writer=True"
        )
    return sole_writer or age > EXPIRES_S or writer_is_dead(storage, instant.requested_time)


def _rollable(table: HudiTable, timeline: Timeline) -> list[Instant]:
    """Pending writes, by requested time. Services stay: whoever comes next runs them again."""
    return [
        item
        for item in timeline.pending
        if item.action in _ROLLED_BACK
        and not (item.action is Action.REPLACE_COMMIT and table.requested_replace(item).is_clustering)
    ]


def roll_back(table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, requested_time: str) -> None:
    """Rolls back a write that is not complete: removes the files that its markers name, then its timeline files.

    The rollback is an instant too. If this process is killed, the next writer goes on with it. If another writer rolled
    the write back, the files that were created since then are removed. Nothing happens to a completed write.
    """
    with locked(storage, environment):
        table = table.refreshed()
        timeline = table.timeline()
        pending = next((item for item in timeline.pending if item.requested_time == requested_time), None)
        if pending is None:
            if timeline.completed_write(requested_time) is not None or not markers_of(storage, requested_time):
                remove_traces(storage, requested_time)
                return
            pending = _rolled_back_instant(table, requested_time)
        instant = next_time(environment.now(), environment.zone, newest_time(timeline), redacted_uri(table.base_path))
        requests = _requests(table, storage, requested_time)
        plan = encode_rollback_plan(pending, requests, storage.base_path)
        storage.create(_file(table, instant, State.REQUESTED), plan)
    planned = Instant(
        requested_time=instant,
        completion_time=None,
        action=Action.ROLLBACK,
        state=State.REQUESTED,
        file_name=_file(table, instant, State.REQUESTED).rpartition("/")[2],
    )
    _finish(table, storage, environment, planned)


def _rolled_back_instant(table: HudiTable, requested_time: str) -> Instant:
    """A write that is no longer on the timeline."""
    action = Action.DELTA_COMMIT if table.properties.is_merge_on_read else Action.COMMIT
    name = instant_file_name(requested_time, action, State.INFLIGHT, None, table.properties.layout)
    return Instant(
        requested_time=InstantTime(requested_time),
        completion_time=None,
        action=action,
        state=State.INFLIGHT,
        file_name=name,
    )


def _finish(table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, planned: Instant) -> None:
    """Carries out a planned rollback, also one that another process began."""
    instant = planned.requested_time
    plan = rollback_plan(table, storage, planned)
    with contextlib.suppress(FileExistsError):
        storage.create(_file(table, instant, State.INFLIGHT), b"")
    # Hudi also plans rollbacks of completed writes: readers see them whole first
    for item in table.timeline().instants:
        if item.requested_time == plan.target and item.is_completed and item.action is plan.action:
            storage.remove(timeline_path(table.properties, item.file_name))
    began = environment.monotonic()
    partitions = [_remove_files(table, storage, instant, plan.target, request) for request in plan.requests]
    for state in (State.INFLIGHT, State.REQUESTED):
        storage.remove(_write_file(table, plan.target, plan.action, state))
    took_ms = int((environment.monotonic() - began) * 1000)
    with locked(storage, environment):
        timeline = table.timeline()
        if any(
            item.requested_time == instant for item in pending_rollbacks(timeline)
        ):  # else another writer did it too
            completion = next_time(
                environment.now(), environment.zone, newest_time(timeline), redacted_uri(table.base_path)
            )
            completed = completion if table.properties.layout == 2 else None
            name = instant_file_name(instant, Action.ROLLBACK, State.COMPLETED, completed, table.properties.layout)
            data = encode_rollback(instant, plan.target, plan.action, partitions, took_ms, storage.base_path)
            storage.create(timeline_path(table.properties, name), data)
    remove_traces(storage, plan.target)


def _requests(table: HudiTable, storage: WritableStorage, requested_time: str) -> tuple[RollbackRequest, ...]:
    """What the rollback removes, by the markers of the write.

    On layout 1 a log belongs to the slice in its name, and may have blocks of other writes: a block of its own cancels
    those of this write. CorruptFile for a marker of a file that another instant wrote.
    """
    removed: dict[GroupId, list[str]] = defaultdict(list)
    cancelled: dict[GroupId, dict[str, int]] = defaultdict(dict)
    for marker in markers_of(storage, requested_time):
        name = parse_file_name(marker.file_name)
        if name is None:
            continue
        group = (marker.partition, name.file_id)
        if name.instant == requested_time:
            removed[group].append(marker.file_name)
        elif table.properties.layout == 1 and isinstance(name, LogName) and not name.is_cdc:
            info = storage.file_info(joined(marker.partition, marker.file_name))
            if info is not None:
                cancelled[group][marker.file_name] = info.size_bytes
        else:
            raise _foreign_file(table, requested_time, marker.partition, marker.file_name)
    return tuple(
        RollbackRequest(
            partition=partition,
            file_id=file_id,
            file_names=tuple(removed.get((partition, file_id), ())),
            logs=(logs := cancelled.get((partition, file_id), {})),
            base_instant=max((name.instant for log in logs if (name := parse_file_name(log))), default=""),
        )
        for partition, file_id in sorted({*removed, *cancelled})
    )


def _foreign_file(table: HudiTable, requested_time: str, partition: str, name: str) -> CorruptFile:
    return CorruptFile(
        f"table {redacted_uri(table.base_path)}: the rollback of {requested_time} would remove "
        f"{joined(partition, name)[:300]}, which another instant wrote: a marker or a plan is damaged; nothing was "
        "removed"
    )


def markers_of(storage: WritableStorage, instant: str) -> list[Marker]:
    """The data files that a write began, by its markers: files, or lists that Hudi's timeline server keeps."""
    folder = marker_folder(instant)
    names = {info.name for info in storage.list_dir(folder) if not info.is_dir}
    if MARKER_TYPE_FILE in names and has_marker_lists(
        storage.read_bytes(f"{folder}/{MARKER_TYPE_FILE}", MAX_MARKER_BYTES)
    ):
        lists = [storage.read_bytes(f"{folder}/{name}", MAX_MARKER_BYTES) for name in sorted(names)]
        return [
            marker for data, name in zip(lists, sorted(names), strict=True) for marker in parse_marker_list(name, data)
        ]
    found: list[Marker] = []
    level = [folder]
    while level:
        infos = [info for one in level for info in storage.list_dir(one)]
        level = [info.path for info in infos if info.is_dir]
        parsed = (parse_marker(info.path) for info in infos if not info.is_dir)
        found += [marker for marker in parsed if marker is not None]
    return found


def _remove_files(
    table: HudiTable, storage: WritableStorage, instant: str, target: str, request: RollbackRequest
) -> RolledBackPartition:
    for name in request.file_names:
        parsed = parse_file_name(name)
        if parsed is None or parsed.instant != target:
            raise _foreign_file(table, target, request.partition, name)
    for name in request.file_names:
        storage.remove(joined(request.partition, name))
    blocks: dict[str, int] = {}
    if request.logs:
        data = rollback_block(instant, target)
        blocks[_create_command_log(storage, request, data)] = len(data)
    return RolledBackPartition(request.partition, request.file_names, blocks, request.logs)


def _create_command_log(storage: WritableStorage, request: RollbackRequest, data: bytes) -> str:
    """Creates the log with the rollback block, and returns its name."""
    while True:
        name = _command_log(storage, request)
        try:
            storage.create(joined(request.partition, name), data)
        except FileExistsError:  # another writer carries out the same plan
            continue
        return name


def _command_log(storage: WritableStorage, request: RollbackRequest) -> str:
    """The name of the log with the rollback block: the next version of the slice's logs.

    Two such blocks, after a rollback that was interrupted here, cancel the same blocks.
    """
    names = [parse_file_name(info.name) for info in storage.list_dir(request.partition)]
    versions = [
        name.version
        for name in names
        if isinstance(name, LogName) and (name.file_id, name.instant) == (request.file_id, request.base_instant)
    ]
    return log_file_name(request.file_id, request.base_instant, max(versions, default=0) + 1, "1-0-1")


def _file(table: HudiTable, instant: str, state: State) -> str:
    return _write_file(table, instant, Action.ROLLBACK, state)


def _write_file(table: HudiTable, instant: str, action: Action, state: State) -> str:
    name = instant_file_name(instant, action, state, None, table.properties.layout)
    return timeline_path(table.properties, name)
