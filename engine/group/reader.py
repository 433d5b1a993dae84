"""A reader of a consumer group: it joins, requests splits, returns their batches, commits and leaves."""

from __future__ import annotations

import logging
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache, partial
from types import TracebackType
from typing import Any, Final, Self

from penstock.engine.group.batch import ConsumedBatch as ConsumedBatch
from penstock.engine.group.batch import moment_of
from penstock.engine.group.connect import GroupEnumerator
from penstock.engine.group.lease import HEARTBEATS_PER_LEASE, Membership, Runtime
from penstock.engine.group.split_work import SplitWork
from penstock.engine.requests.group import group_spec, group_start, no_table_of, spec_over_tables
from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    InvariantViolation,
    LeaseError,
    PenstockError,
    all_error_classes,
)
from penstock.proto.logging import log_context, log_event_to
from penstock.proto.model.groups import (
    MAX_TABLES_SHOWN,
    MAX_WAIT_MS,
    Assignments,
    EndOfGroup,
    GroupAnswer,
    NothingYet,
    ResetOutcome,
    StartAt,
    TableTrouble,
    checked_name,
)
from penstock.proto.model.positions import Position
from penstock.proto.model.reports import TableDescription
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry
from penstock.table.storage.uris import redacted_uri

log = logging.getLogger("penstock.engine.consumer")

MAX_SCANS: Final = 64
_LEAST_WAIT_MS: Final = 10
_LONGEST_WAIT_MS: Final = 60_000


class GroupReader:
    """A reader of a consumer group, and a context manager that joins on entry and leaves on exit.

    Delivery is at least once: batches that were returned and not committed are returned again, by this reader or
    another. Iteration ends when the group ends (`upto`) or after `wake`. An error leaves the reader unchanged, and
    `poll` may be called again; after Fenced only `join`, `seek` and `close` may be called.

    Used by one thread, except `wake`. A second thread renews the lease. While there are no splits, a request waits at
    the server (long poll), for at most a second and never longer than `poll` may take.
    """

    def __init__(
        self,
        table: str,
        options: ParsedOptions,
        enumerator: GroupEnumerator,
        runtime: Runtime | None = None,
        *,
        over_tables: bool = False,
    ) -> None:
        """Does not join. `over_tables`: `table` is a pattern of names, and the group consumes every table that matches.
        Describes the table only if an option holds a time that needs the table's zone.
        ConfigurationError: no group, no reader id, or options that exclude each other."""
        self._table, self._options, self._enumerator = table, options, enumerator
        self._over_tables = over_tables
        self._runtime = runtime or Runtime()
        self._group = checked_name("group", options.group or "")
        self._reader_id = checked_name("reader id", options.reader_id or "")
        self._ids: dict[str, Any] = {"table": redacted_uri(table), "group": self._group, "reader": self._reader_id}
        self._woken = threading.Event()
        self._retry = Retry(
            policy=options.retry,
            now_ms=self._runtime.now_ms,
            wait=partial(self._runtime.wait, self._woken),
            stopped=self._woken.is_set,
        )
        self._describe = cache(partial(no_table_of, table) if over_tables else self._described)
        self._spec = spec_over_tables(table, options) if over_tables else group_spec(table, options, self._describe)
        self._work = SplitWork(
            enumerator, options, self._ids, self._retry, self._runtime.now_ms, over_tables=over_tables
        )
        self._membership: Membership | None = None
        self._stop_heartbeat: Callable[[], object] | None = None
        self._joins = 0
        self._closed = self._caught_up = self._ended = False
        self._reset_work()

    @property
    def caught_up(self) -> bool:
        """Whether the newest request found no split to assign and none assigned to other readers. In a group over
        tables: in all tables except those of `table_errors`."""
        return self._caught_up and not self._work.queue.may_recover

    @property
    def table_errors(self) -> dict[str, PenstockError]:
        """In a group over tables: the tables that cannot be consumed now, with their errors. Other tables go on. A
        table that this reader cannot read is tried again after a delay of up to a minute."""
        return {**self._stopped, **self._work.queue.failed_tables()}

    @property
    def ended(self) -> bool:
        """Whether the group reached its `upto` and every split is finished."""
        return self._ended

    @property
    def watermark(self) -> datetime | None:
        """The newest watermark that this reader received; see `ConsumedBatch.watermark`. In a group over tables: the
        lowest of its tables, None until each table with rows has one. It moves back when a table joins."""
        return moment_of(self._watermark_us)

    @property
    def lease_left_ms(self) -> int:
        """Milliseconds until the lease ends, unless a heartbeat is answered before."""
        return 0 if self._membership is None else self._membership.left_ms()

    def join(self) -> None:
        """Joins the group with a new epoch; what was not committed is handed out again. Also after Fenced."""
        if self._closed:
            raise ConfigurationError(f"the consumer of group {self._group} is closed: create a new one")
        self._stop_working()
        self._caught_up = self._ended = False
        request_id = uuid.uuid4().hex
        sent_ms = self._runtime.now_ms()  # before the first attempt: any of them may be the one that counted
        joined = self._retry.call(
            lambda: self._enumerator.join_group(self._group, self._reader_id, self._spec, request_id)
        )
        membership = Membership(joined, sent_ms, self._runtime.now_ms)
        self._joins += 1
        self._membership = membership
        first_s = joined.lease_ms / 1000 / HEARTBEATS_PER_LEASE
        heartbeat = self._runtime.start_heartbeat(partial(membership.beat, self._enumerator), first_s)
        self._stop_heartbeat = weakref.finalize(self, heartbeat.stop)  # stops when the reader is collected
        log_event_to(log, "joined", **self._ids, epoch=joined.member.epoch)

    def poll(self, timeout_ms: float | None = None) -> ConsumedBatch | None:
        """The next batch. None if there is none within `timeout_ms` (None: no limit), if the group ended, or if `wake`
        was called. Errors: `penstock.errors`."""
        start_ms = self._runtime.now_ms()
        while not self._clear_wake():
            membership = self._member()
            membership.require()
            try:
                if (batch := self._work.next_batch(membership)) is not None:
                    return batch
                if not self._ended and self._runtime.now_ms() >= self._next_request_ms:
                    self._pull(membership, None if timeout_ms is None else start_ms + timeout_ms)
            except PenstockError as error:
                if error.retryable and self._clear_wake():
                    return None
                raise
            if self._ended:
                return None
            if self._work.queue.first() is not None:
                continue
            next_ms = min(self._next_request_ms, self._work.queue.next_try_ms() or self._next_request_ms)
            wait_ms: float = max(_LEAST_WAIT_MS, next_ms - self._runtime.now_ms())
            if timeout_ms is not None:
                left_ms = start_ms + timeout_ms - self._runtime.now_ms()
                if left_ms <= 0:
                    return None
                wait_ms = min(wait_ms, left_ms)
            self._runtime.wait(self._woken, min(wait_ms, max(_LEAST_WAIT_MS, membership.left_ms())) / 1000)
        return None

    def __iter__(self) -> Iterator[ConsumedBatch]:
        while (batch := self.poll()) is not None:
            yield batch

    def commit(self, batch: ConsumedBatch | None = None) -> None:
        """Commits every batch returned so far, or those up to and including `batch`. When it returns, the commit is
        durable, and these rows are never handed out again. Fenced: nothing more can be committed; what was not
        committed is handed out again. In a group over tables, Fenced may concern one table that was reset: the others
        are committed, and `poll` goes on."""
        membership = self._member()
        membership.require()
        if batch is not None and batch.join != self._joins:
            raise Fenced(
                f"reader {self._reader_id} of group {self._group}: batch {batch.sequence} of split {batch.split_id} "
                "was handed out before the reader joined again: the split no longer belongs to it, and is handed out "
                "again"
            )
        through = self._work.sequence if batch is None else batch.sequence
        self._work.commit_through(membership, through)

    def seek(self, to: Position | str) -> ResetOutcome:
        """Moves the whole group to a position, `earliest`, `latest`, an instant or an ISO time, and joins again. Other
        readers of the group are fenced. Batches that were not committed are dropped."""
        zone = self._options.timeline_timezone
        start = StartAt(to) if isinstance(to, Position) else group_start("to", to, self._table, zone, self._describe)
        self._stop_working()
        outcome = self._retry.call(lambda: self._enumerator.reset_group(self._table, self._group, start, dry_run=False))
        self.join()
        return outcome

    def wake(self) -> None:
        """Makes the `poll` under way, or else the next one, return None: at once, or when a request that waits at the
        server is answered, after at most a second. Any thread; a signal handler must call it in a thread of its own."""
        self._woken.set()

    def close(self) -> None:
        """Leaves the group: its uncommitted splits are assigned to other readers at once. May be called again."""
        if self._closed:
            return
        self._closed = True
        membership = self._membership
        self._stop_working()
        if membership is None or not membership.left_ms():
            return
        try:
            self._enumerator.leave_group(membership.member)
        except PenstockError as error:
            if not (error.retryable or isinstance(error, LeaseError)):
                raise
            log_event_to(log, "did not leave: the lease will end", level=logging.WARNING, **self._ids, error=str(error))

    def __enter__(self) -> Self:
        self.join()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _member(self) -> Membership:
        if self._membership is None:
            self.join()
        if self._membership is None:
            raise InvariantViolation("joined the group without becoming a member")
        return self._membership

    def _stop_working(self) -> None:
        if self._stop_heartbeat is not None:
            self._stop_heartbeat()
        self._stop_heartbeat = self._membership = None
        self._reset_work()

    def _reset_work(self) -> None:
        self._work.reset(self._joins + 1)
        self._stopped: dict[str, PenstockError] = {}
        self._requests = self._received = 0
        self._watermark_us: int | None = None
        self._next_request_ms = 0

    def _clear_wake(self) -> bool:
        was = self._woken.is_set()
        self._woken.clear()
        return was

    def _wait_ms(self, membership: Membership, until_ms: float | None) -> int:
        """How long a request may wait at the server: not beyond the end of `poll`, of the lease, and of the delay of a
        table that is to be tried again."""
        ends = [each for each in (until_ms, self._work.queue.next_try_ms()) if each is not None]
        left_ms = min(ends, default=float("inf")) - self._runtime.now_ms()
        return int(max(0, min(MAX_WAIT_MS, membership.left_ms() // 2, left_ms)))

    def _pull(self, membership: Membership, until_ms: float | None) -> None:
        """Requests splits. Splits without rows are committed first: the caller has no batch of them to commit."""
        self._work.commit_empty(membership)
        member, max_splits = membership.member, self._options.max_splits
        number = self._requests + 1  # a repeated request has the same number, and gets the same answer
        request_id = uuid.uuid4().hex
        with log_context(**self._ids, request=request_id):
            aside = self._work.queue.tables_aside()[:MAX_TABLES_SHOWN]
            wait_ms = self._wait_ms(membership, until_ms)
            ask = partial(self._enumerator.request_splits, member, max_splits, number, aside, self._received, wait_ms)
            # a request of a group over tables renews no lease in the groups of tables: heartbeats do
            call = partial(membership.call, ask, renews=not self._over_tables)
            answer: GroupAnswer = self._retry.call(call)
        self._caught_up, self._watermark_us = False, answer.watermark_us
        match answer:
            case Assignments(splits=splits):
                self._work.receive(member, splits, request_id)
                self._received = number
                self._next_request_ms = 0 if splits else self._runtime.now_ms() + _LEAST_WAIT_MS
            case NothingYet(retry_ms=retry_ms, caught_up=caught_up, troubles=troubles):
                self._next_request_ms = self._runtime.now_ms() + min(max(retry_ms, _LEAST_WAIT_MS), _LONGEST_WAIT_MS)
                self._caught_up = caught_up
                self._note_troubles(troubles)
            case EndOfGroup():
                self._ended = True
        self._requests = number  # last: after an exception before this line the request is repeated

    def _note_troubles(self, troubles: tuple[TableTrouble, ...]) -> None:
        """Notes the tables that the server reports as stopped, and logs new ones."""
        errors = {each.table: all_error_classes().get(each.code, PenstockError)(each.text) for each in troubles}
        for table, error in errors.items():
            if str(error) != str(self._stopped.get(table, "")):
                fields = {**self._ids, "table": table, "code": error.code, "reason": str(error)[:500]}
                log_event_to(log, "table stopped", level=logging.ERROR, **fields)
        self._stopped = errors

    def _described(self) -> TableDescription:
        return self._retry.call(lambda: self._enumerator.describe_table(self._table))
