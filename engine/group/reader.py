"""A reader of a consumer group: it joins, requests splits, returns their batches, commits and leaves."""

from __future__ import annotations

import logging
import threading
import uuid
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cache, partial
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from penstock.engine.group.connect import GroupEnumerator
from penstock.engine.group.lease import HEARTBEATS_PER_LEASE, Membership, Runtime
from penstock.engine.group.split_reader import SplitReader
from penstock.engine.group.uncommitted import UncommittedBatches
from penstock.engine.kafka_access import topic_reading
from penstock.engine.requests.group import group_spec, group_start
from penstock.engine.requests.hybrid import access_of
from penstock.proto.errors import ConfigurationError, Fenced, InvariantViolation, LeaseError, PenstockError
from penstock.proto.logging import log_context, log_event_to
from penstock.proto.model.groups import (
    MAX_SPLITS_A_REQUEST,
    AssignedSplit,
    Assignments,
    EndOfGroup,
    GroupAnswer,
    NothingYet,
    ResetOutcome,
    SplitProgress,
    StartAt,
    checked_name,
)
from penstock.proto.model.positions import Position
from penstock.proto.model.splits import Scan
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry
from penstock.reader.read_split import ReadOptions, SplitBatch, SplitTally, read_split
from penstock.table.columns import resolve_column
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import redacted_uri

log = logging.getLogger("penstock.engine.consumer")

MAX_SCANS: Final = 64
_LEAST_WAIT_MS: Final = 10
_LONGEST_WAIT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedBatch:
    """Rows of one split, read by a reader of a consumer group.

    Every row of a split has an ordinal, counted from 0. The batch covers the ordinals `first_ordinal` to
    `next_ordinal` - 1, without the rows that `where` and other filters dropped.
    """

    batch: pa.RecordBatch
    """The rows."""
    split_id: str
    """The id of the split."""
    plan_id: str
    """The id of the plan that contains the split."""
    first_ordinal: int
    """The ordinal of the first row that the batch covers."""
    next_ordinal: int
    """The ordinal after the last row that the batch covers."""
    position: Position
    """The group's position once this split and all splits before it are finished."""
    end_of_split: bool
    """Whether this is the last batch of the split."""
    start: int
    """The ordinal at which this reader began the split; above 0 if earlier rows were committed before."""
    sequence: int
    """The number of the batch since the last `join`, counted from 1."""
    join: int
    """The number of the `join`, counted from 1."""


class GroupReader:
    """A reader of a consumer group, and a context manager that joins on entry and leaves on exit.

    Delivery is at least once: batches that were returned and not committed are returned again, by this reader or
    another. Iteration ends when the group ends (`upto`) or after `wake`. An error leaves the reader unchanged, and
    `poll` may be called again; after Fenced only `join`, `seek` and `close` may be called.

    Used by one thread, except `wake`. A second thread renews the lease.
    """

    def __init__(
        self, table: str, options: ParsedOptions, enumerator: GroupEnumerator, runtime: Runtime | None = None
    ) -> None:
        """Does not join. Describes the table only if an option holds a time that needs the table's zone.
        ConfigurationError: no group, no reader id, or options that exclude each other."""
        self._table, self._options, self._enumerator = table, options, enumerator
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
        self._describe = cache(lambda: self._retry.call(lambda: self._enumerator.describe_table(table)))
        self._spec = group_spec(table, options, self._describe)
        self._read_options = ReadOptions(batch_rows=options.batch_rows)
        self._access = access_of(options)
        self._scans: OrderedDict[str, Scan] = OrderedDict()
        self._membership: Membership | None = None
        self._stop_heartbeat: Callable[[], object] | None = None
        self._joins = 0
        self._closed = self._caught_up = self._ended = False
        self._reset_work()

    @property
    def caught_up(self) -> bool:
        """Whether the newest request found no split to assign and none assigned to other readers."""
        return self._caught_up

    @property
    def ended(self) -> bool:
        """Whether the group reached its `upto` and every split is finished."""
        return self._ended

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
                if (batch := self._next_batch(membership)) is not None:
                    return batch
                if not self._ended and self._runtime.now_ms() >= self._next_request_ms:
                    self._pull(membership)
            except PenstockError as error:
                if error.retryable and self._clear_wake():
                    return None
                raise
            if self._ended:
                return None
            if self._queue:
                continue
            wait_ms: float = max(_LEAST_WAIT_MS, self._next_request_ms - self._runtime.now_ms())
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
        committed is handed out again."""
        membership = self._member()
        membership.require()
        if batch is not None and batch.join != self._joins:
            raise Fenced(
                f"reader {self._reader_id} of group {self._group}: batch {batch.sequence} of split {batch.split_id} "
                "was handed out before the reader joined again: the split no longer belongs to it, and is handed out "
                "again"
            )
        through = self._sequence if batch is None else batch.sequence
        self._commit(membership, self._uncommitted.through(through))
        self._uncommitted.forget_through(through)

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
        """Makes the `poll` under way, or else the next one, return None. Any thread; a signal handler must call it in a
        thread of its own."""
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
        if self._open is not None:
            self._open.close()
        self._reset_work()

    def _reset_work(self) -> None:
        self._queue: deque[AssignedSplit] = deque()
        self._open: SplitReader | None = None
        self._uncommitted = UncommittedBatches()
        self._sequence = 0
        self._requests = 0
        self._next_request_ms = 0

    def _clear_wake(self) -> bool:
        was = self._woken.is_set()
        self._woken.clear()
        return was

    def _next_batch(self, membership: Membership) -> ConsumedBatch | None:
        """The next batch of the open split or of the queued ones; None if they have no more."""
        while self._open is not None or self._queue:
            if self._open is None:
                self._open = SplitReader(self._queue.popleft(), self._read, self._tally)
                log_event_to(
                    log, "split begun", **self._ids, **_split_ids(self._open.assigned), start=self._open.next_ordinal
                )
            split = self._open
            with log_context(**self._ids, **_split_ids(split.assigned)):
                part = self._retry.call(split.take)
            membership.require()
            if split.ended:
                log_event_to(log, "split read", **self._ids, **_split_ids(split.assigned), rows=split.rows)
            if part is not None:
                return self._hand_out(split, part)
            empty = split.rows == 0
            self._uncommitted.add(self._sequence, _finished(split), empty=empty)
            self._open = None
        return None

    def _hand_out(self, split: SplitReader, part: SplitBatch) -> ConsumedBatch:
        self._sequence += 1
        if split.ended:
            self._open = None
            progress = _finished(split)
        else:
            progress = SplitProgress(ref=split.assigned.ref, ordinal=part.next_ordinal)
        self._uncommitted.add(self._sequence, progress)
        return ConsumedBatch(
            batch=part.batch,
            split_id=split.assigned.split.split_id,
            plan_id=split.assigned.ref.plan_id,
            first_ordinal=part.first_ordinal,
            next_ordinal=part.next_ordinal,
            position=split.assigned.position,
            end_of_split=split.ended,
            start=split.assigned.start,
            sequence=self._sequence,
            join=self._joins,
        )

    def _pull(self, membership: Membership) -> None:
        """Requests splits. Splits without rows are committed first: the caller has no batch of them to commit."""
        if done := self._uncommitted.empty():
            self._commit(membership, done)
            self._uncommitted.forget_empty()
        member, max_splits = membership.member, self._options.max_splits
        number = self._requests + 1  # a repeated request has the same number, and gets the same answer
        request_id = uuid.uuid4().hex
        with log_context(**self._ids, request=request_id):
            answer: GroupAnswer = self._retry.call(
                lambda: membership.call(lambda: self._enumerator.request_splits(member, max_splits, number))
            )
        self._caught_up = False
        match answer:
            case Assignments(splits):
                self._queue.extend(splits)
                for assigned in splits:
                    log_event_to(log, "split received", **self._ids, **_split_ids(assigned), request=request_id)
                self._next_request_ms = 0 if splits else self._runtime.now_ms() + _LEAST_WAIT_MS
            case NothingYet(retry_ms, caught_up):
                self._next_request_ms = self._runtime.now_ms() + min(max(retry_ms, _LEAST_WAIT_MS), _LONGEST_WAIT_MS)
                self._caught_up = caught_up
            case EndOfGroup():
                self._ended = True
        self._requests = number  # last: after an exception before this line the request is repeated

    def _commit(self, membership: Membership, done: tuple[SplitProgress, ...]) -> None:
        for first in range(0, len(done), MAX_SPLITS_A_REQUEST):
            part = done[first : first + MAX_SPLITS_A_REQUEST]
            call = partial(self._enumerator.commit_splits, membership.member, part)
            request_id = uuid.uuid4().hex
            with log_context(**self._ids, request=request_id):
                self._retry.call(partial(membership.call, call))
            for one in part:
                log_event_to(
                    log,
                    "split committed",
                    **self._ids,
                    plan=one.ref.plan_id,
                    index=one.ref.index,
                    finished=one.finished,
                    next=one.ordinal,
                    request=request_id,
                )

    def _read(self, assigned: AssignedSplit, start: int, tally: SplitTally) -> Generator[SplitBatch, None, None]:
        scan = self._scan(assigned.ref.plan_id)
        topics = topic_reading(scan, self._access)
        return read_split(scan, assigned.split, start=start, options=self._read_options, tally=tally, topics=topics)

    def _scan(self, plan_id: str) -> Scan:
        scan = self._scans.pop(plan_id, None) or self._enumerator.describe_plan(plan_id)
        self._scans[plan_id] = scan
        while len(self._scans) > MAX_SCANS:
            self._scans.popitem(last=False)
        return scan

    def _tally(self, assigned: AssignedSplit) -> SplitTally:
        """A new tally for one pass over the split, with the event-time column by its name in the table."""
        if not self._options.event_time:
            return SplitTally()
        fields = parse_record_schema(self._scan(assigned.ref.plan_id).schema_json).fields
        return SplitTally(
            event_time=resolve_column(self._options.event_time, [field.name for field in fields]),
            event_time_unit=self._options.event_time_unit or "",
        )


def _finished(split: SplitReader) -> SplitProgress:
    return SplitProgress(ref=split.assigned.ref, ordinal=split.next_ordinal, finished=True, report=split.report())


def _split_ids(assigned: AssignedSplit) -> dict[str, Any]:
    """The fields that identify a split in the log."""
    return {"plan": assigned.ref.plan_id, "index": assigned.ref.index, "split": assigned.split.split_id}
