"""Text columns kept as Parquet stores them: a dictionary, and one index per row. They have few distinct values, or text
that would take too much memory if it were decoded at once.

Such a column is decoded, filtered and compared by its indices, and becomes plain text only when rows are returned. A
single value for all rows (as in most meta columns of a base file) is then shared among batches, and not even decoded if
the footer has it. `base.file` reads the columns.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.table.arrow_arrays import arrow_array
from penstock.table.arrow_compute import pc

_SMALL_BYTES: Final = 1024
_VALUES_A_BYTE: Final = 4
"""A text column is encoded if its text takes less than a byte in the file per this many rows: plain text takes four
bytes per row."""

_MOST_VALUE_BYTES: Final = 256
"""Longer values become text at once, so that a batch of indices does not stand for much more memory than a batch has.
"""
LEAST_ROWS = 2048
"""A file of fewer rows is not encoded: choosing the columns takes longer than their text. Tests set it to 0."""
NO_INDICES: Final = frozenset({"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"})
"""Encodings of pages that pyarrow does not decode into indices."""


class IndexOutOfDictionary(ValueError):
    """An index without a value. pyarrow does not check it, and reading text by it would leave the buffer."""


def worth_encoding(footer: pq.FileMetaData, schema: pa.Schema, columns: Collection[str]) -> list[str]:
    """The top-level text columns of the file with few values in every row group, judged by their size, that can be
    decoded into indices. None of a file of less than `LEAST_ROWS` rows."""
    if footer.num_rows < LEAST_ROWS:
        return []
    leaves = footer.schema
    chosen = []
    for place in range(len(leaves)):
        leaf = leaves.column(place)
        name = leaf.path
        if name not in columns or leaf.max_repetition_level or not pa.types.is_string(schema.field(name).type):
            continue
        chunks = [footer.row_group(number).column(place) for number in range(footer.num_row_groups)]
        small = all(_is_small(chunk.total_uncompressed_size, chunk.num_values) for chunk in chunks)
        if small and not any(NO_INDICES.intersection(chunk.encodings) for chunk in chunks):
            chosen.append(name)
    return chosen


def constant_columns(footer: pq.FileMetaData, number: int, columns: Collection[str]) -> dict[str, str]:
    """The text columns that have one value in every row of row group `number`, by its statistics.

    The lowest and highest value are equal and nothing is null, so that no truncated bound is mistaken for a value. The
    caller must have called `check_statistics`.
    """
    group, constants = footer.row_group(number), {}
    for place in range(group.num_columns):
        name = footer.schema.column(place).path
        if name in columns and (value := _only_value(group.column(place), group.num_rows)) is not None:
            constants[name] = value
    return constants


def _only_value(chunk: pq.ColumnChunkMetaData, rows: int) -> str | None:
    try:
        statistics = chunk.statistics
        if statistics is None or chunk.num_values != rows or not statistics.has_min_max:
            return None
        if not statistics.has_null_count or statistics.null_count:
            return None
        low, high = statistics.min_raw, statistics.max_raw
        return low.decode() if low == high and len(low) <= _MOST_VALUE_BYTES else None
    except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError):
        return None


def one_value(value: str, rows: int) -> pa.DictionaryArray:
    """`rows` rows of one text, as indices."""
    return pa.DictionaryArray.from_arrays(arrow_array(np.zeros(rows, np.int32)), arrow_array([value], pa.string()))


def is_one_value(column: pa.Array) -> bool:
    """Whether the column is encoded and has one value in every row."""
    return is_encoded(column.type) and len(column.dictionary) == 1 and not column.indices.null_count


def _is_small(size_bytes: int, values: int) -> bool:
    return size_bytes <= _SMALL_BYTES + values // _VALUES_A_BYTE


def is_encoded(kind: pa.DataType) -> bool:
    """Whether a column of this type is encoded."""
    return bool(pa.types.is_dictionary(kind))


def checked(column: pa.DictionaryArray) -> pa.Array:
    """The column, with every index checked; as plain text if values are long.

    IndexOutOfDictionary for an index without a value.
    """
    extremes = pc.min_max(column.indices)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is not None and not 0 <= low <= high < len(column.dictionary):
        raise IndexOutOfDictionary(f"index {low if low < 0 else high} into a dictionary of {len(column.dictionary)}")
    if longest_bytes(column) > _MOST_VALUE_BYTES:
        return _texts(column)
    return column


def encoded_constants(batch: pa.RecordBatch, columns: Collection[str]) -> pa.RecordBatch:
    """The batch, with those of these text columns as indices that have one value in every row."""
    arrays = [
        _constant(column) if name in columns and pa.types.is_string(column.type) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _constant(column: pa.Array) -> pa.Array:
    if not len(column) or column.null_count:
        return column
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    width = int(bounds[1] - bounds[0])
    if width > _MOST_VALUE_BYTES or not (np.diff(bounds) == width).all():
        return column
    if width:
        texts = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]].reshape(len(column), width)
        if not (texts == texts[0]).all():
            return column
    return one_value(column[0].as_py(), len(column))


def concatenated(parts: list[pa.Array], pool: pa.MemoryPool) -> pa.Array:
    """The parts of one column, of which some may be encoded, as one array; encoded if all have the same dictionary."""
    encoded = [is_encoded(part.type) for part in parts]
    if not any(encoded):
        return pa.concat_arrays(parts, memory_pool=pool)
    if all(encoded) and all(part.dictionary.equals(parts[0].dictionary) for part in parts):
        indices = pa.concat_arrays([part.indices for part in parts], memory_pool=pool)
        return pa.DictionaryArray.from_arrays(indices, parts[0].dictionary)
    plain = [_texts(part) if is_encoded(part.type) else part for part in parts]
    return pa.concat_arrays(plain, memory_pool=pool)


def text_bytes(batch: pa.RecordBatch) -> int:
    """About how many bytes the batch takes with its encoded columns as text; never less."""
    more = 0
    for column in batch.columns:
        if is_encoded(column.type):
            more += batch.num_rows * longest_bytes(column)
    return int(batch.nbytes) + more


def among(column: pa.Array, values: pa.Array) -> pa.BooleanArray:
    """Which values of a text column, encoded or not, are in `values`; null is not."""
    if not is_encoded(column.type):
        return pc.is_in(column, value_set=values)
    answers = pc.is_in(column.dictionary, value_set=values)
    if answers.true_count == len(answers) and not column.indices.null_count:
        return arrow_array(np.ones(len(column), bool))
    if not answers.true_count:
        return arrow_array(np.zeros(len(column), bool))
    return answers.take(column.indices).fill_null(False)


class PlainText:
    """Converts encoded columns to text. It keeps one array for each column with a single value."""

    def __init__(self) -> None:
        self._repeated: dict[str, pa.Array] = {}

    def column(self, name: str, column: pa.Array) -> pa.Array:
        """The column as plain text, if it was encoded."""
        if not is_encoded(column.type):
            return column
        if not is_one_value(column):
            return _texts(column)
        value, known = column.dictionary[0], self._repeated.get(name)
        if known is None or len(known) < len(column) or not known[0].equals(value):
            known = self._repeated[name] = pa.repeat(value, len(column))
        return known.slice(0, len(column))

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """All columns as plain text."""
        names = batch.schema.names
        columns = [self.column(name, column) for name, column in zip(names, batch.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=names)


def longest_bytes(column: pa.DictionaryArray) -> int:
    """The bytes of the longest value of the column's dictionary."""
    if len(column.dictionary) == 1:  # most have one value, and a call of a kernel takes longer than all else here
        text = column.dictionary[0].as_buffer()
        return 0 if text is None else int(text.size)
    return int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0)


def _texts(column: pa.DictionaryArray) -> pa.Array:
    if not len(column.dictionary):
        return pa.nulls(len(column), column.type.value_type)
    return column.dictionary.take(column.indices)
