"""Compares Penstock with Hudi 1.2.0 after each action of a history, query by query.

Expected are Hudi's snapshot and read-optimized rows, and both by time travel. For a range, expected is Hudi's snapshot
as of the last instant of the range, reduced to the rows that the instants of the range wrote. Hudi's own ranges are
compared too, unless `hudi_deviations` predicts that they are wrong. `history_changes` compares change data.
"""

from __future__ import annotations

import pathlib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import penstock
from penstock.engine.demo.comparison import compare_rows
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.errors import PenstockError, PositionExpired
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.reader.read_split import ReadOptions, output_schema, read_split
from tests.interop import history_changes, hudi_deviations
from tests.interop.history_actions import (
    Action,
    Crash,
    LogCompaction,
    PartialUpdate,
    Race,
    Restore,
    Rollback,
    Service,
    Upgrade,
)
from tests.interop.history_writer import WRITES
from tests.interop.played_history import PlayedHistory, Step

FILE_NAME = "_hoodie_file_name"


@dataclass(frozen=True, slots=True)
class State:
    """The table's rows at an order key, as Hudi returned them when they were the newest."""

    order_key: str
    requested: str
    rows: pa.Table


@dataclass(slots=True)
class HistoryChecker:
    """Reads a played history step by step. `hudi` is the release that returns the expected rows."""

    hudi: Any
    played_history: PlayedHistory
    draw: random.Random
    table: pathlib.Path = field(init=False)
    readable: pathlib.Path = field(init=False)
    states: list[State] = field(default_factory=list)
    order_keys: dict[str, str] = field(default_factory=dict)
    stamps: hudi_deviations.Stamps = field(default_factory=hudi_deviations.Stamps)
    newest_rows: pa.Table | None = None
    has_clean: bool = False
    is_rewritten: bool = False
    ended: bool = False
    problems: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    done: int = 0
    compared: int = 0

    def run(self) -> None:
        """Runs every step. Stops at the first one with problems, or after which Hudi cannot read its own table."""
        if self.played_history.failure:
            self.hudi_failed("writing", self.played_history.failure)
        with self.hudi.by_rows(self.played_history.history.shape.options.is_read_by_rows):
            self.read_steps()

    def read_steps(self) -> None:
        """Runs every step under the session's settings."""
        for step in self.played_history.steps:
            self.done += 1
            self.table = step.table
            # Hudi hides rows that committed at the same time as a crashed write (its new base files contain their logs)
            self.readable = hudi_deviations.as_if_rolled_back(step.table, step.crashed) if step.crashed else step.table
            self.after(step)
            if self.problems:
                return
            if self.ended:
                self.done -= 1
                return
        if self.played_history.steps:
            self.compare_all_again()

    def hudi_failed(self, what: str, error: object) -> None:
        """A failure of Hudi is not a difference; it is counted, so that the report shows what was not compared."""
        history, lines = self.played_history.history, str(error).splitlines()
        causes = [line for line in lines if line.startswith(("Caused by", "pyspark", ": "))] or lines
        where = f"{history.shape.release} seed {history.seed}, after action {self.done}"
        self.failures.append(f"{where}: Hudi failed at {what}: {causes[-1][:600]}")

    def after(self, step: Step) -> None:
        """Records the instants of an action, and compares the newest rows."""
        self.has_clean = self.has_clean or any(item[2] == "clean" for item in step.instants)
        known = set(self.order_keys)
        if isinstance(step.action, Crash):
            self.compare("snapshot", {}, self.newest_rows, with_files=True)
            return
        self.note(step)
        before = self.newest_rows
        try:
            self.newest_rows = self.hudi.read(self.readable)
        except RuntimeError as error:
            self.hudi_failed("reading its own table", error)
            self.ended = True
            return
        if isinstance(step.action, Service) and self.played_history.history.shape.release == "0.15.0":
            self.forget_rewritten(before)
        self.compare("snapshot", {}, self.newest_rows, with_files=True)
        for other in (self.check_read_in_parts, self.check_filtered_read):
            try:
                other()
            except PenstockError as error:
                self.failed(other.__name__, error)
        if self.played_history.history.shape.merge_on_read:
            optimized = self.hudi.read(self.readable, hoodie__datasource__query__type="read_optimized")
            self.compare("read_optimized", {"query": "read_optimized"}, optimized, with_files=True)
        if self.states:
            self.time_travel(self.draw.choice(self.states))
            self.optimized_as_of(self.draw.choice(self.states))
        written = self.written(step)
        if not written or not self.played_history.history.shape.options.meta_columns:
            return  # rows without meta columns do not contain their instants, and Hudi does not support ranges of them
        last = max(written, key=lambda item: item[1] or item[0]) if isinstance(step.action, Race) else min(written)
        if isinstance(step.action, Upgrade):
            last = max(
                item for item in written if item[2] != "commit" or not self.played_history.history.shape.merge_on_read
            )
        if isinstance(step.action, Race) and step.table.joinpath(".hoodie", "timeline").is_dir() is False:
            self.states = [state for state in self.states if state.requested < min(written)[0]]
        if isinstance(step.action, LogCompaction) and self.states:
            self.stamps.learn({item[0] for item in written} - {last[0]}, self.states[-1].rows)
        self.states.append(State(last[1] or last[0], last[0], self.stamps.restored(self.newest_rows)))
        newest = max((key for name, key in self.order_keys.items() if name in known), default="earliest")
        self.range(newest, self.states[-1])
        self.compare_hudis_range("000" if newest == "earliest" else newest, self.states[-1], step.action)
        for _ in range(2):
            self.range(self.draw.choice(["earliest", *self.order_keys.values()]), self.draw.choice(self.states))
        self.problems += history_changes.differences(self, step, written)

    def forget_rewritten(self, before: pa.Table) -> None:
        """Rule 8: a service of 0.15.0 changed rows; the cleaner decides whether files still contain an earlier
        state."""
        if difference(self.newest_rows, before):
            self.is_rewritten = True
            self.states.clear()

    def written(self, step: Step) -> list[tuple[str, str | None, str]]:
        """The writes among the instants of an action; empty if the action is only a service."""
        if isinstance(step.action, Service):
            return []
        is_race = isinstance(step.action, Race)
        return [item for item in step.instants if item[2] in WRITES and (item[0] >= step.started or is_race)]

    def note(self, step: Step) -> None:
        """Records the order keys and the earlier states after the action."""
        self.order_keys |= {item[0]: item[1] or item[0] for item in step.instants if item[2] in WRITES}
        match step.action:
            case Rollback():
                gone = {max(self.order_keys)}
            case Restore():
                gone = {name for name in self.order_keys if name > step.restored and name not in step.keys}
            case Upgrade():  # instants that were ordered by requested time are now ordered by completion time
                self.order_keys |= step.keys
                self.states = [replace(state, order_key=self.order_keys[state.requested]) for state in self.states]
                return
            case _:
                return
        self.order_keys = {name: key for name, key in self.order_keys.items() if name not in gone}
        self.states = [state for state in self.states if state.requested in self.order_keys]

    def compare_all_again(self) -> None:
        """Compares every range and every earlier state again, after services have rewritten rows."""
        for number, state in enumerate(self.states):
            self.as_of(state)
            for after in ["earliest", *(earlier.order_key for earlier in self.states[:number])]:
                self.range(after, state)
        if self.states and not self.played_history.history.shape.merge_on_read:
            state = self.draw.choice(self.states)
            self.compare_hudis_range(self.draw.choice(["000", *self.order_keys.values()]), state, None)
        self.problems += history_changes.folds(self)

    def inside(self, after: str, state: State) -> list[str]:
        """Requested times of the data instants of (after, the state's order key]."""
        floor = "" if after in ("earliest", "000") else after
        return [name for name, key in self.order_keys.items() if floor < key <= state.order_key]

    def range(self, after: str, state: State) -> None:
        """Compares (after, the state's order key] with the state's rows that the range's instants wrote."""
        if after != "earliest" and after > state.order_key:
            return
        expected = hudi_deviations.rows_of(state.rows, self.inside(after, state))
        options = {"query": "incremental", "after": after, "upto": state.order_key}
        newest = state is self.states[-1] and after in ("earliest", *(older.order_key for older in self.states[-2:]))
        self.compare("range", options, expected, may_expire=not newest)

    def as_of(self, state: State) -> None:
        """Compares time travel to a requested time. If the recorded state differs, Hudi's current result decides."""
        try:
            actual = self.read_table({"as_of": state.requested})
        except PenstockError as error:
            self.failed(f"as of {state.requested}", error, state is not self.states[-1])
            return
        if not difference(actual, state.rows):
            self.compared += 1
            return
        self.time_travel(state, otherwise=state.rows)

    def time_travel(self, state: State, otherwise: pa.Table | None = None) -> None:
        """Hudi's own time travel; `otherwise` counts failures of Hudi."""
        try:
            hudis = self.hudi.read(self.readable, as__of__instant=state.requested)
        except RuntimeError as error:
            self.hudi_failed(f"time travel to {state.requested}", error)
            if otherwise is None:
                return
            hudis = otherwise
        newest = state is self.states[-1]
        self.compare("time travel", {"as_of": state.requested}, hudis, with_files=True, may_expire=not newest)

    def optimized_as_of(self, state: State) -> None:
        """Compares the rows of base files as of a requested time."""
        options = {"hoodie__datasource__query__type": "read_optimized", "as__of__instant": state.requested}
        try:
            hudis = self.hudi.read(self.readable, **options)
        except RuntimeError as error:
            self.hudi_failed(f"base files as of {state.requested}", error)
            return
        query = {"query": "read_optimized", "as_of": state.requested}
        self.compare("read-optimized as of", query, hudis, with_files=True, may_expire=state is not self.states[-1])

    def compare_hudis_range(self, begin: str, state: State, action: Action | None) -> None:
        """Compares a range with Hudi's own incremental reader, unless its rows are predicted to be wrong."""
        if begin >= state.order_key or isinstance(action, PartialUpdate):
            return  # Hudi reads a partial update without the row beneath it, or runs out of memory
        shape = self.played_history.history.shape
        if shape.duplicates and shape.merge_on_read:
            return  # of two rows of one key, one may be late and the other not
        if shape.index == "memory" and shape.version < 8:
            return  # in groups of only logs it loses rows that its own snapshot contains (seed 308 of 0.15.0)
        try:
            hudis = self.hudi.incremental(self.readable, begin, state.order_key)
        except RuntimeError as error:
            self.hudi_failed(f"range ({begin}, {state.order_key}]", error)
            return
        inside = self.inside(begin, state)
        if action is None and self.has_clean:
            fallback = hudi_deviations.rows_of(self.stamps.restored(self.newest_rows), inside)
            if not difference(self.stamps.restored(hudis), fallback):
                return
        if self.played_history.history.shape.merge_on_read and action is not None:
            hudis = hudi_deviations.without_late_rows(hudis, hudi_deviations.rows_of(state.rows, inside), action)
        after = "earliest" if begin == "000" else begin
        options = {"query": "incremental", "after": after, "upto": state.order_key}
        hudis = self.stamps.restored(hudis)
        self.compare("Hudi's range", options, hudis, may_expire=action is None)

    def check_read_in_parts(self) -> None:
        """Reads the snapshot again in the smallest batches with the plain decoder, each split in two parts."""
        plan = EmbeddedEnumerator().plan(PlanRequest(table=str(self.table), query=Snapshot()))
        batches, options = [], ReadOptions(batch_rows=2, compiled=False)
        for split in plan.splits:
            first = next(iter(read_split(plan.scan, split, options=options)), None)
            if first is not None:
                batches.append(first.batch)
                rest = read_split(plan.scan, split, options=ReadOptions(), start=first.next_ordinal)
                batches.extend(piece.batch for piece in rest)
        actual = pa.Table.from_batches(batches, output_schema(plan.scan))
        text = difference(actual, self.newest_rows, with_files=True)
        if text:
            self.problems.append(f"after action {self.done}: snapshot in small batches: {text}")

    def check_filtered_read(self) -> None:
        """Reads with a filter over columns that are not selected."""
        least = self.draw.randint(0, 40)
        expected = self.newest_rows.filter(
            pc.and_kleene(pc.greater(self.newest_rows["qty"], least), pc.is_valid(self.newest_rows["name"]))
        )
        options = {"columns": "price,id", "where": f"qty > {least} AND name IS NOT NULL"}
        text = difference(self.read_table(options), expected.select(["id", "price"]))
        if text:
            self.problems.append(f"after action {self.done}: {options}: {text}")

    def read_table(self, options: Mapping[str, str]) -> pa.Table:
        """Penstock's rows."""
        return penstock.read(str(self.table), **options).read_all()

    def compare(
        self,
        what: str,
        options: dict[str, str],
        expected: pa.Table | None,
        *,
        with_files: bool = False,
        may_expire: bool = False,
    ) -> None:
        """Compares one query. File names are compared only if both read the same slices."""
        try:
            actual = self.read_table(options)
        except PenstockError as error:
            self.failed(f"{what} {options}", error, may_expire)
            return
        self.compared += 1
        if (
            "after" in options
        ):  # a range shows the instant of the log compaction for rows that it rewrote, as a snapshot does
            actual = self.stamps.restored(actual)
            if expected is not None:
                actual, expected = (rows.drop_columns(self.unsettled(rows)) for rows in (actual, expected))
        text = (
            difference(actual, expected, with_files=with_files) if expected is not None else f"{actual.num_rows} rows"
        )
        if text:
            self.problems.append(f"after action {self.done}: {what} {options}: {text}")

    def unsettled(self, rows: pa.Table) -> list[str]:
        """Rule 8: columns whose values a rewrite may have changed in rows that it carries over."""
        if self.played_history.history.shape.release != "0.15.0":
            return []
        return [field_.name for field_ in rows.schema if pa.types.is_decimal(field_.type)]

    def failed(self, what: str, error: PenstockError, may_expire: bool = False) -> None:
        """An error of Penstock is a problem, except that files may be missing after a clean, and instants may be
        archived, but not those of the newest state."""
        named = re.match(r"file (.+?) of table", str(error))
        is_there = named is not None and (self.table / named[1]).exists()
        if is_there or not (may_expire and self.has_clean and isinstance(error, PositionExpired)):
            self.problems.append(f"after action {self.done}: {what}: {type(error).__name__}: {error}")


def difference(actual: pa.Table, expected: pa.Table, *, with_files: bool = False) -> str:
    """Empty for the same rows. Columns that were added later are null in an older state."""
    for field_ in actual.schema:
        if field_.name.startswith("extra_") and field_.name not in expected.column_names:
            expected = expected.append_column(field_, pa.nulls(expected.num_rows, field_.type))
    if not with_files and FILE_NAME in expected.column_names:
        actual, expected = actual.drop_columns(FILE_NAME), expected.drop_columns(FILE_NAME)
    comparison = compare_rows(actual, expected)
    return "" if comparison.is_empty else comparison.text()
