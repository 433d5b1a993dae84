"""Random histories in which each step is done by real Hudi or by Penstock: after each step both read the same rows, and
they are those of a slow model."""

from __future__ import annotations

import os
import pathlib
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.interop.hudi_process import NEWEST, OLD
from tests.interop.mixed.histories import CHECKED, History, expected_rows, history_of, row_difference
from tests.interop.mixed.oracle import Cell, Model
from tests.interop.mixed.shapes import Row, shape_of
from tests.interop.mixed.steps import (
    Clustering,
    Compaction,
    DeleteSavepoint,
    Restore,
    Savepoint,
    StepGenerator,
    Write,
)
from tests.interop.mixed.writers import Writers
from tests.long_record import add_to_record

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]

SEEDS = (0, 3, 5, 6)
"""Of version, table type and index each pair of values; `make long` has all combinations."""
OLD_SEEDS = (0,)
"""A merge-on-read table; `make long` has those of the other combinations."""
STEPS = 7
LONG_SEEDS, LONG_STEPS = 100, 20


def long_seeds() -> range:
    """Seeds from PENSTOCK_SEED on; the older release has every fifth."""
    first = int(os.environ.get("PENSTOCK_SEED", "1000"))
    return range(first, first + LONG_SEEDS)


def run(history: History, steps: int, config: pytest.Config) -> None:
    """Runs a history. The report counts its steps."""
    config.stash.setdefault(CHECKED, []).append(history)
    outcome = "failed"
    try:
        history.run(steps)
        outcome = "all right"
    finally:
        counts = f"{len(history.steps)} steps, {history.compared} answers compared"
        add_to_record(f"seed {history.seed}, Hudi {history.release}: {counts}, {outcome}")
    assert len(history.steps) == steps and history.compared > steps


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_those_of_hudi_and_of_model(
    hudi: Any, tmp_path: pathlib.Path, seed: int, pytestconfig: pytest.Config
) -> None:
    history = history_of(hudi, tmp_path, seed)
    run(history, STEPS, pytestconfig)
    assert undetected(history) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", OLD_SEEDS)
def test_rows_are_those_of_older_hudi_and_of_model(
    old_hudi: Any, hudi: Any, tmp_path: pathlib.Path, seed: int, pytestconfig: pytest.Config
) -> None:
    run_old(old_hudi, hudi, tmp_path, seed, STEPS, pytestconfig)


def run_old(old_hudi: Any, hudi: Any, folder: pathlib.Path, seed: int, steps: int, config: pytest.Config) -> None:
    """A history of version 6 with the older release; at the end the newest one answers all queries too."""
    history = history_of(old_hudi, folder, seed, OLD)
    run(history, steps, config)
    history.hudi, history.reader, compared = hudi, NEWEST, history.compared
    history.compare("the newest Hudi's snapshot", hudi.read(history.path), history.writers.read())
    history.check_end()
    assert history.compared >= compared + 2  # Hudi refuses time travel before its last clean, also to a savepoint


def undetected(history: History) -> list[str]:
    """Negative control: the wrong models of a table, each with one wrong row, that equal the table's rows."""
    rows = history.writers.read().drop_columns(["_hoodie_commit_seqno"])
    place, entry = next(
        (place, shown) for place, cell in history.model.cells.items() if (shown := history.model.visible(cell))
    )
    wrong = {
        "lost": Cell(),
        "another value": Cell(replace(entry, row=replace(entry.row, value=entry.row.value + 1))),
        "another write": Cell(replace(entry, instant=f"{entry.instant[:-1]}x")),
    }
    models = {what: {**history.model.cells, place: cell} for what, cell in wrong.items()}
    models["another key"] = {
        **history.model.cells,
        (place[0], -1): Cell(replace(entry, row=replace(entry.row, key=9999))),
    }
    return [
        what
        for what, cells in models.items()
        if not row_difference(rows, expected_rows(replace(history.model, cells=cells)))
    ]


@pytest.mark.long
@pytest.mark.parametrize("seed", list(long_seeds()))
def test_many_histories(
    old_hudi: Any, hudi: Any, tmp_path: pathlib.Path, seed: int, pytestconfig: pytest.Config
) -> None:
    if seed % 5:
        run(history_of(hudi, tmp_path, seed), LONG_STEPS, pytestconfig)
    else:
        run_old(old_hudi, hudi, tmp_path, seed, LONG_STEPS, pytestconfig)


def test_model_merges_row_by_row() -> None:
    """The rules that the model has beside those of a dictionary, on a merge-on-read table with one bucket."""
    shape = replace(shape_of(0), merge_on_read=True, buckets=1, partitioned=True, ordering="long", marker=True)
    model = Model(shape)

    def value() -> int | None:
        return next((entry.row.value for entry in model.rows()), None)

    model.write("upsert", (Row(1, 40, 1, "oslo"),), "1")
    assert value() == 1 and model.groups == {("oslo", 0)}
    model.write("upsert", (Row(1, 30, 2, "oslo"),), "2")
    assert value() == 1 and model.late == {("2", "oslo", 1)}
    model.write("upsert", (Row(1, 50, 3, "oslo", deleted=True),), "3")
    model.write("upsert", (Row(1, 45, 4, "oslo"),), "4")
    assert value() is None
    model.compact("5")
    model.write("upsert", (Row(1, 20, 5, "oslo"),), "6")
    assert value() == 5 and not model.rows(read_optimized=True)
    model.compact("7")
    assert [entry.row.value for entry in model.rows(read_optimized=True)] == [5]


def test_types_of_columns_are_compared() -> None:
    rows = expected_rows(Model(shape_of(0)))
    place = rows.schema.get_field_index("qty")
    assert not row_difference(rows, rows)
    assert row_difference(rows, rows.set_column(place, "qty", rows["qty"].cast("int64")))


def test_both_take_every_kind_of_step() -> None:
    """Few histories have them all. Tables without buckets, whose models need no instants of their own."""
    drawn: set[tuple[object, ...]] = set()
    for seed in range(2, 200, 4):
        shape, model = shape_of(seed), Model(shape_of(seed))
        generator = StepGenerator(random.Random(seed), shape, can_roll_back=True)
        for number in range(LONG_STEPS):
            match generator.next(model):
                case Write(by_penstock, operation, rows, services):
                    drawn |= {(by_penstock, operation), *((by_penstock, service) for service in services)}
                    model.write(operation, rows, f"{number:03}")
                case Compaction(part, by_penstock):
                    drawn.add((Compaction, by_penstock, part))
                    model.planned = f"{number:03}" if part == "schedule" else ""
                case Clustering(_, planned_by_penstock, run_by_penstock):
                    drawn.add((Clustering, planned_by_penstock, run_by_penstock))
                case Savepoint(by_penstock) | DeleteSavepoint(by_penstock) | Restore(by_penstock) as step:
                    drawn.add((type(step), by_penstock))
    operations = ("insert", "upsert", "bulk_insert", "delete", "insert_overwrite", "insert_overwrite_table")
    both = (False, True)
    assert {(by, operation) for by in both for operation in (*operations, "clean", "archive")} < drawn
    parts = ("schedule", "execute", "scheduleAndExecute")
    assert {(Compaction, by, part) for by in both for part in parts} < drawn
    assert {(Clustering, plans, runs) for plans in both for runs in both} < drawn
    assert {(kind, by) for kind in (Savepoint, DeleteSavepoint, Restore) for by in both} < drawn


@pytest.mark.exhaustive
def test_missing_file_of_the_metadata_table_is_found(hudi: Any, tmp_path: pathlib.Path) -> None:
    shape = replace(shape_of(0), version=9, metadata=True, by_penstock=True)
    writers = Writers(hudi, tmp_path / "validated", shape)
    writers.create()
    writers.by_penstock("upsert", tuple(Row(key, 1, key, "oslo") for key in range(1, 9)))
    assert writers.metadata_differences() == set()
    next(path for path in writers.path.rglob("*.parquet") if ".hoodie" not in path.parts).unlink()
    assert len(writers.metadata_differences()) == 1
