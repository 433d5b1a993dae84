"""Handles damaged parts of a log file: leftovers of failed appends are skipped, lost records are an error.

A failed append leaves a partial block; its instant writes again elsewhere or never completes. So a gap loses nothing if
every completed instant that, by its write statistics, wrote into the file still has all its records there
(`FileRef.writes`: numWrites records in data blocks, numDeletes in delete blocks). Records are counted only if there is
a gap. `table.log.blocks` finds gaps, `block_selection` decides which blocks count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from penstock.proto.errors import CorruptBlock, FormatError
from penstock.proto.model.splits import FileRef, Scan
from penstock.reader.log.parquet_block import ParquetBlock
from penstock.reader.split.context import SplitContext
from penstock.table.log.blocks import BlockKind, BlockPlace, Damage, LogBlock
from penstock.table.schema.avro import RecordSchema

log: Final = logging.getLogger("penstock.reader")

_ADVICE: Final = (
    "restore the file from a copy, or roll the instant back in Hudi; the option onCorrupt=skip reads on without what "
    "is lost, as Hudi does"
)
_UNCOUNTED: Final = (BlockKind.PARQUET_DATA, BlockKind.HFILE_DATA, BlockKind.COMMAND)
_EMPTY: Final = Damage(0, 0, "the file is empty")


def whole_blocks(
    items: Iterable[LogBlock | Damage],
    data: pa.Buffer,
    ref: FileRef,
    context: SplitContext,
) -> list[LogBlock]:
    """The blocks of a file, in file order, if no record that counts is lost between them. Gaps go to the report and the
    log.

    `items` are those of `read_blocks` over `data`. An empty file is a gap too: its writer may have died, or its bytes
    may be lost. CorruptBlock, naming table, file, gap and instant, if a visible instant has another number of records
    than it wrote, or if that number is unknown (`ref.writes` is None). With `scan.skip_corrupt` damage is never an
    error.
    """
    scan, tally = context.scan, context.tally
    blocks: list[LogBlock] = []
    gaps: list[Damage] = []
    for item in items:
        if isinstance(item, Damage):
            gaps.append(item)
        else:
            blocks.append(item)
    if not blocks and not gaps:
        gaps = [_EMPTY]
    where = f"table {scan.table}: log file {ref.path}"
    if not gaps:
        short = _cut_short(blocks, data, ref, scan)
        if short and not scan.skip_corrupt:
            raise CorruptBlock(f"{where} ends early: {short}: {_ADVICE}")
        if short:
            log.warning("%s ends early: %s; the missing records are skipped", where, short)
        return blocks
    lost = lost_records(blocks, data, ref, scan, context.schema.record)
    gap_text = _gap_text(gaps)
    if lost and not scan.skip_corrupt:
        raise CorruptBlock(f"{where}: {gap_text}; {lost}: {_ADVICE}")
    if lost or gaps != [_EMPTY]:
        tally.count_gaps(len(gaps), sum(gap.end - gap.start for gap in gaps))
        log.warning(
            "%s: %s; skipped: %s",
            where,
            gap_text,
            lost or "every record that completed instants wrote into it is there",
        )
    return blocks


def _cut_short(blocks: Sequence[LogBlock], data: pa.Buffer, ref: FileRef, scan: Scan) -> str:
    """Which records of a visible instant are missing in a file without a gap; '' if none is. A file that was cut
    between two blocks looks whole.

    Only numbers in the headers of contents are used: the records of Avro blocks, and whether there is a delete block.
    There may be more rows than recorded, if a task of the instant was retried.
    """
    view = memoryview(data)
    for write in ref.writes or ():
        own = [block for block in blocks if block.header.instant_time == write.instant]
        if not scan.visible.holds(write.instant) or any(block.kind in _UNCOUNTED for block in own):
            continue
        starts = [block.content_start + 4 for block in own if block.kind is BlockKind.AVRO_DATA]
        rows = sum(int.from_bytes(view[start : start + 4], "big") for start in starts)
        if rows < write.data_rows:
            return f"of completed instant {write.instant} {rows} rows are there, expected {write.data_rows}"
        in_rows = rows >= write.data_rows + write.delete_rows  # the deletes of a stored changelog are among its rows
        if write.delete_rows and not in_rows and not any(block.kind is BlockKind.DELETE for block in own):
            return f"of completed instant {write.instant} the {write.delete_rows} deletes are missing"
    return ""


def _gap_text(gaps: Sequence[Damage]) -> str:
    first = gaps[0]
    if first == _EMPTY:
        return first.reason
    more = f", and {len(gaps) - 1} more damaged parts" if len(gaps) > 1 else ""
    return f"bytes {first.start} to {first.end} are no whole log block ({first.reason}){more}"


def lost_records(blocks: Sequence[LogBlock], data: pa.Buffer, ref: FileRef, scan: Scan, record: RecordSchema) -> str:
    """What is lost or may be lost; '' if all records of every visible write are there."""
    if ref.writes is None:
        return "what completed instants wrote into this file is not known (archived, or an older plan)"
    for write in ref.writes:
        if not scan.visible.holds(write.instant):
            continue
        rows = {True: 0, False: 0}
        for block in blocks:
            if block.header.instant_time == write.instant and block.kind is not BlockKind.CDC_DATA:
                place = BlockPlace(scan.table, ref.path, block.offset, write.instant)
                try:
                    rows[block.kind is BlockKind.DELETE] += _records(block, data, place, record)
                except FormatError as error:
                    return f"a block of completed instant {write.instant} is damaged ({error})"
        if (rows[False], rows[True]) != (write.data_rows, write.delete_rows):
            return (
                f"of completed instant {write.instant} {rows[False]} rows and {rows[True]} deletes are there, expected "
                f"{write.data_rows} and {write.delete_rows}"
            )
    return ""


def _records(block: LogBlock, data: pa.Buffer, place: BlockPlace, record: RecordSchema) -> int:
    """The number of records of a whole block."""
    start, end = block.content_start, block.content_end
    match block.kind:
        case BlockKind.AVRO_DATA:
            from penstock.reader.avro.decoder import record_bounds  # late: many logs are in Parquet

            return len(record_bounds(data, place, start, end, compiled=False)[0])
        case BlockKind.PARQUET_DATA:
            return ParquetBlock(data.slice(start, end - start), place, place.table, record).num_rows()
        case BlockKind.HFILE_DATA:
            from penstock.reader.log.hfile_block import HFileBlock  # late: few logs have such blocks

            return len(HFileBlock.read(data.slice(start, end - start), place).keys)
        case BlockKind.DELETE:
            from penstock.table.log.deletes import decode_deletes  # late: many logs have no deletes

            return len(decode_deletes(memoryview(data)[start:end], place))
        case BlockKind.COMMAND:
            return 0
        case _:
            raise CorruptBlock(f"{place}: a block of kind {block.kind.name}, which no writer makes: restore the file")
