"""The data of a write in chunks of bounded size, whatever its form and the size of its batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError

Data = Any
"""A `pyarrow.Table`, `RecordBatch`, `RecordBatchReader`, or an object with `__arrow_c_stream__`."""

_UNNAMED_INDEX: Final = re.compile(r"__index_level_[0-9]+__")
"""Arrow's names of such columns."""
_MAX_BATCHES: Final = 1024
"""Batches that are held apart; each has some hundred bytes beside its rows."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Data that is read once."""

    schema: pa.Schema
    """Its columns."""
    batches: Iterable[pa.RecordBatch]
    """Its rows."""
    size_bytes: int | None
    """Its size, if all of it is in memory."""

    def chunks(self, most_bytes: int, where: str) -> Iterator[pa.Table]:
        """The rows in tables of at most about so many bytes, at least one table. An error of the source has a note that
        begins with `where`."""
        if self.size_bytes is not None and self.size_bytes <= most_bytes:
            yield pa.Table.from_batches(list(self.batches), self.schema)
            return
        yield from _or_empty(_noted(self.batches, where), self.schema, most_bytes)


def batches_of(data: Data) -> Batches:
    """The data as batches, without the unnamed index of a pandas data frame. ConfigurationError for another object."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        data = data.select(_data_columns(data.schema))
        batches = data.to_batches()
        return Batches(data.schema, batches, sum(map(_plain_bytes, batches)))
    if not isinstance(data, pa.RecordBatchReader) and hasattr(data, "__arrow_c_stream__"):
        data = pa.RecordBatchReader.from_stream(data)
    if isinstance(data, pa.RecordBatchReader):
        places = _data_columns(data.schema)
        return Batches(without_pandas_index(data.schema), (batch.select(places) for batch in data), None)
    raise ConfigurationError(
        f"data: got {type(data).__name__}, expected a pyarrow.Table, RecordBatch or RecordBatchReader, or an object "
        "with __arrow_c_stream__ such as a Polars or pandas data frame"
    )


def without_pandas_index(schema: pa.Schema) -> pa.Schema:
    """The columns without those of an index that has no name, such as the row numbers of a filtered data frame. An
    index with a name is a column like others."""
    return pa.schema([schema.field(place) for place in _data_columns(schema)], schema.metadata)


def _data_columns(schema: pa.Schema) -> list[int]:
    is_pandas = b"pandas" in (schema.metadata or {})
    return [n for n, name in enumerate(schema.names) if not (is_pandas and _UNNAMED_INDEX.fullmatch(name))]


def chunks_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most_bytes: int) -> Iterator[pa.Table]:
    """The rows in tables of at most about so many bytes; a row that is larger is a table of its own."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        for part in _sliced(batch, most_bytes):
            size = _plain_bytes(part)
            if held and held_bytes + size > most_bytes:
                yield pa.Table.from_batches(held, schema)
                held, held_bytes = [], 0
            held.append(part)
            held_bytes += size
            if len(held) > _MAX_BATCHES:
                held = pa.Table.from_batches(held, schema).unify_dictionaries().combine_chunks().to_batches()
    if held:
        yield pa.Table.from_batches(held, schema)


def _or_empty(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most_bytes: int) -> Iterator[pa.Table]:
    chunk = None
    for chunk in chunks_of(batches, schema, most_bytes):
        yield chunk
    if chunk is None:
        yield schema.empty_table()


def _noted(batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except Exception as error:
        error.add_note(f"{where}: its data ended with this error; nothing was written")
        raise


def _sliced(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    step = max(1, batch.num_rows * most_bytes // max(1, _plain_bytes(batch)))
    for begin in range(0, batch.num_rows, step):
        yield batch.slice(begin, step)


def _plain_bytes(batch: pa.RecordBatch) -> int:
    """About the bytes of the batch without dictionaries."""
    size = int(batch.nbytes)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            size += batch.num_rows * column.dictionary.nbytes // max(1, len(column.dictionary))
    return size
