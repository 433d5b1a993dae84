"""Hudi writes twenty tables while `penstock sync` copies them into DuckDB, PostgreSQL and Delta Lake, each by processes
that are killed: each copy has Hudi's rows."""

from __future__ import annotations

import os
import pathlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.job import SyncEntry, TargetUrl
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.table_sync import TableSync
from penstock.engine.sync.targets.duckdb import DuckDBTarget
from penstock.proto.errors import SchemaMismatch
from tests.golden.rows import difference
from tests.interop.sync_copies import Copy, InDelta, InDuckDB, InPostgreSQL, Killer
from tests.long_record import add_to_record
from tests.postgres_server import PostgresServer, postgres_server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]

SEED = int(os.environ.get("PENSTOCK_SEED", "20261123"))
LONG_S = float(os.environ.get("PENSTOCK_SYNC_SECONDS", "1800"))
TABLES, SHARDS = 15, 5
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
        self.commits = 0
        self._changed, self._has_ended = threading.Condition(), False

    def run(self) -> None:
        """See the class."""
        try:
            for table in self._order():
                self.last = table
                table.commit()
                with self._changed:
                    self.commits += 1
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - the test reports it
            self.failure = error
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def waited_for(self, commits: int) -> bool:
        """Waits for so many commits; False: the writer ended before."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended or self.commits >= commits)
            return self.commits >= commits

    def _order(self) -> Iterator[LiveTable]:
        yield from self._rng.sample(self._tables, len(self._tables))
        rest = self._tables * (self._rounds - 1)
        yield from self._rng.sample(rest, len(rest))
        while time.monotonic() < self._until_s:
            yield self._rng.choice(self._tables)


def hudi_rows(hudi: Any, lake: pathlib.Path) -> dict[str, pa.Table]:
    """Hudi's own snapshot of each table."""
    tables = {path.name: hudi.read(path) for path in sorted(lake.iterdir())}
    names = ["id", "ts", "p", "v", "d", "w"]
    return {name: rows.select([one for one in rows.column_names if one in names]) for name, rows in tables.items()}


def check(expected: dict[str, pa.Table], copy: Copy) -> list[str]:
    """Which tables of a copy are not equal."""
    problems = []
    shards = copy.rows("shards")
    for table, snapshot in expected.items():
        rows = snapshot
        if table.startswith("shard_"):
            own = shards.filter(pc.equal(shards["shard"], table)).drop_columns(["shard"])
            for name in set(own.column_names) - set(rows.column_names):
                rows = rows.append_column(name, pa.nulls(rows.num_rows, own.schema.field(name).type))
        else:
            own = copy.rows(table)
        unequal = difference(own, rows)
        if unequal:
            problems.append(f"{table}: {unequal}")
    return problems


def under_kills(
    hudi: Any, folder: pathlib.Path, server: PostgresServer, rounds: int, seconds: float
) -> tuple[dict[str, pa.Table], list[Copy]]:
    """The whole test, with a line about what happened. Hudi's rows at the end, and the copies.

    With `seconds`, each copy's next sync starts after eight more commits. Otherwise three syncs start, after a quarter,
    a half and three quarters of the commits: each has at least 10 transactions to do, so that all of them are killed.
    """
    rng = random.Random(SEED)
    lake = folder / "lake"
    lake.mkdir()
    names = [*(f"t{number}" for number in range(TABLES)), *(f"shard_{number}" for number in range(SHARDS))]
    tables = [LiveTable(hudi, lake / name, n, random.Random(rng.random())) for n, name in enumerate(names)]
    writer = Writer(tables, rounds, time.monotonic() + seconds, random.Random(rng.random()))
    copies = [InDuckDB(folder), InPostgreSQL(folder, server.url()), InDelta(folder)]
    every = 8 if seconds else len(tables) * rounds // 4
    most = None if seconds else 3
    killers = [
        Killer(
            copy, lambda syncs: syncs != most and writer.waited_for((syncs + 1) * every), random.Random(rng.random())
        )
        for copy in copies
    ]
    for thread in (writer, *killers):
        thread.start()
    for thread in (writer, *killers):
        thread.join()
    assert writer.failure is None, f"{writer.last}: {str(writer.failure)[:600]}"
    expected = hudi_rows(hudi, lake)
    for copy in copies:
        assert copy.sync(None) == 0, copy.log()
        assert check(expected, copy) == [], copy.name
    kills = {killer.copy.name: killer.kills for killer in killers}
    assert min(kills.values()) >= 3, kills
    _note(f"sync: seed {SEED}, {writer.commits} commits in {len(tables)} tables; syncs killed: {kills}")
    return expected, copies


def _note(line: str) -> None:
    """Prints a line, also in the record of `make long`."""
    print(line)
    add_to_record(line)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


SWAP = ("RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b")
AGAIN = ("DROP COLUMN b", "ADD COLUMNS (b string)")


@pytest.mark.parametrize("changes", [SWAP, AGAIN], ids=["renamed", "dropped and added"])
def test_other_column_of_an_old_name_stops(hudi: Any, changes: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """Hudi reads other values of rows that no commit has written again."""
    name, place = f"evolved_{len(changes)}", tmp_path / "t"
    drop = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
    settings = {"hoodie.schema.on.read.enable": "true", drop: "true"}
    properties = "type = 'cow', primaryKey = 'id', preCombineField = 'ts'"
    hudi.script({}, [f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id string, ts int, a string, b string) "
                     f"USING hudi TBLPROPERTIES ({properties}) LOCATION '{place}'"])  # fmt: skip
    hudi.script(settings, [f"INSERT INTO {name} VALUES ('1', 1, 'a1', 'b1')"])
    target = DuckDBTarget(str(tmp_path / "copy.db"))
    entry = SyncEntry(source=str(place), target=TargetUrl("duckdb", ""))
    source = SourceTable(entry=entry, name="t", table=str(place), target_table="t")

    def copy(*, restart: bool = False) -> str:
        sync = TableSync(source, TableFeed(str(place), {}, {}), target, restart=restart)
        while sync.step() is not None:
            pass
        rows = hudi.read(place, hoodie__schema__on__read__enable="true").select(["id", "ts", "a", "b"])
        with duckdb.connect(str(tmp_path / "copy.db")) as connection:
            return difference(connection.sql("SELECT * FROM t").to_arrow_table(), rows)

    assert copy() == ""
    hudi.script(settings, [*(f"ALTER TABLE {name} {change}" for change in changes),
                           f"INSERT INTO {name} (id, ts, a, b) VALUES ('2', 2, 'a2', 'b2')"])  # fmt: skip
    with pytest.raises(SchemaMismatch, match="is another column than before"):
        copy()
    assert copy(restart=True) == ""
    target.close()


@pytest.mark.long
def test_copies_are_equal_to_hudi_under_kills(hudi: Any, server: PostgresServer, tmp_path: pathlib.Path) -> None:
    """For PENSTOCK_SYNC_SECONDS, with deletes and wider columns in each table. Negative control: a row that is missing
    in a copy is noticed."""
    expected, copies = under_kills(hudi, tmp_path, server, 6, LONG_S)
    for copy in copies:
        copy.delete("t0", expected["t0"]["id"][0].as_py())
        copy.delete("shards", expected["shard_0"]["id"][0].as_py())
        noticed = [problem.partition(":")[0] for problem in check(expected, copy)]
        assert {"shard_0", "t0"} <= set(noticed) <= {"t0", *(f"shard_{number}" for number in range(SHARDS))}
