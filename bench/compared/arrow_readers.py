"""Readers that return Arrow batches in this process: Penstock, hudi-rs (streaming and eager), pyarrow's Parquet reader.

Each takes a question and returns an iterator of batches.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

import penstock
from bench.compared import hudi_rs_crate

BARE_BATCH_ROWS = 32768


def read_penstock(path: str, columns: list[str], options: Mapping[str, str]) -> Iterable[pa.RecordBatch]:
    """`penstock.read` with default settings."""
    return penstock.read(path, columns=columns, **options)


def _hudi_options(columns: list[str], options: Mapping[str, str]) -> HudiReadOptions:
    read_options = HudiReadOptions(projection=columns or None)
    if options.get("query") == "incremental":
        read_options = read_options.with_query_type(HudiQueryType.Incremental)
        read_options = read_options.with_start_timestamp(options["after"])
        if "upto" in options:
            read_options = read_options.with_end_timestamp(options["upto"])
    return read_options


def read_hudi_rs_stream(path: str, columns: list[str], options: Mapping[str, str]) -> Iterable[pa.RecordBatch]:
    """hudi-rs, batch by batch. Its stream supports no incremental query."""
    return HudiTableBuilder.from_base_uri(path).build().read_stream(_hudi_options(columns, options))


def read_hudi_rs_crate(path: str, columns: list[str], options: Mapping[str, str]) -> Iterable[pa.RecordBatch]:
    """hudi-rs's newest crate, batch by batch."""
    assert not options, "only snapshots are read"
    return hudi_rs_crate.read_stream(path, columns)


def read_hudi_rs(path: str, columns: list[str], options: Mapping[str, str]) -> Iterable[pa.RecordBatch]:
    """hudi-rs, all batches at once."""
    return HudiTableBuilder.from_base_uri(path).build().read(_hudi_options(columns, options))


def read_pyarrow(path: str, columns: list[str], options: Mapping[str, str]) -> Iterable[pa.RecordBatch]:
    """The base files without a merge: correct for a table without logs, a lower bound of the cost for others. Memory
    settings equal Penstock's: no row group is read ahead."""
    for file in sorted(pathlib.Path(path).glob("*.parquet")):
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20) as opened:
            yield from opened.iter_batches(BARE_BATCH_ROWS, columns=columns or None, use_threads=False)


READERS: dict[str, Callable[[str, list[str], Mapping[str, str]], Iterable[pa.RecordBatch]]] = {
    "penstock": read_penstock,
    "hudi-rs stream": read_hudi_rs_stream,
    "hudi-rs crate": read_hudi_rs_crate,
    "hudi-rs": read_hudi_rs,
    "pyarrow": read_pyarrow,
}


def as_batch(batch: Any) -> pa.RecordBatch:
    """Converts a batch of any Arrow implementation to pyarrow."""
    return batch if isinstance(batch, pa.RecordBatch) else pa.record_batch(batch)
