"""Fault 11: the cleaner deletes a file between planning and reading: an error that names it, never other rows."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.engine.arrow import read
from penstock.engine.consumer import Consumer
from penstock.enumerator.planning.plan import plan_request
from penstock.enumerator.service import EnumeratorService
from penstock.proto.errors import CorruptFile, PositionExpired
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query
from penstock.reader.read_split import read_split
from penstock.table.hudi_table import open_table
from tests.faults.served import CASE, check_changes

pytestmark = pytest.mark.golden


@pytest.fixture
def service(golden: Any, tmp_path: pathlib.Path) -> Iterator[EnumeratorService]:
    """A reader of a copy of the table that the test may damage."""
    yield EnumeratorService({"t": str(golden.copy(CASE, tmp_path))}, poll_ms=None)


def test_fault_11_file_cleaned_under_a_group_reader_is_an_error_without_commit(
    golden: Any, tmp_path: pathlib.Path, service: EnumeratorService
) -> None:
    """The reader keeps the split at its current row; when the file exists again, the split is read to its end."""
    with Consumer(
        None, "t", group="g", reader_id="r", query="cdc", cdc_format="hudi", max_splits=100, enumerator=service
    ) as reader:
        service.split_discovery.discover()
        first = reader.poll()
        assert first is not None
        reader.commit(first)
        [group] = service.list_groups()
        away = tmp_path / "cleaned"
        removed = move_data_files(tmp_path / CASE, away)
        batches = [first.batch]
        with pytest.raises((PositionExpired, CorruptFile)) as raised:
            while (consumed := reader.poll(0)) is not None:
                batches.append(consumed.batch)
                reader.commit(consumed)
        text = str(raised.value)
        assert any(path.name in text for path in removed) and "table t" in text, text
        assert re.search(r"clean|retain|retention", text), text
        assert service.describe_group("t", "g").held_splits > 0
        with pytest.raises(type(raised.value)):
            reader.poll(0)
        assert service.list_groups()[0].committed == group.committed
        for path in removed:
            path.parent.mkdir(parents=True, exist_ok=True)
            (away / path.name).rename(path)
        while (consumed := reader.poll(0)) is not None:
            batches.append(consumed.batch)
            reader.commit(consumed)
        check_changes(golden, batches)
        assert service.describe_group("t", "g").held_splits == 0


def move_data_files(table: pathlib.Path, away: pathlib.Path) -> list[pathlib.Path]:
    """Moves all data files to another folder."""
    away.mkdir()
    files = [path for path in table.rglob("*.parquet") if ".hoodie" not in path.parts] + list(table.rglob(".*cdc*"))
    for path in files:
        path.rename(away / path.name)
    return files


@pytest.mark.parametrize("query", [Incremental(), Changes(ChangeFormat.HUDI)], ids=["rows", "changes"])
@pytest.mark.parametrize("case", [CASE, "B_v9_inc_mor"])
def test_fault_11_planned_range_with_a_missing_file_returns_no_other_rows(
    golden: Any, tmp_path: pathlib.Path, case: str, query: Query
) -> None:
    if case == "B_v9_inc_mor" and isinstance(query, Changes):
        query = Changes(ChangeFormat.ROWS)
    path = golden.copy(case, tmp_path)
    plan = plan_request(open_table(str(path)), "t", PlanRequest(table="t", query=query))
    move_data_files(path, tmp_path / "away")
    failed = 0
    for split in plan.splits:
        try:
            assert sum(part.batch.num_rows for part in read_split(plan.scan, split)) == 0 or split.base is None
        except (PositionExpired, CorruptFile) as error:
            failed += 1
            assert re.search(r"table t: .* file .* cleaned", str(error)), error
    assert failed


def test_fault_11_incremental_read_never_becomes_a_full_scan(golden: Any, tmp_path: pathlib.Path) -> None:
    path = golden.copy("B_v9_inc_cow", tmp_path)
    whole = read(path, query="snapshot").read_all().num_rows
    assert whole
    move_data_files(path, tmp_path / "away")
    with pytest.raises((PositionExpired, CorruptFile), match=r"file .* of table .* is missing: .* instant"):
        read(path, query="incremental", after="earliest").read_all()
