"""The average size of a row, by what commits recorded of their base files, and slices whose logs may add keys."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.write.current_table import CurrentTable, logs_may_add_keys
from penstock.table.timeline.active import build_timeline
from penstock.table.timeline.instants import parse_instant_file
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.index.slices import TableSlices

SIZES = FileSizes(small_file_bytes=1000)


@dataclass
class Table:
    """A table whose commits, oldest first, have files of (name, bytes, rows)."""

    commits: list[list[tuple[str, int, int]]]

    def timeline(self) -> Any:
        return SimpleNamespace(completed_writes=tuple(range(len(self.commits))))

    def commit(self, instant: int) -> Any:
        stats = [
            SimpleNamespace(file_name=name, file_size_bytes=size, num_writes=count)
            for name, size, count in self.commits[instant]
        ]
        return SimpleNamespace(stats=stats)


def size_of(*commits: list[tuple[str, int, int]]) -> int:
    table: Any = Table(list(commits))
    current = CurrentTable(table=table, record=None, slices=TableSlices({}, frozenset()))
    return current.row_bytes(SIZES)


LARGE = [("a.parquet", 5000, 100)]


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([], 1024),
        ([LARGE], 50),
        ([LARGE, [("a.parquet", 2000, 100)]], 20),
        ([LARGE, [("a.parquet", 1000, 100)]], 50),
        ([[("a.parquet", 600, 10), ("b.parquet", 601, 10)]], 61),
        ([LARGE, [(".a.log.1_0-0-0", 9000, 10)]], 50),
        ([[("a.parquet", 1500, 100), (".a.log.1_0-0-0", 9000, 10)]], 15),
        ([LARGE, [("a.parquet", 5000, 0)]], 50),
        ([[("a.parquet", 1001, 100_000)]], 1),
        ([LARGE, *([[]] * 31)], 50),
        ([LARGE, *([[]] * 32)], 1024),
    ],
    ids=[
        "no commits",
        "one",
        "newest",
        "not above small size",
        "sum of files",
        "only logs",
        "logs beside",
        "no rows",
        "one byte at least",
        "32 commits",
        "not 33",
    ],
)
def test_average_is_that_of_newest_large_write(commits: list[list[tuple[str, int, int]]], expected: int) -> None:
    assert size_of(*commits) == expected


def time(number: int) -> str:
    return f"202611230000000{number:02d}"


@pytest.mark.parametrize(
    ("layout", "base", "logs", "expected"),
    [
        (2, f"{time(3)}_{time(6)}.commit", [4], True),
        (2, f"{time(3)}_{time(6)}.commit", [7, 8], False),
        (2, f"{time(3)}_{time(6)}.commit", [7, 5], True),
        (2, f"{time(3)}_{time(6)}.deltacommit", [4], False),
        (1, f"{time(3)}.commit", [3], True),
        (1, f"{time(3)}.deltacommit", [3], False),
        (2, f"{time(2)}_{time(6)}.commit", [7], True),
    ],
    ids=["during compaction", "after it", "one during it", "of inserts", "layout 1", "layout 1, inserts", "archived"],
)
def test_logs_written_during_a_compaction_may_add_keys(layout: int, base: str, logs: list[int], expected: bool) -> None:
    instant = parse_instant_file(base, layout)
    assert instant is not None
    times = [time(number) for number in logs]
    assert logs_may_add_keys(time(3), times, build_timeline(layout, [instant])) is expected
