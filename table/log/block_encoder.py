"""Encodes the blocks of a log file, and the content of blocks of deletes. Pure.

Source: Hudi `HoodieLogFormatWriter`, `HoodieDeleteBlock`, `HoodieCommandBlock`. `blocks` and `deletes` decode them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import InvariantViolation, SchemaMismatch
from penstock.table.log.avro_columns import Column, constant, interleaved, little_endian, texts, varints
from penstock.table.log.blocks import MAGIC, BlockKind
from penstock.table.log.delete_list import ARRAY, BOOLEAN, BYTES, DECIMAL, DOUBLE, FLOAT, INT, LONG, STRING
from penstock.table.schema.decimals import decimals_to_bytes

INSTANT_TIME: Final = 0
"""Header: requested time of the instant that writes the block."""
TARGET_INSTANT: Final = 1
"""Header: the instant that a command block refers to."""
SCHEMA: Final = 2
"""Header: Avro schema of the records, with meta columns."""
COMMAND: Final = 3
"""Header: the command of a command block; '0' is a rollback."""

_FORMAT_VERSION: Final = 1
_DELETES_VERSION: Final = 3
_PART_ROWS: Final = 1 << 16
"""Deletes that are encoded together; limits the memory for the places of their bytes."""
_WRAPPER_SCALE: Final = 15
_KINDS: Final = {
    pa.bool_(): BOOLEAN,
    pa.int32(): INT,
    pa.int64(): LONG,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.binary(): BYTES,
    pa.string(): STRING,
}


def encode_block(kind: BlockKind, headers: Mapping[int, str], content: bytes) -> bytes:
    """The bytes of a block without footers: the inverse of `read_blocks`.

    headers: text by Hudi's `HeaderMetadataType`, written in the mapping's order.
    """
    parts = [struct.pack(">iii", _FORMAT_VERSION, kind, len(headers))]
    for ordinal, text in headers.items():
        data = text.encode()
        parts += [struct.pack(">ii", ordinal, len(data)), data]
    parts += [struct.pack(">q", len(content)), content, struct.pack(">i", 0)]
    size = sum(map(len, parts)) + 8
    return b"".join([MAGIC, struct.pack(">q", size), *parts, struct.pack(">q", size + len(MAGIC))])


def rollback_block(rollback_instant: str, failed_instant: str) -> bytes:
    """The only block of a log that rolls an instant back, in tables of version 6."""
    headers = {INSTANT_TIME: rollback_instant, TARGET_INSTANT: failed_instant, COMMAND: "0"}
    return encode_block(BlockKind.COMMAND, headers, b"")


def delete_block_content(
    keys: pa.StringArray, partition: str, ordering: pa.Array | Sequence[pa.Array] | None = None
) -> bytes:
    """The content of a block of deletes of one partition: the inverse of `decode_deletes`.

    keys: record keys. ordering: the ordering value of each delete, or the values of each of several ordering columns;
    None or () for deletes that always win. SchemaMismatch for a type without an order, for dates, which releases of
    Hudi read differently, and as `delete_decimals`; InvariantViolation for nulls.
    """
    columns: list[pa.Array] = [ordering] if isinstance(ordering, pa.Array) else list(ordering or ())
    arrays: list[pa.Array] = [keys, *columns]
    if any(array.null_count or len(array) != len(keys) for array in arrays):
        raise InvariantViolation("delete block: got a null, or arrays of different lengths")
    payload = b"".join(_records(keys, partition, columns))
    return struct.pack(">ii", _DELETES_VERSION, len(payload)) + payload


def delete_decimals(column: pa.Decimal128Array) -> pa.Decimal128Array:
    """Decimals as blocks of deletes hold them. SchemaMismatch for one that would lose digits: Hudi cannot write it
    either."""
    try:
        return column.cast(pa.decimal128(38, _WRAPPER_SCALE))
    except pa.ArrowInvalid:
        raise SchemaMismatch(
            f"deletes hold decimals of scale {_WRAPPER_SCALE}, and a value of {column.type} has more digits"
        ) from None


def _records(keys: pa.StringArray, partition: str, columns: Sequence[pa.Array]) -> Iterator[bytes]:
    """The Avro list: its count, the records, and the count 0 that ends it."""
    if len(keys):
        yield _varint(len(keys))
    name = partition.encode()
    prefix = b"\x02" + _varint(len(name)) + name
    for start in range(0, len(keys), _PART_ROWS):
        part = keys.slice(start, _PART_ROWS)
        rows = len(part)
        lengths, content = texts(part)
        values = [_value(column.slice(start, _PART_ROWS)) for column in columns]
        fields = [constant(b"\x02", rows), varints(lengths), (lengths, content), constant(prefix, rows)]
        if not values:
            fields += [constant(_varint(INT) + _varint(0), rows)]
        elif len(values) == 1:
            fields += values[0]
        else:
            fields += [constant(_varint(ARRAY) + b"\x02" + _varint(len(values)), rows)]
            fields += [field for value in values for field in value]
            fields += [constant(b"\x00", rows)]
        yield interleaved(fields)
    yield b"\x00"


def _value(column: pa.Array) -> list[Column]:
    """The branch of each value's wrapper, and the value."""
    kind, rows = column.type, len(column)
    if pa.types.is_timestamp(kind) and kind.unit == "us":  # as Spark writers do; readers accept both
        return [constant(_varint(LONG), rows), varints(np.asarray(column.view(pa.int64())))]
    if pa.types.is_decimal128(kind):
        lengths, content = texts(decimals_to_bytes(delete_decimals(column)))
        return [constant(_varint(DECIMAL), rows), varints(lengths), (lengths, content)]
    branch = _KINDS.get(kind)
    if branch is None:
        raise SchemaMismatch(
            f"deletes ordered by a column of type {kind}: expected a number, a text, bytes, a boolean or a timestamp "
            "in microseconds; order the table by such a column"
        )
    head = constant(_varint(branch), rows)
    if branch in (BYTES, STRING):
        lengths, content = texts(column)
        return [head, varints(lengths), (lengths, content)]
    if branch in (FLOAT, DOUBLE):
        return [head, little_endian(np.asarray(column))]
    if branch == BOOLEAN:
        return [head, little_endian(np.asarray(column.cast(pa.uint8())))]
    return [head, varints(np.asarray(column))]


def _varint(number: int) -> bytes:
    return varints(np.array([number], np.int64))[1].tobytes()
