"""`penstock.savepoint_readers`: savepoints that keep Hudi's own cleaner from the files that readers need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.engine.table_services.cleaning.clean_inputs import reads_archived_writes
from penstock.engine.table_services.holding.readers import Held, HoldOptions, held_by, hold_options
from penstock.engine.table_services.savepoints import SavepointResult, change_savepoint, savepoint
from penstock.engine.table_services.serviced_table import ServicedTable, open_serviced
from penstock.proto.errors import ConfigurationError, PositionExpired
from penstock.proto.model.positions import Position
from penstock.table.hudi_table import HudiTable
from penstock.writer.table_services.cleaner_holds import CleanerHold, HoldState, oldest_held
from penstock.writer.table_services.reader_savepoints import (
    comment_of,
    owners_of,
    owners_of_call,
    with_owners,
    without_owners,
)
from penstock.writer.table_services.retention import EVERYTHING, needed_from


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSavepoints:
    """The savepoints of a table that hold the cleaner for readers."""

    holds: tuple[CleanerHold, ...]
    """The readers: which of them needs savepoints."""
    made: tuple[SavepointResult, ...]
    """The savepoints that were made, by instant; in a dry run those that would be."""
    kept: tuple[str, ...]
    """Instants whose savepoints were made before and are still needed."""
    deleted: tuple[str, ...]
    """Instants whose savepoints were deleted, as no reader needs them any more; in a dry run those that would be."""


def savepoint_readers(
    path: str,
    *,
    hold_for: Sequence[str] = (),
    hold_checkpoints: Sequence[str] = (),
    hold_at_most: str | None = None,
    server: str | None = None,
    server_table: str | None = None,
    server_options: Mapping[str, str] | None = None,
    release: bool = False,
    dry_run: bool = False,
    timeline_timezone: str = "",
) -> ReaderSavepoints:
    """Makes savepoints of the writes that the readers have not read, and of the write before them, in the table at
    `path`; deletes those of an earlier call that no reader needs any more, or whose readers are beyond the bound. For a
    table that Hudi's writers clean: call it more often than they delete states. `penstock.clean` needs no savepoints.

    The options of the readers are those of `penstock.clean`. Each savepoint keeps all files of its state, and no write
    after the oldest one is archived. Savepoints that this function did not make are left alone, and so are those that
    a reader of another call needs: the comment of a savepoint records its readers.
    * release: makes none, and deletes those that only these readers need, such as readers that are gone. It needs
      neither a server nor `hold_at_most`.

    ConfigurationError without a reader; other errors as `penstock.savepoint`. PositionExpired if a write that a reader
    has not read is archived, or its files may be deleted: the savepoints for the others are made before, and none is
    deleted.
    """
    if release:
        return release_savepoints(
            path, hold_for, hold_checkpoints, dry_run=dry_run, timeline_timezone=timeline_timezone
        )
    options = hold_options(hold_for, hold_checkpoints, hold_at_most, server, server_table, server_options)
    return savepoints_of_readers(path, options, dry_run=dry_run, timeline_timezone=timeline_timezone)


def release_savepoints(
    path: str,
    hold_for: Sequence[str],
    hold_checkpoints: Sequence[str],
    *,
    dry_run: bool,
    timeline_timezone: str,
) -> ReaderSavepoints:
    """`savepoint_readers` with `release`."""
    for name, values in (("hold_for", hold_for), ("hold_checkpoints", hold_checkpoints)):
        if isinstance(values, str):
            raise ConfigurationError(f"{name}: got the text {values[:80]!r}, expected a list of texts")
    owners = owners_of_call(hold_for, hold_checkpoints)
    if not owners:
        raise ConfigurationError("savepoint_readers: give the readers, by hold_for or hold_checkpoints")
    deleted = _release(str(path), owners, (), dry_run=dry_run, timeline_timezone=timeline_timezone)
    return ReaderSavepoints(holds=(), made=(), kept=(), deleted=tuple(deleted))


def savepoints_of_readers(
    path: str, options: HoldOptions, *, dry_run: bool, timeline_timezone: str
) -> ReaderSavepoints:
    """`savepoint_readers` with parsed options."""
    if options.at_most is None:
        raise ConfigurationError("savepoint_readers: give the readers, by hold_for or hold_checkpoints")
    serviced = open_serviced(str(path), timeline_timezone)
    held = held_by(serviced, options)
    owners = owners_of_call(options.readers, options.checkpoints)
    table = serviced.table.pinned()
    timeline = table.timeline()
    position, errors = _needed(serviced, table, held)
    needed = _instants(table, position)
    present = {str(item.requested_time): table.savepoint(item).comment for item in timeline.savepoints}
    savepoints: list[SavepointResult] = []
    for instant in needed:
        if instant in present:
            if not dry_run:
                add = partial(with_owners, owners=owners)
                change_savepoint(str(path), instant, add, timeline_timezone=timeline_timezone)
            continue
        try:
            savepoints.append(
                savepoint(
                    str(path),
                    instant,
                    comment=comment_of(owners),
                    dry_run=dry_run,
                    timeline_timezone=timeline_timezone,
                )
            )
        except PositionExpired as error:
            errors.append(error)
    if errors:
        raise PositionExpired(
            f"{errors[0]}. Savepoints of {len(savepoints)} other writes {'would be' if dry_run else 'were'} made, and "
            "none was deleted"
        ) from errors[0]
    deleted = _release(str(path), owners, needed, dry_run=dry_run, timeline_timezone=timeline_timezone)
    kept = [instant for instant in needed if owners_of(present.get(instant, ""))]
    return ReaderSavepoints(holds=held.holds, made=tuple(savepoints), kept=tuple(kept), deleted=tuple(deleted))


def _needed(serviced: ServicedTable, table: HudiTable, held: Held) -> tuple[Position | None, list[PositionExpired]]:
    """The position of the reader that is furthest behind, of those that have read all archived writes; and an error for
    each other one within the bound."""
    timeline = table.timeline()
    pairs = [
        (reader, hold)
        for reader, hold in zip(held.readers, held.holds, strict=True)
        if hold.state is not HoldState.EXCEEDED
    ]
    expired = [pair for pair in pairs if reads_archived_writes(table, timeline, pair[0].position)]
    errors = [
        PositionExpired(
            f"{serviced.where}: {reader.kind} {reader.name} at {reader.position} has not read archived writes, "
            "of which no savepoint can be made: raise hoodie.keep.min.commits; reset the reader if the files are "
            "gone"
        )
        for reader, _ in expired
    ]
    return oldest_held(pair for pair in pairs if pair not in expired), errors


def _release(
    path: str,
    owners: frozenset[str],
    needed: Collection[str],
    *,
    dry_run: bool,
    timeline_timezone: str,
) -> list[str]:
    """Removes these readers from savepoints that they do not need. The instants of the savepoints that no other reader
    needs, which are deleted."""
    table = open_serviced(path, timeline_timezone).table.pinned()
    comments = {str(item.requested_time): table.savepoint(item).comment for item in table.timeline().savepoints}
    remove = partial(without_owners, owners=owners)
    deleted = []
    for instant, comment in sorted(comments.items()):
        changed = comment if instant in needed else remove(comment)
        if changed != comment and not dry_run:
            change_savepoint(path, instant, remove, timeline_timezone=timeline_timezone)
        if changed is None:
            deleted.append(instant)
    return deleted


def _instants(table: HudiTable, reader: Position | None) -> list[str]:
    """The requested times of the writes that a reader has not read, and of the one before them."""
    timeline = table.timeline()
    needed = needed_from(timeline, reader)
    if not needed:
        return []
    completed = [str(item.requested_time) for item in timeline.completed_writes]
    before = [] if needed == EVERYTHING else [time for time in completed if time < needed][-1:]
    return before + [time for time in completed if time >= needed]
