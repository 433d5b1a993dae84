"""Reads of tables for consumer groups: probe, advance, lag. Storage is read through `OpenTables`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from penstock.enumerator.continuous.advance import advance, start_progress
from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.continuous.retention import earliest_position, lags
from penstock.enumerator.continuous.types import Advance, Following, NextRound, Progress, ReaderPlace
from penstock.enumerator.handover.phases import advance_hybrid
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.snapshots.group_start import before_snapshot, snapshot_round
from penstock.enumerator.streams.known_commits import KnownCommits, check_rule, listed_snapshot, newest_within
from penstock.enumerator.streams.round_times import with_event_times, with_topic_times
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.model.changes import GroupChanges
from penstock.proto.model.groups import GroupLag, GroupScope
from penstock.proto.model.hybrid import Hybrid
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import Split
from penstock.proto.model.streams import EventTimeCeiling, EventTimeRule, SnapshotProgress, request_with_rule
from penstock.table.arrow_errors import errors_of_table
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.filesystem import Storage

_A = TypeVar("_A", NextRound, Advance)

_FEW: Final = 8
"""Up to this many files of a folder are checked one by one; for more, the folder is listed."""


class FollowedTables:
    """Reads of tables for consumer groups. Any thread. `hollow_after_ms`: see `continuous.advance.advance`."""

    def __init__(self, tables: OpenTables, *, hollow_after_ms: int | None = None) -> None:
        self._tables, self._hollow_after_ms = tables, hollow_after_ms

    def allow_topic(self, name: str, hybrid: Hybrid) -> None:
        """See `GroupTables.allow_topic`."""
        self._tables.allow_topic(name, hybrid)

    def probe(self, path: str) -> TableFingerprint:
        """See `GroupTables.probe`. With `hollow_after_ms` no listing: time alone may complete a round."""
        with errors_of_table(path):
            return self._tables.probe(path, closely=self._hollow_after_ms is None)

    def advance(self, path: str, name: str, following: Following) -> Advance:
        """See `continuous.advance.advance`, and `handover.phases.advance_hybrid` for a hybrid read."""
        with errors_of_table(path):
            table = self._tables.current(path)
            request = self._tables.with_topic_access(name, following.request)
            following = replace(following, request=request)
            if following.progress.snapshot is not None:
                return self._in_snapshot(table, path, name, following, following.progress.snapshot)
            if request.hybrid is None:
                return self._timed(
                    path, name, following, self._in_lake(table, name, self._within_drift(path, name, following))
                )
            advance = advance_hybrid(
                table,
                name,
                following,
                request.hybrid,
                self._tables.topic_source,
                lambda in_lake: self._in_lake(table, name, in_lake),
                self._tables.plan_table,
            )
            return self._timed(path, name, following, advance)

    def _in_snapshot(
        self, table: HudiTable, path: str, name: str, following: Following, snapshot: SnapshotProgress
    ) -> NextRound:
        tables = self._tables
        plan, splits = listed_snapshot(
            table, path, name, following.request, snapshot.at, tables.plan_table, tables.streams, snapshot.place.digest
        )
        next_round = snapshot_round(name, following, plan, splits, lambda split: tables.max_rows_of(table, split))
        done = snapshot.place.done + len(next_round.plan.splits)
        return self._timed(path, name, following, next_round, splits[done:])

    def _timed(
        self, path: str, name: str, following: Following, advance: _A, later: Sequence[Split] = ()
    ) -> _A | NextRound:
        """The round with its event times, if they are needed. `later`: splits of its snapshot after the round."""
        rule = following.rule
        if rule is None or not isinstance(advance, NextRound):
            return advance
        if advance.progress.kafka is not None:
            return with_topic_times(advance, advance.progress.kafka, rule)
        return with_event_times(advance, self._known(path, name, following, rule), later)

    def _known(self, path: str, name: str, following: Following, rule: EventTimeRule) -> KnownCommits:
        return KnownCommits(
            table=self._tables.current(path),
            path=path,
            name=name,
            request=following.request,
            rule=rule,
            upto=following.upto,
            planned=self._tables.plan_table,
            cache=self._tables.streams,
        )

    def _within_drift(self, path: str, name: str, following: Following) -> Following:
        """The request with as few commits as its drift allows: the splits of one round are read in any order."""
        if following.max_drift_us is None or following.rule is None:
            return following
        any_time = EventTimeCeiling(None, following.max_drift_us, is_lowest=True)
        commits = self._known(path, name, following, following.rule).commits_within(any_time, following.progress)
        limits = following.limits
        return replace(following, limits=replace(limits, max_commits=min(limits.max_commits or commits, commits)))

    def _in_lake(self, table: HudiTable, name: str, following: Following) -> Advance:
        return advance(
            table.pinned(),
            name,
            following,
            hollow_after_ms=self._hollow_after_ms,
            clock_ms=self._tables.wall_ms,
            planned=self._tables.plan_table,
        )

    def earliest(self, path: str, name: str, request: PlanRequest) -> Position:
        """See `continuous.retention.earliest_position`."""
        with errors_of_table(path):
            return earliest_position(self._tables.current(path), request)

    def start(self, path: str, position: Position | None) -> Progress:
        """See `continuous.advance.start_progress`."""
        with errors_of_table(path):
            return start_progress(self._tables.current(path), position)

    def start_snapshot(self, path: str, name: str, scope: GroupScope) -> Progress:
        """See `GroupTables.start_snapshot`."""
        with errors_of_table(path):
            table = self._tables.current(path)
            newest = newest_within(table, scope.upto)
            request = request_with_rule(scope.request, scope.rule)
            planned, cache = self._tables.plan_table, self._tables.streams
            _, splits = listed_snapshot(table, path, name, request, newest.position, planned, cache)
            return before_snapshot(newest, splits)

    def check_rule(self, path: str, name: str, scope: GroupScope) -> None:
        """See `GroupTables.check_rule`."""
        with errors_of_table(path):
            check_rule(self._tables.current(path), name, scope.request, scope.rule)

    def newest_clean(self, path: str) -> str:
        """See `GroupTables.newest_clean`."""
        with errors_of_table(path):
            cleans = read_timeline(self._tables.current(path)).timeline.completed_cleans
            return cleans[-1].requested_time if cleans else ""

    def missing_file(self, path: str, splits: Sequence[Split]) -> str:
        """See `GroupTables.missing_file`."""
        with errors_of_table(path):
            return _missing_file(self._tables.current(path).storage, splits)

    def lags(self, path: str, readers: Sequence[ReaderPlace]) -> list[GroupLag]:
        """See `continuous.retention.lags`. After the hand-over to a topic there is no lag in commits."""
        with errors_of_table(path):
            in_lake = [reader for reader in readers if reader.progress.kafka is None]
            table, clock_ms = self._tables.current(path), self._tables.wall_ms
            measured = iter(lags(table, in_lake, clock_ms=clock_ms) if in_lake else ())
            no_lag = GroupLag(commits=0, size_bytes=0, seconds=0.0)
            return [next(measured) if reader.progress.kafka is None else no_lag for reader in readers]


def _paths_of(split: Split) -> Iterator[str]:
    """Every file that reading the split may open, by its path in the table."""
    files = [*([split.base] if split.base else []), *split.logs]
    if isinstance(split.part, GroupChanges):
        files += [file for step in split.part.steps for file in step.files]
    yield from (file.path for file in files)
    if split.ancestry is not None:
        for origin in split.ancestry.origins:
            for item in origin.slices:
                yield from _paths_of(item)


def _missing_file(storage: Storage, splits: Iterable[Split]) -> str:
    """The first file, by folder and name, that does not exist; '' if all exist. StorageError."""
    folders: dict[str, set[str]] = {}
    for split in splits:
        for path in _paths_of(split):
            folder, _, _ = path.rpartition("/")
            folders.setdefault(folder, set()).add(path)
    for folder, paths in sorted(folders.items()):
        unchecked = sorted(paths)
        if len(unchecked) > _FEW:
            listed = {info.path for info in storage.list_dir(folder)}
            unchecked = [path for path in unchecked if path not in listed]
        for path in unchecked:
            if storage.file_info(path) is None:
                return path
    return ""
