"""The columns of a chunk's records, as decoders return them whatever the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UPSERT: Final = 0
DELETE: Final = 1
BAD: Final = 2
PASSED: Final = 3


class Unfit(ValueError):
    """A record, or a value of it, that cannot be a row of the table.

    The message says what is wrong; it continues "the record's " or begins with a column's name. The caller decides
    whether it is an error or a dead letter.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Values:
    """The decoded values of a chunk."""

    rows: pa.RecordBatch
    """One row per value, null if there is none or it is unfit."""
    reasons: Mapping[int, str]
    """Why a value is unfit, by index."""
    kinds: npt.NDArray[np.uint8] | None = None
    """uint8: UPSERT, DELETE or PASSED; None if all are upserts."""
    unknown: int = 0
    """The number of fields without a column in the table."""


class ValuesDecoder(Protocol):
    """Decodes values of one format."""

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """Their columns (`TopicReadSchema.decoded`). Never raises for the content of a value."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """The decoded records of a chunk."""

    rows: pa.RecordBatch
    """One row per record, in order."""
    kinds: npt.NDArray[np.uint8]
    """uint8: UPSERT, DELETE, BAD (no row), PASSED (no row, and none is missing)."""
    reasons: Mapping[int, str]
    """Why a record is BAD, by index."""
    unknown: int = 0
    """The number of fields without a column in the table."""


def replaced(rows: pa.RecordBatch, places: Sequence[int], others: pa.RecordBatch) -> pa.RecordBatch:
    """`rows` with those of `others` in these places."""
    if not places:
        return rows
    indices = np.arange(rows.num_rows)
    indices[np.asarray(places)] = rows.num_rows + np.arange(len(places))
    selection = pa.array(indices)
    columns = [
        pa.concat_arrays([mine, other]).take(selection)
        for mine, other in zip(rows.columns, others.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def gathered(
    parts: Sequence[tuple[npt.NDArray[np.int64], pa.RecordBatch]], rows: int, schema: pa.Schema
) -> pa.RecordBatch:
    """`rows` rows, those of each part in its places; null where no part has one."""
    if not parts:
        return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)
    places = np.concatenate([own for own, _ in parts])
    indices = np.zeros(rows, np.int64)
    indices[places] = np.arange(len(places))
    missing = np.ones(rows, bool)
    missing[places] = False
    selection = pa.array(indices, mask=missing)
    columns = [
        pa.concat_arrays([batch.column(number) for _, batch in parts]).take(selection) for number in range(len(schema))
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_of_cells(cells: Mapping[str, list[object]], schema: pa.Schema) -> pa.RecordBatch:
    """Columns of converted values (None: null)."""
    columns = [pa.array(cells[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
