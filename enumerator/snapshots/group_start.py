"""The snapshot with which a consumer group starts: its first progress, and the rounds that read its splits. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.enumerator.continuous.types import Following, NextRound
from penstock.enumerator.snapshots.split_list import batch_end, digest_of
from penstock.proto.errors import InvariantViolation, PositionExpired
from penstock.proto.model.positions import CommitRange
from penstock.proto.model.splits import Plan, Split
from penstock.proto.model.streams import Progress, SnapshotPlace, SnapshotProgress


def before_snapshot(at: Progress, splits: tuple[Split, ...]) -> Progress:
    """The progress before the first split of the snapshot at `at`; `at` itself if the snapshot has no splits."""
    if not splits:
        return at
    place = SnapshotPlace(done=0, total=len(splits), digest=digest_of(splits))
    snapshot = SnapshotProgress(at.position, place)
    return replace(at, position=snapshot.position, snapshot=snapshot)


def at_snapshot(progress: Progress) -> Progress:
    """The progress after the last split of the snapshot; the progress itself outside of a snapshot."""
    if progress.snapshot is None:
        return progress
    return replace(progress, position=progress.snapshot.at, snapshot=None)


def snapshot_round(
    name: str,
    following: Following,
    plan: Plan,
    splits: tuple[Split, ...],
    max_rows_of: Callable[[Split], int],
) -> NextRound:
    """The next splits of the snapshot, within the limits of a round. `plan` and `splits` are those of the snapshot.

    PositionExpired if the list of splits is not the one with which the group started: files of it were cleaned.
    """
    progress = following.progress
    if progress.snapshot is None:
        raise InvariantViolation(f"table {name}: the group is not in a snapshot")
    at, place = progress.snapshot.at, progress.snapshot.place
    actual = digest_of(splits)
    if actual != place.digest:
        raise PositionExpired(
            f"the snapshot of table {name} at {at} with which the group starts has changed: the digest of its "
            f"splits is {actual} ({len(splits)} splits), expected {place.digest} ({place.total}): files of the table "
            "were removed or changed. Start the group again, or create it with onLostRange=snapshot, which reads a new "
            "snapshot"
        )
    end = batch_end(splits, place.done, following.limits, max_rows_of)
    later = SnapshotProgress(at, replace(place, done=end))
    after = at_snapshot(progress) if end == place.total else replace(progress, position=later.position, snapshot=later)
    commit_range = CommitRange(progress.position, after.position)
    return NextRound(
        commit_range=commit_range,
        plan=replace(plan, commit_range=commit_range, splits=splits[place.done : end]),
        progress=after,
    )
