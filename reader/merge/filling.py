"""Fills gaps column by column: a row takes each value from the highest of its records that has one.

`filled_rows` makes rows of chains of log records, `Filler.pairs` makes rows of pairs of a base row and a log row. Both
work on whole columns. `gaps` decides what a gap is, `chains` and `stream` decide which record is above which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.reader.merge.chains import Chains
from penstock.reader.merge.gaps import HELD, Gaps
from penstock.reader.merge.log_rows import LogRows
from penstock.table.arrow_arrays import arrow_array, numpy_array
from penstock.table.arrow_compute import pc
from penstock.table.schema.avro import META_COLUMNS

_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class EarlyGaps:
    """A different rule for gaps among the first records of the log: together they make one whole record."""

    gaps: Gaps
    """The rule."""
    before: int
    """The rule applies to records with an arrival number below this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filler:
    """How gaps are filled."""

    columns: tuple[str, ...]
    """The columns of a row."""
    gaps: Gaps
    """The values that count as gaps."""
    last_writer: bool
    """Whether the meta columns are those of the record written last, whichever wins."""
    from_newer: bool
    """Whether a log row fills gaps of a base row that stays."""
    early: EarlyGaps | None = None
    """Another rule for the first records of the log; None if all follow `gaps`."""

    def pairs(self, base: pa.RecordBatch, log: pa.RecordBatch, base_wins: np.ndarray) -> pa.RecordBatch:
        """Rows i of base and log as one row: the winner's values, with its gaps filled from the other."""
        wins = arrow_array(base_wins)
        arrays: list[pa.Array] = []
        for name in self.columns:
            below, above = base.column(name), log.column(name)
            if self.last_writer and name in META_COLUMNS:
                arrays.append(pc.coalesce(above, below))
                continue
            takes_base = pc.or_(wins, _truths(self.gaps(log, name), len(log)))
            takes_log = pc.and_(wins, _truths(self.gaps(base, name), len(base)))
            arrays.append(pc.if_else(pc.and_not(takes_base, takes_log), below, above))
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _truths(answers: pa.BooleanArray | None, rows: int) -> pa.BooleanArray:
    return arrow_array(np.zeros(rows, bool)) if answers is None else answers


def filled_rows(rows: LogRows, members: np.ndarray, chains: Chains, tops: np.ndarray, filler: Filler) -> LogRows:
    """The row of each chain that is not empty, in the order of `tops`.

    rows: those of the records `members` (ascending). tops: the highest record of each such chain, ascending. The
    columns that say which columns a record holds are returned too: a row holds a column if any of its records does.
    """
    lengths = np.diff(chains.starts)
    numbers = np.flatnonzero(lengths)
    by_top = numbers[np.argsort(chains.records[chains.starts[numbers]], kind="stable")]
    batches = rows.batches()
    if len(members) == len(tops) or not batches:
        return rows
    where = np.searchsorted(members, chains.records)
    sources = {name: _sources(name, batches, where, chains, by_top, filler) for name in batches[0].schema.names}
    return LogRows(_taken(batches, sources, len(tops)))


def _sources(
    name: str, batches: list[pa.RecordBatch], where: np.ndarray, chains: Chains, by_top: np.ndarray, filler: Filler
) -> np.ndarray:
    """For each chain (in this order) the row, counted over all batches, that its value of a column is taken from."""
    first, last = chains.starts[by_top], chains.starts[by_top + 1] - 1
    if filler.last_writer and name in META_COLUMNS:
        newest = np.maximum.reduceat(where, first[np.argsort(first)])
        return np.asarray(newest[np.argsort(np.argsort(first))])
    gap = _gap_flags(name.removeprefix(HELD), batches, filler.gaps)
    gaps = None if gap is None else gap[where]
    if filler.early is not None:
        gaps = _with_early(gaps, name.removeprefix(HELD), batches, where, chains, filler.early)
    if gaps is None:
        return np.asarray(where[first])
    places = np.where(gaps, len(where), np.arange(len(where)))
    order = np.argsort(first)
    held = np.empty(len(first), np.int64)
    held[order] = np.minimum.reduceat(places, first[order])
    return np.asarray(where[np.minimum(held, last)])


def _with_early(
    gaps: np.ndarray | None,
    name: str,
    batches: list[pa.RecordBatch],
    where: np.ndarray,
    chains: Chains,
    early: EarlyGaps,
) -> np.ndarray:
    """The gaps of the chains' records, in their order, where early records follow their own rule.

    In a chain the early records are adjacent, and the lowest of them has no gap: a value that it lacks, all of them
    lack.
    """
    own = _gap_flags(name, batches, early.gaps)
    is_early = chains.records < early.before
    lowest = is_early.copy()
    lowest[:-1] &= ~is_early[1:]
    ends = chains.starts[1:] - 1
    lowest[ends[ends >= 0]] |= is_early[ends[ends >= 0]]
    mine = np.zeros(len(where), bool) if own is None else own[where]
    late = np.zeros(len(where), bool) if gaps is None else gaps
    return np.where(is_early, mine & ~lowest, late)


def _gap_flags(name: str, batches: list[pa.RecordBatch], gaps: Gaps) -> np.ndarray | None:
    flags = [gaps(batch, name) for batch in batches]
    if all(answers is None for answers in flags):
        return None
    return np.concatenate(
        [numpy_array(_truths(answers, batch.num_rows)) for answers, batch in zip(flags, batches, strict=True)]
    )


def _taken(batches: list[pa.RecordBatch], sources: dict[str, np.ndarray], rows: int) -> Iterator[pa.RecordBatch]:
    schema = batches[0].schema
    columns = {
        name: pa.chunked_array([_wide(batch.column(name)) for batch in batches]).combine_chunks()
        for name in schema.names
    }
    for begin in range(0, rows, _ROWS):
        arrays = [
            columns[field.name].take(arrow_array(sources[field.name][begin : begin + _ROWS])).cast(field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _wide(column: pa.Array) -> pa.Array:
    """Text and bytes with 64-bit offsets, because all records together may be larger than 2 GiB."""
    if pa.types.is_string(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary(column.type) else column
