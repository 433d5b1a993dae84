"""A table's timeline with the archived instants added, for requests that reach back before the active timeline.

Pure, except for `for_query`, which reads the archive if it is needed.

Old archive files may have been deleted, and the archive does not record that. It shows by indirect evidence: a write
built on an unknown write, a replaced group that no known instant wrote, a data file or partition of an unknown instant.
A lost instant wrote only into partitions that it or an earlier instant created. The completion times of lost instants
are unknown; they are assumed to be before that of the oldest known instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from penstock.enumerator.planning.selection import TimelineFacts, reaches_back, select
from penstock.proto.errors import PositionExpired
from penstock.proto.model.queries import Changes, Incremental, Latest, Query, SnapshotAsOf
from penstock.table.files.listing import PARTITION_MARKER
from penstock.table.files.slices import DataFile
from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.archive import Archive
from penstock.table.timeline.commits import CommitMetadata


def for_query(table: HudiTable, facts: TimelineFacts, query: Query) -> TimelineFacts:
    """The facts, with the archive if the query reaches back before them."""
    if not reaches_back(query, facts):
        return facts
    whole = with_archive(facts, table.archive())
    return replace(whole, rolled_back=whole.rolled_back | table.rolled_back(facts.timeline))


def with_archive(facts: TimelineFacts, archive: Archive) -> TimelineFacts:
    """The active timeline's facts with the archived instants, as if none had been archived.

    If instants are lost, the facts are complete from the oldest archived write on; if the whole archive is lost, from
    the first active instant on.
    """
    timeline = facts.timeline.with_archived(archive.instants)
    commits = {**archive.commits, **facts.commits}
    oldest = next((item for item in archive.instants if item.requested_time in archive.commits), None)
    first = timeline.first_active
    whole = replace(
        facts,
        timeline=timeline,
        commits=commits,
        complete_from="",
        archive_begins=(
            (oldest.requested_time, timeline.order_key(oldest)) if oldest else (first, facts.complete_from or first)
        ),
        archived_cleans=archive.cleans,
        rolled_back=archive.rolled_back,
    )
    is_lost = facts.complete_from and not archive.instants
    return _cut(whole) if is_lost or _refers_to_unknown(commits, timeline.first_active) else whole


def needs_every_partition(query: Query, facts: TimelineFacts) -> bool:
    """Whether all partitions must be listed, because any may show that a relevant instant was lost.

    This is so for a state, and for a range that starts before the oldest known write.
    """
    if facts.archive_begins is None:
        return False
    match query:
        case Incremental(after=after) if not after.is_earliest:
            return after.order_key < facts.archive_begins[1]
        case Changes(after=after):
            return after.order_key < facts.archive_begins[1]
        case _:
            return True


def checked_against(
    facts: TimelineFacts, listing: Mapping[str, Iterable[DataFile]], created: Mapping[str, str], query: Query
) -> TimelineFacts:
    """The facts, marked as less complete if the listing shows an instant that is neither active nor archived.

    Such an instant shows as the writer of a listed file or the creator of a partition (`created`: partition ->
    requested time). PositionExpired if the answer may depend on it.
    """
    unknown = _unknown(facts, listing, created) if facts.archive_begins else {}
    if not unknown:
        return facts
    after, upto = _bounds(query)
    for requested_time, path in sorted(unknown.items()):
        if upto and requested_time > upto:
            continue
        if requested_time > after or (facts.timeline.layout == 2 and isinstance(query, Incremental | Changes)):
            raise PositionExpired(
                f"file {path} of table {facts.table} is of instant {requested_time}, which is neither active nor "
                "archived, so the answer may need instants that are gone; ask for a later range or instant, or "
                "read from `earliest`"
            )
    cut = facts if facts.complete_from else _cut(facts)
    select(query, cut)
    return cut


def _cut(facts: TimelineFacts) -> TimelineFacts:
    """The facts of an archive that lost the instants before its oldest write."""
    requested_time, order_key = facts.archive_begins or ("", "")
    return replace(facts, complete_from=order_key, oldest_known=requested_time)


def _refers_to_unknown(commits: Mapping[str, CommitMetadata], first_active: str) -> bool:
    """Whether a write was built on, or replaced, files that no known instant wrote."""
    written = {(stat.partition, stat.file_id) for commit in commits.values() for stat in commit.stats}
    return any(
        any(
            stat.prev_commit and stat.prev_commit < first_active and stat.prev_commit not in commits for stat in c.stats
        )
        or any(group not in written for group in c.replaced)
        for c in commits.values()
    )


def _unknown(
    facts: TimelineFacts, listing: Mapping[str, Iterable[DataFile]], created: Mapping[str, str]
) -> dict[str, str]:
    """Requested time of an unknown instant before the active timeline -> one of its files."""
    first, known = facts.timeline.first_active, facts.commits.keys() | facts.rolled_back
    unknown = {
        requested_time: f"{partition}/{PARTITION_MARKER}".lstrip("/")
        for partition, requested_time in created.items()
        if requested_time < first and requested_time not in known
    }
    for files in listing.values():
        for file in files:
            if file.name.instant < first and file.name.instant not in known:
                unknown[file.name.instant] = file.ref.path
    return unknown


def _bounds(query: Query) -> tuple[str, str]:
    """(Requested time after which a lost instant's rows are missing, requested time up to which it counts); '' for no
    bound."""
    match query:
        case SnapshotAsOf(instant):
            return instant, instant
        case Incremental(after=after, upto=upto):
            end = "" if isinstance(upto, Latest) else str(upto.order_key)
            return (end or "9" * 24, end) if after.is_earliest else (after.order_key, end)
        case Changes(after=after, upto=upto):
            return after.order_key, "" if isinstance(upto, Latest) else str(upto.order_key)
        case _:
            return "9" * 24, ""
