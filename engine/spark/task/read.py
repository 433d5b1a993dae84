"""Reads a slot in a Spark task: reads and casts each split, passes the batches to the JVM, and reports the split.

Runs on executors. Does not list a table and does not plan: an embedded slot contains its splits, and for a slot of a
server's plan the task requests them.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.connect import enumerator_for
from penstock.engine.kafka_access import topic_reading
from penstock.engine.spark.schema.casting import Casting, casting
from penstock.engine.spark.task.coalesce import GATHERED_ROWS, gathered
from penstock.engine.spark.task.input_partitions import MarkerSlot, PackedSlot, PulledSlot, SlotReading
from penstock.engine.spark.task.worker_cache import scan_of
from penstock.engine.spark.watermark.columns import added, marker_batch
from penstock.engine.split_retry import deliver, resumed
from penstock.proto.codec.serialized import decode_scan, decode_split
from penstock.proto.errors import CorruptFile, InvariantViolation, PositionExpired
from penstock.proto.model.reports import EndOfSlot, NextSplit
from penstock.proto.model.splits import Scan, Split
from penstock.proto.retry import Retry
from penstock.reader.read_split import ReadOptions, SplitBatch, SplitTally, output_schema, read_split

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

log = logging.getLogger("penstock.engine.spark")


def read_partition(partition: InputPartition | None, reading: SlotReading) -> Iterator[pa.RecordBatch]:
    """The rows of one input partition, in the exact schema.

    No rows for None and InputPartition(None), which Spark creates for an empty plan. Errors: `penstock.proto.errors`. A
    killed or failed task does not report the split that it was reading.
    """
    match getattr(partition, "value", None):
        case None:
            return
        case PackedSlot() as packed:
            yield from gathered(_read_packed(packed, reading), min(reading.batch_rows, GATHERED_ROWS))
        case PulledSlot() as pulled:
            yield from gathered(_read_pulled(pulled, reading), min(reading.batch_rows, GATHERED_ROWS))
        case MarkerSlot(watermark) if reading.watermarked is not None:
            yield marker_batch(reading.watermarked, reading.event_time, reading.event_time_unit, watermark)
        case other:
            raise InvariantViolation(f"an input partition of Penstock holds a {type(other).__name__}, expected a slot")


def _read_packed(slot: PackedSlot, reading: SlotReading) -> Generator[pa.RecordBatch, None, None]:
    scan = decode_scan(slot.scan)
    shape = casting(output_schema(scan), reading.schema, table=scan.table, narrows=reading.narrows)
    for encoded in slot.splits:
        rows = _rows(scan, decode_split(encoded), shape, reading, SplitTally())
        yield from _watermarked(rows, reading, slot.watermark_us)


def _read_pulled(pulled: PulledSlot, reading: SlotReading) -> Generator[pa.RecordBatch, None, None]:
    """Requests the slot's splits from the first one on, so that each attempt of the task returns the same rows."""
    enumerator, retry = enumerator_for(pulled.server, pulled.access), Retry(policy=reading.retry)
    scan = retry.call(lambda: scan_of(enumerator, pulled.server, pulled.plan_id))
    shape = casting(output_schema(scan), reading.schema, table=scan.table, narrows=reading.narrows)
    for index in count():
        match retry.call(partial(enumerator.next_split, pulled.plan_id, pulled.slot, index)):
            case EndOfSlot():
                return
            case NextSplit(split=split):
                tally = SplitTally(event_time=reading.event_time, event_time_unit=reading.event_time_unit or "")
                read = _rows(scan, split, shape, reading, tally)
                rows = yield from _watermarked(read, reading, pulled.watermark_us)
                report = replace(tally.report(), rows=rows)
                send = partial(enumerator.finish_split, pulled.plan_id, pulled.slot, index, report)
                deliver(send, retry, log, table=scan.table, plan=pulled.plan_id, slot=pulled.slot, index=index)


def _watermarked(
    rows: Generator[pa.RecordBatch, None, int], reading: SlotReading, watermark_us: int | None
) -> Generator[pa.RecordBatch, None, int]:
    """The batches with the columns of the watermark, if the reading has them."""
    if reading.watermarked is None:
        return (yield from rows)
    with closing(rows):
        while True:
            try:
                batch = next(rows)
            except StopIteration as end:
                return int(end.value)
            yield added(batch, reading.watermarked, watermark_us)


def _rows(
    scan: Scan, split: Split, shape: Casting, reading: SlotReading, tally: SplitTally
) -> Generator[pa.RecordBatch, None, int]:
    """The split's rows, cast, at most `limit_rows`. Returns their number."""
    limit, rows = reading.limit_rows, 0
    if limit == 0:
        return rows
    batch_rows = reading.batch_rows if limit is None else min(reading.batch_rows, limit)
    options = ReadOptions(batch_rows=batch_rows, mergers=reading.mergers)
    topics = topic_reading(scan, reading.access)

    def open_split(start: int) -> Generator[SplitBatch, None, None]:
        return read_split(scan, split, start=start, options=options, tally=tally, topics=topics)

    with closing(resumed(open_split, Retry(policy=reading.retry))) as batches:
        while (part := _next(batches, scan, split, reading, rows)) is not None:
            batch = part.batch if limit is None else part.batch.slice(0, limit - rows)
            yield from shape.batches(batch)
            rows += batch.num_rows
            if rows == limit:
                break
    return rows


def _next(
    batches: Iterator[SplitBatch], scan: Scan, split: Split, reading: SlotReading, rows: int
) -> SplitBatch | None:
    """The next batch of a split; None at its end, or at a lost file if the reading skips lost files."""
    try:
        return next(batches, None)
    except (CorruptFile, PositionExpired) as error:
        if not reading.skips_lost or (isinstance(error, CorruptFile) and not error.is_gone):
            raise
        log.warning(
            "table %s: split %s: everything after its first %s rows was lost before it was read: %s",
            scan.table,
            split.split_id,
            rows,
            error,
        )
        return None
