"""The tables of the stream tests, as Hudi writes them: one script, with conditions switched on and off.

`recorded` reveals the commits, `reference_model` has the expected results. Event times are seconds after `START`. Rows
of one table and group `g` never share one, because Spark counts late rows per key and time.
"""

from __future__ import annotations

import datetime as dt
import pathlib
from dataclasses import dataclass
from typing import Any

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
COLUMNS = (
    ("id", "c0"),
    ("p", "c1"),
    ("seq", "c2"),
    ("ts", f"timestamp_micros({int(START.timestamp())} * 1000000L + cast(c3 * 1000000 AS bigint))"),
    ("g", "c4"),
    ("n", "c5"),
)
SERVICES = {
    "mor": {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
    "cow": {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"},
}
LOGGED = {
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """A table: `kind` is cow or mor; commits that complete out of order, updates that are later than allowed, rows
    without event time; `version` 6 has timeline layout 1; `changes`: change data is logged."""

    kind: str
    out_of_order: bool
    late: bool
    nulls: bool
    version: int = 9
    changes: bool = False

    def name(self) -> str:
        """The name for folders and test ids."""
        flags = {"ooo": self.out_of_order, "late": self.late, "nulls": self.nulls, "cdc": self.changes}
        return "-".join([f"{self.kind}{self.version}", *(word for word, is_so in flags.items() if is_so)])


TABLES = {
    conditions.name(): conditions
    for conditions in (
        Conditions("mor", True, True, False, changes=True),
        Conditions("mor", False, False, True),
        Conditions("cow", True, False, True),
        Conditions("cow", False, True, False, changes=True),
        Conditions("mor", True, True, True, version=6),
    )
}
"""Each pair of conditions, and each kind of table with and without all conditions."""


def options(conditions: Conditions) -> dict[str, str]:
    """The options of every write."""
    kind = {"mor": "MERGE_ON_READ", "cow": "COPY_ON_WRITE"}[conditions.kind]
    options_of_write = {
        "hoodie.table.name": "recorded",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.table.type": kind,
        "hoodie.write.table.version": str(conditions.version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.index.type": "SIMPLE",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
        "hoodie.clustering.plan.strategy.target.file.max.bytes": "100000000",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.copyonwrite.insert.split.size": "2",
        "hoodie.copyonwrite.insert.auto.split": "false",
        "hoodie.compact.inline": "false",
        "hoodie.index.bloom.num_entries": "100",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        "hoodie.clean.failed.writes.policy": "LAZY",
        **{f"hoodie.{step}.shuffle.parallelism": "1" for step in ("insert", "upsert", "delete", "bulkinsert")},
    }
    if conditions.version == 6:
        options_of_write["hoodie.datasource.write.payload.class"] = (
            "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
        )
    else:
        options_of_write |= dict.fromkeys(
            ("hoodie.record.merge.mode", "hoodie.write.record.merge.mode"), "EVENT_TIME_ORDERING"
        )
    return options_of_write | (LOGGED if conditions.changes else {})


Script = list[tuple[str, list[tuple[str, str, float | None]]]]


def script(conditions: Conditions) -> Script:
    """(operation, [(key, partition, seconds)]) for each write; the `fast` write after a `slow` one completes first."""
    late, none = conditions.late, conditions.nulls
    race = ("slow", "fast") if conditions.out_of_order else ("upsert", "upsert")
    return [
        ("upsert", [(f"k{n}", "ab"[n % 2], None if none and n == 5 else 1 + 1.5 * n) for n in range(8)]),
        ("upsert", [("k0", "a", 10.25), ("k3", "b", 13), ("k8", "a", 15), ("k9", "b", 18.75), ("k10", "a", 19)]),
        (race[0], [("k0", "a", 20), ("k4", "a", 22.5), ("k12", "a", 29.25), ("k14", "a", 27)]),
        (race[1], [("k1", "b", 24), ("k9", "b", 26), ("k13", "b", 33.5)]),
        ("delete", [("k6", "a", 0), ("k7", "b", 0)]),
        ("service", [("k1", "b", 34.5), ("k8", "a", 36), ("k15", "b", 41), ("k16", "a", 40)]),
        ("upsert", [("k2", "a", 5 if late else 38.25), ("k3", "b", 14.25 if late else 39.5), ("k4", "a", 43.75)]),
        ("upsert", [("k5", "b", None if none else 45), ("k17", "a", None if none else 46), ("k18", "b", 50)]),
        ("upsert", [("k9", "b", 31.25 if late else 53), ("k10", "a", 54), ("k19", "b", 60.5)]),
        ("upsert", [("k0", "a", 75), ("k20", "b", 70.75)]),
    ]


def write(hudi: Any, table: pathlib.Path, conditions: Conditions) -> None:
    """Writes the script."""
    for number in range(len(script(conditions))):
        write_one(hudi, table, conditions, number)


def write_one(hudi: Any, table: pathlib.Path, conditions: Conditions, number: int) -> None:
    """One write of the script, or a slow write together with the fast one."""
    options_of_write, writes = options(conditions), script(conditions)
    operation, rows = writes[number]
    if operation == "slow":
        fast = _rows(number + 1, writes[number + 1][1])
        upsert = options_of_write | {"hoodie.datasource.write.operation": "upsert"}
        hudi.race(table, COLUMNS, (_rows(number, rows), upsert), (fast, upsert))
    elif operation != "fast":
        named = "upsert" if operation == "service" else operation
        more = SERVICES[conditions.kind] if operation == "service" else {}
        hudi.write(
            table, COLUMNS, _rows(number, rows), options_of_write | more | {"hoodie.datasource.write.operation": named}
        )


def _rows(number: int, rows: list[tuple[str, str, float | None]]) -> list[list[Any]]:
    return [
        [key, partition, number + 1, seconds, int(key[1:]) % 3, 100 * (number + 1) + place]
        for place, (key, partition, seconds) in enumerate(rows)
    ]
