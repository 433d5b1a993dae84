"""The work of a reader of a consumer group: it reads the splits that it holds, and commits its progress."""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from penstock.engine.group.batch import ConsumedBatch, moment_of
from penstock.engine.group.connect import GroupEnumerator
from penstock.engine.group.lease import Membership
from penstock.engine.group.split_queue import SplitQueue
from penstock.engine.group.split_reader import SplitReader
from penstock.engine.group.uncommitted import UncommittedBatches
from penstock.engine.kafka_access import topic_reading
from penstock.engine.requests.hybrid import access_of
from penstock.proto.errors import Fenced, LeaseError, PenstockError, PlanError
from penstock.proto.logging import log_context, log_event_to
from penstock.proto.model.groups import MAX_SPLITS_A_REQUEST, AssignedSplit, Member, SplitProgress, SplitRef
from penstock.proto.model.splits import Scan
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry
from penstock.reader.read_split import ReadOptions, SplitBatch, SplitTally, read_split
from penstock.table.columns import resolve_column
from penstock.table.schema.avro import parse_record_schema

log = logging.getLogger("penstock.engine.consumer")

MAX_SCANS: Final = 64


class SplitWork:
    """The splits that a reader holds since its last join. Used by one thread.

    An error of a split is raised, and the split is read on by the next call. In a group over tables the table is set
    aside instead, and the splits of other tables go on.
    """

    def __init__(
        self,
        enumerator: GroupEnumerator,
        options: ParsedOptions,
        ids: dict[str, Any],
        retry: Retry,
        now_ms: Callable[[], int],
        *,
        over_tables: bool,
    ) -> None:
        """`ids`: the fields of the reader in the log."""
        self._enumerator, self._options, self._ids, self._retry = enumerator, options, ids, retry
        self._now_ms, self._over_tables = now_ms, over_tables
        self._read_options = ReadOptions(batch_rows=options.batch_rows, mergers=options.mergers)
        self._access = access_of(options)
        self._scans: OrderedDict[str, Scan] = OrderedDict()
        self.queue = SplitQueue(now_ms)
        self.reset(1)

    def reset(self, join: int) -> None:
        """Drops all work: the reader joins for the time `join`."""
        self.queue.clear()
        self._uncommitted = UncommittedBatches()
        self._owners: dict[SplitRef, Member] = {}
        self._lost: PenstockError | None = None
        self._join, self.sequence = join, 0

    def commit_through(self, membership: Membership, sequence: int) -> None:
        """Commits the batches up to this one. Fenced: as `_drop` noted it, after everything else is committed."""
        self._commit(membership, self._uncommitted.through(sequence))
        self._uncommitted.forget_through(sequence)
        if self._lost is not None:
            error, self._lost = self._lost, None
            raise error

    def commit_empty(self, membership: Membership) -> None:
        """Commits the splits without rows: the caller has no batch of them to commit."""
        if done := self._uncommitted.empty():
            self._commit(membership, done)
            self._uncommitted.forget_empty()

    def next_batch(self, membership: Membership) -> ConsumedBatch | None:
        """The next batch of the first split that can be read; None if there is none."""
        while (split := self.queue.first()) is not None:
            ids = self._ids_of(split)
            if not split.is_begun:
                split.is_begun = True
                log_event_to(log, "split begun", **ids, start=split.next_ordinal)
            try:
                with log_context(**ids):
                    part = split.take() if self._over_tables else self._retry.call(split.take)
            except PenstockError as error:
                if not self._over_tables:
                    raise
                membership.require()
                self._table_failed(split, error)
                continue
            membership.require()
            self.queue.succeeded(split)
            if split.ended:
                log_event_to(log, "split read", **ids, rows=split.rows)
            if part is not None:
                return self._hand_out(split, part)
            self._uncommitted.add(self.sequence, _finished(split), empty=split.rows == 0)
            self.queue.remove(split)
        return None

    def _hand_out(self, split: SplitReader, part: SplitBatch) -> ConsumedBatch:
        self.sequence += 1
        if split.ended:
            self.queue.remove(split)
            progress = _finished(split)
        else:
            progress = SplitProgress(ref=split.assigned.ref, ordinal=part.next_ordinal)
        self._uncommitted.add(self.sequence, progress)
        return ConsumedBatch(
            batch=part.batch,
            table=split.assigned.table or self._ids["table"],
            watermark=moment_of(split.assigned.watermark_us),
            split_id=split.assigned.split.split_id,
            plan_id=split.assigned.ref.plan_id,
            first_ordinal=part.first_ordinal,
            next_ordinal=part.next_ordinal,
            position=split.assigned.position,
            end_of_split=split.ended,
            start=split.assigned.start,
            sequence=self.sequence,
            join=self._join,
        )

    def _table_failed(self, split: SplitReader, error: PenstockError) -> None:
        """Sets the table of the split aside, or drops its splits if their plan is gone: the table was reset."""
        if isinstance(error, PlanError):
            self._drop(split.owner, error)
            return
        failure = self.queue.set_aside(split, error)
        log_event_to(
            log,
            "table cannot be read",
            level=logging.ERROR,
            **self._ids_of(split),
            code=error.code,
            failures=failure.count,
            reason=str(error)[:500],
        )

    def _drop(self, owner: Member, error: PenstockError) -> None:
        """Drops the splits of one table: the member no longer holds them. If batches of them were returned, the next
        `commit` raises the error."""
        self.queue.drop(owner)
        gone = [ref for ref, each in self._owners.items() if each == owner]
        for ref in gone:
            del self._owners[ref]
        if self._uncommitted.forget_splits(frozenset(gone)):
            self._lost = self._lost or Fenced(
                f"reader {owner.reader_id} of group {owner.group}, table {owner.table}: the reader no longer holds its "
                f"splits of this table, whose group was reset or deleted; they are handed out again: {error}"
            )

    def receive(self, member: Member, splits: tuple[AssignedSplit, ...], request_id: str) -> None:
        """Adds splits that the member received."""
        for assigned in splits:
            owner = member
            if assigned.table:
                owner = Member(assigned.table, member.group, member.reader_id, assigned.epoch)
            self._owners[assigned.ref] = owner
            split = SplitReader(assigned, owner, self._read, self._tally)
            self.queue.extend([split])
            log_event_to(log, "split received", **self._ids_of(split), request=request_id)

    def _commit(self, membership: Membership, done: tuple[SplitProgress, ...]) -> None:
        """Commits the progress of each table in calls of its own. A table that the reader no longer holds is dropped,
        after the others are committed."""
        by_owner: dict[Member, list[SplitProgress]] = {}
        for progress in done:
            by_owner.setdefault(self._owners.get(progress.ref, membership.member), []).append(progress)
        for owner, progresses in by_owner.items():
            for first in range(0, len(progresses), MAX_SPLITS_A_REQUEST):
                try:
                    self._commit_part(membership, owner, tuple(progresses[first : first + MAX_SPLITS_A_REQUEST]))
                except (LeaseError, PlanError) as error:
                    if owner == membership.member:
                        raise
                    self._drop(owner, error)
                    break

    def _commit_part(self, membership: Membership, owner: Member, part: tuple[SplitProgress, ...]) -> None:
        call = partial(self._enumerator.commit_splits, owner, part)
        if owner == membership.member:
            call = partial(membership.call, call)
        else:
            membership.require()
        request_id = uuid.uuid4().hex
        with log_context(**self._ids, request=request_id):
            self._retry.call(call)
        for one in part:
            if one.finished:
                self._owners.pop(one.ref, None)
            log_event_to(
                log,
                "split committed",
                **{**self._ids, "table": owner.table if self._over_tables else self._ids["table"]},
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
        scan = self._scans.pop(plan_id, None)
        if scan is None:  # in a group over tables the caller does not retry: it sets the table aside
            describe = partial(self._enumerator.describe_plan, plan_id)
            scan = self._retry.call(describe) if self._over_tables else describe()
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

    def _ids_of(self, split: SplitReader) -> dict[str, Any]:
        """The fields that identify a split in the log."""
        assigned = split.assigned
        ids = {**self._ids, "plan": assigned.ref.plan_id, "index": assigned.ref.index, "split": assigned.split.split_id}
        return {**ids, "table": assigned.table} if assigned.table else ids


def _finished(split: SplitReader) -> SplitProgress:
    return SplitProgress(ref=split.assigned.ref, ordinal=split.next_ordinal, finished=True, report=split.report())
