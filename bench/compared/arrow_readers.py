"""Readers that give Arrow batches in this process: Penstock, hudi-rs as a stream and at once, pyarrow's bare decoding.

Each takes a question and returns an iterator of batches. Not here: processes and clocks (`arrow_worker`).
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

import penstock

BARE_BATCH_ROWS = 32768


def read_penstock(path: str, columns: list[str], options: Mapping[str, str]) -> Iterable[pa.RecordBatch]:
    """As a user asks, with every default."""
    return penstock.read(path, columns=columns, **options)


def _hudi_options(columns: list[str], options: Mapping[str, str]) -> HudiReadOptions:
    found = HudiReadOptions(projection=columns or None)
    if options.get("query") == "incremental":
        found = found.with_query_type(HudiQueryType.Incremental)
        found = found.with_start_timestamp(options["after"])
        if "upto" in options:
            found = found.with_end_timestamp(options["upto"])
    return found


def read_hudi_rs_stream(path: str, columns: list[str], options: Mapping[str, str]) -> Iterable[pa.RecordBatch]:
    """hudi-rs, batch by batch. It reads no range that way."""
    return HudiTableBuilder.from_base_uri(path).build().read_stream(_hudi_options(columns, options))


def read_hudi_rs(path: str, columns: list[str], options: Mapping[str, str]) -> Iterable[pa.RecordBatch]:
    """hudi-rs, all batches at once."""
    return HudiTableBuilder.from_base_uri(path).build().read(_hudi_options(columns, options))


def read_pyarrow(path: str, columns: list[str], options: Mapping[str, str]) -> Iterable[pa.RecordBatch]:
    """The base files alone, merged with nothing: right for a table without logs, and the floor for others. Its memory
    is tuned as Penstock's is: no row group is read ahead."""
    for file in sorted(pathlib.Path(path).glob("*.parquet")):
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20) as opened:
            yield from opened.iter_batches(BARE_BATCH_ROWS, columns=columns or None, use_threads=False)


READERS: dict[str, Callable[[str, list[str], Mapping[str, str]], Iterable[pa.RecordBatch]]] = {
    "penstock": read_penstock,
    "hudi-rs stream": read_hudi_rs_stream,
    "hudi-rs": read_hudi_rs,
    "pyarrow": read_pyarrow,
}


def as_batch(batch: Any) -> pa.RecordBatch:
    """A batch of pyarrow's, whoever made it."""
    return batch if isinstance(batch, pa.RecordBatch) else pa.record_batch(batch)
