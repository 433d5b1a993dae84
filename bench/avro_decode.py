"""Avro log records to Arrow: the compiled kernel against fastavro, process CPU time per record.

    python -m bench.avro_decode [--runs 7] [--seed 1]

`avro_shapes` has the records. The bench compares the results of both decoders before it measures. *flat* reads the
columns that are not nested.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable

import pyarrow as pa

from bench.avro_shapes import SHAPES, sample
from penstock.reader.avro.decoder import AvroDecoder, record_bounds, warm_up
from penstock.table.log.blocks import BlockPlace
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import META_COLUMNS

PLACE = BlockPlace("bench", "bench.log", 0, "20260101000000000")
FASTAVRO_ROWS = 4_000


def cpu_ns(work: Callable[[], object], runs: int, rows: int) -> float:
    """Median process CPU time per record."""
    took = []
    for _ in range(runs):
        start = time.process_time_ns()
        work()
        took.append(time.process_time_ns() - start)
    return statistics.median(took) / rows


def measure(shape: str, runs: int, seed: int) -> list[str]:
    """One row of the table."""
    kinds, rows = SHAPES[shape]
    schema, data = sample(kinds, rows, seed)
    every = [field.name for field in schema.fields]
    flat = [field.name for field in arrow_schema(schema) if not pa.types.is_nested(field.type)]
    key_early, key_late = [META_COLUMNS[2], "c0", "c1"], [META_COLUMNS[2], *every[-2:]]
    end = len(data) - 12
    begins, ends = record_bounds(data, PLACE, 0, end)

    def read(names: list[str], records: int = rows, *, compiled: bool = True) -> pa.Table:
        decoder = AvroDecoder(schema, names, schema, compiled=compiled)
        assert decoder.is_compiled is compiled
        return pa.Table.from_batches(list(decoder.decode(data, begins[:records], ends[:records], PLACE)))

    whole, few = read(every), min(FASTAVRO_ROWS, rows)
    assert whole.slice(0, few).equals(read(every, few, compiled=False)), "kernel and fastavro differ"
    for names in (key_early, key_late, flat):
        assert read(names).equals(whole.select(names)), "a projection differs"
    del whole
    gc.collect()
    return [
        shape,
        f"{end / rows:.0f}",
        f"{cpu_ns(lambda: read(every), runs, rows):.0f}",
        f"{cpu_ns(lambda: read(flat), runs, rows):.0f}",
        f"{cpu_ns(lambda: read(key_early), runs, rows):.0f}",
        f"{cpu_ns(lambda: read(key_late), runs, rows):.0f}",
        f"{cpu_ns(lambda: record_bounds(data, PLACE, 0, end), runs, rows):.0f}",
        f"{cpu_ns(lambda: read(every, few, compiled=False), 3, few):.0f}",
    ]


def decode_ns(columns: int, runs: int, seed: int = 1) -> float:
    """Process CPU time per record of the compiled kernel for all columns, after a comparison with fastavro."""
    warm_up()
    return float(measure(str(columns), runs, seed)[2])


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    warm_up()
    heads = ["columns", "bytes", "kernel", "flat", "key + 2 early", "key + 2 late", "bounds", "fastavro"]
    print(f"ns per record, process CPU, medians of {args.runs}; seed {args.seed}\n")
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for shape in SHAPES:
        print("| " + " | ".join(measure(shape, args.runs, args.seed)) + " |")


if __name__ == "__main__":
    main()
