"""Weak point 12 of Hudi's own source: readers that shared state, ended at empty steps, looped on truncated data.

In Penstock splits share nothing, closing twice is safe, an empty step is not the end, and truncated data is an error.
"""

from __future__ import annotations

import pathlib
from typing import Any, Protocol

import pyarrow as pa
import pytest

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import CorruptBlock, CorruptFile, FormatError
from penstock.proto.model.changes import ChangeFormat, GroupChanges, LoggedImages
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query
from penstock.proto.model.splits import Plan, Split
from penstock.reader.read_split import ReadOptions, read_split
from penstock.table.hudi_table import open_table
from tests.golden.changes import rows_of

pytestmark = pytest.mark.golden

CHANGES = Changes(ChangeFormat.ROWS)
CASES = ["B_v9_cdc_mor_data_before_after", "B_v9_cdc_cow_op_key_only", "B_v6_cdc_mor_data_before_after"]


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


def planned(path: pathlib.Path, query: Query) -> Plan:
    return plan_request(open_table(str(path)), "t", PlanRequest(table="t", query=query))


def read(plan: Plan, split: Split, rows: int = 2) -> list[dict[str, Any]]:
    options = ReadOptions(batch_rows=rows)
    return [row for part in read_split(plan.scan, split, options=options) for row in part.batch.to_pylist()]


@pytest.mark.parametrize("query", [CHANGES, Incremental()], ids=["changes", "rows"])
@pytest.mark.parametrize("case", CASES)
def test_weak_point_12_splits_read_in_turns_share_nothing(case: str, query: Query, golden: Golden) -> None:
    plan = planned(golden.table(case), query)
    alone = {split.split_id: read(plan, split) for split in plan.splits}
    options = ReadOptions(batch_rows=2)
    open_ones = {split.split_id: read_split(plan.scan, split, options=options) for split in plan.splits}
    turns: dict[str, list[dict[str, Any]]] = {split_id: [] for split_id in open_ones}
    assert len(open_ones) > 1
    while open_ones:
        for split_id, batches in list(open_ones.items()):
            part = next(batches, None)
            if part is None:
                del open_ones[split_id]
            else:
                turns[split_id] += part.batch.to_pylist()
    assert turns == alone


@pytest.mark.parametrize("query", [CHANGES, Incremental()], ids=["changes", "rows"])
def test_weak_point_12_closing_twice_is_safe_wherever_the_reader_is(query: Query, golden: Golden) -> None:
    plan = planned(golden.table(CASES[0]), query)
    split = max(plan.splits, key=lambda item: item.size_bytes)
    whole = read(plan, split)
    for taken in range(4):
        batches: Any = read_split(plan.scan, split, options=ReadOptions(batch_rows=1))
        for _ in range(taken):
            next(batches, None)
        batches.close()
        batches.close()
        assert next(batches, None) is None
        assert read(plan, split) == whole


def test_weak_point_12_step_without_changes_is_not_the_end(golden: Golden) -> None:
    """A step without changes before each of the others: later steps are still returned."""
    plan = planned(golden.table(CASES[0]), CHANGES)
    checked = 0
    for split in plan.splits:
        assert isinstance(split.part, GroupChanges)
        for step in split.part.steps:
            if not isinstance(step.source, LoggedImages):
                continue
            files = step.source.files
            nothing = type(step)(
                instant=step.instant,
                order_key=step.order_key,
                place=step.place,
                source=LoggedImages((), key_fields=step.source.key_fields),
            )
            doubled = GroupChanges((nothing, *split.part.steps))
            again = Split(**{**_fields(split), "part": doubled})
            assert files and read(plan, again) == read(plan, split)
            checked += 1
    assert checked


def _fields(split: Split) -> dict[str, Any]:
    return {name: getattr(split, name) for name in Split.__slots__}


@pytest.mark.parametrize("case", CASES[:2])
def test_weak_point_12_truncated_image_is_an_error_and_no_loop(
    case: str, golden: Golden, tmp_path: pathlib.Path
) -> None:
    path = golden.copy(case, tmp_path)
    cut = sorted(file for file in path.rglob("*.cdc") if ".hoodie" not in file.parts)
    assert cut
    whole = rows_of(path, CHANGES)
    for share in (0.3, 0.6, 0.95):
        remaining = cut[0].read_bytes()
        plan = planned(path, CHANGES)
        cut[0].write_bytes(remaining[: int(len(remaining) * share)])
        with pytest.raises((CorruptBlock, CorruptFile, FormatError)):
            for split in plan.splits:
                read(plan, split)
        cut[0].write_bytes(remaining)
    assert pa.table(rows_of(path, CHANGES)).equals(whole)
