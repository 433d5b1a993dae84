"""A table as a relation of DuckDB.

DuckDB's Python interface hands the requested columns and conditions only to a `pyarrow.dataset.Dataset`, as arguments
of its method `scanner`, and does not apply these conditions again. `TableDataset` is such a Dataset. Before release 2.0
DuckDB also handed out conditions on floats, of which PyArrow excludes NaN, DuckDB's greatest value: they are refused.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.engine.adapters.source import TableSource, table_source

_OLDEST = 2
"""The first release of DuckDB that keeps conditions on floats to itself."""
_LIMIT = "write LIMIT in the query, or call limit(n) on the relation"


def relation(
    connection: duckdb.DuckDBPyConnection,
    table: str | os.PathLike[str],
    *,
    server: str | None = None,
    **options: object,
) -> duckdb.DuckDBPyRelation:
    """A table as a relation of `connection`. Each query plans a read of the table from its state at that time.

    `table` is a path or URI; with `server` (HOST:PORT) the name of a table that it serves. `options` are those of
    `penstock.read` except `limit`. Only the columns that a query needs are read, and partitions, files and row groups
    that its conditions exclude are not read. A query that ends early (LIMIT) stops the read.

    Errors: `penstock.errors` here; DuckDB raises errors of a query as its own, with their text.
    """
    check_release(duckdb.__version__)
    source = table_source("penstock.duckdb.relation", table, {"server": server, **options}, _LIMIT)
    return connection.from_arrow(TableDataset(source))


def register(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    table: str | os.PathLike[str],
    *,
    server: str | None = None,
    **options: object,
) -> None:
    """Makes a table a view `name` of `connection`, until `connection.unregister(name)`. See `relation`."""
    check_release(duckdb.__version__)
    source = table_source("penstock.duckdb.register", table, {"server": server, **options}, _LIMIT)
    connection.register(name, TableDataset(source))


def check_release(release: str) -> None:
    """ImportError for a release of DuckDB whose conditions on floats have wrong rows."""
    if int(release.partition(".")[0]) < _OLDEST:
        raise ImportError(
            f"penstock.duckdb needs DuckDB {_OLDEST}.0 or newer: DuckDB {release} leaves rows with NaN out of "
            "conditions on floats; pip install --upgrade duckdb",
            name="duckdb",
        )


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """A table as a Dataset with a schema and a scanner; it has no fragments."""

    def __init__(self, source: TableSource) -> None:
        """`source`: the table."""
        self._source = source

    def __reduce__(self) -> tuple[Any, ...]:
        return TableDataset, (self._source,)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table when the source was created."""
        return self._source.schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  the name that DuckDB uses
        **_: object,
    ) -> TableScanner:
        """Scans `columns` of the rows for which `filter` is true. Nothing is read yet."""
        return TableScanner(self._source, columns, filter)


class TableScanner:
    """One scan of a table, which DuckDB reads through `to_reader`."""

    def __init__(self, source: TableSource, columns: Sequence[str] | None, condition: pc.Expression | None) -> None:
        """`columns`: None for all. `condition`: None for every row."""
        self._source = source
        self._columns = tuple(source.schema.names if columns is None else columns)
        self._condition = condition

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the batches."""
        return pa.schema([self._source.schema.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows. Dropping the reader closes the files that it holds open."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Generator[pa.RecordBatch, None, None]:
        condition = self._condition
        with closing(self._source.batches(self._columns, condition)) as batches:
            for batch in batches:
                kept = batch if condition is None else batch.filter(condition)
                yield kept.select(self._columns)
