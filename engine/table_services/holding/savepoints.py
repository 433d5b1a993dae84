"""`penstock.savepoint_readers`: savepoints that keep Hudi's own cleaner from the files that readers need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.engine.table_services.cleaning_facts import reads_archived_writes
from penstock.engine.table_services.holding.readers import HoldOptions, held_by, hold_options
from penstock.engine.table_services.savepoints import SavepointResult, delete_savepoint, savepoint
from penstock.engine.table_services.serviced_table import open_serviced
from penstock.proto.errors import ConfigurationError, PositionExpired
from penstock.proto.model.positions import Position
from penstock.table.hudi_table import HudiTable
from penstock.writer.table_services.holds import CleanerHold
from penstock.writer.table_services.retention import EVERYTHING, needed_from

COMMENT: Final = "penstock: held for readers"
"""The comment of these savepoints, by which they are found again."""


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
    dry_run: bool = False,
    timeline_timezone: str = "",
) -> ReaderSavepoints:
    """Makes savepoints of the writes that the readers have not read, and of the write before them, in the table at
    `path`; deletes those of an earlier call that no reader needs any more, or whose readers are beyond the bound. For a
    table that Hudi's writers clean: call it more often than they delete states. `penstock.clean` needs no savepoints.

    The options of the readers are those of `penstock.clean`. Each savepoint keeps all files of its state, and no write
    after the oldest one is archived. Savepoints that this function did not make are left alone.

    ConfigurationError without a reader; PositionExpired if a write that a reader has not read is archived, or its files
    may be deleted; other errors as `penstock.savepoint`.
    """
    options = hold_options(hold_for, hold_checkpoints, hold_at_most, server, server_table, server_options)
    return savepoints_of_readers(path, options, dry_run=dry_run, timeline_timezone=timeline_timezone)


def savepoints_of_readers(
    path: str, options: HoldOptions, *, dry_run: bool, timeline_timezone: str
) -> ReaderSavepoints:
    """`savepoint_readers` with parsed options."""
    if options.at_most is None:
        raise ConfigurationError("savepoint_readers: give the readers, by hold_for or hold_checkpoints")
    serviced = open_serviced(str(path), timeline_timezone, keeps_metadata=True)
    held = held_by(serviced, options)
    table = serviced.table.pinned()
    timeline = table.timeline()
    if reads_archived_writes(table, timeline, held.position):
        raise PositionExpired(
            f"{serviced.where}: a reader at {held.position} has not read writes that are archived, of which no "
            "savepoint can be made: raise hoodie.keep.min.commits, and reset the reader if the files are gone"
        )
    wanted = _wanted(table, held.position)
    mine = {item.requested_time for item in timeline.savepoints if table.savepoint(item).comment == COMMENT}
    present = {item.requested_time for item in timeline.savepoints}
    made = [
        savepoint(str(path), instant, comment=COMMENT, dry_run=dry_run, timeline_timezone=timeline_timezone)
        for instant in wanted
        if instant not in present
    ]
    deleted = sorted(mine.difference(wanted))
    for instant in () if dry_run else deleted:
        delete_savepoint(str(path), instant, timeline_timezone=timeline_timezone)
    return ReaderSavepoints(
        holds=held.holds, made=tuple(made), kept=tuple(sorted(mine.intersection(wanted))), deleted=tuple(deleted)
    )


def _wanted(table: HudiTable, reader: Position | None) -> list[str]:
    """The requested times of the writes that a reader has not read, and of the one before them."""
    timeline = table.timeline()
    needed = needed_from(timeline, reader)
    if not needed:
        return []
    completed = [str(item.requested_time) for item in timeline.completed_writes]
    before = [] if needed == EVERYTHING else [time for time in completed if time < needed][-1:]
    return before + [time for time in completed if time >= needed]
