"""A new log file: one block with the upserted rows as Parquet, one with the deletes.

Source: Hudi `HoodieLogFormatWriter`, `HoodieParquetDataBlock`, `HoodieDeleteBlock`. The file is written whole; a log is
never appended to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.table.log.block_encoder import INSTANT_TIME, SCHEMA, delete_block_content, encode_block
from penstock.table.log.blocks import BlockKind
from penstock.writer.files.parquet_file import AVRO_SCHEMA, parquet_writer

_BLOCK_BYTES: Final = 128 << 20
"""Bytes of Arrow memory in a data block. Hudi closes a block at 256 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class LogDeletes:
    """The deletes of a log file."""

    keys: pa.Array
    """Record keys."""
    ordering: Sequence[pa.Array] = ()
    """Their ordering values; () for deletes that always win."""


def log_blocks(
    instant: str,
    partition: str,
    avro_json: str,
    rows: Iterable[pa.RecordBatch],
    deletes: Iterable[LogDeletes],
) -> Iterator[bytes]:
    """The blocks of a log file in order: data first, deletes last.

    rows: with the meta columns. avro_json: their Avro schema.
    """
    headers = {INSTANT_TIME: instant, SCHEMA: avro_json}
    for part in _blocks(rows):
        yield encode_block(BlockKind.PARQUET_DATA, headers, _parquet(part, avro_json))
    for some in deletes:
        if len(some.keys):
            yield encode_block(BlockKind.DELETE, headers, delete_block_content(some.keys, partition, some.ordering))


def _blocks(rows: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    held: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in rows:
        if held and size_bytes + batch.nbytes > _BLOCK_BYTES:
            yield held
            held, size_bytes = [], 0
        if batch.num_rows:
            held.append(batch)
            size_bytes += batch.nbytes
    if held:
        yield held


def _parquet(rows: Sequence[pa.RecordBatch], avro_json: str) -> bytes:
    table = pa.Table.from_batches(rows)
    sink = pa.BufferOutputStream()
    writer = parquet_writer(sink, table)
    writer.write_table(table)
    writer.add_key_value_metadata({AVRO_SCHEMA: avro_json})
    writer.close()
    data: bytes = sink.getvalue().to_pybytes()
    return data
