"""Runs a random history: after each step the rows of Hudi, of Penstock and of the model are equal."""

from __future__ import annotations

import copy
import pathlib
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.golden.rows import difference as compare_rows
from tests.interop.hudi_deviations import without_hidden_slices
from tests.interop.hudi_process import NEWEST
from tests.interop.mixed.oracle import Model
from tests.interop.mixed.shapes import ADDED, Shape, partition_path, record_key, schema_of, shape_of, values_of
from tests.interop.mixed.steps import (
    Clustering,
    Compaction,
    Crash,
    DeleteSavepoint,
    Restore,
    Rollback,
    Savepoint,
    Step,
    StepGenerator,
    Write,
)
from tests.interop.mixed.writers import WRITES, Writers
from tests.unit.writer.metadata_table.metadata_tables import listings

TIME, KEY, PATH = "_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
SEQUENCE = "_hoodie_commit_seqno"
AFTER_ALL = "9" * 17
"""An instant after all others: a clustering merges every log."""


def row_difference(actual: pa.Table, expected: pa.Table) -> str:
    """Empty for the same rows with the same types, without the names of files."""
    names = [name for name in expected.column_names if name != FILE_NAME]
    actual = actual.drop_columns([name for name in (FILE_NAME,) if name in actual.column_names])
    for name in names:
        if name not in actual.column_names:
            break
        one, other = (table.schema.field(name).type for table in (actual, expected))
        if one != other and not (pa.types.is_nested(one) and pa.types.is_nested(other)):
            return f"column {name} is {one}, expected {other}"
    return compare_rows(actual, expected.select(names))


def expected_rows(model: Model, *, read_optimized: bool = False) -> pa.Table:
    """The model's rows as a snapshot returns them, without sequence numbers."""
    shape = model.shape
    schema = schema_of(shape, model.level)
    meta = pa.schema([(name, pa.string()) for name in (TIME, KEY, PATH)])
    rows = [
        {
            TIME: entry.instant,
            KEY: record_key(shape, entry.row.key),
            PATH: model.path(entry.row),
            **values_of(shape, entry.row),
        }
        for entry in model.rows(read_optimized=read_optimized)
    ]
    return pa.Table.from_pylist(rows, pa.schema([*meta, *schema]))


@dataclass(frozen=True, slots=True)
class State:
    """The table after a write."""

    instant: str
    """The write."""
    order_key: str
    """What a range of instants names it by: its completion time, or on version 6 its requested time."""
    model: Model
    """The rows."""


class History:
    """One history of a table."""

    def __init__(self, hudi: Any, path: pathlib.Path, seed: int, shape: Shape, release: str) -> None:
        self.hudi, self.path, self.seed, self.shape, self.release = hudi, path, seed, shape, release
        self.reader = release  # that of `hudi`
        self.draw = random.Random(f"history/{seed}")
        self.writers = Writers(hudi, path, shape, release)
        self.model = Model(shape, old_hudi=release != NEWEST)
        self.steps: list[Step] = []
        self.undone = Model(shape)
        self.states: list[State] = []
        self.saved: State | None = None
        self.hudis_oldest = ""
        """Hudi refuses time travel before this instant, also to a savepoint."""
        self.compared = 0

    def run(self, length: int) -> None:
        """Runs the steps. AssertionError: a difference, with the history so far."""
        is_old = self.release != NEWEST
        generator = StepGenerator(
            self.draw,
            self.shape,
            can_roll_back=self.shape.version == 9 or is_old,
            orders_deletes=not (is_old and self.shape.merge_on_read),
            max_level=1 if is_old and (self.shape.merge_on_read or self.shape.is_global) else len(ADDED),
            clusters_by_hudi=not (is_old and (self.shape.is_global or {"price", "large"} & set(self.shape.columns))),
        )
        self.writers.create()
        try:
            for _ in range(length):
                step = generator.next(self.model)
                self.steps.append(step)
                self._carry_out(step)
                self._check(step)
            self.check_end()
        except BaseException as error:  # also that Hudi's write did not fail
            error.add_note(self.text())
            raise

    def text(self) -> str:
        """The history, for the report of a failure."""
        return "\n".join([f"seed {self.seed}: {self.shape}", *(f"{n}: {step}" for n, step in enumerate(self.steps, 1))])

    def _carry_out(self, step: Step) -> None:
        writers, model = self.writers, self.model
        match step:
            case Write(True, operation, rows, services):
                self._wrote(step, writers.by_penstock(operation, rows))
                writers.services_by_penstock(services)
                if "clean" in services:
                    self._cleaned()
            case Write(False, operation, rows, services):
                completed = writers.by_hudi(operation, rows, services)
                # the first write by bulk_insert is a `commit` in a merge-on-read table too
                instant, *compactions = sorted(item[0] for item in completed if item[2] in WRITES)
                self._wrote(step, instant, by_hudi=True)
                for compaction in compactions:
                    model.compact(compaction)
                if "clean" in services:
                    self._cleaned()
                    if self.saved and writers.lacks_files_of(self.saved.instant):
                        self.saved = None
            case Compaction(part, by_penstock):
                compacted = writers.compacted(part) if by_penstock else writers.compact(part)
                if part == "schedule":
                    model.planned = compacted
                else:
                    model.compact(model.planned or compacted)
                    model.planned = ""
            case Clustering(sort_by, planned_by_penstock, run_by_penstock):
                if writers.cluster("schedule", sort_by, by_penstock=planned_by_penstock):
                    writers.cluster("execute", sort_by, by_penstock=run_by_penstock)
                    model.compact(AFTER_ALL)
            case Rollback() if writers.can_be_rolled_back(self.states[-1].instant):
                writers.roll_back(self.states.pop().instant)
                self.model = self.undone
            case Savepoint(by_penstock):
                self.saved = self.states[-1]
                writers.savepoint(self.saved.instant, by_penstock=by_penstock)
            case DeleteSavepoint(by_penstock) if self.saved:
                writers.delete_savepoint(self.saved.instant, by_penstock=by_penstock)
                self.saved = None
            case Restore(by_penstock) if self.saved:
                saved = self.saved.instant
                writers.restore(saved, by_penstock=by_penstock or not writers.hudi_can_restore(saved))
                self.states, self.model = [self.saved], copy.deepcopy(self.saved.model)
            case Crash(Write(True, operation, rows) as write, at):
                instant = writers.killed(operation, rows, at)
                if instant:
                    self._wrote(write, instant)
            case Crash(Write(False, operation, rows)):
                writers.failed(operation, rows)

    def _cleaned(self) -> None:
        """A clean keeps the newest state, and that of the savepoint."""
        del self.states[:-1]
        self.hudis_oldest = self.states[-1].instant

    def _wrote(self, write: Write, instant: str, *, by_hudi: bool = False) -> None:
        self.undone = copy.deepcopy(self.model)
        self.model.write(write.operation, write.rows, instant, by_hudi=by_hudi)
        (order_key,) = [item[1] or item[0] for item in self.writers.instants() if item[0] == instant]
        self.states.append(State(instant, order_key, copy.deepcopy(self.model)))

    def _check(self, step: Step) -> None:
        penstocks = self.writers.read()
        self.compare("Penstock's snapshot", penstocks.drop_columns([SEQUENCE]), expected_rows(self.model))
        stored = (self.path / ".hoodie" / "hoodie.properties").read_text()
        assert f"hoodie.table.version={self.shape.version}\n" in stored, f"table version after step {len(self.steps)}"
        if self.shape.metadata and not isinstance(step, Crash):
            by_metadata, by_folders = listings(self.path)
            assert by_metadata == by_folders, f"metadata table after step {len(self.steps)}"
        if isinstance(step, Crash) and self.shape.version == 9:
            return  # Hudi hides rows beneath a pending write of another writer (`hudi_deviations`, rule 1)
        if not self.states or not self._hides_logs(self.states[-1].instant):
            self.compare("Hudi's snapshot", self.hudi.read(self.path), penstocks)

    def compare(self, what: str, actual: pa.Table, expected: pa.Table) -> None:
        """AssertionError for a difference."""
        text = row_difference(actual, expected)
        assert not text, f"{what} after step {len(self.steps)}: {text}"
        self.compared += 1

    def check_end(self) -> None:
        """Compares read-optimized rows, time travel, also to the savepoint, a range, and the metadata table by Hudi."""
        if self.shape.merge_on_read:
            self._check_read_optimized()
        states = self.draw.sample(self.states, min(2, len(self.states)))
        if self.saved and self.saved not in states:
            states.append(self.saved)
        for state in states:
            self._check_time_travel(state)
        if self.shape.metadata and not isinstance(self.steps[-1], Crash):
            assert not self.writers.metadata_differences(), "Hudi's files of the metadata table"
            self.compared += 1
        if len(self.states) > 1:
            self._check_range(self.draw.choice(self.states[:-1]))

    def _check_read_optimized(self) -> None:
        penstocks = self.writers.read(query="read_optimized")
        hudis = self.hudi.read(self.path, hoodie__datasource__query__type="read_optimized")
        self.compare("Hudi's read-optimized rows", hudis, penstocks)
        if self.shape.layout_is_known:
            expected = expected_rows(self.model, read_optimized=True)
            self.compare("Penstock's read-optimized rows", penstocks.drop_columns([SEQUENCE]), expected)

    def _check_time_travel(self, state: State) -> None:
        penstocks = self.writers.read(as_of=state.instant)
        expected = expected_rows(state.model)
        self.compare(f"Penstock's rows as of {state.instant}", penstocks.drop_columns([SEQUENCE]), expected)
        if state.instant >= self.hudis_oldest and not self._hides_logs(state.instant):
            hudis = self.hudi.read(self.path, as__of__instant=state.instant)
            self.compare(f"Hudi's rows as of {state.instant}", hudis, penstocks)

    def _check_range(self, begin: State) -> None:
        end = self.states[-1]
        inside = [state.instant for state in self.states if begin.order_key < state.order_key]
        every = expected_rows(end.model)
        expected = every.filter(pc.is_in(every[TIME], pa.array(inside, pa.string())))
        penstocks = self.writers.read(query="incremental", after=begin.order_key, upto=end.order_key)
        self.compare(f"Penstock's range after {begin.instant}", penstocks.drop_columns([SEQUENCE]), expected)
        if self._hides_logs(end.instant):
            return
        hudis = self.hudi.incremental(self.path, begin.order_key, end.order_key)
        if self.shape.merge_on_read:  # `hudi_deviations`, rule 3: rows that lost against rows before the range
            names = [(TIME, KEY, PATH), penstocks, hudis]
            won, there = (set(zip(*(table[name].to_pylist() for name in names[0]), strict=True)) for table in names[1:])
            lost = {row for row in there - won if self._lost(row, end.model)}
            keep = [row not in lost for row in zip(*(hudis[name].to_pylist() for name in names[0]), strict=True)]
            hudis = hudis.filter(pa.array(keep, pa.bool_()))
        if self.shape.version == 6 and self.reader == NEWEST:  # rule 9: records that Hudi takes for uncommitted
            penstocks = without_hidden_slices(penstocks, self.path, begin.order_key, end.order_key)
        self.compare(f"Hudi's range after {begin.instant}", hudis, penstocks)

    def _hides_logs(self, instant: str) -> bool:
        """Whether Hudi reads none of the logs of a write, because it made a rollback (`hudi_deviations`, rule 8)."""
        if self.reader == NEWEST or not self.shape.merge_on_read:
            return False
        later = min(
            (item[0] for item in self.writers.instants() if item[2] in WRITES and item[0] > instant), default=""
        )
        rollbacks = (path.name.partition(".")[0] for path in self.path.glob(".hoodie/*.rollback"))
        return any(instant < rollback and (not later or rollback < later) for rollback in rollbacks)

    def _lost(self, row: tuple[str, ...], model: Model) -> bool:
        return any(
            row == (instant, record_key(self.shape, key), partition_path(self.shape, city))
            for instant, city, key in model.late
        )


CHECKED = pytest.StashKey[list[History]]()


def lines(histories: Sequence[History]) -> Iterator[str]:
    """A line about the histories of a run, for its record."""
    if histories:
        steps = sum(len(history.steps) for history in histories)
        compared = sum(history.compared for history in histories)
        yield f"histories of Hudi and Penstock: {len(histories)} tables, {steps} steps, {compared} answers compared"


def history_of(hudi: Any, folder: pathlib.Path, seed: int, release: str = NEWEST) -> History:
    """The history of a seed."""
    versions = (9, 6) if release == NEWEST else (6,)
    return History(
        hudi, folder / f"mixed_{re.sub('[^0-9]', '', release)}_{seed}", seed, shape_of(seed, versions), release
    )
