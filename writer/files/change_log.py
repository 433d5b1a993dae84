"""A log of changes beside a base file that replaces an older one: one Avro record for each key that changed.

Source: Hudi `HoodieCDCLogger`, `HoodieCDCDataBlock`. A file has at least one block, which may be empty: without a log
of changes readers take a rewritten base file for damage.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.table.config.change_logging import ChangeLogging
from penstock.table.log.avro_columns import Column, constant
from penstock.table.log.block_encoder import INSTANT_TIME, SCHEMA, encode_block
from penstock.table.log.blocks import BlockKind
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import AvroField, RecordSchema, RecordType, parse_record_schema
from penstock.table.schema.logged_changes import logged_changes_json
from penstock.writer.avro.encoder import branch_column, present_columns, record_columns, sized_records, text_columns

INSERT: Final = ord("i")
UPDATE: Final = ord("u")
DELETE: Final = ord("d")

_BLOCK_BYTES: Final = 64 << 20
"""Bytes of records that end a block. Hudi closes one at 256 MB."""
_AVRO_VERSION: Final = 3


class ChangeLogWriter:
    """Writes the blocks of one log of changes. Memory: one block."""

    def __init__(self, sink: BinaryIO, instant: str, mode: ChangeLogging, data: RecordSchema) -> None:
        """instant: of the write. data: the Avro schema of the rows, without meta columns."""
        self._sink = sink
        self._instant = instant
        text = logged_changes_json(mode, data.json_text)
        self._headers = {INSTANT_TIME: instant, SCHEMA: text}
        self._fields = parse_record_schema(text, "schema of logged changes").fields
        self._columns = arrow_schema(data)
        self._held: list[bytes] = []
        self._held_bytes = self._held_rows = 0
        self._blocks = 0

    def write(self, kinds: np.ndarray, keys: pa.Array, before: pa.RecordBatch, after: pa.RecordBatch) -> None:
        """Adds changes.

        kinds: uint8 of INSERT, UPDATE and DELETE. keys: record keys. before, after: the old rows of updates and deletes
        and the new rows of inserts and updates, in the order of the changes, with the data columns by name.
        """
        if not len(kinds):
            return
        columns = [column for field in self._fields for column in self._encoded(field, kinds, keys, before, after)]
        content = sized_records(columns, len(kinds))
        self._held.append(content)
        self._held_bytes += len(content)
        self._held_rows += len(kinds)
        if self._held_bytes >= _BLOCK_BYTES:
            self._flush()

    def close(self) -> None:
        """Writes the changes that are left, or an empty block if there are none at all."""
        if self._held_rows or not self._blocks:
            self._flush()

    def _flush(self) -> None:
        content = b"".join([struct.pack(">ii", _AVRO_VERSION, self._held_rows), *self._held])
        self._held, self._held_bytes, self._held_rows = [], 0, 0
        self._sink.write(encode_block(BlockKind.CDC_DATA, self._headers, content))
        self._blocks += 1

    def _encoded(
        self, field: AvroField, kinds: np.ndarray, keys: pa.Array, before: pa.RecordBatch, after: pa.RecordBatch
    ) -> Sequence[Column]:
        """The encoded columns of one field of the changes."""
        rows, branch = len(kinds), 2 * (1 - field.null_branch)
        match field.name:
            case "op":
                letters = np.stack([np.full(rows, branch, np.uint8), np.full(rows, 2, np.uint8), kinds], axis=1)
                return [(np.full(rows, 3, np.int64), letters.reshape(-1))]
            case "record_key":
                return [constant(bytes([branch]), rows), *text_columns(keys)]
            case "ts_ms":
                text = self._instant.encode()
                return [constant(bytes([branch, 2 * len(text)]) + text, rows)]
            case "before":
                return self._images(field, before, kinds != INSERT)
            case "after":
                return self._images(field, after, kinds != DELETE)
        raise InvariantViolation(f"field {field.name} in the schema of logged changes")

    def _images(self, field: AvroField, rows: pa.RecordBatch, present: np.ndarray) -> Sequence[Column]:
        if not isinstance(field.type, RecordType):
            raise InvariantViolation(f"images of type {field.type} in the schema of logged changes")
        own = rows.select(self._columns.names)
        stored = own if own.schema.types == self._columns.types else own.cast(self._columns)
        columns = record_columns(field.type.fields, stored.columns)
        return [branch_column(present, field.null_branch), *present_columns(columns, present)]
