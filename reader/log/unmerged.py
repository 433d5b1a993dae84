"""Reads every record of a log, unmerged: the rows of tables that store the kind of each change."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.reader.log.block_decoder import BlockDecoder, compiled_decoder
from penstock.reader.log.counted import counted_blocks
from penstock.reader.log.file_bytes import LogFiles
from penstock.reader.split.context import SplitContext
from penstock.reader.values.record_keys import RECORD_KEY
from penstock.table.log.blocks import BlockKind
from penstock.table.log.delete_list import decode_delete_list
from penstock.table.log.deletes import decode_deletes
from penstock.table.schema.avro import OPERATION


def unmerged_records(context: SplitContext) -> Iterator[pa.RecordBatch]:
    """Every record that counts, in the order of the log, with the columns `schema.stored`.

    Delete markers are ignored. A record of a delete block has its key alone. Errors as for `scanner.read_log`.
    """
    schema = context.schema
    files = LogFiles(context.storage, context.split.logs, context.scan.table)
    try:
        blocks = counted_blocks(files, context)
        decoder = BlockDecoder(files, context)
        stored = pa.schema([schema.table.field(name) for name in schema.stored])
        for counted in blocks:
            if counted.block.kind is not BlockKind.DELETE:
                yield from decoder.decode(counted, schema.stored, *decoder.bounds(counted))
                continue
            content = memoryview(files.data(counted.log))[counted.block.content_start : counted.block.content_end]
            by_kernel = context.options.decodes_by_kernels(len(content))
            decode_list = compiled_decoder() if by_kernel else decode_delete_list
            keys = decode_deletes(content, counted.place, decode_list).keys
            columns = [_of_delete(name, keys, stored) for name in stored.names]
            yield pa.RecordBatch.from_arrays(columns, schema=stored)
    finally:
        files.release()


def _of_delete(name: str, keys: pa.Array, schema: pa.Schema) -> pa.Array:
    if name == RECORD_KEY:
        return keys
    if name == OPERATION:
        return pa.repeat(pa.scalar("D"), len(keys))
    return pa.nulls(len(keys), schema.field(name).type)
