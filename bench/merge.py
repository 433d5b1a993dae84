"""The merge alone: decoded base rows merged with the winners of a log, both in memory.

    python -m bench.merge [--rows 1000000] [--log 0.1] [--runs 5] [--uuid]

Prints medians of the CPU seconds of one thread. `build` numbers the keys and folds the records; `merge` probes, filters
and inserts the winners, in millions of base rows per second. Nine tenths of the log records are updates or deletes,
about half of them lose by event time; one tenth are inserts. All variants must return equal rows. The number of winning
log records shows that rows were merged.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from penstock.proto.model.splits import EventTimeOrdering
from penstock.reader.merge.fold import RecordKind, fold
from penstock.reader.merge.keys import number_keys
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.ordering import OrderingTuples
from penstock.reader.merge.ordering_columns import OrderingColumns
from penstock.reader.merge.stream import LogWinners, Merge, MergeSpec
from penstock.reader.split.emit import BATCH_BYTES

ROW_GROUP_ROWS = 1 << 20
COLUMNS = ("key", "ts", "a", "b", "c", "d", "e", "f")


@dataclass(frozen=True)
class Group:
    """A decoded row group."""

    batch: pa.RecordBatch
    batch_rows: int
    emits_rows: bool = True

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.batch.num_rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Slices of `batch_rows` rows."""
        for first in range(0, self.batch.num_rows, self.batch_rows):
            yield self.batch.slice(first, self.batch_rows)

    def keys(self) -> pa.Array:
        """The record keys."""
        return self.batch.column("key")


def rows(ids: np.ndarray, ts: np.ndarray, seed: int, uuid: bool) -> pa.RecordBatch:
    """Eight columns: a key of 14 (or 36) bytes, the ordering value, six of common types."""
    random = np.random.default_rng(seed)
    words = pa.array(["foo", "barbar", "bazbazbaz", "a longer description text"])
    form = "%08x-1111-2222-3333-%012x" if uuid else "key-%010d"
    names = [form % ((i * 2654435761 % 2**32, i) if uuid else i) for i in ids.tolist()]
    count = len(ids)
    columns = [
        pa.array(names),
        pa.array(ts),
        pa.array(random.random(count)),
        pa.array(random.integers(0, 1 << 40, count)),
        pa.array(random.integers(0, 1000, count).astype(np.int32)),
        words.take(pa.array(random.integers(0, 4, count))),
        pa.array(random.random(count).astype(np.float32)),
        pa.array(random.random(count) < 0.5),
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


def build(log: pa.RecordBatch, kinds: np.ndarray, compiled: bool) -> LogWinners:
    """The winners of a decoded log."""
    table, numbers = number_keys([log.column("key")], compiled=compiled)
    ordering = OrderingTuples([log.column("ts")])
    folded = fold(EventTimeOrdering(("ts",)), numbers, table.count, kinds, ordering.ranks())
    data = kinds[folded.winning] == RecordKind.DATA
    arrivals = np.sort(folded.winning[data])
    return LogWinners(
        table=table,
        kinds=kinds[folded.winning],
        ordering=ordering.take(folded.winning),
        row_of=np.where(data, np.searchsorted(arrivals, folded.winning), -1),
        rows=LogRows([log.take(pa.array(arrivals))]),
        folded=folded,
    )


def measure(
    base: pa.RecordBatch, log: pa.RecordBatch, kinds: np.ndarray, compiled: bool, batch_rows: int, runs: int
) -> tuple[float, float, int, float, int]:
    """(build s, merge s, rows, their checksum, log records that won their merge); times are medians."""
    build_s, merge_s, answer = [], [], (0, 0, 0)
    kind = pa.int64()
    ordering = OrderingColumns(names=("ts",), types=(kind,), dotted=False, deletes_win=False, place="bench")
    shape = MergeSpec(columns=COLUMNS, key="key", ordering=ordering, batch_rows=batch_rows, batch_bytes=BATCH_BYTES)
    for run in range(runs + 1):
        groups = [
            Group(base.slice(first, ROW_GROUP_ROWS), batch_rows) for first in range(0, base.num_rows, ROW_GROUP_ROWS)
        ]
        began = time.process_time()
        winners = build(log, kinds, compiled)
        built = time.process_time()
        merge = Merge(winners, shape)
        count = sum(batch.num_rows for batch in merge.run(groups))
        merged = time.process_time()
        if run:  # the first run compiles or loads the kernels
            build_s.append(built - began)
            merge_s.append(merged - built)
        else:
            summed = Merge(winners, shape)
            total = sum(pc.sum(batch.column("b")).as_py() or 0 for batch in summed.run(groups))
            answer = (count, total, merge.outcomes().won)
    return statistics.median(build_s), statistics.median(merge_s), *answer


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--log", type=float, default=0.1, help="log records for each base row")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--uuid", action="store_true", help="36-byte keys in random order")
    args = parser.parse_args()
    random = np.random.default_rng(1)
    records = int(args.rows * args.log)
    base = rows(np.arange(args.rows) * 2, random.integers(1_000_000, 2_000_000, args.rows), 2, args.uuid)
    ids = random.choice(args.rows, records, replace=False) * 2
    ids[: records // 10] += 1
    log = rows(ids, random.integers(1_050_000, 2_050_000, records), 3, args.uuid)
    kinds = np.where(random.random(records) < 0.1, RecordKind.DELETE, RecordKind.DATA).astype(np.uint8)
    report = Table(title=f"{args.rows:,} base rows, {records:,} log records, {len(COLUMNS)} columns")
    for heading in ("keys by", "batch rows", "build ms", "merge M rows/s", "ns a row", "rows out", "winning records"):
        report.add_column(heading, justify="right")
    answers = set()
    for compiled, batch_rows in ((True, 16_384), (True, 32_768), (True, 65_536), (False, 65_536)):
        build_s, merge_s, count, total, won = measure(base, log, kinds, compiled, batch_rows, args.runs)
        answers.add((count, total, won))
        speed = f"{args.rows / merge_s / 1e6:.1f}", f"{merge_s / args.rows * 1e9:.0f}"
        keys_by = "kernel" if compiled else "index_in"
        report.add_row(keys_by, f"{batch_rows:,}", f"{build_s * 1e3:.0f}", *speed, f"{count:,}", f"{won:,}")
    Console().print(report)
    if len(answers) != 1:
        raise SystemExit(f"the results differ: {answers}")


if __name__ == "__main__":
    main()
