"""The rows of each sink of an endurance run beside those of its source, whose model is Hudi's own snapshots."""

from __future__ import annotations

import pathlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from tests.interop.chaos_writer import ChaosWriter, folded
from tests.interop.soak_writer import WINDOW_US, SoakWriter

Row = tuple[Any, ...]


class Sink(NamedTuple):
    """What a stream delivered, and what it had to deliver, in any order."""

    name: str
    rows: Iterable[Row]
    source: Iterable[Row]

    def problems(self) -> list[str]:
        """A line if a row is lost, doubled or changed."""
        actual, expected = Counter(self.rows), Counter(self.source)
        missing, extra = expected - actual, actual - expected
        if not missing and not extra:
            return []
        return [f"{self.name}: missing {sorted(missing)[:6]}, extra {sorted(extra)[:6]}"]


def batches(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Every row of a stream's sink, in the order of the micro-batches."""
    for path in sorted(folder.glob("[!.]*.parquet"), key=lambda path: int(path.stem)):
        yield from pq.read_table(path).to_pylist()


def rows_sink(name: str, rows: Iterable[dict[str, Any]], writer: ChaosWriter) -> Sink:
    """The rows that each commit wrote."""
    actual = [(row["_hoodie_commit_time"], row["p"], row["id"], row["n"]) for row in rows]
    return Sink(name, actual, ((commit, *key, n) for commit, key, n in written(writer)))


def changes_sink(name: str, rows: Iterable[dict[str, Any]], writer: ChaosWriter) -> Sink:
    """Every change of every commit."""
    actual = [(row["_change_type"], row["_change_instant"], (row["p"], row["id"]), row["n"]) for row in rows]
    return Sink(name, actual, writer.changes().elements())


def fold_sink(name: str, rows: Iterable[dict[str, Any]], writer: ChaosWriter) -> Sink:
    """The table: all changes applied in the order of their sequence numbers."""
    return Sink(f"{name}, folded", folded(rows).items(), [(key, n) for key, (n, _) in writer.commits[-1].rows.items()])


def windows_sink(name: str, rows: Iterable[dict[str, Any]], writer: SoakWriter) -> Sink:
    """Every window but the last, which does not end."""
    expected = writer.windows()
    del expected[max(expected)]
    return Sink(name, [(_us(row["start"]), tuple(row["rows"])) for row in rows], expected.elements())


def joined_sink(name: str, rows: Iterable[dict[str, Any]], left: SoakWriter, right: SoakWriter) -> Sink:
    """The rows of both tables with the same key in the same window."""
    matches: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for window, key, n in _timed(right):
        matches[window, key].append(n)
    expected = [(window, key, n, m) for window, key, n in _timed(left) for m in matches[window, key]]
    return Sink(name, [(_us(row["start"]), row["id"], row["n"], row["m"]) for row in rows], expected)


def written(writer: ChaosWriter) -> Iterator[tuple[str, tuple[str, str], int]]:
    """(commit, key, `n`) of the rows of each commit, in Hudi's snapshot after it."""
    for commit in writer.commits:
        for key, (n, by) in commit.rows.items():
            if by == commit.requested:
                yield commit.requested, key, n


def _timed(writer: SoakWriter) -> Iterator[tuple[int, str, int]]:
    for _, (_, key), n in written(writer):
        yield writer.event_us[n] // WINDOW_US * WINDOW_US, key, n


def _us(at: Any) -> int:
    return round(at.timestamp() * 1_000_000)
