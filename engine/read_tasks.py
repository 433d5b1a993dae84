"""A planned read as tasks: one for each split. Everything that reads a table outside Spark is built on them.

A task is a value. It can be pickled and read by another thread, process or machine that sees the table's files; only
its report goes to the server that planned it, if one did. Limits, retries and reports are decided here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import field, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.engine.connect import embedded_enumerator, enumerator_for
from penstock.engine.requests.batch import no_files_warning, plan_request
from penstock.engine.split_retry import deliver, resumed
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import InvariantViolation
from penstock.proto.logging import log_event_to
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.reports import EndOfSlot, OpenedPlan, SplitReport
from penstock.proto.model.splits import CustomMerge, Plan, Scan, Split
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry, RetryPolicy
from penstock.proto.value_classes import dataclass
from penstock.reader.read_split import ReadOptions, SplitBatch, SplitTally, output_schema, read_split
from penstock.table.columns import resolve_column
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import is_local, open_storage
from penstock.table.storage.uris import uri_without_credentials

if TYPE_CHECKING:
    from penstock.enumerator.embedded import EmbeddedEnumerator

log = logging.getLogger("penstock.engine.arrow")

_FEWEST_ROWS: Final = 1024
"""Rows of a batch that is decoded for a lower limit: the first rows of a base file may all be replaced or filtered out,
and each batch has its own cost."""


@dataclass(frozen=True, slots=True)
class PlanOnServer:
    """The plan on a server to which a task reports."""

    server: str
    """HOST:PORT of the server."""
    access: ServerAccess = field(repr=False)
    """The files with certificates and token for the connection."""
    plan_id: str
    """The id of the plan."""


@dataclass(frozen=True, slots=True)
class SharedByTasks:
    """What all tasks of a read share. Pickled without the credentials of a URI: other processes have their own."""

    scan: Scan = field(repr=False)
    """The scan of the plan."""
    schema: pa.Schema = field(repr=False)
    """The schema of every batch."""
    limit: int | None
    """The maximum number of rows of the whole read, and so of each task; None: no limit."""
    batch_rows: int
    """The maximum number of rows in a batch."""
    event_time: str
    """The column, by its name in the table, whose highest value each report contains; '' for none."""
    event_time_unit: str
    """The unit of an event-time column of plain numbers, or ''."""
    retry: RetryPolicy
    """The retries of storage and server calls."""
    plan: PlanOnServer | None
    """The plan to which splits are reported; None: it was planned in this process."""
    mergers: tuple[tuple[str, str], ...] = ()
    """The functions that merge records (option `mergers`)."""

    def __reduce__(self) -> tuple[Callable[..., SharedByTasks], tuple[object, ...]]:
        scan = replace(self.scan, base_path=uri_without_credentials(self.scan.base_path))
        own = (self.limit, self.batch_rows, self.event_time, self.event_time_unit, self.retry, self.plan, self.mergers)
        return SharedByTasks, (scan, self.schema, *own)


@dataclass(frozen=True, slots=True)
class ReadTask:
    """One split to read. Frozen, and can be pickled; its `repr` contains no data and no secret."""

    split: Split = field(repr=False)
    """The split."""
    shared: SharedByTasks = field(repr=False)
    """What all tasks of the read share."""
    slot: int
    """The slot of the plan, from 0."""
    index: int
    """The position in the slot, from 0. Tasks in the order (slot, index) are in plan order."""

    @property
    def split_id(self) -> str:
        """The split's id, unique in its plan."""
        return self.split.split_id

    @property
    def bytes(self) -> int:
        """The bytes on storage of all files to read, as planned."""
        return self.split.size_bytes

    def batches(
        self,
        limit: int | None = None,
        on_report: Callable[[SplitReport], None] | None = None,
        stop: threading.Event | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows of the split in its order, in batches of at least one row; at most the read's limit, and at most
        `limit`. May be called again. Closing the generator closes the files that it holds open.

        A split that was read to its end or to the limit is reported to the server that planned it, and to `on_report`;
        one left by an error or by closing is not. A report that cannot be delivered fails nothing. After a retryable
        error the split is read again from the next row, by the retry policy; when `stop` is set, no longer. Errors:
        `penstock.proto.errors`.
        """
        limits = [one for one in (self.shared.limit, limit) if one is not None]
        left = min(limits, default=None)
        tally = SplitTally(event_time=self.shared.event_time, event_time_unit=self.shared.event_time_unit)
        rows = 0
        if left != 0:
            with closing(resumed(partial(self._opened, tally, left), self._retry(stop))) as parts:
                for part in parts:
                    batch = self._checked(part.batch)
                    if left is not None:
                        batch = batch.slice(0, left - rows)
                    rows += batch.num_rows
                    if batch.num_rows:
                        yield batch
                    if rows == left:
                        break
        self._finish(replace(tally.report(), rows=rows), on_report)

    def _retry(self, stop: threading.Event | None) -> Retry:
        policy = self.shared.retry
        return Retry(policy=policy) if stop is None else Retry(policy=policy, wait=stop.wait, stopped=stop.is_set)

    def _opened(self, tally: SplitTally, limit: int | None, start: int) -> Generator[SplitBatch, None, None]:
        batch_rows = self.shared.batch_rows
        if limit is not None:
            batch_rows = min(batch_rows, max(limit, _FEWEST_ROWS))
        options = ReadOptions(batch_rows=batch_rows, mergers=self.shared.mergers)
        return read_split(self.shared.scan, self.split, start=start, options=options, tally=tally)

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not batch.schema.equals(self.shared.schema):
            raise InvariantViolation(
                f"split {self.split_id} of table {self.shared.scan.table}: got a batch of {batch.schema}, expected "
                f"{self.shared.schema}"
            )
        return batch

    def _finish(self, report: SplitReport, on_report: Callable[[SplitReport], None] | None) -> None:
        plan, table = self.shared.plan, self.shared.scan.table
        plan_id = "" if plan is None else plan.plan_id
        slot, index = self.slot, self.index
        log_event_to(
            log, "split read", table=table, plan=plan_id, slot=slot, index=index, split=self.split_id, rows=report.rows
        )
        if plan is not None:
            enumerator = enumerator_for(plan.server, plan.access)
            send = partial(enumerator.finish_split, plan_id, slot, index, report)
            deliver(send, Retry(policy=self.shared.retry), log, table=table, plan=plan_id, slot=slot, index=index)
        if on_report is not None:
            on_report(report)


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """A planned read, all of whose tasks are known."""

    schema: pa.Schema
    """The schema of every batch."""
    tasks: tuple[ReadTask, ...]
    """One task for each split, in plan order."""
    scan: Scan = field(repr=False)
    """What all splits of the plan share."""
    limit: int | None
    """The maximum number of rows of all tasks together: whoever reads several tasks stops after it. None: no limit."""


@dataclass(frozen=True, slots=True)
class OpenedRead:
    """A planned read whose tasks are requested one after the other, so that a short read requests few of them."""

    shared: SharedByTasks
    """What all tasks share."""
    splits: int
    """The number of tasks."""
    source: Plan | OpenedPlan = field(repr=False)
    """The plan of this process, or the one that the server holds."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self.shared.schema

    @property
    def limit(self) -> int | None:
        """The maximum number of rows of all tasks together; None: no limit."""
        return self.shared.limit

    @property
    def size_bytes(self) -> int:
        """The bytes on storage of all splits, as planned."""
        if isinstance(self.source, OpenedPlan):
            return self.source.size_bytes
        return sum(split.size_bytes for split in self.source.splits)

    @property
    def is_local(self) -> bool:
        """Whether the table's files are on a local file system."""
        return is_local(open_storage(self.shared.scan.base_path))

    def tasks(self) -> Iterator[ReadTask]:
        """The tasks in plan order, each requested from the server when it is needed. Errors of the server's calls."""
        match self.source:
            case Plan(splits=splits):
                yield from (ReadTask(split, self.shared, 0, index) for index, split in enumerate(splits))
            case OpenedPlan(plan_id=plan_id, slots=slots):
                plan, retry = self.shared.plan, Retry(policy=self.shared.retry)
                if plan is None:
                    raise InvariantViolation(f"plan {plan_id} is held by a server, but the read has no server")
                enumerator = enumerator_for(plan.server, plan.access)
                for slot in range(slots):
                    for index in count():
                        answer = retry.call(partial(enumerator.next_split, plan_id, slot, index))
                        if isinstance(answer, EndOfSlot):
                            break
                        yield ReadTask(answer.split, self.shared, slot, index)

    def planned(self) -> PlannedRead:
        """The read with all its tasks."""
        return PlannedRead(self.schema, tuple(self.tasks()), self.shared.scan, self.limit)


def plan_read(table: str, options: ParsedOptions) -> PlannedRead:
    """Plans a read, in this process or at the server of the options, and requests all its tasks. See `open_read`."""
    return open_read(table, options).planned()


def open_read(table: str, options: ParsedOptions, embedded: EmbeddedEnumerator | None = None) -> OpenedRead:
    """Plans a read: its schema is known, no file of rows is opened yet.

    `table` is a path or URI, or with `server` a name. Without a server `embedded` plans the read, by default a new
    enumerator. A read as of a time at which no file exists logs a warning. Errors: `penstock.proto.errors`.
    """
    retry = Retry(policy=options.retry_if_given)
    if options.server is None and embedded is None:
        embedded = embedded_enumerator()
    planner: Enumerator = embedded or enumerator_for(options.server, options.access)
    request = plan_request(table, options, lambda: retry.call(lambda: planner.describe_table(table)), slots=1)
    opened = open_request(request, options, embedded)
    if warning := no_files_warning(request, opened.splits):
        log.warning("%s", warning)
    return opened


def open_request(
    request: PlanRequest, options: ParsedOptions, embedded: EmbeddedEnumerator | None = None
) -> OpenedRead:
    """Plans a request; see `open_read`. The options of the readers, such as `limit`, are those of `options`."""
    retry = Retry(policy=options.retry_if_given)
    if options.server is None:
        plan = retry.call(partial((embedded or embedded_enumerator()).plan, request))
        return OpenedRead(_shared(plan.scan, options, None), len(plan.splits), plan)
    held = retry.call(partial(enumerator_for(options.server, options.access).open_plan, request))
    place = PlanOnServer(options.server, options.access, held.plan_id)
    return OpenedRead(_shared(held.scan, options, place), held.splits, held)


def _shared(scan: Scan, options: ParsedOptions, plan: PlanOnServer | None) -> SharedByTasks:
    if isinstance(scan.merge, CustomMerge):
        from penstock.reader.merge.mergers import find_functions  # late: few tables have a custom merger

        find_functions(scan.merge, scan.table_version, options.mergers, f"table {scan.table}")
    event_time = options.event_time
    if event_time:
        fields = parse_record_schema(scan.schema_json).fields
        event_time = resolve_column(event_time, [one.name for one in fields])
    return SharedByTasks(
        scan=scan,
        schema=output_schema(scan),
        limit=options.limit,
        batch_rows=options.batch_rows,
        event_time=event_time,
        event_time_unit=options.event_time_unit or "",
        retry=options.retry_if_given,
        plan=plan,
        mergers=options.mergers,
    )
