"""A new base file: Parquet with Hudi's footer.

Source: Hudi `HoodieBloomFilterWriteSupport`, `HoodieAvroWriteSupport`: the bloom filter and the lowest and highest key,
which bloom indexes of later writers need, and the Avro schema with meta columns. `parquet_file` has the codec and the
encodings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.table.parquet.bloom_filter import BloomFilter
from penstock.table.parquet.key_range import MAX_KEY, MIN_KEY, key_range
from penstock.table.schema.avro import META_COLUMNS
from penstock.writer.files.parquet_file import AVRO_SCHEMA, parquet_writer
from penstock.writer.kernels.bloom import set_key_bits

RECORD_KEY: Final = META_COLUMNS[2]
_ROW_GROUP_BYTES: Final = 96 << 20
"""Bytes of Arrow memory that make a row group. Hudi closes one at 120 MB of encoded columns."""


def write_base_file(
    sink: BinaryIO, rows: Iterable[pa.RecordBatch], schema: pa.Schema, avro_json: str, expected_rows: int
) -> tuple[int, int]:
    """Writes a base file with these rows; its size in bytes and its rows. Arguments as of `BaseFileWriter`."""
    writer = BaseFileWriter(sink, schema, avro_json, expected_rows)
    for batch in rows:
        writer.write(batch)
    writer.close()
    return sink.tell(), writer.num_rows


class BaseFileWriter:
    """Writes one base file. `close` writes the footer; a file without it is damaged.

    Memory: one row group, and the bloom filter.
    """

    def __init__(self, sink: BinaryIO, schema: pa.Schema, avro_json: str, expected_rows: int) -> None:
        """schema: with the meta columns. avro_json: its Avro schema. expected_rows: sizes the bloom filter."""
        self._sink = sink
        self._writer: pq.ParquetWriter | None = None
        self._schema, self._avro_json = schema, avro_json
        self._bloom = BloomFilter.for_keys(max(1, expected_rows))
        self._lowest: str | None = None
        self._highest: str | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self.num_rows = 0
        """The rows written so far."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows with the columns of the file."""
        step = max(1, rows.num_rows * _ROW_GROUP_BYTES // max(1, rows.nbytes))
        for begin in range(0, rows.num_rows, step):
            self._add(rows.slice(begin, step))

    def _add(self, rows: pa.RecordBatch) -> None:
        keys = rows.column(RECORD_KEY)
        self._bloom.add(keys, set_key_bits)
        lowest, highest = key_range(keys)
        known = [text for text in (self._lowest, self._highest) if text is not None]
        self._lowest, self._highest = key_range(pa.array([*known, lowest, highest]))
        self.num_rows += rows.num_rows
        self._held.append(rows.cast(self._schema) if rows.schema != self._schema else rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Writes the remaining rows and the footer."""
        writer = self._flush()
        writer.add_key_value_metadata(self._footer())
        writer.close()

    def _flush(self) -> pq.ParquetWriter:
        """Writes the held rows as a row group. The first one determines the encodings."""
        table = pa.Table.from_batches(self._held, self._schema)
        if self._writer is None:
            self._writer = parquet_writer(self._sink, table)
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._held, self._held_bytes = [], 0
        return self._writer

    def _footer(self) -> Mapping[str, str]:
        footer = {AVRO_SCHEMA: self._avro_json, "writer.model.name": "avro", **self._bloom.footer()}
        if self._lowest is not None and self._highest is not None:
            footer |= {MIN_KEY: self._lowest, MAX_KEY: self._highest}
        return footer
