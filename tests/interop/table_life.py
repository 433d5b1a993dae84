"""The life of one table: writes, table services of which some are killed, and readers whose every answer is compared.

`life_model` says what the rows must be, `life_judgements` what a clean and an archival leave, `life_readers` has the
server and the consumer groups.
"""

from __future__ import annotations

import pathlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.engine.write.create import create_table
from tests.interop.chaos_writer import COLUMNS
from tests.interop.endurance_sinks import Sink
from tests.interop.life_judgements import (
    WRITES,
    Completed,
    DataFile,
    Run,
    completed_of,
    crowded,
    data_file_of,
    group_of,
    is_of_timeline,
    is_planned_service,
    not_cleaned,
    not_newest,
    orphans,
    settled,
)
from tests.interop.life_model import Read, TableModel, Write
from tests.interop.life_peers import LifePeer, kill_a_service
from tests.interop.life_process import KEEP_MAX, RETAINED, SCHEMA
from tests.interop.test_writes import hudis_options

NEAR: Final = 6
"""Commits back to which readers travel in time and begin ranges. The clean retains more."""
LENIENT: Final = 2
"""Commits by which a clean may be late: a write that is pending when it plans holds it."""
ATTEMPTS: Final = 40
"""Attempts of a write that conflicts with a clustering."""
RETRY_S: Final = 0.25
"""Before the next attempt."""
KILLED: Final = 0.25
"""The share of service runs that are killed."""
KILLED_WITHIN_S: Final = 0.8
"""The latest kill after the first plan of a run."""
REFUSED: Final = 0.25
"""The most of the service runs that may fail because a writer changed the groups of a clustering."""
HUDIS_OPERATIONS: Final = ("upsert", "delete")


@dataclass(frozen=True)
class Kind:
    """A kind of table."""

    name: str
    table_type: str
    version: int


@dataclass
class Peers:
    """The processes that all tables share, and real Hudi."""

    writer: LifePeer
    reader: LifePeer
    services: LifePeer
    hudi: Any

    def stop(self) -> None:
        """Ends them."""
        for peer in (self.writer, self.reader, self.services):
            peer.stop()


@dataclass
class TableLife:
    """A table, its model, and its problems. `turn` is called by one thread, `serve` by another."""

    kind: Kind
    path: pathlib.Path
    peers: Peers
    model: TableModel
    rng: random.Random
    """The random choices of the services."""
    reads: random.Random
    """The random choices of the readers."""
    measure: Callable[[str, float], None]
    """Takes the processor time of a request, by its name."""
    problems: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    known: dict[str, Completed] = field(default_factory=dict)
    """All completed instants that the timeline has shown, by their requested time."""
    refusals: list[str] = field(default_factory=list)
    """Why services failed by a conflict."""
    _runs: list[Run] = field(default_factory=list)
    _serving: threading.Lock = field(default_factory=threading.Lock)
    _read_upto: int = 0

    def begin(self) -> None:
        """Creates the table with its first commit."""
        create_table(
            str(self.path),
            SCHEMA,
            record_key="id",
            partition_by="p",
            ordering="ts",
            table_type=self.kind.table_type,
            table_version=self.kind.version,
            index="simple",
        )
        self._write(self.model.first())

    def turn(self, *, hudi_writes: bool = False, hudi_reads: bool = False) -> None:
        """One write, and every reader after it."""
        if hudi_writes:
            self._hudi_writes()
        else:
            self._write(self.model.drawn())
        self._compare_reads()
        if hudi_reads:
            self.compare_with_hudi()

    def serve(self) -> None:
        """The services that are due; some are killed before they end, and the next ones go on."""
        with self._serving:
            if self.rng.random() < KILLED:
                folder, before = self.path.parent / f"{self.kind.name}-killed", self._planned_services()
                is_killed = kill_a_service(
                    folder,
                    self.path,
                    lambda: not self._planned_services() <= before,
                    self.rng.uniform(0, KILLED_WITHIN_S),
                )
                self.happened["services killed" if is_killed else "services ended before the kill"] += 1
            else:
                self._maintain()

    def compare_with_hudi(self) -> set[str]:
        """Hudi's snapshot, with the commit times. Returns the file groups of its rows."""
        hudis = self.peers.hudi.read(self.path).to_pylist()
        rows = [(row["p"], row["id"], row["n"], row["_hoodie_commit_time"]) for row in hudis]
        self._compare("Hudi's snapshot", rows, self.model.state())
        return {group_of(row["p"], row["_hoodie_file_name"]) for row in hudis}

    def end(self) -> None:
        """The last services, and what they leave."""
        with self._serving:
            self._maintain()
            self._maintain()
            self.peers.services.ask("clean", self.path)
        self._compare(
            "snapshot at the end",
            [tuple(row) for row in self.peers.reader.ask("read", self.path, options={})["rows"]],
            self.model.state(),
        )
        live = self.compare_with_hudi()
        self.active()
        files = self.data_files()
        self.problems += [
            f"{self.kind.name}: {line}" for line in (*orphans(files, self.known), *not_newest(files, live))
        ]

    def active(self) -> list[Completed]:
        """The completed instants of the active timeline, by requested time."""
        completed = sorted(item for item in map(completed_of, self._timeline()) if item)
        self.known |= {item.requested: item for item in completed}
        return completed

    def data_files(self) -> list[DataFile]:
        """The base files and logs of all partitions."""
        paths = self.path.glob("[!.]*/*")
        return [file for path in paths if (file := data_file_of(path.parent.name, path.name))]

    def sizes(self) -> Iterator[tuple[str, int]]:
        """The numbers of files by kind, for the verdict on growth."""
        yield "data files", len(self.data_files())
        yield "active instants", len(self.active())
        folder = self.path / ".hoodie"
        others = (path for path in folder.rglob("*") if path.parent.name not in ("history", "archived"))
        yield "other files", sum(path.is_file() and not is_of_timeline(path.name) for path in others)

    def note(self) -> str:
        """What happened, in a line."""
        operations = Counter(commit.action for commit in self.model.commits)
        return f"{self.kind.name}: {len(self.model.commits)} commits {dict(operations)}, {dict(self.happened)}"

    def _timeline(self) -> list[str]:
        folder = self.path / (".hoodie/timeline" if self.kind.version >= 8 else ".hoodie")
        return [path.name for path in folder.iterdir()]

    def _planned_services(self) -> set[str]:
        return {name for name in self._timeline() if is_planned_service(name)}

    def _write(self, write: Write) -> None:
        for _ in range(ATTEMPTS):
            answer = self.peers.writer.ask("write", self.path, operation=write.operation, rows=write.rows)
            if "refused" not in answer:
                self.measure("write", answer["cpu_s"])
                self.model.apply(write, answer["instant"], answer["order_key"])
                return
            self.happened["writes refused"] += 1
            time.sleep(RETRY_S)
        raise AssertionError(f"{self.kind.name}: {ATTEMPTS} attempts of a write were refused: {answer['refused']}")

    def _hudi_writes(self) -> None:
        """A write of real Hudi, without services of others, because it takes no lock. What a killed service left is
        carried out before: Hudi refuses to update groups of a pending clustering."""
        with self._serving:
            self._maintain()
            write = self.model.drawn(HUDIS_OPERATIONS)
            options = hudis_options(self.kind.version, self.kind.table_type, "simple") | {
                "hoodie.table.name": self.path.name,
                "hoodie.datasource.write.precombine.field": "ts",
                "hoodie.datasource.write.partitionpath.field": "p",
                "hoodie.datasource.write.operation": write.operation,
            }
            completed = self.peers.hudi.write(self.path, COLUMNS, write.rows, options)
        ((requested, completion, _),) = [item for item in completed if item[2] in WRITES]
        self.model.apply(write, requested, completion or requested)
        self.happened["Hudi's writes"] += 1

    def _maintain(self) -> None:
        before, commits = self.active(), len(self.model.commits)
        answer = self.peers.services.ask("maintain", self.path)
        self.happened["service runs"] += 1
        if "refused" in answer:
            self.happened["service runs refused"] += 1
            self.refusals.append(answer["refused"])
            return
        self.measure("maintain", answer["cpu_s"])
        for name, number in answer["done"].items():
            self.happened[name] += number
        self._judge_folders(before, len(self.model.commits) - commits + 1)

    def _judge_folders(self, before: list[Completed], commits: int) -> None:
        """What services left that began with these completed instants; meanwhile so many commits can have completed."""
        files, active = self.data_files(), self.active()
        lines = crowded(active, KEEP_MAX, commits)
        writes = [item.requested for item in before if item.action in WRITES]
        if len(writes) > RETAINED + LENIENT:
            run = Run(writes[-1], writes[-RETAINED - LENIENT])
            if earliest := settled(self._runs, run.earliest):
                lines += not_cleaned(files, self.known, earliest)
                self.happened["cleans judged"] += 1
            self._runs.append(run)
        self.problems += [f"{self.kind.name}, after {len(self.model.commits)} commits: {line}" for line in lines]

    def _compare_reads(self) -> None:
        """The snapshot, the range since the last one, a longer range, and an older state."""
        last = len(self.model.commits) - 1
        older = max(0, last - self.reads.randrange(1, NEAR))
        asked = {
            "snapshot": ({}, self.model.state()),
            "range": self._range(self._read_upto),
            "longer range": self._range(older),
            "older state": ({"as_of": self.model.commits[older].requested}, self.model.state(older)),
        }
        for name, (options, expected) in asked.items():
            answer = self.peers.reader.ask("read", self.path, options=options)
            self.measure(name, answer["cpu_s"])
            self._compare(f"{name} {options}", [tuple(row) for row in answer["rows"]], expected)
        self._read_upto = last

    def _range(self, after: int) -> tuple[dict[str, str], list[Read]]:
        commits = self.model.commits
        after = min(after, len(commits) - 1)
        options = {"query": "incremental", "after": commits[after].order_key, "upto": commits[-1].order_key}
        return options, self.model.in_range(after)

    def _compare(self, what: str, rows: list[Read], expected: list[Read]) -> None:
        self.happened["answers compared"] += 1
        name = f"{self.kind.name}, {what}, after {len(self.model.commits)} commits"
        self.problems += Sink(name, rows, expected).problems()
