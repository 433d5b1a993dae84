"""A table as a Polars LazyFrame (an IO plugin of Polars).

Polars hands the requested columns, the first rows of a query without a condition, and conditions to the scan. It trusts
a source to apply a condition, so each batch is filtered by Polars' own expression after the scan applied what it can.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import cast

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from penstock.engine.adapters.polars_conditions import condition_of, without_hints
from penstock.engine.adapters.source import TableSource, table_source


def scan(table: str | os.PathLike[str], *, server: str | None = None, **options: object) -> pl.LazyFrame:
    """A table as a lazy frame. Each collection plans the query from the table's state at that time.

    `table` is a path or URI; with `server` (HOST:PORT) the name of a table that it serves. `options` are those of
    `penstock.read` except `limit`: call `head` on the frame. The frame has the columns of `penstock.read`, as Polars
    converts them from Arrow. The scan reads only the requested columns; partitions, files and row groups that the
    frame's conditions exclude are not read; `head` before a filter ends the read early. Rows are in the order of
    `penstock.read`.

    Errors: `penstock.errors`, also from `collect`; SchemaMismatch if a column has changed its type since the call.
    """
    source = table_source("penstock.polars.scan", table, {"server": server, **options}, "call head(n) on the frame")
    empty = _frame(pa.RecordBatch.from_pylist([], schema=source.schema))

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        return _frames(source, empty, columns, predicate, n_rows)

    return register_io_source(frames, schema=empty.schema)


def _frames(
    source: TableSource, empty: pl.DataFrame, columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None
) -> Generator[pl.DataFrame, None, None]:
    """The rows as Polars asks for them: the first `n_rows`, of these those for which `predicate` is true."""
    if predicate is not None:
        predicate = without_hints(predicate)
    # The limit comes before the condition: a scan that applied the condition would count other rows.
    condition = condition_of(predicate, source.schema) if predicate is not None and n_rows is None else None
    with closing(source.batches(columns, condition, n_rows)) as batches:
        for batch in batches:
            frame = _frame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if columns is None else frame.select(columns)
    yield empty if columns is None else empty.select(columns)


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    return cast("pl.DataFrame", pl.from_arrow(batch))
