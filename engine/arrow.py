"""`penstock.read`: reads a table into Arrow record batches, in the caller's process and thread."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.read_tasks import OpenedRead, open_read
from penstock.engine.requests.where import Where, where_text
from penstock.proto.model.reports import SplitReport
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options


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

    @property
    def schema(self) -> pa.Schema:
        """The schema of the returned batches."""
        return self.opened.schema

    def batches(
        self,
        on_progress: Callable[[Progress], None] | None = None,
        on_report: Callable[[SplitReport], None] | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows, splits in plan order, at most `limit`. Closing the generator closes the files it holds open.

        Each split is reported as `ReadTask.batches` says. Errors: `penstock.proto.errors`; rows returned before an
        error are not the whole answer.
        """
        left = self.opened.limit
        rows = 0
        if left == 0:
            return
        for done, task in enumerate(self.opened.tasks()):
            with closing(task.batches(left, on_report)) as batches:
                for batch in batches:
                    rows += batch.num_rows
                    left = None if left is None else left - batch.num_rows
                    yield batch
                    if on_progress is not None:
                        on_progress(Progress(rows, done, self.opened.splits))
            if on_progress is not None:
                on_progress(Progress(rows, done + 1, self.opened.splits))
            if left == 0:
                return


def open_reading(table: str, options: ParsedOptions) -> Reading:
    """Plans a read; `table` is a path or URI, or with `server` a name. Errors: `penstock.proto.errors`."""
    return Reading(open_read(table, options))


def read(
    table: str | os.PathLike[str],
    *,
    query: str | None = None,
    after: str | None = None,
    upto: str | None = None,
    as_of: str | None = None,
    columns: Sequence[str] | str | None = None,
    where: Where | None = None,
    limit: int | None = None,
    server: str | None = None,
    **options: object,
) -> pa.RecordBatchReader:
    """The rows of a table, streamed: the schema is known at once, splits are read one after the other in plan order.

    `table` is a path or URI; with `server` (HOST:PORT) the name of a table that it serves. `query` is snapshot (the
    default; with `as_of` as of that requested time), read_optimized, incremental: the rows written by the instants of
    (`after`, `upto`], bounded by order key, as the range's end left them; or cdc: each change by them, in the order
    of `_change_seq` within a file group (`cdc_format`: rows or hudi). `columns` empty means all.
    `where` is SQL text, a `pyarrow.compute.Expression`, or a list of (column, operator, value) as in
    `pyarrow.parquet`. `limit` is exact. `options` are the others of the registry (docs/reference/options.md) in
    snake_case, and Hudi's own names where they can be translated. What is not given comes from PENSTOCK_* in the
    environment.

    The table's own types: timestamps in microseconds UTC, decimals exact. Files are released when the reader is
    exhausted, fails, or is dropped. Errors are `penstock.errors`, also from the reader; ConfigurationError for
    an unknown option, naming the nearest.
    """
    explicit: dict[str, object] = {
        "query": query,
        "after": after,
        "upto": upto,
        "as_of": as_of,
        "columns": columns if columns is None or isinstance(columns, str) else tuple(columns),
        "where": where if where is None else where_text(where),
        "limit": limit,
        "server": server,
    }
    parsed = parse_options({**explicit, **options}, entry_point=EntryPoint.ARROW, environment=os.environ)
    for text in parsed.warnings:
        warnings.warn(f"penstock.read: {text}", UserWarning, stacklevel=2)
    reading = open_reading(os.fspath(table), parsed)
    return pa.RecordBatchReader.from_batches(reading.schema, reading.batches())
