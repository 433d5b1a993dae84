"""`penstock.read`: reads a table into Arrow record batches, in the caller's process and thread."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from penstock.engine.connect import enumerator_for
from penstock.engine.requests.batch import no_files_warning, plan_request
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import InvariantViolation, PenstockError, code_and_text
from penstock.proto.logging import log_event_to
from penstock.proto.model.reports import EndOfSlot, NextSplit, OpenedPlan, SplitReport
from penstock.proto.model.splits import Scan
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options
from penstock.proto.retry import Retry
from penstock.reader.read_split import ReadOptions, SplitTally, output_schema, read_split
from penstock.table.columns import resolve_column
from penstock.table.schema.avro import parse_record_schema

log = logging.getLogger("penstock.engine.arrow")


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

    schema: pa.Schema
    """The schema of the returned batches."""
    enumerator: Enumerator
    """Assigns the splits."""
    opened: OpenedPlan
    """The plan, which the enumerator holds."""
    options: ParsedOptions
    """The options of the read."""
    event_time: str = ""
    """The column, by its name in the table, whose highest value each split's report contains; '' for none."""

    def batches(
        self,
        on_progress: Callable[[Progress], None] | None = None,
        on_report: Callable[[SplitReport], None] | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows, splits in plan order, at most `limit`. Closing the generator closes the files it holds open.

        Each split that was read to its end or to the limit is reported to the enumerator, and to `on_report`, with the
        rows returned; one left by an error or by closing is not. Errors: `penstock.proto.errors`; rows returned
        before an error are not the whole answer.
        """
        left = self.options.limit
        rows = done = 0
        for slot in range(self.opened.slots):
            for index in count():
                if left == 0:
                    return
                answer = self._retry.call(partial(self.enumerator.next_split, self.opened.plan_id, slot, index))
                if isinstance(answer, EndOfSlot):
                    break
                tally = SplitTally(event_time=self.event_time, event_time_unit=self.options.event_time_unit or "")
                before = rows
                with closing(self._split_batches(answer, tally)) as batches:
                    for batch in batches:
                        part = batch if left is None else batch.slice(0, left)
                        rows += part.num_rows
                        yield part
                        if left is not None:
                            left -= part.num_rows
                            if left == 0:
                                break
                        if on_progress is not None:
                            on_progress(Progress(rows, done, self.opened.splits))
                report = replace(tally.report(), rows=rows - before)
                log_event_to(
                    log,
                    "split read",
                    **self._ids,
                    slot=slot,
                    index=index,
                    split=answer.split.split_id,
                    rows=report.rows,
                )
                self._deliver(slot, index, report)
                if on_report is not None:
                    on_report(report)
                done += 1
                if on_progress is not None:
                    on_progress(Progress(rows, done, self.opened.splits))

    def _deliver(self, slot: int, index: int, report: SplitReport) -> None:
        """The rows of the split were returned: a report that cannot be delivered is logged and fails nothing."""
        try:
            self._retry.call(partial(self.enumerator.finish_split, self.opened.plan_id, slot, index, report))
        except (PenstockError, InvariantViolation) as error:  # the latter: a bug of the server
            code, text = code_and_text(error)
            log_event_to(
                log,
                "report not delivered",
                level=logging.WARNING,
                **self._ids,
                slot=slot,
                index=index,
                code=code,
                error=text[:500],
            )

    @property
    def _retry(self) -> Retry:
        return Retry(policy=self.options.retry_if_given)

    @property
    def _ids(self) -> dict[str, Any]:
        return {"table": self.opened.scan.table, "plan": self.opened.plan_id}

    def _split_batches(self, answer: NextSplit, tally: SplitTally) -> Generator[pa.RecordBatch, None, None]:
        scan, split = self.opened.scan, answer.split
        read_options = ReadOptions(batch_rows=self.options.batch_rows)
        with closing(read_split(scan, split, options=read_options, tally=tally)) as parts:
            for part in parts:
                if not part.batch.schema.equals(self.schema):
                    raise InvariantViolation(
                        f"split {split.split_id} of table {scan.table}: got a batch of {part.batch.schema}, expected "
                        f"{self.schema}"
                    )
                if part.batch.num_rows:
                    yield part.batch


def open_reading(table: str, options: ParsedOptions) -> Reading:
    """Plans a read; `table` is a path or URI, or with `server` a name. Errors: `penstock.proto.errors`."""
    enumerator, retry = enumerator_for(options.server, options.access), Retry(policy=options.retry_if_given)
    request = plan_request(table, options, lambda: retry.call(lambda: enumerator.describe_table(table)), slots=1)
    opened = retry.call(lambda: enumerator.open_plan(request))
    if warning := no_files_warning(request, opened.splits):
        log.warning("%s", warning)
    event_time = options.event_time and _column(opened.scan, options.event_time)
    return Reading(output_schema(opened.scan), enumerator, opened, options, event_time)


def _column(scan: Scan, name: str) -> str:
    return resolve_column(name, [field.name for field in parse_record_schema(scan.schema_json).fields])


def read(
    table: str | os.PathLike[str],
    *,
    query: str | None = None,
    after: str | None = None,
    upto: str | None = None,
    as_of: str | None = None,
    columns: Sequence[str] | str | None = None,
    where: str | None = None,
    limit: int | None = None,
    server: str | None = None,
    **options: object,
) -> pa.RecordBatchReader:
    """The rows of a table, streamed: the schema is known at once, splits are read one after the other in plan order.

    `table` is a path or URI; with `server` (HOST:PORT) the name of a table that it serves. `query` is snapshot (the
    default; with `as_of` as of that requested time), read_optimized, incremental: the rows written by the instants of
    (`after`, `upto`], bounded by order key, as the range's end left them; or cdc: each change by them, in the order
    of `_change_seq` within a file group (`cdc_format`: rows or hudi). `columns` empty means all.
    `limit` is exact. `options` are the others of the registry (docs/reference/options.md) in snake_case, and Hudi's own
    names where they can be translated. What is not given comes from PENSTOCK_* in the environment.

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
        "where": where,
        "limit": limit,
        "server": server,
    }
    parsed = parse_options({**explicit, **options}, entry_point=EntryPoint.ARROW, environment=os.environ)
    for text in parsed.warnings:
        warnings.warn(f"penstock.read: {text}", UserWarning, stacklevel=2)
    reading = open_reading(os.fspath(table), parsed)
    return pa.RecordBatchReader.from_batches(reading.schema, reading.batches())
