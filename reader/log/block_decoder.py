"""The records of a log's data blocks in the table's columns, whatever the block's format, types and names of columns.

Belongs here: which road decodes a block, and by which names and types it was written. Not here: which blocks count
(`log_blocks`), what their records become (`log_records`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock
from penstock.reader.avro.decoder import AvroDecoder, record_bounds
from penstock.reader.log.block_selection import CountedBlock
from penstock.reader.log.file_bytes import LogFiles
from penstock.reader.log.parquet_block import ParquetBlock
from penstock.reader.split.context import SplitContext
from penstock.table.log.blocks import BlockKind
from penstock.table.schema.avro import RecordSchema, parse_record_schema
from penstock.table.schema.history import HistoryField


class BlockDecoder:
    """The decoding of one split's data blocks; schemas and decoders are made once each."""

    def __init__(self, files: LogFiles, context: SplitContext) -> None:
        self._files, self._scan, self._schema = files, context.scan, context.schema
        self._compiled = context.options.compiled
        self._decoders: dict[tuple[int, tuple[str, ...]], AvroDecoder] = {}
        self._writers: dict[tuple[str, tuple[HistoryField, ...] | None], RecordSchema] = {}

    def bounds(self, found: CountedBlock) -> tuple[np.ndarray, np.ndarray]:
        """Where each record of a data block is; of a Parquet block its number, twice."""
        if found.block.kind is BlockKind.PARQUET_DATA:
            numbers = np.arange(self._parquet(found).num_rows(), dtype=np.int64)
            return numbers, numbers
        block, data = found.block, self._files.data(found.log)
        return record_bounds(data, found.place, block.content_start, block.content_end, compiled=self._compiled)

    def decode(
        self, found: CountedBlock, columns: tuple[str, ...], begin: np.ndarray, end: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        """These records of a block; columns that a block of partial updates does not have are null.

        SchemaMismatch for a type change that is no promotion.
        """
        if found.block.kind is BlockKind.PARQUET_DATA:
            yield from self._parquet(found).decode(columns, begin)
            return
        data = self._files.parts(found.log)
        if not found.block.header.is_partial:
            yield from self._decoder(found, columns).decode(data, begin, end, found.place)
            return
        written = self._with_key(found)
        schema = pa.schema([self._schema.table.field(name) for name in columns])
        present = tuple(name for name in columns if name in written) or self._schema.key_fields
        for batch in self._decoder(found, present).decode(data, begin, end, found.place):
            arrays = [
                batch.column(field.name) if field.name in written else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def written(self, found: CountedBlock) -> set[str]:
        """The table's columns that a block's records have."""
        return set(self.writer(found).by_name())

    def writer(self, found: CountedBlock) -> RecordSchema:
        """The schema that the block's records were written with, columns called as the table calls them."""
        schema_json = found.block.header.schema_json
        names = self._schema.file_names(found.block.header.instant_time, str(found.place))
        own = None if names is None else names.own
        known = self._writers.get((schema_json, own))
        if known is None:
            known = parse_record_schema(schema_json, str(found.place))
            if names is not None:
                known = replace(known, fields=tuple(names.in_table(field) for field in known.fields))
            self._writers[schema_json, own] = known
        return known

    def _with_key(self, found: CountedBlock) -> set[str]:
        """The columns of a block of partial updates: a key made of columns needs all of them."""
        written = self.written(found)
        made = self._schema.key_fields if self._scan.key_fields else ()
        lacking = [name for name in made if name not in written]
        if lacking:
            raise CorruptBlock(
                f"{found.place}: a block of partial updates without key column {', '.join(lacking)} in a table that "
                "stores no keys: its records have none, and Hudi writes no such block; roll the instant back in Hudi"
            )
        return written

    def _parquet(self, found: CountedBlock) -> ParquetBlock:
        block = found.block
        content = self._files.data(found.log).slice(block.content_start, block.content_end - block.content_start)
        names = self._schema.file_names(block.header.instant_time, str(found.place))
        return ParquetBlock(
            content,
            found.place,
            self._scan.table,
            self._schema.record,
            names=names,
        )

    def _decoder(self, found: CountedBlock, columns: tuple[str, ...]) -> AvroDecoder:
        writer = self.writer(found)
        known = self._decoders.get((id(writer), columns))
        if known is None:
            known = AvroDecoder(writer, columns, self._schema.record, compiled=self._compiled, where=str(found.place))
            self._decoders[id(writer), columns] = known
        return known
