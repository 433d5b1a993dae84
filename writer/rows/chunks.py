"""The data of a write in chunks of bounded size, whatever its form and the size of its batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import ConfigurationError, SchemaMismatch

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
        begins with `where`. SchemaMismatch for text that is no UTF-8, which Arrow does not check."""
        if self.size_bytes is not None and self.size_bytes <= most_bytes:
            yield _with_valid_text(pa.Table.from_batches(list(self.batches), self.schema), where)
            return
        for chunk in _or_empty(_noted(self.batches, where), self.schema, most_bytes):
            yield _with_valid_text(chunk, where)


def batches_of(data: Data) -> Batches:
    """The data as batches, without the unnamed index of a pandas data frame. Columns with run-end encoding are decoded.
    ConfigurationError for another object; SchemaMismatch for run-end encoded values that Arrow does not decode."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        data = data.select(_data_columns(data.schema))
        batches = [_decoded(batch) for batch in data.to_batches()]
        return Batches(_decoded_schema(data.schema), batches, sum(map(_plain_bytes, batches)))
    if not isinstance(data, pa.RecordBatchReader) and hasattr(data, "__arrow_c_stream__"):
        data = pa.RecordBatchReader.from_stream(data)
    if isinstance(data, pa.RecordBatchReader):
        places = _data_columns(data.schema)
        schema = _decoded_schema(without_pandas_index(data.schema))
        return Batches(schema, (_decoded(batch.select(places)) for batch in data), None)
    raise ConfigurationError(
        f"data: got {type(data).__name__}, expected a pyarrow.Table, RecordBatch or RecordBatchReader, or an object "
        "with __arrow_c_stream__ such as a Polars or pandas data frame"
    )


def without_pandas_index(schema: pa.Schema) -> pa.Schema:
    """The columns without those of an index that has no name, such as the row numbers of a filtered data frame. An
    index with a name is a column like others."""
    return pa.schema([schema.field(place) for place in _data_columns(schema)], schema.metadata)


def _decoded_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as `_decoded` returns them."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_run_end_encoded(field.type) else field for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without run-end encoding. SchemaMismatch."""
    if not any(pa.types.is_run_end_encoded(kind) for kind in batch.schema.types):
        return batch
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns.append(pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatch(
                f"column {name!r} is {column.type}, which cannot be decoded ({error}): give its values without run-end "
                "encoding; nothing was written"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=_decoded_schema(batch.schema))


def _with_valid_text(rows: pa.Table, where: str) -> pa.Table:
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if _may_hold_text(column.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise SchemaMismatch(
                    f"{where}: column {name!r} has text that is no UTF-8, or is damaged otherwise "
                    f"({str(error)[:200]}); nothing was written"
                ) from None
    return rows


def _may_hold_text(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(is_text or pa.types.is_nested(kind) or pa.types.is_dictionary(kind))


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
