"""A hundred tables in one DuckDB file, and a job whose tables have problems: the others are copied."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import duckdb
import pytest

from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.job import parse_job
from penstock.engine.sync.progress import TableState
from penstock.engine.sync.runner import Runner, RunSettings
from penstock.engine.sync.sources import list_sources
from penstock.engine.sync.targets.open import SharedTargets, open_target
from tests.golden.test_sync import rows_of, same

pytestmark = pytest.mark.golden

NAMES = ("A_key_composite_v9_h120", "A_replace_ops_v9_h120", "B_v9_inc_cow", "A_drop_part_cols_v9_h120")


def run(job: str, **settings: Any) -> tuple[int, Runner]:
    """Runs a job once; the exit code."""
    entries = parse_job(job, "job.toml")
    targets = SharedTargets(open_target)
    runner = Runner(
        lambda: list_sources(entries),
        lambda source: TableFeed(source.table, source.entry.options, {}),
        lambda source: targets.of(source.entry.target),
        RunSettings(once=True, retry_s=0, **settings),
    )
    try:
        return runner.run(), runner
    finally:
        targets.close()


@pytest.mark.exhaustive
def test_a_hundred_tables(golden: Any, tmp_path: pathlib.Path) -> None:
    lake, target = tmp_path / "lake", tmp_path / "copy.db"
    for number in range(100):
        name = NAMES[number % len(NAMES)]
        shutil.copytree(golden.table(name), lake / f"t{number}")
    job = f'[[sync]]\nfrom = "{lake}/*"\nto = "duckdb:///{target}"'
    code, runner = run(job, threads=4)
    assert code == 0 and len(runner.tables()) == 100
    with duckdb.connect(str(target), read_only=True) as copy:
        copy.execute("SET TimeZone = 'UTC'")
        for number in range(100):
            rows = rows_of(golden, NAMES[number % len(NAMES)])
            assert same(copy.sql(f"SELECT * FROM t{number}").to_arrow_table(), rows) == "", number
    code, runner = run(job, threads=4)
    assert code == 0 and sum(one.rows for one in runner.tables()) == 0


def test_problems_leave_other_tables_alone(golden: Any, tmp_path: pathlib.Path) -> None:
    """A table that is created again, one that is gone, one that is cleaned up, a new one: one line for each."""
    lake, target = tmp_path / "lake", tmp_path / "copy.db"
    for name in ("good", "recreated", "gone"):
        shutil.copytree(golden.table(NAMES[2]), lake / name)
    job = f'[[sync]]\nfrom = "{lake}/*"\nto = "duckdb:///{target}"'
    assert run(job)[0] == 0
    shutil.rmtree(lake / "recreated")
    shutil.copytree(golden.table(NAMES[0]), lake / "recreated")
    shutil.rmtree(lake / "gone")
    shutil.copytree(golden.table(NAMES[1]), lake / "new")
    code, runner = run(job)
    states = {one.source.name: (one.state, one.error_code) for one in runner.tables()}
    assert states == {
        "good": (TableState.CURRENT, ""),
        "new": (TableState.CURRENT, ""),
        "recreated": (TableState.STOPPED, "DATA_INVALIDATED"),
    }
    assert code == 3
    code, runner = run(job, restart=frozenset({"recreated"}))
    assert code == 0
    with duckdb.connect(str(target), read_only=True) as copy:
        copy.execute("SET TimeZone = 'UTC'")
        assert same(copy.sql("SELECT * FROM recreated").to_arrow_table(), rows_of(golden, NAMES[0])) == ""


def test_two_entries_share_a_target(golden: Any, tmp_path: pathlib.Path) -> None:
    """Shards in one table with their names, and another table in the same file."""
    lake, target = tmp_path / "lake", tmp_path / "copy.db"
    for name in ("s1", "s2", "other"):
        shutil.copytree(golden.table(NAMES[2]), lake / name)
    job = f"""
[[sync]]
from = "{lake}/s*"
to = "duckdb:///{target}"
into = "all"
[[sync]]
from = "{lake}/other"
to = "duckdb:///{target}"
"""
    assert run(job)[0] == 0
    with duckdb.connect(str(target), read_only=True) as copy:
        copy.execute("SET TimeZone = 'UTC'")
        for name in ("s1", "s2"):
            own = copy.sql(f"SELECT * EXCLUDE (_source) FROM \"all\" WHERE _source = '{name}'").to_arrow_table()
            assert same(own, rows_of(golden, NAMES[2])) == ""
        assert same(copy.sql("SELECT * FROM other").to_arrow_table(), rows_of(golden, NAMES[2])) == ""
