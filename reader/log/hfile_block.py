"""An HFile data block of a log (`HoodieHFileDataBlock`): its content is a complete HFile.

The rows of the HFile are record keys, its values are Avro records of the block's SCHEMA. Records are in the order of
their keys. A column `key` is empty in the records, and the row is its value (`HoodieAvroHFileReaderImplBase`).
"""

from __future__ import annotations

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
from penstock.table.schema.avro import Primitive, RecordSchema

KEY_COLUMN: Final = "key"
"""The column that the writer empties, because it is the key of a metadata table."""
_HELD_BYTES: Final = 1 << 30
"""The most bytes of the records of one block."""


@dataclass(frozen=True, slots=True, eq=False)
class HFileBlock:
    """The records of one block."""

    keys: pa.Array
    """The record key of each record, as text."""
    records: np.ndarray
    """The Avro records, one after the other."""
    ends: np.ndarray
    """The end of each record in `records`; it begins where the one before ends."""

    @classmethod
    def read(cls, content: pa.Buffer, place: BlockPlace) -> HFileBlock:
        """Reads all records. CorruptBlock for content that is not an HFile with ascending rows of text; OutOfMemory for
        records that take more than 1 GiB."""
        keys: list[bytes] = []
        values: list[bytes] = []
        size_bytes = 0
        try:
            for row, value in HFile(pa.BufferReader(content), f"{place}: its HFile").scan():
                size_bytes += len(row) + len(value)
                if size_bytes > _HELD_BYTES:
                    raise OutOfMemory(
                        f"{place}: the records of an HFile block of {content.size} bytes take more than {_HELD_BYTES} "
                        "bytes of memory; let Hudi compact the file group"
                    )
                keys.append(row)
                values.append(value)
        except CorruptFile as error:
            raise CorruptBlock(f"{error}: restore the file, or roll the instant back in Hudi") from None
        try:
            text = arrow_array(keys, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            raise CorruptBlock(f"{place}: a row of its HFile is not UTF-8: restore the file") from None
        ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), dtype=np.int64)
        return cls(text, np.frombuffer(b"".join(values), np.uint8), ends)

    @property
    def begins(self) -> np.ndarray:
        """The beginning of each record in `records`."""
        return np.concatenate([np.zeros(min(1, len(self.ends)), np.int64), self.ends[:-1]])

    def with_keys(self, batches: Iterator[pa.RecordBatch], numbers: np.ndarray) -> Iterator[pa.RecordBatch]:
        """The batches, which have the records `numbers` in this order, with the rows in place of an empty `key`."""
        first = 0
        for batch in batches:
            rows = self.keys.take(arrow_array(numbers[first : first + batch.num_rows]))
            first += batch.num_rows
            place = batch.schema.get_field_index(KEY_COLUMN)
            values = pc.if_else(pc.equal(batch.column(place), ""), rows, batch.column(place))
            yield batch.set_column(place, batch.schema.field(place), values)


def lacks_keys(writer: RecordSchema, columns: tuple[str, ...]) -> bool:
    """Whether one of the columns is empty in the records of such a block, and its values are the rows."""
    field = writer.by_name().get(KEY_COLUMN)
    return field is not None and KEY_COLUMN in columns and field.type == Primitive("string")
