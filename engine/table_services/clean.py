"""`penstock.clean`: deletes the files that only older states of a table need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.engine.table_services.cleaning.clean_executor import carry_out, plan_clean, schedule_clean
from penstock.engine.table_services.cleaning.clean_inputs import pending_cleans
from penstock.engine.table_services.holding.readers import Held, HoldOptions, held_by, hold_options
from penstock.engine.table_services.metadata_services import clean_metadata
from penstock.engine.table_services.serviced_table import ServicedTable, open_serviced
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import Position
from penstock.table.timeline.services.clean_encoder import CleanPlan
from penstock.writer.table_services.cleaner_holds import CleanerHold
from penstock.writer.table_services.retention import (
    CleanPolicy,
    KeepCommits,
    KeepFileVersions,
    KeepHours,
    reader_position,
)
from penstock.writer.transaction.marked_files import joined

_DEFAULT_COMMITS = 10
"""Hudi's `hoodie.clean.commits.retained`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """A clean."""

    instant: str
    """Its instant; '' if nothing had to be deleted, and of a dry run."""
    policy: str
    """Hudi's name of its policy."""
    earliest_to_retain: str
    """Requested time of the earliest instant whose state of the table can still be read; '' under
    KEEP_LATEST_FILE_VERSIONS, and if nothing had to be deleted."""
    carried_on: tuple[str, ...]
    """Instants of cleans that others had left, which were carried out before; in a dry run those that would be."""
    files: tuple[str, ...]
    """Paths of the deleted files, also those of cleans that were carried on; in a dry run of those that would be."""
    partitions: tuple[str, ...]
    """Partitions without any file group, whose folders were to be deleted too."""
    holds: tuple[CleanerHold, ...] = ()
    """The readers of `hold_for` and `hold_checkpoints`: which of them held the cleaner, and for how long."""


def clean(
    path: str,
    *,
    commits: int | None = None,
    hours: int | None = None,
    file_versions: int | None = None,
    dry_run: bool = False,
    keep_from: Position | str | None = None,
    hold_for: Sequence[str] = (),
    hold_checkpoints: Sequence[str] = (),
    hold_at_most: str | None = None,
    server: str | None = None,
    server_table: str | None = None,
    server_options: Mapping[str, str] | None = None,
    timeline_timezone: str = "",
) -> CleanResult:
    """Deletes the files of the table at `path` that only older states of it need.

    One of three policies of Hudi's cleaner:
    * commits: the states at the newest so many commits can still be read (KEEP_LATEST_COMMITS); by default 10.
    * hours: those of the last so many hours (KEEP_LATEST_BY_HOURS).
    * file_versions: the newest so many slices of each file group stay (KEEP_LATEST_FILE_VERSIONS).

    The newest slice of each file group always stays; so do files of savepoints, and what pending services read.
    * dry_run: nothing changes; the result says what would be deleted.
    * keep_from: the position of a reader, or an order key that it has read: every instant after it, and the state of
      the table at it, can still be read.
    * hold_for: names of consumer groups and streams of `server` (HOST:PORT): what they have not read is kept, up to
      `hold_at_most`, such as `48h` or `200 commits`, which has no default. `hold_checkpoints`: folders of checkpoints
      of Spark queries, likewise. A reader that has been behind for longer is no longer kept for: `holds` of the result
      and a warning say that it will lose its range. `server_table`: the table's name on the server, if its path there
      is another one. `server_options`: `serverCa`, `serverCert`, `serverKey`, `serverToken`.
    * timeline_timezone: the zone of the table's writers, for a table with a LOCAL timeline.

    A clean that another process planned and did not complete is carried out first. TableError if such a plan would
    delete what is still needed; WriteConflict if another process changes the table at the same time; UnsupportedFeature
    for a table that is not cleaned. If the server does not answer, or does not have a named reader, the error is its
    own, and nothing is deleted.
    """
    return clean_for(
        path,
        clean_policy(commits, hours, file_versions),
        hold_options(hold_for, hold_checkpoints, hold_at_most, server, server_table, server_options),
        keep_from=keep_from,
        dry_run=dry_run,
        timeline_timezone=timeline_timezone,
    )


def clean_for(
    path: str,
    policy: CleanPolicy,
    options: HoldOptions,
    *,
    keep_from: Position | str | None,
    dry_run: bool,
    timeline_timezone: str,
) -> CleanResult:
    """Cleans the table at `path` as `clean`, by a policy, and keeps the files for the readers of the options."""
    reader = reader_position(keep_from)
    serviced = open_serviced(str(path), timeline_timezone, keeps_metadata=True)
    held = held_by(serviced, options)
    return clean_serviced(serviced, policy, oldest_of(reader, held.position), held, dry_run=dry_run)


def clean_serviced(
    serviced: ServicedTable, policy: CleanPolicy, oldest: Position | None, held: Held, *, dry_run: bool
) -> CleanResult:
    """Cleans a table as `clean`; the reader that is furthest behind is at `oldest`."""
    pending = pending_cleans(serviced.table.timeline())
    names = tuple(str(item.requested_time) for item in pending)
    if dry_run:
        pinned = serviced.table.pinned()
        plans = [pinned.clean_plan(item) for item in pending]
        return _result(policy, "", names, plans, plan_clean(pinned, serviced, policy, oldest), held)
    plans = [carry_out(serviced, item, oldest) for item in pending]
    planned = schedule_clean(serviced, policy, oldest, held.recorded)
    plan = None if planned is None else carry_out(serviced, planned, oldest)
    clean_metadata(serviced, policy)
    return _result(policy, "" if planned is None else planned.requested_time, names, plans, plan, held)


def clean_policy(commits: int | None, hours: int | None, file_versions: int | None) -> CleanPolicy:
    """The policy that these options state. ConfigurationError for several, or for a number below 1."""
    if sum(value is not None for value in (commits, hours, file_versions)) > 1:
        raise ConfigurationError(
            f"clean: got commits={commits}, hours={hours}, file_versions={file_versions}, expected one of them"
        )
    if hours is not None:
        return KeepHours(hours)
    if file_versions is not None:
        return KeepFileVersions(file_versions)
    return KeepCommits(_DEFAULT_COMMITS if commits is None else commits)


def oldest_of(*positions: Position | None) -> Position | None:
    """The first of these positions; None if there is none."""
    return min((position for position in positions if position is not None), default=None)


def _result(
    policy: CleanPolicy,
    instant: str,
    carried_on: tuple[str, ...],
    others: Iterable[CleanPlan],
    plan: CleanPlan | None,
    held: Held,
) -> CleanResult:
    plans = [*others, *((plan,) if plan else ())]
    files = {joined(partition, name) for one in plans for partition, names in one.files.items() for name in names}
    return CleanResult(
        instant=instant,
        policy=policy.hudi_name,
        earliest_to_retain=plan.earliest if plan else "",
        carried_on=carried_on,
        files=tuple(sorted(files)),
        partitions=tuple(sorted({partition for one in plans for partition in one.partitions})),
        holds=held.holds,
    )
