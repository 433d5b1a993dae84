"""Tables of consumer groups by path: opened once, looked at many times.

Shell: `penstock.table` through `watch`. Not here: when they are looked at (`looking`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from penstock.enumerator.continuous.advance import advance, start_progress
from penstock.enumerator.continuous.change_probe import Look, TableWatch
from penstock.enumerator.continuous.retention import earliest_position, lags
from penstock.enumerator.continuous.split_files import missing_file
from penstock.enumerator.continuous.types import Advance, Following, Progress
from penstock.enumerator.handover.phases import advance_hybrid
from penstock.enumerator.planning.annotate import EventTimeScan
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.tables.open_tables import OpenedTables, wall_clock_ms
from penstock.kafka.factory import open_topic
from penstock.kafka.protocols import OpenTopic
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.hybrid import KafkaAccess
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import Split
from penstock.table.arrow_errors import translates_errors
from penstock.table.hudi_table import HudiTable


class FollowedTables(OpenedTables):
    """`OpenedTables` that can be followed too. Any thread. `hollow_after_ms`: see `watch.advance.advance`."""

    def __init__(
        self,
        *,
        hollow_after_ms: int | None = None,
        wall_ms: Callable[[], int] = wall_clock_ms,
        scan_event_time: EventTimeScan | None = None,
        open_topic: OpenTopic = open_topic,
        topics: Mapping[str, KafkaAccess] | None = None,
    ) -> None:
        super().__init__(wall_ms=wall_ms, scan_event_time=scan_event_time, open_topic=open_topic, topics=topics)
        self._hollow_after_ms = hollow_after_ms

    @translates_errors
    def glance(self, path: str) -> Look:
        """See `looking.Follows.glance`: two file operations for a table that is open, and a listing of its timeline
        where file times prove nothing; no listing with `hollow_after_ms`, where time alone may bring a round."""
        watch = TableWatch(self.opened(path), clock_ns=lambda: self._wall_ms() * 1_000_000)
        return watch.look_closely() if self._hollow_after_ms is None else watch.look()

    @translates_errors
    def advance(self, path: str, name: str, following: Following) -> Advance:
        """See `watch.advance.advance`, and `hybrid.following.advance_hybrid` for a hybrid read."""
        table = self._table(path)
        request = self._with_access(name, following.request)
        if request.hybrid is None:
            return self._in_lake(table, name, following)
        return advance_hybrid(
            table,
            name,
            replace(following, request=request),
            request.hybrid,
            self._side,
            lambda asked: self._in_lake(table, name, asked),
            self._planned,
        )

    def _in_lake(self, table: HudiTable, name: str, following: Following) -> Advance:
        return advance(
            table,
            name,
            following,
            hollow_after_ms=self._hollow_after_ms,
            clock_ms=self._wall_ms,
            planned=self._planned,
        )

    @translates_errors
    def earliest(self, path: str, name: str, request: PlanRequest) -> Position:
        """See `watch.retention.earliest_position`."""
        return earliest_position(self._table(path), request)

    @translates_errors
    def start(self, path: str, position: Position | None) -> Progress:
        """See `watch.advance.start_progress`."""
        return start_progress(self._table(path), position)

    @translates_errors
    def newest_clean(self, path: str) -> str:
        """See `open_rounds.ChecksFiles`."""
        cleans = read_timeline(self._table(path)).timeline.completed_cleans
        return cleans[-1].requested_time if cleans else ""

    @translates_errors
    def missing_file(self, path: str, splits: Sequence[Split]) -> str:
        """See `open_rounds.ChecksFiles`."""
        return missing_file(self._table(path).storage, splits)

    @translates_errors
    def lag(self, path: str, progress: Progress, committed: Position) -> GroupLag:
        """See `watch.retention.lag`. Behind the lake no commit is waited for."""
        return self.lags(path, [(progress, committed)])[0]

    @translates_errors
    def lags(self, path: str, places: Sequence[tuple[Progress, Position]]) -> list[GroupLag]:
        """`lag` of each, by one reading of the table."""
        in_lake = [place for place in places if place[0].kafka is None]
        found = iter(lags(self._table(path), in_lake, clock_ms=self._wall_ms) if in_lake else ())
        behind = GroupLag(commits=0, size_bytes=0, seconds=0.0)
        return [next(found) if progress.kafka is None else behind for progress, _ in places]
