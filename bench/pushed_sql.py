"""Seconds of SQL in Spark with the query's columns and filters handed to the scans, and without: `penstock.spark.sql`
against `spark.sql` over a view of the same table.

    python -m bench.pushed_sql [--rows 1000000] [--runs 5]

Writes a table of one base file of 100 row groups, sorted by its key (`filtered`). Both ways run in turn in one session;
their answers must be equal. Reports the medians of the runs after a warm-up run, and the median of the ratios.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import penstock.spark
from bench.filtered import ROW_GROUPS, rows, write_table


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """The answer, and the seconds that it took."""
    started = time.perf_counter()
    answer = run()
    return answer, time.perf_counter() - started


def main() -> None:
    """Writes the table, runs each query both ways and prints a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    middle = args.rows // 2
    queries = {
        "count": "SELECT count(*) FROM t",
        "one column": "SELECT sum(n) FROM t",
        "one column, a tenth of the rows": f"SELECT sum(n) FROM t WHERE n < {args.rows // 10}",
        "one row": f"SELECT name, x FROM t WHERE id = 'key-{middle:012}'",
        "join with itself": f"SELECT count(*) FROM t a JOIN t b ON a.id = b.id WHERE a.n < {args.rows // 10}",
        "all columns and rows": "SELECT max(struct(*)) FROM t",
    }
    report = Table("query", "plain s", "pushed s", "times faster")
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = session.config("spark.sql.shuffle.partitions", "2").config("spark.driver.bindAddress", "127.0.0.1")
    spark = session.config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "2g").getOrCreate()
    with tempfile.TemporaryDirectory() as scratch:
        table = pathlib.Path(scratch, "t")
        write_table(table, [("", rows(0, args.rows, ""))], "", -(-args.rows // ROW_GROUPS))
        for name, query in queries.items():
            seconds: list[tuple[float, float]] = []
            for _ in range(args.runs + 1):
                spark.read.format("penstock").load(str(table)).createOrReplaceTempView("t")
                expected, plain = timed(lambda query=query: spark.sql(query).collect())
                pushed_sql = lambda query=query: penstock.spark.sql(spark, query, {"t": str(table)}).collect()  # noqa: E731
                answer, pushed = timed(pushed_sql)
                if answer != expected:
                    raise SystemExit(f"{query}: got {answer}, expected {expected}")
                seconds.append((plain, pushed))
            plain, pushed = (statistics.median(run[way] for run in seconds[1:]) for way in (0, 1))
            ratio = statistics.median(run[0] / run[1] for run in seconds[1:])
            report.add_row(name, f"{plain:.2f}", f"{pushed:.2f}", f"{ratio:.1f}")
    spark.stop()
    Console().print(report)


if __name__ == "__main__":
    main()
