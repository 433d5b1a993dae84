"""Indexes that find keys in files: Hudi and Penstock write one table in turn, by one index or by related ones."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.write import write
from penstock.proto.errors import TableError
from tests.interop.mixed.histories import History
from tests.interop.mixed.shapes import Row, Shape, shape_of
from tests.interop.mixed.steps import Write
from tests.interop.mixed.writers import Writers, table_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


def shape(index: str, *, version: int, merge_on_read: bool, by_penstock: bool = True) -> Shape:
    return replace(
        shape_of(0),
        version=version,
        merge_on_read=merge_on_read,
        buckets=0,
        index=index,
        partitioned=True,
        two_keys=False,
        number_key=False,
        ordering="long",
        hive_style=False,
        small_files=True,
        marker=True,
        columns=("name", "price"),
        by_penstock=by_penstock,
    )


FIRST = tuple(Row(key, 10, key, ("oslo", "riga")[key % 2]) for key in range(1, 13))
MOVES = (
    Row(1, 20, 21, "oslo"),  # from riga
    Row(2, 5, 22, "riga"),  # late: it stays in oslo
    Row(3, 20, 23, "new york"),  # into a new partition
    Row(4, 20, 24, "oslo"),  # stays
    Row(5, 20, 25, "oslo", deleted=True),  # is deleted in riga
    Row(6, 5, 26, "riga", deleted=True),  # late delete
    Row(20, 20, 27, "riga"),  # new
    Row(7, 20, 28, "riga"),
    Row(7, 30, 29, "oslo"),  # of two rows of a key the newer one
)
BACK = (Row(1, 30, 31, "riga"), Row(3, 30, 32, "riga"), Row(5, 30, 33, "new york"), Row(2, 30, 34, "riga"))
AGAIN = (Row(1, 40, 41, "oslo"), Row(20, 15, 42, "oslo"), Row(7, 40, 43, "oslo"), Row(4, 40, 44, "riga"))


class ByBoth(History):
    """A table whose steps are given."""

    def step(self, operation: str, rows: tuple[Row, ...], *, by_penstock: bool) -> None:
        """A write; then the rows of both readers are those of the model."""
        step = Write(by_penstock, operation, rows)
        self.steps.append(step)
        self._carry_out(step)
        self._check(step)


@pytest.mark.parametrize(
    ("index", "version", "merge_on_read"),
    [
        ("global_bloom", 9, True),
        ("global_simple", 9, False),
        pytest.param("global_simple", 6, True, marks=pytest.mark.exhaustive),
        pytest.param("global_bloom", 6, False, marks=pytest.mark.exhaustive),
    ],
)
def test_keys_move_between_partitions_by_either_writer(
    hudi: Any, tmp_path: pathlib.Path, index: str, version: int, merge_on_read: bool
) -> None:
    table = shape(index, version=version, merge_on_read=merge_on_read)
    history = ByBoth(hudi, tmp_path / "moves", 0, table, "1.2.0")
    history.writers.create()
    history.step("upsert", FIRST, by_penstock=True)
    history.step("upsert", MOVES, by_penstock=True)
    history.step("upsert", BACK, by_penstock=False)
    history.step("upsert", AGAIN, by_penstock=False)
    history.step("delete", (Row(1, 0, 0, "new york"), Row(8, 0, 0, "riga")), by_penstock=True)
    history.step("upsert", MOVES, by_penstock=True)
    history.check_end()
