"""`penstock.read`: reads a table into Arrow record batches, in the caller's process."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.parallel.threads import ThreadedRead, threads_of
from penstock.engine.read_tasks import OpenedRead, open_read
from penstock.engine.requests.times import Time
from penstock.engine.requests.where import Where, where_text
from penstock.proto.model.reports import SplitReport
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options
from penstock.proto.value_classes import dataclass

if TYPE_CHECKING:
    from penstock.enumerator.embedded import EmbeddedEnumerator


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a read."""

    rows: int
    """Rows returned."""
    splits_done: int
    """Splits that were read to their end or to the limit."""
    splits: int
    """Splits of the plan."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A planned read: its schema is known, no split is opened yet."""

    opened: OpenedRead
    """The plan, which gives the tasks."""
    threads: int = 0
    """The number of threads that read splits; 0: one split after the other, in the caller's thread."""
    ordered: bool = True
    """Whether the rows of several threads are in plan order."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the returned batches."""
        return self.opened.schema

    def batches(
        self,
        on_progress: Callable[[Progress], None] | None = None,
        on_report: Callable[[SplitReport], None] | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows, splits in plan order unless `ordered` is off, at most `limit`. Closing the generator closes the
        files that it holds open, and ends its threads.

        Each split is reported as `ReadTask.batches` says, also one that a thread read ahead of the limit. Errors:
        `penstock.proto.errors`; rows returned before an error are not the whole answer.
        """
        if self.opened.limit == 0:
            return
        notify = on_progress or (lambda progress: None)
        yield from self._side_by_side(notify, on_report) if self.threads else self._in_turn(notify, on_report)

    def _in_turn(
        self, notify: Callable[[Progress], None], on_report: Callable[[SplitReport], None] | None
    ) -> Generator[pa.RecordBatch, None, None]:
        left, rows = self.opened.limit, 0
        for done, task in enumerate(self.opened.tasks()):
            with closing(task.batches(left, on_report)) as batches:
                for batch in batches:
                    rows += batch.num_rows
                    left = None if left is None else left - batch.num_rows
                    yield batch
                    notify(Progress(rows, done, self.opened.splits))
            notify(Progress(rows, done + 1, self.opened.splits))
            if left == 0:
                return

    def _side_by_side(
        self, notify: Callable[[Progress], None], on_report: Callable[[SplitReport], None] | None
    ) -> Generator[pa.RecordBatch, None, None]:
        limit, rows = self.opened.limit, 0
        read = ThreadedRead(self.opened.tasks(), self.threads, ordered=self.ordered, on_report=on_report)
        with closing(read.batches()) as batches:
            for batch in batches:
                part = batch if limit is None else batch.slice(0, limit - rows)
                rows += part.num_rows
                yield part
                notify(Progress(rows, read.done, self.opened.splits))
                if rows == limit:
                    return
        notify(Progress(rows, read.done, self.opened.splits))


def open_reading(
    table: str, options: ParsedOptions, embedded: EmbeddedEnumerator | None = None, *, ahead: bool = False
) -> Reading:
    """Plans a read; see `open_read`. Errors: `penstock.proto.errors`.

    `ahead`: unless one thread is requested, even a single split is read in a thread, while the caller uses a batch.
    """
    from penstock.enumerator.embedded import available_cpus

    opened = open_read(table, options, embedded)
    threads = threads_of(options, opened, available_cpus(), ahead=ahead)
    return Reading(opened, threads, options.ordered == "on")


def read(
    table: str | os.PathLike[str],
    *,
    query: str | None = None,
    after: Time | None = None,
    upto: Time | None = None,
    as_of: Time | None = None,
    columns: Sequence[str] | str | None = None,
    where: Where | None = None,
    limit: int | None = None,
    threads: int | None = None,
    ordered: bool | None = None,
    server: str | None = None,
    **options: object,
) -> pa.RecordBatchReader:
    """The rows of a table, streamed: the schema is known at once, splits are read by `threads` threads in plan order.

    `table` is a path or URI; with `server` (HOST:PORT) the name of a table that it serves. `query` is snapshot (the
    default) or read_optimized, both with `as_of` as of that requested time; incremental: the rows written by the
    instants of (`after`, `upto`], bounded by order key, as the range's end left them; or cdc: each change by them, in
    the order of `_change_seq` within a file group (`cdc_format`: rows or hudi). `columns` empty means all.
    Times are text, a `datetime` (that millisecond; in the timeline's zone if it has none) or a `date` (that day as a
    whole: `upto` and `as_of` include it, `after` begins after it). `where` is SQL text, a
    `pyarrow.compute.Expression`, or a list of (column, operator, value) as in `pyarrow.parquet`. `limit` is exact.
    `threads` is by default one for each CPU, at most four, unless splits are small; 1: the caller's thread reads. With
    `ordered=False` batches come as they are decoded. Few batches wait. `options` are the others of the registry
    (docs/reference/options.md) in snake_case, and Hudi's own names where they can be translated. What is not given
    comes from PENSTOCK_* in the environment.

    The table's own types: timestamps in microseconds UTC, decimals exact. Files and threads are released when the
    reader is exhausted, fails, or is dropped. Errors are `penstock.errors`, also from the reader; ConfigurationError
    for an unknown option, naming the nearest.
    """
    explicit: dict[str, object] = {
        "query": query,
        "after": after,
        "upto": upto,
        "as_of": as_of,
        "columns": columns if columns is None or isinstance(columns, str) else tuple(columns),
        "where": where if where is None else where_text(where),
        "limit": limit,
        "threads": threads,
        "ordered": ordered,
        "server": server,
    }
    parsed = parse_options({**explicit, **options}, entry_point=EntryPoint.ARROW, environment=os.environ)
    for text in parsed.warnings:
        warnings.warn(f"penstock.read: {text}", UserWarning, stacklevel=2)
    return read_parsed(os.fspath(table), parsed)


def read_parsed(table: str, options: ParsedOptions, embedded: EmbeddedEnumerator | None = None) -> pa.RecordBatchReader:
    """`read` with parsed options; see `open_reading`."""
    reading = open_reading(table, options, embedded)
    return pa.RecordBatchReader.from_batches(reading.schema, reading.batches())
