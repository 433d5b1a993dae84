"""The memory that planning takes beside the plan itself, for each slice of a large table."""

from __future__ import annotations

import gc
import pathlib
import tracemalloc
from dataclasses import replace
from typing import Protocol

import pytest

from penstock.enumerator.planning import slice_planner
from penstock.enumerator.planning.discovery import discover
from penstock.enumerator.planning.slice_planner import plan_splits
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.model.files import FileRef
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.table.files.names import parse_file_name
from penstock.table.files.slices import DataFile
from penstock.table.hudi_table import open_table

SLICES = 10_000
BESIDE_THE_PLAN_BYTES = 100
"""For each slice, beside its split and the given files. A mapping from file groups to their files takes 171."""


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...


def large_state(golden: Golden) -> TableState:
    """The state of a table with this many groups of one base file."""
    table = open_table(str(golden.table("A_nbcc_commit_v9_h120")))
    state = discover(table, "t", PlanRequest(table="t", query=Snapshot()))
    instant = state.facts.timeline.completed_writes[0].requested_time
    files = []
    for number in range(SLICES):
        name = f"{number:036x}_0-1-1_{instant}.parquet"
        parsed = parse_file_name(name)
        assert parsed is not None
        files.append(DataFile("", FileRef(name, number), parsed, listed=True))
    return replace(state, files=tuple(files))


def bytes_beside_the_plan(state: TableState) -> float:
    """The greatest memory during planning, without the files and the plan, for each slice."""
    plan_splits(state)  # what is loaded once
    gc.collect()
    tracemalloc.start()
    try:
        planned = plan_splits(state)
        remaining, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(planned.plan.splits) == SLICES
    return (peak - remaining) / SLICES


def test_slices_of_one_base_file_take_little_memory_beside_their_splits(golden: Golden) -> None:
    assert bytes_beside_the_plan(large_state(golden)) < BESIDE_THE_PLAN_BYTES


def test_control_groups_that_take_all_steps_take_more(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_planner, "only_base_file", lambda group, files, evidence: None)
    assert bytes_beside_the_plan(large_state(golden)) > BESIDE_THE_PLAN_BYTES
