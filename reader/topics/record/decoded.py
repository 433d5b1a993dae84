"""Records of a chunk as columns: what decoders hand over, whatever the form of the values."""

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
    """The message says what is wrong; it goes on "the record's " or names a column first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Values:
    """One row for each value handed in, null where there is none or it is unfit.

    `reasons` says by number why a value is unfit. `kinds` (uint8): UPSERT, DELETE or PASSED, None where all are
    upserts. `unknown`: fields that the table has no column for.
    """

    rows: pa.RecordBatch
    reasons: Mapping[int, str]
    kinds: npt.NDArray[np.uint8] | None = None
    unknown: int = 0


class ValuesDecoder(Protocol):
    """One form of values."""

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """Their columns (`TopicReadSchema.decoded`). Never raises for what a value holds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """One row for each record of a chunk, in its order. `kinds` (uint8): UPSERT, DELETE, BAD (no row; `reasons` says
    why, by number), PASSED (no row, and none is missing)."""

    rows: pa.RecordBatch
    kinds: npt.NDArray[np.uint8]
    reasons: Mapping[int, str]
    unknown: int = 0


def replaced(rows: pa.RecordBatch, places: Sequence[int], others: pa.RecordBatch) -> pa.RecordBatch:
    """`rows` with those of `others` in these places."""
    if not places:
        return rows
    indices = np.arange(rows.num_rows)
    indices[np.asarray(places)] = rows.num_rows + np.arange(len(places))
    taken = pa.array(indices)
    columns = [
        pa.concat_arrays([mine, other]).take(taken) for mine, other in zip(rows.columns, others.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def gathered(
    parts: Sequence[tuple[npt.NDArray[np.int64], pa.RecordBatch]], rows: int, schema: pa.Schema
) -> pa.RecordBatch:
    """So many rows, those of each part in its places; null where no part has one."""
    if not parts:
        return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)
    places = np.concatenate([own for own, _ in parts])
    indices = np.zeros(rows, np.int64)
    indices[places] = np.arange(len(places))
    missing = np.ones(rows, bool)
    missing[places] = False
    taken = pa.array(indices, mask=missing)
    columns = [
        pa.concat_arrays([batch.column(number) for _, batch in parts]).take(taken) for number in range(len(schema))
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_of_cells(cells: Mapping[str, list[object]], schema: pa.Schema) -> pa.RecordBatch:
    """Columns of converted values (None: null)."""
    columns = [pa.array(cells[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
