"""Random histories: real Hudi writes them; after each action Penstock and Hudi's own reader answer the same queries.

What counts: Hudi's snapshot, read-optimized and time-travel answers; for a range Hudi's own snapshot as of the range's
last instant, cut to the rows that its instants wrote (Hudi's merge-on-read ranges return late rows that lost).
"""

from __future__ import annotations

import os
import pathlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from histories import Action, Crash, History, Race, Rollback, Service, history_of
from history_writer import WRITES, HistoryWriter, now

import penstock
from penstock.engine.demo.comparison import compare_rows
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.errors import PenstockError, PositionExpired, UnsupportedFeature
from penstock.proto.queries import PlanRequest, Snapshot
from penstock.reader.read_split import ReadOptions, output_schema, read_split

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

SEEDS = (9, 15, 18, 19)
LONG_SEEDS = 24
FILE_NAME = "_hoodie_file_name"


@dataclass(frozen=True, slots=True)
class State:
    """The table's rows behind an order key, as Hudi gave them when they were the newest."""

    order_key: str
    requested: str
    rows: pa.Table


@dataclass(slots=True)
class Witness:
    """A table under test: carries actions out and compares every kind of query."""

    hudi: Any
    table: pathlib.Path
    history: History
    draw: random.Random
    states: list[State] = field(default_factory=list)
    order_keys: dict[str, str] = field(default_factory=dict)
    shown: pa.Table | None = None
    writer: HistoryWriter = field(init=False)
    has_clean: bool = False
    expirations: int = 0
    problems: list[str] = field(default_factory=list)
    done: int = 0
    compared: int = 0

    def run(self) -> None:
        """The whole history; stops at the first action that has problems, or that Hudi itself cannot carry out."""
        self.writer = HistoryWriter(self.hudi, self.table, self.history.shape)
        for action in self.history.actions:
            started = now()
            try:
                made = self.writer.carry_out(action)
            except RuntimeError as error:
                self.hudi_failed(f"action {self.done + 1} ({type(action).__name__})", error)
                break
            self.done += 1
            self.after(action, started, made)
            if self.problems:
                return
        self.at_the_end()

    def hudi_failed(self, what: str, error: RuntimeError) -> None:
        """Hudi's own failure is no difference; it is shown so that nobody takes silence for agreement."""
        causes = [line for line in str(error).splitlines() if line.startswith(("Caused by", "pyspark", ": "))]
        print(f"seed {self.history.seed}: Hudi failed at {what}: {causes or str(error)}"[:1500])

    def after(self, action: Action, started: str, made: list[tuple[str, str | None, str]]) -> None:
        """What an action made is noted, and the newest answers are compared."""
        self.has_clean = self.has_clean or any(item[2] == "clean" for item in made)
        before = dict(self.order_keys)
        self.order_keys |= {item[0]: item[1] or item[0] for item in made if item[2] in WRITES}
        if isinstance(action, Crash):  # Hudi may hide committed rows until the rollback; the truth is the state before
            self.compare("snapshot", {}, self.shown, with_files=True)
            return
        if isinstance(action, Rollback):
            self.order_keys.pop(max(self.order_keys))
            self.states = [state for state in self.states if state.requested in self.order_keys]
        table = self.readable()
        self.shown = self.hudi.read(table)
        self.compare("snapshot", {}, self.shown, with_files=True)
        self.other_road()
        self.some_of_it()
        if self.history.shape.merge_on_read:
            optimized = self.hudi.read(table, hoodie__datasource__query__type="read_optimized")
            self.compare("read_optimized", {"query": "read_optimized"}, optimized, with_files=True)
        written = [item for item in made if item[2] in WRITES and (item[0] >= started or isinstance(action, Race))]
        if isinstance(action, Service) or not written:
            return
        last = max(written, key=lambda item: item[1] or item[0]) if isinstance(action, Race) else min(written)
        if isinstance(action, Race) and self.history.shape.version < 8:
            self.states = [state for state in self.states if state.requested < min(written)[0]]
        self.states.append(State(last[1] or last[0], last[0], self.shown))
        newest = max((key for name, key in before.items() if name in self.order_keys), default="earliest")
        self.range(newest, self.states[-1])
        for _ in range(2):
            self.range(self.draw.choice(["earliest", *self.order_keys.values()]), self.draw.choice(self.states))

    def readable(self) -> pathlib.Path:
        """What Hudi reads: while a crashed write is pending, Hudi hides rows that committed beside it (its new base
        files take their logs; docs/semantics.md, where Penstock differs), so the table as if it were rolled back."""
        return self.writer.scrubbed(self.table.with_name("scrubbed")) if self.writer.crashed() else self.table

    def at_the_end(self) -> None:
        """Every range and every earlier instant once more, when services have moved the rows."""
        for number, state in enumerate(self.states):
            self.as_of(state)
            for after in ["earliest", *(earlier.order_key for earlier in self.states[:number])]:
                self.range(after, state)
        if self.states and not self.history.shape.merge_on_read:
            state = self.draw.choice(self.states)
            self.hudis_range(self.draw.choice(["000", *self.order_keys.values()]), state)

    def range(self, after: str, state: State) -> None:
        """(after, the state's order key] against the state's rows cut to the range's instants."""
        floor = "" if after == "earliest" else after
        if floor > state.order_key:
            return
        inside = [name for name, key in self.order_keys.items() if floor < key <= state.order_key]
        wanted = state.rows.filter(pc.is_in(state.rows["_hoodie_commit_time"], pa.array(inside, pa.string())))
        asked = {"query": "incremental", "after": after, "upto": state.order_key}
        newest = state is self.states[-1] and after in ("earliest", *(older.order_key for older in self.states[-2:]))
        self.compare("range", asked, wanted, may_expire=not newest)

    def as_of(self, state: State) -> None:
        """Time travel to a requested time; where the state differs, Hudi's own answer decides."""
        try:
            given = self.ask({"as_of": state.requested})
        except (PositionExpired, UnsupportedFeature) as error:
            self.expired(f"as of {state.requested}", error, state is not self.states[-1])
            return
        if not difference(given, state.rows):
            self.compared += 1
            return
        try:
            hudis = self.hudi.read(self.readable(), as__of__instant=state.requested)
        except RuntimeError as error:
            self.hudi_failed(f"time travel to {state.requested}", error)
            hudis = state.rows
        self.compare("time travel", {"as_of": state.requested}, hudis, with_files=True)

    def hudis_range(self, begin: str, state: State) -> None:
        """A copy-on-write range by Hudi's own incremental reader."""
        if begin >= state.order_key:
            return
        try:
            hudis = self.hudi.incremental(self.readable(), begin, state.order_key)
        except RuntimeError as error:
            self.hudi_failed(f"range ({begin}, {state.order_key}]", error)
            return
        if self.has_clean:
            return  # Hudi answers a range with cleaned files from the newest snapshot
        after = "earliest" if begin == "000" else begin
        self.compare("Hudi's range", {"query": "incremental", "after": after, "upto": state.order_key}, hudis)

    def other_road(self) -> None:
        """The snapshot again in the smallest batches by the plain decoder, each split in two parts."""
        plan = EmbeddedEnumerator().plan(PlanRequest(table=str(self.table), query=Snapshot()))
        batches, options = [], ReadOptions(batch_rows=2, compiled=False)
        for split in plan.splits:
            first = next(iter(read_split(plan.scan, split, options=options)), None)
            if first is not None:
                batches.append(first.batch)
                rest = read_split(plan.scan, split, options=ReadOptions(), start=first.next_ordinal)
                batches.extend(piece.batch for piece in rest)
        given = pa.Table.from_batches(batches, output_schema(plan.scan))
        found = difference(given, self.shown, with_files=True)
        if found:
            self.problems.append(f"after action {self.done}: snapshot in small batches: {found}")

    def some_of_it(self) -> None:
        """A filter over columns that are not asked for."""
        least = self.draw.randint(0, 40)
        wanted = self.shown.filter(pc.and_kleene(pc.greater(self.shown["qty"], least), pc.is_valid(self.shown["name"])))
        asked = {"columns": "price,id", "where": f"qty > {least} AND name IS NOT NULL"}
        found = difference(self.ask(asked), wanted.select(["id", "price"]))
        if found:
            self.problems.append(f"after action {self.done}: {asked}: {found}")

    def ask(self, asked: dict[str, str]) -> pa.Table:
        return penstock.read(str(self.table), **asked).read_all()

    def compare(
        self,
        what: str,
        asked: dict[str, str],
        wanted: pa.Table | None,
        *,
        with_files: bool = False,
        may_expire: bool = False,
    ) -> None:
        """One query of both; file names only where both read the same slices."""
        try:
            given = self.ask(asked)
        except (PositionExpired, UnsupportedFeature) as error:
            self.expired(f"{what} {asked}", error, may_expire)
            return
        except PenstockError as error:
            self.problems.append(f"after action {self.done}: {what} {asked}: {type(error).__name__}: {error}")
            return
        self.compared += 1
        found = difference(given, wanted, with_files=with_files) if wanted is not None else f"{given.num_rows} rows"
        if found:
            self.problems.append(f"after action {self.done}: {what} {asked}: {found}")

    def expired(self, what: str, error: Exception, may_expire: bool) -> None:
        """Files may be gone after a clean, or instants archived, but not those of the newest state."""
        behind = self.has_clean if isinstance(error, PositionExpired) else self.history.shape.archives
        archived = isinstance(error, PositionExpired) or "archived timeline" in str(error)
        self.expirations += 1
        named = re.match(r"file (.+?) of table", str(error))
        is_there = named is not None and (self.table / named[1]).exists()
        if is_there or not (may_expire and behind and archived):
            self.problems.append(f"after action {self.done}: {what}: {type(error).__name__}: {error}")


def difference(given: pa.Table, wanted: pa.Table, *, with_files: bool = False) -> str:
    """'' for the same rows. Columns that were added since are null in an older state."""
    for field_ in given.schema:
        if field_.name.startswith("extra_") and field_.name not in wanted.column_names:
            wanted = wanted.append_column(field_, pa.nulls(wanted.num_rows, field_.type))
    if not with_files and FILE_NAME in wanted.column_names:
        given, wanted = given.drop_columns(FILE_NAME), wanted.drop_columns(FILE_NAME)
    found = compare_rows(given, wanted)
    return "" if found.is_empty else found.text()


def tell(hudi: Any, folder: pathlib.Path, seed: int) -> Witness:
    """Runs the history of a seed; fails with the history and what differed."""
    history = history_of(seed)
    witness = Witness(hudi, folder / f"history-{seed}", history, random.Random(seed))
    witness.run()
    assert not witness.problems, "\n".join([*witness.problems, history.text()])
    return witness


def long_seeds() -> Iterator[int]:
    """Seeds from PENSTOCK_SEED on."""
    first = int(os.environ.get("PENSTOCK_SEED", "1000"))
    yield from range(first, first + LONG_SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_reads_as_hudi_reads_it(hudi: Any, tmp_path: pathlib.Path, seed: int) -> None:
    """Every query after every action; Hudi carries the whole history out."""
    witness = tell(hudi, tmp_path, seed)
    assert witness.done == len(witness.history.actions)
    assert witness.compared > 20


@pytest.mark.long
@pytest.mark.parametrize("seed", list(long_seeds()))
def test_many_histories_read_as_hudi_reads_them(hudi: Any, tmp_path: pathlib.Path, seed: int) -> None:
    """The same with drawn seeds, as far as Hudi can carry them out."""
    tell(hudi, tmp_path, seed)
