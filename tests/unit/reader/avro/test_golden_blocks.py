"""Every Avro data block of the golden tables: kernel and fallback read the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.reader.avro.decoder import AvroDecoder, record_bounds
from penstock.table.log.blocks import BlockKind, BlockPlace, LogBlock, read_blocks
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema, parse_record_schema

pytestmark = pytest.mark.golden


def avro_blocks(table: Path) -> Iterator[tuple[bytes, LogBlock, BlockPlace]]:
    for file in sorted(table.rglob(".*.log.*")):
        if file.suffix == ".crc" or ".hoodie" in file.relative_to(table).parts:
            continue
        data = file.read_bytes()
        for item in read_blocks(memoryview(data), file.name):
            if isinstance(item, LogBlock) and item.kind in (BlockKind.AVRO_DATA, BlockKind.CDC_DATA):
                yield data, item, BlockPlace(table.name, file.name, item.offset, item.header.instant_time)


def rows(decoder: AvroDecoder, data: bytes, block: LogBlock, place: BlockPlace) -> pa.Table:
    begin, end = record_bounds(data, place, block.content_start, block.content_end)
    return pa.Table.from_batches(list(decoder.decode(data, begin, end, place)), decoder.schema)


def content(table: pa.Table) -> tuple[pa.Schema, str]:
    """Types and values, where NaN is equal to NaN, and 0.0 is not -0.0."""
    return table.schema, str(table.to_pylist())


def test_kernel_and_fallback_read_every_block_alike(golden: Any) -> None:
    decoders: dict[str, tuple[RecordSchema, AvroDecoder, AvroDecoder]] = {}
    blocks = nested = 0
    for case in golden.names():
        for data, block, place in avro_blocks(golden.table(case)):
            text = block.header.schema_json
            if text not in decoders:
                schema = parse_record_schema(text)
                names = [field.name for field in schema.fields]
                fast, slow = (AvroDecoder(schema, names, schema, compiled=kernel) for kernel in (True, False))
                decoders[text] = schema, fast, slow
            schema, fast, slow = decoders[text]
            rows_read = rows(slow, data, block, place)
            rows_read.validate(full=True)
            assert content(rows(fast, data, block, place)) == content(rows_read), place
            blocks += 1
            nested += any(pa.types.is_nested(field.type) for field in arrow_schema(schema))
            flat = [field.name for field in arrow_schema(schema) if not pa.types.is_nested(field.type)]
            if flat:
                part = AvroDecoder(schema, flat, schema)
                assert content(rows(part, data, block, place)) == content(rows_read.select(flat)), place
    assert blocks > 50 and nested > 0
