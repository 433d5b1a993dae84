"""Hudi writes one table continuously. The changes of each commit come from Hudi's own snapshots.

The expected changes depend only on Hudi, never on Penstock. `chaos_harness` reads the table in the meantime,
`test_chaos` compares.
"""

from __future__ import annotations

import pathlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

COLUMNS = (("id", "c0"), ("p", "c1"), ("ts", "c2"), ("n", "c3"))
PARTITIONS = ("x", "y", "z")
KEYS = 60
RETAINED = 15
"""The number of commits whose files the cleaner retains."""
NEAR = 5
"""The lag in commits up to which the cleaner may run, so that no range is lost that a group still needs."""

OPTIONS = {
    "hoodie.table.name": "chaos",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.write.table.version": "9",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.index.type": "SIMPLE",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.compact.inline": "false",
    "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "100000000",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.copyonwrite.insert.split.size": "8",
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.clean.async": "false",
    "hoodie.clean.commits.retained": str(RETAINED),
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": str(RETAINED + 5),
    "hoodie.keep.max.commits": str(RETAINED + 8),
    "hoodie.commits.archival.batch": "1",
    **{f"hoodie.{step}.shuffle.parallelism": "1" for step in ("insert", "upsert", "delete", "bulkinsert")},
}
SERVICES = {
    "compaction": {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
    "clustering": {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"},
    "clean": {"hoodie.clean.automatic": "true"},
}
LOGGED = {
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
}

Key = tuple[str, str]
Row = tuple[int, int]
Change = tuple[str, str, Key, int]
"""(kind as +I, -U, +U, -D; requested time; (partition, key); `n` of the row, unique per write)."""


def folded(rows: Iterable[dict[str, Any]]) -> dict[Key, int]:
    """The table: all changes applied in the order of their sequence numbers. AssertionError: a change removes a row
    that is not there, or adds one that is."""
    table: dict[Key, int] = {}
    for row in sorted(rows, key=lambda row: str(row["_change_seq"])):
        key, kind = (row["p"], row["id"]), row["_change_type"]
        if kind in ("+I", "+U"):
            assert key not in table, f"{kind} of {key}, which is there, at {row['_change_seq']}"
            table[key] = row["n"]
        else:
            assert table.pop(key, None) == row["n"], f"{kind} of {key} at {row['_change_seq']}"
    return table


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, its changes, and the table after it: `n` by key, and the writer of each row."""

    requested: str
    order_key: str
    action: str
    changes: tuple[Change, ...]
    rows: dict[Key, tuple[int, str]]


class ChaosWriter(threading.Thread):
    """Writes until `stop` is called, in its own thread, which is the only one that calls Hudi. `failure` is its error.

    `have_committed` says whether all readers have committed up to a commit. The cleaner runs only if they are close.
    """

    columns: tuple[tuple[str, str], ...] = COLUMNS

    def __init__(self, hudi: Any, table: pathlib.Path, rng: random.Random, *, logs_changes: bool) -> None:
        super().__init__(name="chaos-writer", daemon=True)
        self._hudi, self._table, self._rng = hudi, table, rng
        self._options = OPTIONS | (LOGGED if logs_changes else {})
        self._written = 0
        self._stop_requested = threading.Event()
        self.commits: list[Commit] = []
        self.services: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self.have_committed: Callable[[str], bool] = lambda order_key: False

    def begin(self) -> None:
        """Writes the first commit in the caller's thread, so that the table exists."""
        self._write("upsert", self._rows(range(KEYS // 2)), {})

    def stop(self) -> None:
        """Stops the writer; returns after the current write, when Hudi has read it."""
        self._stop_requested.set()
        self.join()

    def run(self) -> None:
        """Writes commits of all kinds, each with randomly chosen services."""
        try:
            while not self._stop_requested.is_set():
                self._one()
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.failure = error

    def changes(self) -> Counter[Change]:
        """Every change of every commit."""
        return Counter(change for commit in self.commits for change in commit.changes)

    def _one(self) -> None:
        rng = self._rng
        more: dict[str, str] = {}
        for service, chance in (("compaction", 0.3), ("clustering", 0.15), ("clean", 0.5)):
            if rng.random() < chance and (service != "clean" or self._may_clean()):
                more |= SERVICES[service]
        keys = sorted(rng.sample(range(KEYS), rng.randrange(1, 15)))
        kind = rng.random()
        there = sorted(self.commits[-1].rows)
        if kind < 0.2 and there:
            doomed = [
                [key, partition, 10 * self._written, 0] for partition, key in rng.sample(there, min(4, len(there)))
            ]
            self._write("delete", doomed, more)
        elif kind < 0.27:
            rows = [[key, "x", *rest] for key, _, *rest in self._rows(keys)]
            self._write("insert_overwrite", rows, {})
        else:
            self._write("upsert", self._rows(keys), more)

    def _may_clean(self) -> bool:
        return len(self.commits) > NEAR and self.have_committed(self.commits[-NEAR].order_key)

    def _rows(self, keys: Any) -> list[list[Any]]:
        """One row per key, each with a new `n`; some rows have a lower ordering value than the stored row."""
        late = self._rng.choice((0, 0, 25))
        instants = [(number, self._rng.randrange(late + 1)) for number in keys]
        return [
            [f"k{number:03d}", PARTITIONS[number % 3], 10 * self._written - ago, 1000 * self._written + number]
            for number, ago in instants
        ]

    def _write(self, operation: str, rows: list[list[Any]], more: dict[str, str]) -> None:
        self._written += 1
        options = self._options | more | {"hoodie.datasource.write.operation": operation}
        changed_keys = self._hudi.write(self._table, self.columns, rows, options)
        expected_action = "replacecommit" if operation == "insert_overwrite" else "deltacommit"
        ((requested, completion, _),) = [item for item in changed_keys if item[2] == expected_action]
        self.services.update(action for _, _, action in changed_keys if action != expected_action)
        self.services[operation] += 1
        before = self.commits[-1].rows if self.commits else {}
        after = self._snapshot()
        changes = differences(before, after, requested, "x" if operation == "insert_overwrite" else None)
        self.commits.append(Commit(requested, completion or requested, operation, changes, after))

    def _snapshot(self) -> dict[Key, tuple[int, str]]:
        rows = self._hudi.read(self._table).to_pylist()
        by_key = {(row["p"], row["id"]): (row["n"], row["_hoodie_commit_time"]) for row in rows}
        assert len(by_key) == len(rows), "Hudi's snapshot has a key twice"
        return by_key


def differences(
    before: dict[Key, tuple[int, str]], after: dict[Key, tuple[int, str]], requested: str, replaced: str | None
) -> tuple[Change, ...]:
    """The changed rows, by value. In a replaced partition every old row is deleted and every new row inserted."""
    rows: list[Change] = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        is_rewritten = key[0] == replaced
        if old is not None and new is not None and not is_rewritten:
            if old[0] != new[0]:
                rows += [("-U", requested, key, old[0]), ("+U", requested, key, new[0])]
            continue
        if old is not None:
            rows.append(("-D", requested, key, old[0]))
        if new is not None:
            rows.append(("+I", requested, key, new[0]))
    return tuple(rows)


def waited(until: Any, seconds: float, what: str) -> None:
    """Waits for a condition. AssertionError: the time is over; it names the condition."""
    give_up = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < give_up, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.1)
