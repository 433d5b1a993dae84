"""An HFile data block of a log (`HoodieHFileDataBlock`): its content is a complete HFile.

The rows of the HFile are record keys, its values are Avro records of the block's SCHEMA. Records are in the order of
their keys. A column `key` is empty in the records, and the row is its value (`HoodieAvroHFileReaderImplBase`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import CorruptBlock, CorruptFile, OutOfMemory
from penstock.proto.value_classes import dataclass
from penstock.table.arrow_arrays import arrow_array
from penstock.table.hfile.reader import HFile
from penstock.table.log.blocks import BlockPlace
from penstock.table.schema.avro import Primitive, parse_record_schema
from penstock.table.schema.history import ColumnMapping

_KEY_COLUMN: Final = "key"
"""The column that the writer empties, because it is the key of a metadata table."""
HELD_BYTES: Final = 1 << 30
"""The most bytes of the records of one block, each with its key and `_ROW_BYTES`."""
_ROW_BYTES: Final = 16
"""The ends of a record and of its key."""


@dataclass(frozen=True, slots=True, eq=False)
class HFileBlock:
    """The records of one block."""

    keys: pa.Array
    """The record key of each record, as text."""
    records: np.ndarray
    """The Avro records, one after the other."""
    ends: np.ndarray
    """The end of each record in `records`. A record begins at the end of the previous record."""

    @classmethod
    def read(cls, content: pa.Buffer, place: BlockPlace) -> HFileBlock:
        """Reads all records. CorruptBlock for content that is not an HFile with ascending rows of text; OutOfMemory for
        records that take more than 1 GiB."""
        keys, records = bytearray(), bytearray()
        key_ends, ends = array("q", [0]), array("q")
        try:
            for row, value in HFile(pa.BufferReader(content), f"{place}: its HFile").scan():
                keys += row
                records += value
                key_ends.append(len(keys))
                ends.append(len(records))
                if len(keys) + len(records) + _ROW_BYTES * len(ends) > HELD_BYTES:
                    raise OutOfMemory(
                        f"{place}: the records of an HFile block of {content.size} bytes take more than {HELD_BYTES} "
                        "bytes of memory; let Hudi compact the file group"
                    )
        except CorruptFile as error:
            raise CorruptBlock(f"{error}: restore the file, or roll the instant back in Hudi") from None
        offsets = pa.py_buffer(np.frombuffer(key_ends, np.int64).astype(np.int32))
        try:
            text = pa.Array.from_buffers(pa.binary(), len(ends), [None, offsets, pa.py_buffer(keys)]).cast(pa.string())
        except pa.ArrowInvalid:
            raise CorruptBlock(f"{place}: a row of its HFile is not UTF-8: restore the file") from None
        return cls(text, np.frombuffer(records, np.uint8), np.frombuffer(ends, np.int64))

    @property
    def size_bytes(self) -> int:
        """The memory of the records."""
        return int(self.keys.nbytes + self.records.nbytes + self.ends.nbytes)

    @property
    def begins(self) -> np.ndarray:
        """The beginning of each record in `records`."""
        return np.concatenate([np.zeros(min(1, len(self.ends)), np.int64), self.ends[:-1]])

    def with_keys(
        self, batches: Iterator[pa.RecordBatch], numbers: np.ndarray, column: str
    ) -> Iterator[pa.RecordBatch]:
        """The batches, which have the records `numbers` in this order, with the rows in place of an empty `column`."""
        first = 0
        for batch in batches:
            rows = self.keys.take(arrow_array(numbers[first : first + batch.num_rows]))
            first += batch.num_rows
            place = batch.schema.get_field_index(column)
            values = pc.if_else(pc.equal(batch.column(place), ""), rows, batch.column(place))
            yield batch.set_column(place, batch.schema.field(place), values)


def emptied_column(schema_json: str, where: str, names: ColumnMapping | None) -> str:
    """The table's column that is empty in the records of a block with this schema; '' if there is none.

    names: the block's column names, if they differ from the table's.
    """
    field = parse_record_schema(schema_json, where).by_name().get(_KEY_COLUMN)
    if field is None or not isinstance(field.type, Primitive) or field.type.kind != "string":
        return ""
    return field.name if names is None else names.in_table(field).name
