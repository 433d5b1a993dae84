"""Open tables by path: opened once, read many times, never stale."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.enumerator.clocks import monotonic_ms, wall_ms
from penstock.enumerator.continuous.change_probe import ChangeProbe, TableFingerprint, is_unchanged
from penstock.enumerator.handover.topic_access import TopicAccessRegistry, TopicSource
from penstock.enumerator.planning import plan as planning
from penstock.enumerator.planning.annotate import EventTimeScan, TimeSources
from penstock.enumerator.planning.event_time.file_bounds import FooterCache
from penstock.enumerator.streams.plan_cache import AnswerKey, KnownAnswer, LruCache, StreamPlanCache, answer_key
from penstock.enumerator.tables.shared_plans import SharedPlans
from penstock.enumerator.tables.table_watch import CallLooks, TableWatch
from penstock.kafka.factory import open_topic
from penstock.proto.errors import CorruptFile, StorageError, TableNotFound
from penstock.proto.model.hybrid import Hybrid, KafkaAccess
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import PlanRequest, SnapshotPart, TopicRanges
from penstock.proto.model.reports import TableDescription, TimelinePage
from penstock.proto.model.splits import Plan, Split
from penstock.table.arrow_errors import errors_of_table
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.timeline.commit_cache import CommitCache
from penstock.table.timeline.settled_reads import read_current

if TYPE_CHECKING:
    from penstock.enumerator.streams.stream_planner import StreamPlanner
    from penstock.enumerator.tables.timeline_watcher import FolderEvents
    from penstock.kafka.protocols import OpenTopic
    from penstock.proto.model.streams import NextBatch, StreamPoint, StreamScope, StreamStart

MAX_TABLES: Final = 10_000
"""Open tables; the least recently used one is closed."""
MAX_LISTED_FILES: Final = 1_000_000
"""Timeline files that all open tables keep from their last listings (about 0.5 KB each); beyond that, tables are closed
too."""


def _named(plan: Plan, name: str) -> Plan:
    return plan if plan.scan.table == name else replace(plan, scan=replace(plan.scan, table=name))


class OpenTables:
    """Reads of tables by path or URI, from any thread.

    Open tables share a cache of commits, which never change. The properties of a table are read again for each call, so
    that an upgraded or recreated table is read correctly. `scan_event_time` reads splits whose files do not have their
    event times, for requests that need them; event times of files and reads are cached. `open_topic` opens the topics
    of hybrid reads. `topics` has the access to the topics by name of the table; None: each request has its own access.
    """

    def __init__(
        self,
        max_tables: int = MAX_TABLES,
        *,
        wall_ms: Callable[[], int] = wall_ms,
        clock_ms: Callable[[], int] = monotonic_ms,
        scan_event_time: EventTimeScan | None = None,
        open_topic: OpenTopic = open_topic,
        topics: Mapping[str, KafkaAccess] | None = None,
    ) -> None:
        self._accesses = TopicAccessRegistry(topics)
        self._max_tables, self.wall_ms, self._clock_ms = max_tables, wall_ms, clock_ms
        self.topic_source = TopicSource(open_topic=open_topic, scan_event_time=scan_event_time)
        self.streams = StreamPlanCache()
        """The caches of streams, and of groups with a watermark or a snapshot."""
        self._shared = SharedPlans()
        self._watch = TableWatch(self.probe, lambda: 0)
        self._sources = TimeSources(FooterCache(), scan_event_time)
        self._lock = threading.Lock()
        self._commits = CommitCache()
        self._unsettled: LruCache[str, TableFingerprint] = LruCache(max_tables)
        self._opened: OrderedDict[str, HudiTable] = OrderedDict()
        self._listed: dict[str, int] = {}
        self._listed_files = 0

    def follow_changes(self, open_events: Callable[[], FolderEvents | None]) -> Callable[[], None]:
        """Watches the timelines on local disks at which streams look from now on, for `wait_for_change`. Returns the
        function that ends this. `open_events`: see `TimelineWatcher`."""
        from penstock.enumerator.tables.timeline_watcher import TimelineWatcher  # late: few processes watch

        watcher = TimelineWatcher(open_events, self._watch.changed)
        self._watch.follow = watcher.follow
        return watcher.close

    def wait_for_change(self, path: str, seconds: float) -> None:
        """Waits until the timeline of the table changes after the last look of a stream, or for `seconds`: also if it
        is not watched."""
        self._watch.wait_for_change(path, lambda event: event.wait(seconds))

    def check(self, path: str) -> None:
        """TableNotFound, UnsupportedFeature, … if no table can be opened at `path`."""
        with errors_of_table(path):
            self.current(path)

    def describe(self, path: str, name: str) -> TableDescription:
        """The table now, under `name`."""
        with errors_of_table(path):
            return read_current(lambda: planning.describe(self.current(path), name))

    def instants(self, path: str, after: str, as_of: str, max_instants: int) -> TimelinePage:
        """See `Enumerator.list_instants`."""
        from penstock.enumerator.tables.timeline_pages import timeline_page  # late: reads need none

        with errors_of_table(path):
            table = self.current(path)
            return timeline_page(table.timeline(), table.properties.timezone, after, as_of, max_instants)

    def newest(self, path: str, after: Position | None, max_commits: int) -> Position:
        """See `Enumerator.newest_position`."""
        with errors_of_table(path):
            return read_current(lambda: planning.newest(self.current(path), after, max_commits))

    def plan(self, path: str, name: str, request: PlanRequest) -> Plan:
        """The plan of a request; the table of its scan is `name`."""
        with errors_of_table(path):
            request = self.with_topic_access(name, request)
            prepared = self.streams.take_plan(path, request)
            if prepared is not None:
                return _named(prepared, name)
            return read_current(lambda: self._planned(self.current(path), name, request))

    def _planned(self, table: HudiTable, name: str, request: PlanRequest) -> Plan:
        if isinstance(request.query, SnapshotPart):
            from penstock.enumerator.snapshots.plan import plan_part  # late: of streams only

            return plan_part(table, name, request, request.query, self.plan_table)
        if isinstance(request.query, TopicRanges):
            from penstock.enumerator.handover.topic_plans import topic_plan

            return topic_plan(table, name, request, request.query.ranges, self._sources.scan)
        return self.plan_table(table, name, request, ())

    def start_stream(self, path: str, name: str, scope: StreamScope, start: StreamStart) -> StreamPoint:
        """See `Enumerator.start_stream`."""
        from penstock.enumerator.streams.stream_planner import check_scope  # late: as in `_stream_planner`
        from penstock.proto.model.streams import Progress, StreamPoint

        with errors_of_table(path):
            check_scope(scope)
            scope = replace(scope, request=self.with_topic_access(name, scope.request))
            try:
                table = self.current(path)
            except TableNotFound:
                return StreamPoint(progress=Progress(EARLIEST))
            return self._stream_planner(table, path, name, scope).start(start)

    def next_batch(
        self, path: str, name: str, scope: StreamScope, point: StreamPoint, looks: CallLooks | None = None
    ) -> NextBatch:
        """See `Enumerator.next_batch`. An idle table costs two file operations. `looks` are those that the call shares
        with other calls; None: it looks itself."""
        from penstock.enumerator.streams.stream_planner import check_scope  # late: as in `_stream_planner`
        from penstock.proto.model.streams import NextBatch

        with errors_of_table(path):
            check_scope(scope)
            scope = replace(scope, request=self.with_topic_access(name, scope.request))
            looks = CallLooks(self._watch, path, interval_ms=0) if looks is None else looks
            key = answer_key(path, scope, point)
            try:
                answer = self._known_answer(key, looks)
                if answer is not None:
                    return answer
                fingerprint = looks.recent()  # before the table is read
                table = self.current(path)
                batch = self._stream_planner(table, path, name, scope).next_batch(point)
            except TableNotFound:
                if point.progress.position.is_earliest and point.snapshot is None:
                    return NextBatch(point=point)
                raise
            except CorruptFile as error:
                if not self.streams.may_appear((path, error.missing_file), self._clock_ms()):
                    raise
                raise StorageError(
                    f"{error}; it is waited for, as a listing may be stale: a retry may succeed"
                ) from error
            self._keep_answer(key, scope, batch, fingerprint)
            return batch

    def _known_answer(self, key: AnswerKey, looks: CallLooks) -> NextBatch | None:
        """The answer to an equal call, if the table is unchanged since then. That nothing is new takes a look that
        began after this call: it may not hide an instant that completed before. A batch does not: the call after it
        returns that instant."""
        from penstock.proto.model.streams import batch_request

        path, scope, _ = key
        known = self.streams.known(key)
        if known is None or not is_unchanged(known.fingerprint, looks.recent()):
            return None
        if known.plan is not None:
            request = batch_request(scope, known.batch.point)
            if scope.ceiling is not None or request is None:
                return None
            self.streams.keep_plan(path, request, known.plan)
            return known.batch
        fingerprint = looks.later(is_urgent=scope.target is not None)
        if not is_unchanged(known.fingerprint, fingerprint):
            return None
        self.streams.keep_answer(key, replace(known, fingerprint=fingerprint))
        return known.batch

    def _keep_answer(self, key: AnswerKey, scope: StreamScope, batch: NextBatch, fingerprint: TableFingerprint) -> None:
        """Keeps the answer for equal calls, unless it depends on more than the table."""
        from penstock.proto.model.streams import CommitsBatch, batch_request

        path, _, point = key
        if scope.upto is not None or scope.request.hybrid is not None or batch.held or batch.lost:
            return
        plan = None
        if batch.point != point:
            request = batch_request(scope, batch.point)
            plan = None if request is None or scope.ceiling is not None else self.streams.kept_plan(path, request)
            if plan is None or not isinstance(batch.point.content, CommitsBatch):
                return
        self.streams.keep_answer(key, KnownAnswer(batch, fingerprint, plan))

    def _stream_planner(self, table: HudiTable, path: str, name: str, scope: StreamScope) -> StreamPlanner:
        from penstock.enumerator.streams.stream_planner import StreamPlanner  # late: most reads are no streams

        return StreamPlanner(
            table=table,
            path=path,
            name=name,
            scope=scope,
            planned=self.plan_table,
            cache=self.streams,
            side=self.topic_source,
            clock_ms=self.wall_ms,
            max_rows_of=self.max_rows_of,
        )

    def max_rows_of(self, table: HudiTable, split: Split) -> int:
        """See `snapshots.plan.max_rows_of`."""
        from penstock.enumerator.snapshots.plan import max_rows_of  # late: of streams only

        return max_rows_of(table, split, self._sources.cache)

    def allow_topic(self, name: str, hybrid: Hybrid) -> None:
        """ConfigurationError if the topic of the table of that name cannot be reached from now on."""
        self._accesses.with_access(name, hybrid)

    def with_topic_access(self, name: str, request: PlanRequest) -> PlanRequest:
        """The request with the access to the topic of a hybrid read. ConfigurationError if the access is unknown."""
        return (
            request
            if request.hybrid is None
            else replace(request, hybrid=self._accesses.with_access(name, request.hybrid))
        )

    def plan_table(self, table: HudiTable, name: str, request: PlanRequest, passed_over: Collection[str]) -> Plan:
        """See `planning.plan.plan_request`; event times are read from the sources of these tables. A range that was
        planned before, by whomever, is not planned again while the table does not change."""

        def planned() -> Plan:
            return planning.plan_request(table, name, request, passed_over, self._sources)

        return self._shared.plan(table, name, request, passed_over, planned)

    def probe(self, path: str, *, closely: bool = False) -> TableFingerprint:
        """A cheap sign of whether the table changed: two file operations for a table that is open. `closely`: also a
        listing of the timeline where file times prove nothing."""
        probe = ChangeProbe(self.last_opened(path), clock_ns=lambda: self.wall_ms() * 1_000_000)
        if not closely:
            return probe.probe()
        fingerprint = probe.probe_listing(self._unsettled.take(path))
        if not fingerprint.is_settled:
            self._unsettled.put(path, fingerprint)
        return fingerprint

    def last_opened(self, path: str) -> HudiTable:
        """The table with its properties as last read; opened if it is not open."""
        with self._lock:
            open_before = self._opened.get(path)
        return self.current(path) if open_before is None else open_before

    def forget(self, path: str) -> None:
        """Closes the table, whose cache is no longer needed."""
        with self._lock:
            self._opened.pop(path, None)
            self._count_files(path, 0)

    def current(self, path: str) -> HudiTable:
        """The table with its properties as they are now."""
        with self._lock:
            open_before = self._opened.get(path)
        table = open_table(path, self._commits) if open_before is None else open_before.refreshed()
        with self._lock:
            self._opened[path] = table
            self._opened.move_to_end(path)
            self._count_files(path, table.listed_files)
            while len(self._opened) > self._max_tables or (
                self._listed_files > MAX_LISTED_FILES and len(self._opened) > 1
            ):
                self._count_files(self._opened.popitem(last=False)[0], 0)
        return table

    def _count_files(self, path: str, listed_files: int) -> None:
        self._listed_files += listed_files - self._listed.pop(path, 0)
        if listed_files:
            self._listed[path] = listed_files
