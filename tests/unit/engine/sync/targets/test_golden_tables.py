"""Golden tables in the targets: each has the rows that `penstock.read` returns."""

from __future__ import annotations

import json
import pathlib
import zlib
from collections import Counter
from typing import Any

import pytest

import penstock
from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.job import parse_job
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.table_sync import TableSync
from tests.golden_tables import GOLDEN, GoldenTables
from tests.unit.engine.sync.targets.backends import KINDS, Backend, canonical, opened

EVERY = 9
"""One of so many golden tables is copied into one target in every run, the others into all of them in `make long`.
`tests/golden/test_sync.py` has DuckDB."""
OTHER_ROWS = {"A_failed_leftover_v6_h0150", "B_v6_ooo_cow_cdc_pending"}
"""A stream waits for a pending instant, a snapshot does not."""
REFUSED = ("nometa", "hfile", "A_corrupt_middle_v6_h0150")
"""Tables without meta columns have no changes; one kind of log block is not read; a log file is missing."""
EMPTY = "D_changelog_cleaned_v9"
"""A table without rows."""
NOT_IN_HUDI = ("changelog", "A_delete_all_reinsert_v9_h120", "E_orc_types_v9")
"""Tables whose rows have `_hoodie_operation` (`test_hudi`); that have several rows of a key, of which a table of Hudi
keeps one; that have no record key, so that a job must name one."""


def cases() -> list[str]:
    names = {case["name"] for file in GOLDEN.glob("cases_*.json") for case in json.loads(file.read_text())}
    return [name for name in sorted(names) if name not in OTHER_ROWS and not any(one in name for one in REFUSED)]


def is_daily(kind: str, case: str) -> bool:
    """By the name alone: another golden table does not move the others into other targets."""
    chosen = zlib.crc32(case.encode())
    return chosen % EVERY == 0 and KINDS[1:][chosen // EVERY % len(KINDS[1:])] == kind


def counted(rows: list[tuple[Any, ...]]) -> Counter[str]:
    return Counter(repr(canonical(row)) for row in rows)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("backend", "case"),
    [
        pytest.param(kind, case, id=f"{kind}-{case}", marks=() if is_daily(kind, case) else pytest.mark.long)
        for case in cases()
        for kind in KINDS[1:]
        if kind != "hudi" or not any(one in case for one in NOT_IN_HUDI)
    ],
    indirect=["backend"],
)
def test_target_has_the_rows_of_a_snapshot(backend: Backend, golden: GoldenTables, case: str) -> None:
    table = str(golden.table(case))
    entry = parse_job(f"[[sync]]\nfrom = {json.dumps(table)}\nto = {json.dumps(backend.url)}\n", "test")[0]
    source = SourceTable(entry=entry, name=case, table=table, target_table=case)
    target = opened(backend)
    sync = TableSync(source, TableFeed(table, {}), target)
    while sync.step() is not None:
        pass
    stored = target.stored(case)
    assert stored is not None
    target.close()
    columns = stored.layout.columns
    expected = penstock.read(pathlib.Path(table), columns=columns.names).read_all().to_pylist()
    held = [tuple(backend.held(row[one.name], one.type) for one in columns) for row in expected]
    assert counted(backend.rows(case, columns)) == counted(held)
    assert bool(held) == (case != EMPTY)
