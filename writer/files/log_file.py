"""A new log file: one block with the upserted rows as Parquet or Avro, one with the deletes.

Source: Hudi `HoodieLogFormatWriter`, `HoodieParquetDataBlock`, `HoodieAvroDataBlock`, `HoodieDeleteBlock`. The file is
written whole; a log is never appended to.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.table.log.block_encoder import INSTANT_TIME, SCHEMA, delete_block_content, encode_block
from penstock.table.log.blocks import BlockKind
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import META_COLUMNS, RecordSchema
from penstock.writer.avro.encoder import record_columns, sized_records
from penstock.writer.files.parquet_file import AVRO_SCHEMA, parquet_writer

_AVRO_VERSION: Final = 3
"""Hudi `HoodieLogBlock.version` of a data block."""
_BLOCK_BYTES: Final = 128 << 20
"""Bytes of Arrow memory in a data block. Hudi closes a block at 256 MB."""
_WITH_STATISTICS: Final = (META_COLUMNS[0], META_COLUMNS[3], META_COLUMNS[4])
"""The columns of a block that have statistics: texts with one value, which readers then do not decode. No reader
excludes rows of a log by statistics, and those of all columns are a quarter of a block of 25 rows."""


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
    record: RecordSchema,
    rows: Iterable[pa.RecordBatch],
    deletes: Iterable[LogDeletes],
    *,
    in_avro: bool = False,
) -> Iterator[bytes]:
    """The blocks of a log file in order: data first, deletes last.

    rows: with the meta columns. record: their schema. in_avro: whether the rows are Avro records, not Parquet: without
    compression, ten times as large.
    """
    headers = {INSTANT_TIME: instant, SCHEMA: record.json_text}
    for part in _blocks(rows):
        if in_avro:
            yield encode_block(BlockKind.AVRO_DATA, headers, _avro(part, record))
        else:
            yield encode_block(BlockKind.PARQUET_DATA, headers, _parquet(part, record.json_text))
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


def _avro(rows: Sequence[pa.RecordBatch], record: RecordSchema) -> bytes:
    """The content of an Avro block; the columns of the rows are those of the schema."""
    columns = arrow_schema(record)
    parts = [struct.pack(">ii", _AVRO_VERSION, sum(batch.num_rows for batch in rows))]
    for batch in rows:
        stored = batch.select(columns.names).cast(columns)
        parts.append(sized_records(record_columns(record.fields, stored.columns), batch.num_rows))
    return b"".join(parts)


def _parquet(rows: Sequence[pa.RecordBatch], avro_json: str) -> bytes:
    table = pa.Table.from_batches(rows)
    sink = pa.BufferOutputStream()
    writer = parquet_writer(sink, table, _WITH_STATISTICS)
    writer.write_table(table)
    writer.add_key_value_metadata({AVRO_SCHEMA: avro_json})
    writer.close()
    data: bytes = sink.getvalue().to_pybytes()
    return data
