"""Decodes the records of a log's data blocks to the table's columns, for every block format and writer schema.

`block_selection` decides which blocks count; `scanner` uses the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, SchemaMismatch
from penstock.proto.value_classes import dataclass
from penstock.reader.kernels.choice import WHOLE_FILE_BYTES, WHOLE_FILE_COST
from penstock.reader.log.block_selection import CountedBlock
from penstock.reader.log.file_bytes import HELD_BYTES, LogFiles, LogParts
from penstock.reader.log.parquet_block import ParquetBlock
from penstock.reader.split.context import SplitContext
from penstock.reader.split.shared_log import rows_at
from penstock.table.log.blocks import BlockKind
from penstock.table.schema.avro import RecordSchema, parse_record_schema
from penstock.table.schema.history import HistoryField

if TYPE_CHECKING:
    from penstock.reader.avro.decoder import AvroDecoder
    from penstock.reader.log.hfile_block import HFileBlock
    from penstock.table.log.delete_list import DeleteListDecoder

JOINED_BYTES: Final = 1 << 20
"""The most bytes of several blocks, from the first to the last record of each, that are decoded at once."""
_FILES: Final = (BlockKind.PARQUET_DATA, BlockKind.HFILE_DATA)
"""Blocks whose content is a file of its own: a record has a number in it, and no bounds in the log."""


@dataclass(frozen=True, slots=True)
class BlockRecords:
    """Some records of a data block."""

    counted: CountedBlock
    """The block."""
    begin: np.ndarray
    """The beginning of each record (see `BlockDecoder.bounds`)."""
    end: np.ndarray
    """The end of each record."""


class BlockDecoder:
    """Decodes one split's data blocks. Each schema is parsed once, and each decoder is built once."""

    def __init__(self, files: LogFiles, context: SplitContext) -> None:
        self._files, self._scan, self._schema = files, context.scan, context.schema
        self._options, self._compiled = context.options, context.options.by_kernels
        self._shared = context.shared_log
        self._decoders: dict[tuple[int, tuple[str, ...]], AvroDecoder] = {}
        self._last_hfile: tuple[CountedBlock, HFileBlock] | None = None
        self._writers: dict[tuple[str, tuple[HistoryField, ...] | None], RecordSchema] = {}

    def bounds(self, counted: CountedBlock) -> tuple[np.ndarray, np.ndarray]:
        """(begin, end) of each record of a data block; for a Parquet or HFile block its number, twice."""
        if self._shared is None:
            return self._bounds(counted)
        return self._shared.bounds((counted.place.file, counted.block.offset), lambda: self._bounds(counted))

    def _bounds(self, counted: CountedBlock) -> tuple[np.ndarray, np.ndarray]:
        if counted.block.kind in _FILES:
            is_parquet = counted.block.kind is BlockKind.PARQUET_DATA
            count = self._parquet(counted).num_rows() if is_parquet else len(self._hfile(counted).keys)
            numbers = np.arange(count, dtype=np.int64)
            return numbers, numbers
        from penstock.reader.avro.decoder import record_bounds  # late, as below: many logs are in Parquet

        block, data = counted.block, self._files.data(counted.log)
        return record_bounds(data, counted.place, block.content_start, block.content_end, compiled=self._compiled)

    def decode(
        self, counted: CountedBlock, columns: tuple[str, ...], begin: np.ndarray, end: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        """These records of a block. Columns that a block of partial updates does not have are null.

        SchemaMismatch for a type change that is not a promotion.
        """
        if self._shared is None:
            return self._decoded(counted, columns, begin, end)
        every = self.bounds(counted)
        block = counted.place.file, counted.block.offset, columns
        records = self._shared.records(block, lambda: self._decoded(counted, columns, *every))
        if records is None:
            return self._decoded(counted, columns, begin, end)
        return rows_at(records, np.searchsorted(every[0], begin))

    def _decoded(
        self, counted: CountedBlock, columns: tuple[str, ...], begin: np.ndarray, end: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        if counted.block.kind is BlockKind.PARQUET_DATA:
            yield from self._parquet(counted).decode(columns, begin)
            return
        if counted.block.kind is BlockKind.HFILE_DATA:
            from penstock.reader.log.hfile_block import emptied_column

            block, numbers, header = self._hfile(counted), begin, counted.block.header
            batches = self._avro(counted, columns, block.records, block.begins[numbers], block.ends[numbers])
            names = self._schema.file_names(header.instant_time, str(counted.place))
            emptied = emptied_column(header.schema_json, str(counted.place), names)
            yield from block.with_keys(batches, numbers, emptied) if emptied in columns else batches
            return
        yield from self._avro(counted, columns, self._files.parts(counted.log), begin, end)

    def _avro(
        self,
        counted: CountedBlock,
        columns: tuple[str, ...],
        data: LogParts | np.ndarray,
        begin: np.ndarray,
        end: np.ndarray,
    ) -> Iterator[pa.RecordBatch]:
        if not counted.block.header.is_partial:
            yield from self._decoder(counted, columns).decode(data, begin, end, counted.place)
            return
        written = self._with_key(counted)
        schema = pa.schema([self._schema.table.field(name) for name in columns])
        present = tuple(name for name in columns if name in written) or self._schema.key_fields
        for batch in self._decoder(counted, present).decode(data, begin, end, counted.place):
            arrays = [
                batch.column(field.name) if field.name in written else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def decode_all(
        self, blocks: Sequence[BlockRecords], columns: tuple[str, ...]
    ) -> Iterator[tuple[CountedBlock, pa.RecordBatch]]:
        """The records of these blocks, in order, each batch with a block that its records are of or that has the same
        writer schema: small Avro blocks of one writer schema are decoded at once. Errors as for `decode`."""
        for run in self._runs(blocks):
            batches = self._joined(run, columns) if len(run) > 1 else self._one(run[0], columns)
            for batch in batches:
                yield run[0].counted, batch

    def _one(self, block: BlockRecords, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        return self.decode(block.counted, columns, block.begin, block.end)

    def _runs(self, blocks: Sequence[BlockRecords]) -> Iterator[list[BlockRecords]]:
        """The blocks in order, those together that can be decoded at once."""
        run: list[BlockRecords] = []
        run_bytes, run_writer = 0, None
        for block in blocks:
            header, kind = block.counted.block.header, block.counted.block.kind
            is_alone = self._shared is not None or kind in _FILES or header.is_partial
            writer = None if is_alone else self.writer(block.counted)
            size = int(block.end.max() - block.begin.min()) if len(block.begin) else 0
            if run and (writer is None or writer is not run_writer or run_bytes + size > JOINED_BYTES):
                yield run
                run, run_bytes = [], 0
            run.append(block)
            run_bytes, run_writer = run_bytes + size, writer
        if run:
            yield run

    def _joined(self, run: Sequence[BlockRecords], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        pieces: list[np.ndarray] = []
        begins, ends, size = [], [], 0
        for block in run:
            if not len(block.begin):
                continue
            low, high = int(block.begin.min()), int(block.end.max())
            data, at = self._files.parts(block.counted.log).part(low, high)
            pieces.append(np.frombuffer(data, np.uint8)[low - at : high - at].copy())  # does not keep the whole file
            begins.append(block.begin + (size - low))
            ends.append(block.end + (size - low))
            size += high - low
        if not pieces:
            return
        counted = run[0].counted
        try:
            yield from self._decoder(counted, columns).decode(
                np.concatenate(pieces), np.concatenate(begins), np.concatenate(ends), counted.place
            )
        except (CorruptBlock, SchemaMismatch):
            for block in run:  # the error names the block and the record in it
                for _ in self._one(block, columns):
                    pass
            raise

    def written(self, counted: CountedBlock) -> set[str]:
        """The table's columns that a block's records have."""
        return set(self.writer(counted).by_name())

    def writer(self, counted: CountedBlock) -> RecordSchema:
        """The schema that the block's records were written with, with the table's column names."""
        schema_json = counted.block.header.schema_json
        names = self._schema.file_names(counted.block.header.instant_time, str(counted.place))
        own = None if names is None else names.own
        known = self._writers.get((schema_json, own))
        if known is None:
            known = parse_record_schema(schema_json, str(counted.place))
            if names is not None:
                known = replace(known, fields=tuple(names.in_table(field) for field in known.fields))
            self._writers[schema_json, own] = known
        return known

    def _with_key(self, counted: CountedBlock) -> set[str]:
        """The columns of a block of partial updates. A key that is made of columns needs all of them."""
        written = self.written(counted)
        key_columns = self._schema.key_fields if self._scan.key_fields else ()
        missing = [name for name in key_columns if name not in written]
        if missing:
            raise CorruptBlock(
                f"{counted.place}: a block of partial updates without key column {', '.join(missing)} in a table that "
                "stores no keys: its records have no key, and Hudi writes no such block; roll the instant back in Hudi"
            )
        return written

    def _hfile(self, counted: CountedBlock) -> HFileBlock:
        from penstock.reader.log.hfile_block import HFileBlock  # late: few logs have such blocks

        if self._last_hfile is not None and self._last_hfile[0] is counted:
            return self._last_hfile[1]
        block = HFileBlock.read(self._content(counted), counted.place)
        self._last_hfile = (counted, block) if block.size_bytes <= HELD_BYTES else None
        return block

    def _content(self, counted: CountedBlock) -> pa.Buffer:
        block = counted.block
        return self._files.data(counted.log).slice(block.content_start, block.content_end - block.content_start)

    def _parquet(self, counted: CountedBlock) -> ParquetBlock:
        block, content = counted.block, self._content(counted)
        names = self._schema.file_names(block.header.instant_time, str(counted.place))
        compiled = content.size <= WHOLE_FILE_BYTES and self._options.decodes_by_kernels(WHOLE_FILE_COST)
        return ParquetBlock(content, counted.place, self._scan.table, self._schema.record, names, compiled)

    def _decoder(self, counted: CountedBlock, columns: tuple[str, ...]) -> AvroDecoder:
        writer = self.writer(counted)
        known = self._decoders.get((id(writer), columns))
        if known is None:
            from penstock.reader.avro.decoder import AvroDecoder

            known = AvroDecoder(writer, columns, self._schema.record, compiled=self._compiled, where=str(counted.place))
            self._decoders[id(writer), columns] = known
        return known


def compiled_decoder() -> DeleteListDecoder:
    """The decoder of delete lists that imports the kernels."""
    from penstock.reader.kernels.deletes import decode_delete_list

    decoder: DeleteListDecoder = decode_delete_list
    return decoder
