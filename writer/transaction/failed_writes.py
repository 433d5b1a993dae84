"""Rolls back writes that their writers will not complete: the caller's own after an error, and those of killed writers.

Source: Hudi `BaseRollbackActionExecutor`, `MarkerBasedRollbackStrategy`, `HoodieTimelineArchiver`. A write without a
rollback would become visible when the active timeline begins after its instant, because archived instants count as
committed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator

from penstock.proto.errors import CorruptFile, PenstockError, StorageError, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.table.files.markers import TEMPORARY_FOLDER
from penstock.table.files.names import LogName, log_file_name, parse_file_name
from penstock.table.hudi_table import HudiTable
from penstock.table.log.block_encoder import rollback_block
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline, list_timeline
from penstock.table.timeline.instants import (
    Action,
    Instant,
    State,
    comparable_action,
    instant_file_name,
    parse_instant_file,
)
from penstock.table.timeline.services.rollback_encoder import (
    CompletedRollback,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
    encode_rollback,
    encode_rollback_plan,
)
from penstock.writer.metadata_table.update import undo_files
from penstock.writer.transaction.clock import newest_time
from penstock.writer.transaction.conflicts import pending_restores, pending_rollbacks
from penstock.writer.transaction.heartbeat import EXPIRES_S, age_s, is_beating, writer_is_dead
from penstock.writer.transaction.heartbeat import FOLDER as HEARTBEATS
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.markers import ATTEMPTS, attempt_folder, markers_of, remove_marked_files
from penstock.writer.transaction.rollback_requests import foreign_file, late_requests, requests_by_markers
from penstock.writer.transaction.running_writes import rollback_plan, timeline_path
from penstock.writer.transaction.transaction import (
    Transaction,
    WriteEnvironment,
    is_clustering,
    locked,
    new_time,
    remove_traces,
)

log = logging.getLogger("penstock.writer")

_COMPACTIONS = (Action.COMPACTION, Action.LOG_COMPACTION)
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
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    *,
    sole_writer: bool,
    clusterings: bool = True,
) -> tuple[InstantTime, ...]:
    """Rolls back the pending writes of writers that no longer run, the newest first. Returns their instants.

    These are writes whose heartbeat expired or whose process of this machine ended; with `sole_writer` all. Writes with
    a heartbeat are left alone. WriteConflict for a write without a heartbeat: a writer of Hudi with its default policy
    has none, so that nobody can tell whether it runs. Of clusterings, those that began with a heartbeat are rolled back
    as writes are, unless not `clusterings`: their plan can be carried out again.
    """
    timeline = table.timeline()
    for instant in pending_rollbacks(timeline):
        finish_rollback(table, storage, environment, instant)
    failed = []
    for instant in reversed(_rollable(table, storage, table.timeline(), clusterings=clusterings)):
        if _has_failed(table, storage, environment, instant, sole_writer=sole_writer):
            roll_back(table, storage, environment, instant.requested_time)
            failed.append(instant.requested_time)
    remove_traces_of_ended(table, storage, environment)
    return tuple(failed)


def remove_traces_of_ended(table: HudiTable, storage: WritableStorage, environment: WriteEnvironment) -> None:
    """Removes markers and heartbeats that writers left which were killed after their instant was completed or rolled
    back, or before it was requested. Under the lock: a writer creates its heartbeat before its instant."""
    folders = [folder for folder in (HEARTBEATS, TEMPORARY_FOLDER, ATTEMPTS) if storage.list_dir(folder)]
    if not folders:
        return
    with locked(storage, environment):
        timeline = table.timeline()
        pending = {item.requested_time for item in timeline.instants if not item.is_completed}
        ended = {item.requested_time for item in timeline.instants if item.is_completed}
        for info in storage.list_dir(ATTEMPTS):  # made when the instant is pending already
            if info.name not in pending:
                storage.close_folder(attempt_folder(info.name))
        names = {info.name for folder in folders for info in storage.list_dir(folder) if info.name.isdigit()}
        now_s = environment.now().timestamp()
        beating = {name for name in names if is_beating(storage, name, now_s)}
        gone = sorted(names - pending - ended - beating)
        late = [name for name in gone if _has_late_files(table, storage, timeline, name)]
        for name in sorted(names & ended):
            _remove_unnamed_files(table, storage, timeline, name)
        for name in sorted(names - pending - {*late}):
            age = age_s(storage, name, now_s)
            has_expired = age is not None and name not in beating  # Hudi's rollback leaves the heartbeat
            if name in ended or name < timeline.first_active or has_expired:
                remove_traces(storage, name)
    for name in late:
        roll_back(table, storage, environment, name)


def _remove_unnamed_files(table: HudiTable, storage: WritableStorage, timeline: Timeline, name: str) -> None:
    """Removes files that a paused run of a table service created after another run had completed the instant."""
    completed = timeline.completed_write(name)
    if completed is None or not (commit := table.commit(completed)).is_service:
        return
    kept = {path for stat in commit.stats for path in (stat.path, *stat.change_logs)}
    remove_marked_files(storage, name, markers_of(storage, name), kept)


def _has_late_files(table: HudiTable, storage: WritableStorage, timeline: Timeline, name: str) -> bool:
    """Whether a writer that no longer runs, or can no longer complete, created files after another one had rolled its
    instant back: as soon as the active timeline begins after the instant, Hudi would show them."""
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


def _rollable(table: HudiTable, storage: WritableStorage, timeline: Timeline, *, clusterings: bool) -> list[Instant]:
    """Pending writes, by requested time, and with `clusterings` those clusterings that a process has begun with a
    heartbeat: they block writes to their file groups. Other services stay: whoever comes next runs them again."""

    def is_rolled_back(item: Instant) -> bool:
        if is_clustering(table, item):
            return clusterings and age_s(storage, item.requested_time, 0) is not None
        return item.action in _ROLLED_BACK

    return [item for item in timeline.pending if is_rolled_back(item)]


def roll_back(table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, requested_time: str) -> None:
    """Rolls back a write that is not complete: removes the files that its markers name, then its timeline files.

    The rollback is an instant too. If this process is killed, the next writer goes on with it. A rollback of the write
    that another writer began is completed. If another writer rolled the write back, the files that were created since
    then are removed. Nothing happens to a completed write.
    """
    with locked(storage, environment):
        table = table.refreshed()
        timeline = table.timeline()
        pending = next((item for item in timeline.pending if item.requested_time == requested_time), None)
        storage.close_folder(attempt_folder(requested_time))
        if pending is None:
            if timeline.completed_write(requested_time) is not None or not markers_of(storage, requested_time):
                remove_traces(storage, requested_time)
                return
            pending = _rolled_back_instant(table, requested_time)
        planned = pending_rollback_of(table, storage, timeline, requested_time) or plan_rollback(
            table, storage, environment, timeline, pending, requests_by_markers(table, storage, requested_time)
        )
    finish_rollback(table, storage, environment, planned)


def plan_rollback(
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    timeline: Timeline,
    target: Instant,
    requests: Iterable[RollbackRequest],
) -> Instant:
    """Creates the plan of a rollback of the instant `target`, and returns the rollback. The caller holds the lock."""
    instant = new_time(table, environment, timeline)
    path = _file(table, instant, State.REQUESTED)
    storage.create(path, encode_rollback_plan(target, requests, storage.base_path))
    return Instant(
        requested_time=instant,
        completion_time=None,
        action=Action.ROLLBACK,
        state=State.REQUESTED,
        file_name=path.rpartition("/")[2],
    )


def pending_rollback_of(table: HudiTable, storage: WritableStorage, timeline: Timeline, target: str) -> Instant | None:
    """The rollback of the instant `target` that is planned and not completed. A second one would leave it pending, and
    Hudi's next write would fail at it. A plan that cannot be read is passed over."""
    for item in pending_rollbacks(timeline):
        try:
            if rollback_plan(table, storage, item).target == target:
                return item
        except (CorruptFile, StorageError) as error:
            log.warning("table %s: the plan of rollback %s: %s", redacted_uri(table.base_path), item, error)
    return None


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


def finish_rollback(
    table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, planned: Instant
) -> CompletedRollback:
    """Carries out a planned rollback, also one that another process began. The write may have completed.

    Files that attempts at tasks of the write created after the plan are removed too."""
    instant = planned.requested_time
    plan = rollback_plan(table, storage, planned)
    requests = [*plan.requests, *late_requests(plan.requests, requests_by_markers(table, storage, plan.target))]
    with contextlib.suppress(FileExistsError):
        storage.create(_file(table, instant, State.INFLIGHT), b"")
    # readers see a completed write whole until now
    for item in _files_of(table, storage, plan):
        if item.is_completed:
            storage.remove(timeline_path(table.properties, item.file_name))
    began = environment.monotonic()
    partitions = tuple(_remove_files(table, storage, instant, plan.target, request) for request in requests)
    done = CompletedRollback(
        instant=instant,
        target=plan.target,
        action=plan.action,
        partitions=partitions,
        took_ms=int((environment.monotonic() - began) * 1000),
    )
    with locked(storage, environment):
        table = table.refreshed()
        timeline = table.timeline()
        undo_files(
            table,
            storage,
            timeline,
            plan.target,
            instant,
            lambda inner: new_time(table, environment, timeline, newest_time(inner)),
        )
        # Hudi rolls a stopped compaction back to its plan (`rollbackInflightCompaction`): on layout 1 logs of later
        # writes belong to that. A restore removes the plan too.
        keeps_plan = plan.action in _COMPACTIONS and not pending_restores(timeline)
        for item in sorted(_files_of(table, storage, plan), key=lambda item: item.state is State.REQUESTED):
            if keeps_plan and item.state is State.REQUESTED:
                continue
            storage.remove(timeline_path(table.properties, item.file_name))
        if any(item.requested_time == instant for item in pending_rollbacks(timeline)):
            name = completed_name(table, timeline, environment, instant, Action.ROLLBACK)
            storage.create(timeline_path(table.properties, name), encode_rollback(done, storage.base_path))
        # else another writer carried it out too
    remove_traces(storage, plan.target)
    return done


def completed_name(
    table: HudiTable, timeline: Timeline, environment: WriteEnvironment, instant: str, action: Action
) -> str:
    """The name of the completed file of an instant that completes now. The caller holds the lock."""
    completion = new_time(table, environment, timeline)
    layout = table.properties.layout
    return instant_file_name(instant, action, State.COMPLETED, completion if layout == 2 else None, layout)


def _files_of(table: HudiTable, storage: WritableStorage, plan: RollbackPlan) -> list[Instant]:
    """The timeline files of the instant that a rollback removes. A compaction that completed as a commit has requested
    and inflight files of another action."""
    listing = list_timeline(storage, table.properties)
    files = (parse_instant_file(name, table.properties.layout, plan.target) for name in listing)
    return [
        item
        for item in files
        if item is not None
        and item.requested_time == plan.target
        and comparable_action(item.action) is comparable_action(plan.action)
    ]


def _remove_files(
    table: HudiTable, storage: WritableStorage, instant: str, target: str, request: RollbackRequest
) -> RolledBackPartition:
    for name in request.file_names:
        parsed = parse_file_name(name)
        if parsed is None or parsed.instant != target:
            raise foreign_file(table, target, request.partition, name)
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
    name = instant_file_name(instant, Action.ROLLBACK, state, None, table.properties.layout)
    return timeline_path(table.properties, name)
