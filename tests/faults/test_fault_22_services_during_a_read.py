"""Fault 22: a plan created before compaction, clustering, insert_overwrite or delete_partition, and read after them and
before the cleaner, returns the rows of its instant, each once.

Real tables are set back to each earlier instant (with all their files, as a plan of that time would list them),
planned, and restored to the newest instant before the plan is read.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.errors import PenstockError
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Incremental, Latest, PlanRequest, Snapshot
from penstock.proto.model.splits import Plan
from penstock.reader.read_split import read_split

SERVICES = {
    "A_compaction_then_updates_v9_h120": "compaction",
    "A_compaction_pending_v6_h0150": "compaction",
    "A_log_compaction_v9_h120": "log compaction",
    "A_clustering_done_v9_h120": "clustering",
    "A_clustering_done_v6_h0150": "clustering",
    "A_replace_ops_v9_h120": "insert_overwrite, delete_partition",
    "A_replace_ops_v6_h0150": "insert_overwrite, delete_partition",
    "A_nbcc_commit_v9_h120": "writers side by side",
}


def timeline(table: pathlib.Path) -> pathlib.Path:
    folder = table / ".hoodie" / "timeline"
    return folder if folder.is_dir() else table / ".hoodie"


def instants(table: pathlib.Path) -> list[str]:
    """Requested times on the active timeline."""
    return sorted({name[:17] for path in timeline(table).iterdir() if (name := path.name)[:17].isdigit()})


@contextmanager
def as_of(table: pathlib.Path, aside: pathlib.Path, instant: str) -> Iterator[None]:
    """The table before any later instant was requested."""
    aside.mkdir()
    moved = [path for path in timeline(table).iterdir() if path.is_file() and path.name[:17].isdigit()]
    for path in moved:
        if path.name[:17] > instant:
            shutil.move(path, aside / path.name)
    try:
        yield
    finally:
        for path in list(aside.iterdir()):
            shutil.move(path, timeline(table) / path.name)
        aside.rmdir()


def plan(table: pathlib.Path, query: Any) -> Plan:
    return EmbeddedEnumerator().plan(PlanRequest(table=str(table), query=query, metadata=False))


def rows(planned: Plan) -> list[str]:
    batches = [batch.batch for split in planned.splits for batch in read_split(planned.scan, split)]
    return sorted(repr(row) for batch in batches for row in batch.to_pylist())


def keys(rows: list[str]) -> int:
    return len(rows) - len(set(rows))


@pytest.mark.parametrize("query", [Snapshot(), Incremental(after=EARLIEST, upto=Latest())], ids=["snapshot", "range"])
@pytest.mark.parametrize("case", SERVICES)
def test_fault_22_plan_is_read_after_later_table_services(
    golden: Any, tmp_path: pathlib.Path, case: str, query: Any
) -> None:
    table = golden.copy(case, tmp_path)
    aside = tmp_path / "aside"
    checked = 0
    cleaned = any(path.name.endswith(".clean") for path in timeline(table).iterdir())
    times = instants(table)
    for instant in times:
        with as_of(table, aside, instant):
            try:
                planned = plan(table, query)
            except PenstockError:
                assert cleaned, f"nothing was cleaned, and yet no plan at {instant}"
                continue
            expected = rows(planned)
        assert rows(planned) == expected, f"planned at {instant}"
        assert keys(expected) == 0, f"rows twice at {instant}"
        checked += 1
    assert checked > 1


@pytest.mark.parametrize("case", [case for case in SERVICES if "nbcc" not in case])
def test_fault_22_services_neither_add_nor_take_rows(golden: Any, tmp_path: pathlib.Path, case: str) -> None:
    """A compaction or clustering changes no row of the snapshot; record keys stay unique."""
    table = golden.copy(case, tmp_path)
    aside, before, unchanged = tmp_path / "aside", None, 0
    for instant in instants(table):
        with as_of(table, aside, instant):
            try:
                planned = plan(table, Snapshot())
            except PenstockError:  # files of this early instant were cleaned
                before = None
                continue
            batches = [batch.batch for split in planned.splits for batch in read_split(planned.scan, split)]
        now = sorted(row_text(row) for batch in batches for row in batch.to_pylist())
        assert len({row[:2] for row in now}) == len(now), f"a key twice at {instant}"
        if is_service(table, instant) and before is not None:
            assert now == before, f"{SERVICES[case]} at {instant} changed rows"
            unchanged += 1
        before = now
    assert unchanged or "replace" in case


def row_text(row: dict[str, Any]) -> tuple[str, str, str]:
    """Partition, key and the table's own columns: a log compaction sets its own instant in rows, as in Hudi."""
    own = {name: value for name, value in row.items() if not name.startswith("_hoodie_")}
    return row["_hoodie_partition_path"], row["_hoodie_record_key"], repr(own)


def is_service(table: pathlib.Path, instant: str) -> bool:
    """Whether the instant is a compaction or a clustering, by its requested file."""
    names = [path.name for path in timeline(table).iterdir() if path.name.startswith(instant)]
    if any(
        name.endswith((".compaction.requested", ".clustering.requested", ".logcompaction.requested")) for name in names
    ):
        return True
    plan_file = timeline(table) / f"{instant}.replacecommit.requested"
    return plan_file.exists() and b"CLUSTER" in plan_file.read_bytes()
