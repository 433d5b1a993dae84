"""Avro log records to Arrow: the compiled kernel against fastavro, process CPU time per record.

    python -m bench.avro_decode [--runs 7] [--seed 1]

Records have Hudi's five meta columns and mixed nullable columns; a tenth of the values is null. The bench compares the
results of both decoders before it measures, and asserts that the compiled kernel is in use.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import random
import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa

from penstock.reader.avro.decoder import AvroDecoder, record_bounds, warm_up
from penstock.table.log.blocks import BlockPlace
from penstock.table.schema.avro import META_COLUMNS, RecordSchema, parse_record_schema

PLACE = BlockPlace("bench", "bench.log", 0, "20260101000000000")
SIZES = ((10, 60_000), (25, 40_000), (105, 10_000))
FASTAVRO_ROWS = 4_000
WORDS = ("alpha", "bravo charlie", "delta-echo-foxtrot-golf", "h", "india juliet kilo")
KINDS: tuple[tuple[Any, Callable[[random.Random], Any]], ...] = (
    ("long", lambda r: r.getrandbits(40)),
    ("double", lambda r: r.random()),
    ("string", lambda r: r.choice(WORDS)),
    ("int", lambda r: r.randint(-1000, 100_000)),
    ("boolean", lambda r: r.random() < 0.5),
    ({"type": "long", "logicalType": "timestamp-micros"}, lambda r: 1_700_000_000_000_000 + r.getrandbits(30)),
    ("float", lambda r: r.randint(0, 999) / 4),
    ("string", lambda r: r.choice(WORDS)),
)


def sample(columns: int, rows: int, seed: int) -> tuple[RecordSchema, bytes]:
    """Returns (schema, log block content followed by 12 bytes, as in every log file)."""
    chance = random.Random(seed)
    kinds = [(f"c{i}", *KINDS[i % len(KINDS)]) for i in range(columns - len(META_COLUMNS))]
    fields = [{"name": name, "type": ["null", "string"]} for name in META_COLUMNS]
    fields += [{"name": name, "type": ["null", kind]} for name, kind, _ in kinds]
    node = {"type": "record", "name": "r", "fields": fields}
    parsed, parts = fastavro.parse_schema(json.loads(json.dumps(node))), [struct.pack(">ii", 3, rows)]
    file_name = "6a1c1d5e-8b1f-4f5f-9a63-0f1f2d9c7b10-0_0-1-0.parquet"
    for number in range(rows):
        meta = ("20260101000000000", f"20260101000000000_0_{number}", f"key-{number:010d}", "region=eu", file_name)
        row: dict[str, Any] = dict(zip(META_COLUMNS, meta, strict=True))
        row |= {name: None if chance.random() < 0.1 else make(chance) for name, _, make in kinds}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        parts += [struct.pack(">i", len(out.getvalue())), out.getvalue()]
    return parse_record_schema(json.dumps(node)), b"".join(parts) + bytes(12)


def cpu_ns(work: Callable[[], object], runs: int, rows: int) -> float:
    """Median process CPU time per record."""
    took = []
    for _ in range(runs):
        start = time.process_time_ns()
        work()
        took.append(time.process_time_ns() - start)
    return statistics.median(took) / rows


def measure(columns: int, rows: int, runs: int, seed: int) -> list[str]:
    """One row of the table."""
    schema, data = sample(columns, rows, seed)
    every = [field.name for field in schema.fields]
    key_early, key_late = [META_COLUMNS[2], "c0", "c1"], [META_COLUMNS[2], *every[-2:]]
    end = len(data) - 12
    begins, ends = record_bounds(data, PLACE, 0, end)

    def read(names: list[str], records: int = rows, *, compiled: bool = True) -> pa.Table:
        decoder = AvroDecoder(schema, names, schema, compiled=compiled)
        assert decoder.is_compiled is compiled
        return pa.Table.from_batches(list(decoder.decode(data, begins[:records], ends[:records], PLACE)))

    whole, few = read(every), min(FASTAVRO_ROWS, rows)
    assert whole.slice(0, few).equals(read(every, few, compiled=False)), "kernel and fastavro differ"
    for names in (key_early, key_late):
        assert read(names).equals(whole.select(names)), "a projection differs"
    del whole
    gc.collect()
    return [
        str(columns),
        f"{end / rows:.0f}",
        f"{cpu_ns(lambda: read(every), runs, rows):.0f}",
        f"{cpu_ns(lambda: read(key_early), runs, rows):.0f}",
        f"{cpu_ns(lambda: read(key_late), runs, rows):.0f}",
        f"{cpu_ns(lambda: record_bounds(data, PLACE, 0, end), runs, rows):.0f}",
        f"{cpu_ns(lambda: read(every, few, compiled=False), 3, few):.0f}",
    ]


def decode_ns(columns: int, rows: int, runs: int, seed: int = 1) -> float:
    """Process CPU time per record of the compiled kernel for all columns, after a comparison with fastavro."""
    warm_up()
    return float(measure(columns, rows, runs, seed)[2])


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    warm_up()
    heads = ["columns", "bytes", "kernel", "key + 2 early", "key + 2 late", "bounds", "fastavro"]
    print(f"ns per record, process CPU, medians of {args.runs}; seed {args.seed}\n")
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for columns, rows in SIZES:
        print("| " + " | ".join(measure(columns, rows, args.runs, args.seed)) + " |")


if __name__ == "__main__":
    main()
