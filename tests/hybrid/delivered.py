"""Rows that readers of a hybrid stream wrote, deduplicated where file names allow it.

`topic_fold` defines the expected rows.
"""

from __future__ import annotations

import pathlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from tests.hybrid.topic_fold import Change
from tests.hybrid.topic_records import COLUMNS, Row


@dataclass(slots=True)
class Delivered:
    """The files of a folder, each read once. Files appear completely, and may be replaced by equal rows."""

    folder: pathlib.Path
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def refresh(self) -> None:
        """Reads the new files."""
        for path in self.folder.glob("[!.]*.parquet"):
            if path.name not in self._rows:
                self._rows[path.name] = pq.read_table(path).to_pylist()

    def numbers(self) -> set[int]:
        """`n` of all rows so far."""
        return {row["n"] for rows in self._rows.values() for row in rows if row["n"] is not None}

    def has_topic_rows(self) -> bool:
        """Whether the stream has reached the topic."""
        return any(not is_of_lake(row) for rows in self._rows.values() for row in rows)

    def is_begun(self) -> bool:
        """Whether any row was delivered."""
        return any(self._rows.values())

    def of_batches(self) -> Iterator[dict[str, Any]]:
        """The rows of a folder whose files are micro-batches."""
        for name in sorted(self._rows):
            yield from self._rows[name]

    def of_splits(self) -> Iterator[dict[str, Any]]:
        """The rows of a folder whose files are parts of splits: uncommitted rows were repeated from the last committed
        ordinal, possibly in parts of another size. AssertionError if files do not make up a split."""
        parts: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for name in self._rows:
            split, first, end = name.removesuffix(".parquet").split("-")
            parts[split].append((int(first), int(end), name))
        for split, of_split in sorted(parts.items()):
            for name in _chain(split, of_split):
                yield from self._rows[name]


def is_of_lake(row: dict[str, Any]) -> bool:
    """Whether the row is from the table: only those rows have values in meta columns."""
    return row["_hoodie_commit_time"] is not None


def appended(rows: Iterable[dict[str, Any]]) -> list[Row]:
    """Rows of an append stream."""
    return [tuple(row[name] for name in COLUMNS) for row in rows]


def changed(rows: Iterable[dict[str, Any]]) -> list[Change]:
    """Rows of a changelog."""
    return [
        Change(
            kind=row["_change_type"],
            sequence=row["_change_seq"],
            is_of_lake=is_of_lake(row),
            key=row["id"],
            row=None if row["_change_type"] == "-D" else tuple(row[name] for name in COLUMNS),
        )
        for row in rows
    ]


def _chain(split: str, parts: list[tuple[int, int, str]]) -> list[str]:
    """Files from ordinal 0 to the furthest, each beginning at the end of the previous one."""
    ways: dict[int, list[str]] = {0: []}
    for first, end, name in sorted(parts):
        if first in ways:
            ways.setdefault(end, [*ways[first], name])
    furthest = max(end for _, end, _ in parts)
    assert furthest in ways, f"split {split} has a gap: {sorted(parts)}"
    return ways[furthest]
