"""Shapes of data beside a plain table: processor time for each record and each byte, as ratios to the plain table.

    python -m bench.shapes [--runs 5] [--only decimal --only logs]

The plain table is one file slice: a base file of 20,000 rows with Hudi's meta columns and eight columns of mixed types,
and a log of 2,000 updates in Avro, merged by event time. Each other shape (`slice_shapes`) changes one thing. Records
are rows of the base file and of logs, bytes those of the files. Reads of the plain table and of the shape take turns;
the bench prints the median of the ratios. Over 4x for a record and for a byte needs an explanation.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator

from bench.slice_shapes import PLAIN, Shape, Slice, shapes
from penstock.reader.avro.decoder import warm_up

LIMIT = 4.0
"""The ratio above which a shape needs an explanation."""


def cpu_s(shape: Slice) -> float:
    """Processor seconds of one read of all rows, and a check of their number."""
    start = time.process_time()
    rows = sum(result.batch.num_rows for result in shape.read())
    took = time.process_time() - start
    assert rows == shape.rows, f"{rows} rows, expected {shape.rows}"
    return took


def ratios(plain: Slice, other: Slice, runs: int) -> tuple[float, float, float]:
    """(microseconds a record, ratio for a record, ratio for a byte) of `other` against `plain`, medians of turns."""
    cpu_s(plain), cpu_s(other)
    turns = [(cpu_s(plain), cpu_s(other)) for _ in range(runs)]
    by_record = statistics.median((b / other.records) / (a / plain.records) for a, b in turns)
    by_byte = statistics.median((b / other.size_bytes) / (a / plain.size_bytes) for a, b in turns)
    return statistics.median(b for _, b in turns) / other.records * 1e6, by_record, by_byte


def table(folder: pathlib.Path, chosen: list[Shape], runs: int) -> Iterator[str]:
    """The lines of the table."""
    plain = PLAIN.write(folder / "plain")
    yield "| shape | records | bytes a record | µs a record | a record | a byte | |"
    yield "|---|---|---|---|---|---|---|"
    for number, shape in enumerate(chosen):
        made = shape.write(folder / str(number))
        microseconds, by_record, by_byte = ratios(plain, made, runs)
        verdict = "over 4x" if min(by_record, by_byte) > LIMIT else ""
        yield (
            f"| {shape.name} | {made.records:,} | {made.size_bytes / made.records:,.0f} | {microseconds:,.2f} "
            f"| {by_record:.2f}x | {by_byte:.2f}x | {verdict} |"
        )


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="shapes whose name contains this text")
    args = parser.parse_args()
    warm_up()
    chosen = [shape for shape in shapes() if not args.only or any(text in shape.name for text in args.only)]
    with tempfile.TemporaryDirectory() as folder:
        for line in table(pathlib.Path(folder), chosen, args.runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
