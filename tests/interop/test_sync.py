"""Hudi writes twenty tables while `penstock sync` copies them into DuckDB and is killed: the copies are Hudi's rows."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.golden.rows import difference

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]

SEED = int(os.environ.get("PENSTOCK_SEED", "20261123"))
LONG_S = float(os.environ.get("PENSTOCK_SYNC_SECONDS", "1800"))
TABLES, SHARDS = 15, 5
JOB = """
[[sync]]
from = "{lake}/*"
exclude = "shard_*"
to = "duckdb:///{target}"

[[sync]]
from = "{lake}/shard_*"
to = "duckdb:///{target}"
into = "shards"
source_column = "shard"
"""
COLUMNS = [("id", "c0"), ("ts", "c1"), ("p", "c2"), ("v", "cast(c1 * 2 AS int)"), ("d", "cast(c1 AS decimal(10, 2))")]
WIDER = [*COLUMNS[:3], ("v", "c1 * 2"), COLUMNS[4], ("w", "nullif(concat('w', c0), '')")]
"""`v` becomes a bigint, `w` is new."""


@dataclass
class LiveTable:
    """A table that Hudi writes, commit by commit."""

    hudi: Any
    path: pathlib.Path
    number: int
    rng: random.Random
    commits: int = 0
    _partitions: dict[str, str] = field(default_factory=dict)
    _is_wider: bool = False

    def commit(self) -> None:
        """The next commit: first rows, then updates with a new row, or deletes; in every fifth table wider columns."""
        self.commits += 1
        operation = "upsert"
        if self.commits == 1:
            operation, ids = "insert", [f"k{number}" for number in range(8)]
        elif (self.commits + self.number) % 3:
            ids = [*self.rng.sample(sorted(self._partitions), min(3, len(self._partitions))), f"n{self.commits}"]
        else:
            operation, ids = "delete", self.rng.sample(sorted(self._partitions), min(2, len(self._partitions)))
        rows = [(one, self.commits * 1_000 + place, self._partition(one, operation)) for place, one in enumerate(ids)]
        self._is_wider |= self.number % 5 == 0 and self.commits >= 2 and operation == "upsert"
        columns = WIDER if self._is_wider else COLUMNS
        self.hudi.write(self.path, columns, rows, {**self._options(), "hoodie.datasource.write.operation": operation})

    def _partition(self, key: str, operation: str) -> str:
        """A row stays in its partition; with a global index, an update moves it."""
        if operation == "delete":
            return self._partitions.pop(key)
        if key not in self._partitions or self._is_global:
            self._partitions[key] = self.rng.choice(["a", "b"])
        return self._partitions[key]

    @property
    def _is_global(self) -> bool:
        return self.number % 4 == 1

    def _options(self) -> dict[str, str]:
        options = {
            "hoodie.table.name": "t",
            "hoodie.write.table.version": "6" if self.number % 3 == 2 else "9",
            "hoodie.write.auto.upgrade": "false",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if self.number % 2 else "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.metadata.enable": "false",
            "hoodie.datasource.write.row.writer.enable": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.upsert.shuffle.parallelism": "1",
            "hoodie.insert.shuffle.parallelism": "1",
            "hoodie.delete.shuffle.parallelism": "1",
        }
        if self._is_global:
            more = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
            return {**options, **more}
        return options


class Writer(threading.Thread):
    """Writes commits into the tables in a random order: `rounds` of each, then more until `until_s`."""

    def __init__(self, tables: list[LiveTable], rounds: int, until_s: float, rng: random.Random) -> None:
        super().__init__(name="hudi-writer", daemon=True)
        self._tables, self._rounds, self._until_s, self._rng = tables, rounds, until_s, rng
        self.failure: Exception | None = None
        self.last: LiveTable | None = None

    def run(self) -> None:
        """See the class."""
        try:
            for table in self._order():
                self.last = table
                table.commit()
        except Exception as error:  # noqa: BLE001 - the test reports it
            self.failure = error

    def _order(self) -> Iterator[LiveTable]:
        yield from self._rng.sample(self._tables, len(self._tables))
        rest = self._tables * (self._rounds - 1)
        yield from self._rng.sample(rest, len(rest))
        while time.monotonic() < self._until_s:
            yield self._rng.choice(self._tables)


def sync(job: pathlib.Path, kill_after: int | None, log: pathlib.Path) -> int:
    """`penstock sync --once`, killed after so many transactions. Its exit code."""
    command = [sys.executable, "-P", "-m", "penstock", "sync", str(job), "--once"]
    with log.open("a") as lines, subprocess.Popen(command, stderr=subprocess.PIPE, stdout=lines, text=True) as process:
        assert process.stderr is not None
        transactions = 0
        for line in process.stderr:
            lines.write(line)
            transactions += ": synced " in line
            if transactions == kill_after:
                process.kill()
                kill_after = None
    return process.returncode


def hudi_rows(hudi: Any, lake: pathlib.Path) -> dict[str, pa.Table]:
    """Hudi's own snapshot of each table."""
    tables = {path.name: hudi.read(path) for path in sorted(lake.iterdir())}
    names = ["id", "ts", "p", "v", "d", "w"]
    return {name: rows.select([one for one in rows.column_names if one in names]) for name, rows in tables.items()}


def check(expected: dict[str, pa.Table], target: pathlib.Path) -> list[str]:
    """Which copies are not equal."""
    problems = []
    with duckdb.connect(str(target), read_only=True) as copy:
        for table, snapshot in expected.items():
            rows = snapshot
            if table.startswith("shard_"):
                own = copy.sql(f"SELECT * EXCLUDE (shard) FROM shards WHERE shard = '{table}'").to_arrow_table()
                for name in set(own.column_names) - set(rows.column_names):
                    rows = rows.append_column(name, pa.nulls(rows.num_rows, own.schema.field(name).type))
            else:
                own = copy.sql(f'SELECT * FROM "{table}"').to_arrow_table()
            unequal = difference(own, rows)
            if unequal:
                problems.append(f"{table}: {unequal}")
    return problems


def under_kills(hudi: Any, folder: pathlib.Path, rounds: int, seconds: float) -> dict[str, pa.Table]:
    """The whole test, with a line about what happened. Hudi's rows at the end."""
    rng = random.Random(SEED)
    lake, target, job, log = folder / "lake", folder / "copy.db", folder / "job.toml", folder / "sync.log"
    lake.mkdir()
    names = [*(f"t{number}" for number in range(TABLES)), *(f"shard_{number}" for number in range(SHARDS))]
    tables = [LiveTable(hudi, lake / name, n, random.Random(rng.random())) for n, name in enumerate(names)]
    job.write_text(JOB.format(lake=lake, target=target))
    tables[0].commit()
    writer = Writer(tables, rounds, time.monotonic() + seconds, random.Random(rng.random()))
    writer.start()
    kills = 0
    while writer.is_alive() or kills < 3:
        killed = sync(job, rng.randrange(1, 7), log) == -9
        kills += killed
        if not writer.is_alive() and not killed:
            break
    writer.join()
    assert kills >= 3
    assert writer.failure is None, f"{writer.last}: {str(writer.failure)[:600]}"
    code = sync(job, None, log)
    assert code == 0, log.read_text()[-3_000:]
    expected = hudi_rows(hudi, lake)
    assert check(expected, target) == []
    print(f"sync: seed {SEED}, {sum(one.commits for one in tables)} commits in {len(tables)} tables, {kills} kills")
    return expected


def test_copies_are_equal_to_hudi_under_kills(hudi: Any, tmp_path: pathlib.Path) -> None:
    """Two commits and more in each table. Negative control: a row that is missing in the copy is noticed."""
    expected = under_kills(hudi, tmp_path, 2, 0.0)
    with duckdb.connect(str(tmp_path / "copy.db")) as copy:
        copy.execute("DELETE FROM t0 WHERE id = (SELECT min(id) FROM t0)")
        copy.execute("UPDATE shards SET v = v + 1 WHERE shard = 'shard_0'")
    problems = check(expected, tmp_path / "copy.db")
    assert [problem.partition(":")[0] for problem in problems] == ["shard_0", "t0"]


@pytest.mark.long
def test_copies_are_equal_to_hudi_under_kills_for_long(hudi: Any, tmp_path: pathlib.Path) -> None:
    """For PENSTOCK_SYNC_SECONDS, with deletes and wider columns in each table."""
    under_kills(hudi, tmp_path, 6, LONG_S)
