"""Merging as loops over rows: the fold over log records, then the base rows one by one.

Ordering values are plain Python values that compare as in Hudi (floats by `java_double`); None is null.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

DATA, DELETE = "data", "delete"


@dataclass(frozen=True)
class Record:
    """One log record. `default` marks a delete without an ordering value; `row` is the data row."""

    key: Hashable
    what: str
    ordering: Any = None
    default: bool = False
    row: Any = None

    @property
    def is_commit_time_delete(self) -> bool:
        return self.what == DELETE and self.default


def java_double(value: float | None) -> Any:
    """A key that sorts as `Double.compare`: -0.0 below 0.0, NaN highest; None stays None."""
    if value is None:
        return None
    if math.isnan(value):
        return (1, 0)
    bits = struct.unpack(">q", struct.pack(">d", value))[0]
    return (0, bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF) - 1)


def above(left: Any, right: Any) -> bool:
    """left > right, null lowest."""
    if left is None:
        return False
    return right is None or left > right


def fold(records: Sequence[Record], event_time: bool) -> dict[Hashable, tuple[int, Record]]:
    """The winning record of each key with its position in arrival order."""
    standing: dict[Hashable, tuple[int, Record]] = {}
    for place, new in enumerate(records):
        known = standing.get(new.key)
        if known is None or not event_time or _stands(new, known[1]):
            standing[new.key] = (place, new)
    return standing


def _stands(new: Record, old: Record) -> bool:
    if new.what == DATA:
        return old.is_commit_time_delete or not above(old.ordering, new.ordering)
    if new.is_commit_time_delete:
        return True
    return not old.is_commit_time_delete and not above(old.ordering, new.ordering)


def merge(
    row_groups: Sequence[Sequence[Any]],
    records: Sequence[Record],
    *,
    event_time: bool,
    key_of: Callable[[Any, int], Hashable],
    ordering_of: Callable[[Any], Any],
) -> list[Any]:
    """Merged rows in output order. key_of(row, position in the file); a key's log record is used for its first row."""
    waiting = fold(records, event_time)
    merged: list[Any] = []
    place = 0
    for group in row_groups:
        winners: list[tuple[int, Any]] = []
        for row in group:
            met = waiting.pop(key_of(row, place), None)
            place += 1
            if met is None:
                merged.append(row)
                continue
            arrival, record = met
            base_stays = event_time and not record.is_commit_time_delete and above(ordering_of(row), record.ordering)
            if base_stays:
                merged.append(row)
            elif record.what == DATA:
                winners.append((arrival, record.row))
        merged += [row for _, row in sorted(winners, key=lambda winner: winner[0])]
    inserts = sorted((entry for entry in waiting.values() if entry[1].what == DATA), key=lambda entry: entry[0])
    return merged + [record.row for _, record in inserts]
