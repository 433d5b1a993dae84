"""Processor time of queries in Polars and DuckDB over a table, against `penstock.read` of the same rows and columns.

    python -m bench.engines [--rows 2000000] [--partitions 20] [--runs 3]

Writes a copy-on-write table with pyarrow into a temporary folder: one base file of 20 row groups in each partition.
Each query is answered by `penstock.read` with its columns and its condition, by the engine through Penstock's scan, and
by the engine over the whole table read into memory, without push-down. Answers must be equal. Reads take turns; reports
the least processor time of `--runs` after a warm-up run.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import polars as pl
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import penstock
import penstock.duckdb
import penstock.polars
from bench.filtered import rows, write_table
from bench.parallel_reads import measure

ROW_GROUPS = 20


@dataclass(frozen=True, slots=True)
class Query:
    """A query in the words of each reader."""

    name: str
    """What it asks for."""
    columns: tuple[str, ...]
    """The columns of its answer."""
    where: str
    """The condition as the option `where`; '' for none."""
    polars: pl.Expr | None
    """The condition in Polars; None for none."""


def queries(count: int) -> list[Query]:
    """The queries over a table of `count` rows."""
    few = count // 100
    return [
        Query("all rows, data columns", ("id", "n", "x", "name", "dt"), "", None),
        Query("all rows, two columns", ("id", "x"), "", None),
        Query("1 % of the rows, by row groups", ("id", "x"), f"n < {few}", pl.col("n") < few),
        Query("one partition", ("id", "n", "x"), "dt = '00003'", pl.col("dt") == "00003"),
    ]


def tables(count: int, partitions: int) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each partition."""
    each = count // partitions
    for number in range(partitions):
        partition = f"dt={number:05}"
        yield partition, rows(number * each, each, partition)


def readers(table: str, query: Query) -> dict[str, Callable[[], int]]:
    """How each reader answers the query; each returns the number of rows."""
    where = f" WHERE {query.where}" if query.where else ""
    sql = f"SELECT {', '.join(query.columns)} FROM t{where}"

    def in_polars(frame: pl.LazyFrame) -> int:
        filtered = frame if query.polars is None else frame.filter(query.polars)
        return filtered.select(query.columns).collect().height

    def in_duckdb(source: duckdb.DuckDBPyRelation) -> int:
        answer = source.query("t", sql).to_arrow_table()
        return int(answer.num_rows)

    def memory() -> pa.Table:
        return penstock.read(table).read_all()

    return {
        "penstock.read": lambda: (
            penstock.read(table, columns=query.columns, where=query.where or None).read_all().num_rows
        ),
        "Polars, scan": lambda: in_polars(penstock.polars.scan(table)),
        "Polars, in memory": lambda: in_polars(pl.from_arrow(memory()).lazy()),  # type: ignore[union-attr]
        "DuckDB, relation": lambda: in_duckdb(penstock.duckdb.relation(duckdb.connect(), table)),
        "DuckDB, in memory": lambda: in_duckdb(duckdb.connect().from_arrow(memory())),
    }


def main() -> None:
    """Writes the table, answers each query in all ways, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    report = Table("query", "reader", "rows", "seconds", "CPU seconds", "CPU of penstock.read")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch, "table")
        write_table(folder, tables(args.rows, args.partitions), "dt", args.rows // args.partitions // ROW_GROUPS)
        for query in queries(args.rows):
            results = measure(readers(str(folder), query), args.runs)
            least = results["penstock.read"][2]
            assert len({count for count, _, _ in results.values()}) == 1, "the answers differ"
            for name, (count, seconds, processor) in results.items():
                ratio = f"{processor / least:.2f}x"
                report.add_row(query.name, name, f"{count:,}", f"{seconds:.2f}", f"{processor:.2f}", ratio)
    Console(width=120).print(report)


if __name__ == "__main__":
    main()
