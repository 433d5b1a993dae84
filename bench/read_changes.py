"""Changes of one commit beside the snapshot and the range of the same table: what change data capture costs.

    python bench/read_changes.py [--rows 1000000] [--updated 0.1] [--runs 5]

The table is that of `read_slice.py`: a base file, and one upsert in its log. CPU seconds of one process, the best of
the runs, each road after one run that warms up; rows are counted, not kept.
"""

from __future__ import annotations

import argparse
import pathlib
import time
from collections.abc import Callable

from read_slice import make_table
from rich.console import Console
from rich.table import Table

import penstock
from penstock.table.hudi_table import open_table


def roads(table: pathlib.Path) -> dict[str, Callable[[], int]]:
    """What is measured, by name."""
    timeline = open_table(str(table)).timeline()
    first = str(timeline.order_key(timeline.completed_writes[0]))

    def counted(**options: str) -> Callable[[], int]:
        return lambda: sum(batch.num_rows for batch in penstock.read(str(table), **options))

    return {
        "snapshot": counted(),
        "range of the upsert": counted(query="incremental", after=first),
        "changes of the upsert, as rows": counted(query="cdc", after=first),
        "changes of the upsert, Hudi's format": counted(query="cdc", cdc_format="hudi", after=first),
        "changes of the insert, as rows": counted(query="cdc", after="earliest", upto=first),
    }


def best_seconds(road: Callable[[], int], runs: int) -> tuple[float, int]:
    """CPU seconds of the best run, and the rows."""
    rows, best = road(), float("inf")
    for _ in range(runs):
        began = time.process_time()
        rows = road()
        best = min(best, time.process_time() - began)
    return best, rows


def main() -> None:
    """Prints a table; ratios are to the snapshot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--updated", type=float, default=0.1)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    table = make_table(given.rows, given.updated)
    shown = Table("road", "rows", "CPU s", "to the snapshot")
    reference = 0.0
    for name, road in roads(table).items():
        seconds, rows = best_seconds(road, given.runs)
        reference = reference or seconds
        shown.add_row(name, f"{rows:,}", f"{seconds:.3f}", f"{seconds / reference:.2f}")
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
