"""Decodes the content of a DELETE block: keys, and ordering values as the type of the ordering column. Pure.

Source: Hudi `HoodieDeleteBlock`, `DeleteRecord`. The reader merges the deletes with records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, SchemaMismatch
from penstock.proto.value_classes import dataclass
from penstock.table.arrow_arrays import arrow_array
from penstock.table.arrow_compute import pc
from penstock.table.log.blocks import BlockPlace
from penstock.table.log.delete_list import (
    ARRAY,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    FINE,
    FLOAT,
    INT,
    LONG,
    NULL,
    NULL_KEY,
    OVERRUN,
    STRING,
    TIME_MICROS,
    TIMESTAMP_MICROS,
    DeleteListDecoder,
    decode_delete_list,
)
from penstock.table.log.kryo_deletes import decode_kryo
from penstock.table.schema.decimals import decimals_from_bytes

_SMALLEST_RECORD: Final = 4
_WRAPPER_SCALE: Final = 15
_ADVICE: Final = "the file is damaged or incomplete: restore it from a copy, or roll the instant back in Hudi"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """The records of a delete block, in its order, as arrays of one length."""

    place: BlockPlace
    """The block, for errors."""
    keys: pa.StringArray
    """Record keys, never null."""
    kinds: np.ndarray
    """int8: wrapper branch of the ordering value (`delete_list.NULL` ... `TIMESTAMP_MICROS`)."""
    numbers: np.ndarray
    """int64: ordering value of the integer kinds, bits of FLOAT and DOUBLE, number of values of ARRAY."""
    texts: pa.BinaryArray
    """Ordering value of BYTES, STRING and DECIMAL (scale 15, big-endian)."""
    items: OrderingItems | None = None
    """The values of the ARRAY records in their order; None without such records."""

    def __len__(self) -> int:
        return len(self.kinds)

    def ordering_tuples(self, column_types: Sequence[pa.DataType]) -> tuple[list[pa.Array], np.ndarray]:
        """(values of each column, default): as `ordering_as`, for a table with several ordering columns.

        A delete is a default delete unless it has, for each column, a value of the column's class or null.
        """
        counts = np.where(self.kinds == ARRAY, self.numbers, 0)
        default = counts != len(column_types)
        rows = np.flatnonzero(~default)
        columns: list[pa.Array] = []
        if self.items is None or not len(rows):
            return [pa.nulls(len(self), kind) for kind in column_types], np.ones(len(self), bool)
        first = (np.cumsum(counts) - counts)[rows]
        for place, kind in enumerate(column_types):
            values, other_class = self.items.of(first + place, self.place).values_as(kind)
            default[rows[other_class]] = True
            spread = np.full(len(self), -1)
            spread[rows] = np.arange(len(rows))
            columns.append(values.take(arrow_array(spread, mask=spread < 0)))
        return columns, default

    def values_as(self, column_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
        """(values, whether the value is of another class than the column's). A null is of the column's class."""
        kind = _kind_of(column_type)
        if kind is None:
            raise SchemaMismatch(f"{self.place}: deletes ordered by a column of type {column_type}, which has no order")
        absent = self._other_class(kind)
        validity = pa.py_buffer(np.packbits(~absent, bitorder="little"))
        return self._values(kind, column_type, validity, absent), absent & (self.kinds != NULL)

    def _other_class(self, kind: int) -> np.ndarray:
        other: np.ndarray = self.kinds != kind
        if kind == TIMESTAMP_MICROS:  # Spark writers store timestamps as plain longs, in microseconds
            other &= self.kinds != LONG
        return other

    def ordering_as(self, column_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
        """(values, default): the ordering values as the ordering column's Arrow type, null where `default` is True.

        `default` (bool[rows]) marks deletes that always win. They have no value, IntWrapper 0 (which Hudi writes for a
        plain delete operation, for any column), or a value of another class than the column's. SchemaMismatch for a
        column type without a wrapper, CorruptBlock for a decimal that is not exact at the column's scale.
        """
        kind = _kind_of(column_type)
        if kind is None:
            raise SchemaMismatch(f"{self.place}: deletes ordered by a column of type {column_type}, which has no order")
        default = self._other_class(kind)
        if kind == INT:
            default |= self.numbers == 0
        validity = pa.py_buffer(np.packbits(~default, bitorder="little"))
        return self._values(kind, column_type, validity, default), default

    def _values(self, kind: int, column_type: pa.DataType, validity: pa.Buffer, default: np.ndarray) -> pa.Array:
        rows = len(self)
        if kind in (BYTES, STRING):
            array = pa.Array.from_buffers(column_type, rows, [validity, *self.texts.buffers()[1:]])
            return _checked(array, self.place)
        if kind == DECIMAL:
            return self._decimals(column_type, default)
        numbers = np.where(default, 0, self.numbers)
        if kind == BOOLEAN:
            return pa.Array.from_buffers(
                column_type, rows, [validity, pa.py_buffer(np.packbits(numbers != 0, bitorder="little"))]
            )
        if column_type.bit_width == 32:
            numbers = numbers.astype(np.uint32 if kind == FLOAT else np.int32)
        return pa.Array.from_buffers(column_type, rows, [validity, pa.py_buffer(np.ascontiguousarray(numbers))])

    def _decimals(self, column_type: pa.DataType, default: np.ndarray) -> pa.Array:
        content = pc.if_else(arrow_array(default), pa.scalar(None, pa.binary()), self.texts)
        try:
            wide = decimals_from_bytes(content, pa.decimal128(38, _WRAPPER_SCALE))
        except ValueError as error:
            raise CorruptBlock(f"{self.place}: decimal ordering value: {error}; {_ADVICE}") from None
        try:
            return wide.cast(column_type)
        except pa.ArrowInvalid:
            raise CorruptBlock(
                f"{self.place}: a delete's decimal ordering value is not exact as {column_type}, the type of the "
                f"table's column; {_ADVICE}"
            ) from None


@dataclass(frozen=True, slots=True)
class OrderingItems:
    """Single ordering values, in the form of `DeleteRecords`."""

    kinds: np.ndarray
    """Wrapper branches."""
    numbers: np.ndarray
    """Values of integer kinds."""
    texts: pa.BinaryArray
    """Values of BYTES, STRING and DECIMAL."""

    def of(self, rows: np.ndarray, place: BlockPlace) -> DeleteRecords:
        """The values of these rows, each as the only value of a delete without a key."""
        return DeleteRecords(
            place=place,
            keys=pa.nulls(len(rows), pa.string()),
            kinds=self.kinds[rows],
            numbers=self.numbers[rows],
            texts=self.texts.take(arrow_array(rows)),
        )


def decode_deletes(
    content: memoryview | pa.Buffer | bytes, place: BlockPlace, decode_list: DeleteListDecoder = decode_delete_list
) -> DeleteRecords:
    """Decodes a block's content: int32 version, int32 length, and that many bytes of Avro `HoodieDeleteRecordList`.

    `decode_list` decodes the records; `reader.kernels.deletes.decode_delete_list` is the compiled decoder. CorruptBlock
    for content of another form, a null key, or text that is not UTF-8. Versions 1 and 2 are Kryo's, from table versions
    5 and older: errors as `kryo_deletes.decode_kryo`.
    """
    view = memoryview(content).cast("B")
    if len(view) < 8:
        raise CorruptBlock(f"{place}: delete block of {len(view)} bytes, expected version and length; {_ADVICE}")
    version, length = (int.from_bytes(view[at : at + 4], "big", signed=True) for at in (0, 4))
    if length != len(view) - 8:
        raise CorruptBlock(f"{place}: deletes of {length} bytes where {len(view) - 8} follow; {_ADVICE}")
    if version in (1, 2):
        return _of_kryo(bytes(view[8:]), place)
    if version != 3:
        raise CorruptBlock(f"{place}: delete block version {version}, expected 1 to 3; {_ADVICE}")
    return _avro_deletes(view[8:], place, decode_list)


def _of_kryo(content: bytes, place: BlockPlace) -> DeleteRecords:
    deletes = decode_kryo(content, str(place), _ADVICE)
    return DeleteRecords(
        place=place,
        keys=arrow_array(deletes.keys, pa.string()),
        kinds=np.array([kind for kind, _, _ in deletes.values], np.int8),
        numbers=np.array([number for _, number, _ in deletes.values], np.int64),
        texts=arrow_array([text for _, _, text in deletes.values], pa.binary()),
    )


def _avro_deletes(view: memoryview, place: BlockPlace, decode_list: DeleteListDecoder) -> DeleteRecords:
    size, most = len(view), len(view) // _SMALLEST_RECORD
    data = np.zeros(size + OVERRUN, np.uint8)
    data[:size] = view
    data.flags.writeable = False
    kinds, numbers = np.zeros(most, np.int8), np.zeros(most, np.int64)
    key_offsets, text_offsets = np.zeros(most + 1, np.int32), np.zeros(most + 1, np.int32)
    keys, texts = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    item_kinds, item_numbers = np.zeros(size + 1, np.int8), np.zeros(size + 1, np.int64)
    item_offsets, item_texts = np.zeros(size + 2, np.int32), np.zeros(size, np.uint8)
    items = item_kinds, item_numbers, item_offsets, item_texts
    rows, problem = decode_list(data, 0, size, kinds, numbers, key_offsets, keys, text_offsets, texts, *items)
    if problem == NULL_KEY:
        raise CorruptBlock(f"{place}: delete record {rows} has no key; {_ADVICE}")
    if problem != FINE:
        raise CorruptBlock(f"{place}: delete record {rows} does not fit its schema; {_ADVICE}")
    several = kinds[:rows] == ARRAY
    item_count = int(numbers[:rows][several].sum()) if several.any() else 0
    return DeleteRecords(
        place=place,
        keys=_checked(_text_array(pa.string(), key_offsets, keys, rows), place),
        kinds=kinds[:rows],
        numbers=numbers[:rows],
        texts=_text_array(pa.binary(), text_offsets, texts, rows),
        items=OrderingItems(
            item_kinds[:item_count],
            item_numbers[:item_count],
            _text_array(pa.binary(), item_offsets, item_texts, item_count),
        )
        if item_count
        else None,
    )


def _text_array(target: pa.DataType, offsets: np.ndarray, content: np.ndarray, rows: int) -> pa.Array:
    used = content[: offsets[rows]].tobytes()
    return pa.Array.from_buffers(target, rows, [None, pa.py_buffer(offsets[: rows + 1]), pa.py_buffer(used)])


def _checked(array: pa.Array, place: BlockPlace) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptBlock(f"{place}: deletes: {error}; {_ADVICE}") from None
    return array


def _kind_of(column_type: pa.DataType) -> int | None:
    """The wrapper branch of a column's class; None for a type without one."""
    if pa.types.is_timestamp(column_type):
        return TIMESTAMP_MICROS if column_type.unit == "us" else None
    if pa.types.is_decimal128(column_type):
        return DECIMAL
    return _KINDS.get(column_type)


_KINDS: Final = {
    pa.bool_(): BOOLEAN,
    pa.int32(): INT,
    pa.int64(): LONG,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.binary(): BYTES,
    pa.string(): STRING,
    pa.date32(): DATE,
    pa.time64("us"): TIME_MICROS,
}
