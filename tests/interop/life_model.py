"""The model of a table: its rows by key after each commit. It draws the writes, and merges them row by row.

Does no I/O: `table_life` writes the table and compares what readers return.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tests.interop.chaos_writer import PARTITIONS, Change, Commit, Key, differences

KEYS: Final = 150
"""Keys that upserts write again and again."""
MOST_INSERTED: Final = 40
"""More inserted keys than that are deleted before others."""
FIRST_INSERTED: Final = 1000
"""The number of the first inserted key."""
REPLACED: Final = "x"
"""The partition that an insert_overwrite replaces."""
OPERATIONS: Final = {"upsert": 55, "insert": 12, "bulk_insert": 8, "delete": 20, "insert_overwrite": 5}
"""Operations with their weights."""

Read = tuple[str, str, int, str]
"""partition, key, `n`, and the requested time of the commit that wrote the row."""


class Write(NamedTuple):
    """An operation and its rows: [id, p, ts, n]."""

    operation: str
    rows: list[list[Any]]


class Stored(NamedTuple):
    """A row of the table."""

    ts: int
    """The ordering value: the higher one wins."""
    n: int
    """The value, which no other write has."""
    by: str
    """The requested time of its commit."""


class TableModel:
    """A table as a dict. `commits` has every write with the rows after it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._writes, self._next_key = rng, 0, FIRST_INSERTED
        self._rows: dict[Key, Stored] = {}
        self.commits: list[Commit] = []

    def first(self) -> Write:
        """The first write: half of the keys."""
        return self._write("upsert", [_key(number) for number in range(KEYS // 2)])

    def drawn(self, operations: Iterable[str] = OPERATIONS) -> Write:
        """The next write. Some upserts have rows whose ordering value is lower than the stored one.

        Inserts have keys that the table never had. An insert does not look for its key, and the simple index finds a
        key that a log deleted in its old base file: a later upsert then writes both file groups, also by Hudi
        (`test_write_repeated_keys`).
        """
        rng, stored = self._rng, sorted(self._rows)
        names = [name for name in operations if name != "delete" or stored]
        operation = rng.choices(names, [OPERATIONS[name] for name in names])[0]
        match operation:
            case "insert" | "bulk_insert":
                numbers = range(self._next_key, self._next_key + rng.randrange(1, 9))
                keys, self._next_key = [_key(number) for number in numbers], numbers.stop
            case "delete":
                inserted = [key for key in stored if key[1] >= _key(FIRST_INSERTED)[1]]
                doomed = inserted if len(inserted) > MOST_INSERTED else stored
                keys = rng.sample(doomed, min(len(doomed), rng.randrange(1, 9)))
            case "insert_overwrite":
                keys = rng.sample([_key(number) for number in range(0, KEYS, 3)], rng.randrange(5, 25))
            case _:
                keys = [_key(number) for number in rng.sample(range(KEYS), rng.randrange(1, 15))]
        return self._write(operation, keys)

    def apply(self, write: Write, instant: str, order_key: str) -> None:
        """Merges a completed write into the rows."""
        before = {key: (row.n, row.by) for key, row in self._rows.items()}
        if write.operation == "insert_overwrite":
            self._rows = {key: row for key, row in self._rows.items() if key[0] != REPLACED}
        for id_, partition, ts, n in write.rows:
            key = (partition, id_)
            if write.operation == "delete":
                self._rows.pop(key, None)
            elif key not in self._rows or self._rows[key].ts <= ts:
                self._rows[key] = Stored(ts, n, instant)
        after = {key: (row.n, row.by) for key, row in self._rows.items()}
        changes = differences(before, after, instant, REPLACED if write.operation == "insert_overwrite" else None)
        self.commits.append(Commit(instant, order_key, write.operation, changes, after))

    def changes(self) -> Counter[Change]:
        """Every change of every commit."""
        return Counter(change for commit in self.commits for change in commit.changes)

    def state(self, number: int = -1) -> list[Read]:
        """The rows after a commit."""
        return [(*key, n, by) for key, (n, by) in self.commits[number].rows.items()]

    def in_range(self, after: int) -> list[Read]:
        """The rows that commits after a commit wrote, as they are after the newest one."""
        instants = {commit.requested for commit in self.commits[after:][1:]}
        return [row for row in self.state() if row[3] in instants]

    def _write(self, operation: str, keys: Iterable[Key]) -> Write:
        self._writes += 1
        ts, rows = 10 * self._writes, []
        for place, (partition, id_) in enumerate(sorted(keys)):
            stored = self._rows.get((partition, id_))
            is_late = operation == "upsert" and stored is not None and self._rng.random() < 0.1
            rows.append([id_, partition, stored.ts - 1 if stored and is_late else ts, 1000 * self._writes + place])
        return Write(operation, rows)


def _key(number: int) -> Key:
    return (PARTITIONS[number % len(PARTITIONS)], f"k{number:05d}")
