"""A sync that is killed (SIGKILL) at statements of its target, while the table gets its commits: no row is lost or
copied twice."""

from __future__ import annotations

import multiprocessing
import pathlib
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.table.schema.avro import META_COLUMNS
from tests.golden import sync_process
from tests.golden.test_sync import copied, rows_of, same
from tests.postgres_server import PostgresServer, postgres_server
from tests.unit.engine.sync.targets.backends import Backend, InDelta, InParquet, InPostgreSQL

pytestmark = pytest.mark.golden

TABLES = ("A_fuzz_event_long_s1_v9_h120", "B_v6_inc_cow")
Kill = tuple[str, int]
NEVER: Kill = ("before", 0)


def process(work: Callable[..., None], *values: Any) -> bool:
    """Runs a function of `sync_process` in a process; whether it came to its end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.golden.sync_process"])
    child = context.Process(target=work, args=values)
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode == 0


def hide_commits(table: pathlib.Path, aside: pathlib.Path) -> list[tuple[pathlib.Path, pathlib.Path]]:
    """Moves all completed instants but the first away; (file, its place), the oldest first."""
    timeline = table / ".hoodie" / "timeline"
    timeline = timeline if timeline.is_dir() else table / ".hoodie"
    aside.mkdir()
    hidden = []
    endings = (".commit", ".deltacommit", ".replacecommit")
    for file in sorted(one for one in timeline.iterdir() if one.name.endswith(endings))[1:]:
        place = aside / file.name
        file.rename(place)
        hidden.append((place, file))
    return hidden


def killed(table: pathlib.Path, run: Callable[[Any], bool], kills: list[Any], never: Any) -> None:
    """Copies by a process for each of `kills`, and a last one to the end. In between the table gets commits."""
    hidden = hide_commits(table, table.parent / "aside")
    killed_processes = 0
    for number, kill in enumerate(kills):
        is_current = run(kill)
        killed_processes += not is_current
        if hidden and (is_current or number % 2):
            place, file = hidden.pop(0)
            place.rename(file)
    assert killed_processes >= min(len(kills), 4)
    for place, file in hidden:
        place.rename(file)
    assert run(never)


def in_duckdb(golden: Any, name: str, folder: pathlib.Path, kills: list[Kill], *, beside: bool = False) -> pa.Table:
    """The copy in DuckDB after kills at statements."""
    path, table = str(folder / "copy.db"), golden.copy(name, folder)
    killed(table, lambda kill: process(sync_process.copy, str(table), path, kill, beside), kills, NEVER)
    return copied(folder / "copy.db")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", TABLES)
def test_copy_is_equal_after_kills(golden: Any, name: str, tmp_path: pathlib.Path) -> None:
    rng = random.Random(name)
    kills = [(rng.choice(["before", "after"]), rng.randrange(1, 25)) for _ in range(7)]
    kills += [("commit", 1), ("commit", 2), ("commit", 1)]
    rng.shuffle(kills)
    without = ("amt",) if name == "B_v6_inc_cow" else ()
    assert same(in_duckdb(golden, name, tmp_path, kills), rows_of(golden, name), without) == ""


@pytest.mark.parametrize("kind", ["postgresql", "delta", "parquet"])
def test_copy_in_another_target_is_equal_after_kills(
    golden: Any, kind: str, request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> None:
    """Negative control: a row that is gone in the copy is noticed."""
    backend: Backend = {"delta": InDelta, "parquet": InParquet}.get(
        kind, lambda folder: InPostgreSQL(request.getfixturevalue("server"), "public")
    )(tmp_path)
    rng, table = random.Random(kind), golden.copy(TABLES[0], tmp_path)
    kills = [rng.randrange(5, 60) for _ in range(6)]
    killed(table, lambda last: process(sync_process.copy_by_steps, str(table), backend.url, last), kills, 0)
    columns = pa.schema([one for one in rows_of(golden, TABLES[0]).schema if one.name not in META_COLUMNS])
    expected = rows_of(golden, TABLES[0]).select(columns.names)
    rows = [dict(zip(columns.names, row, strict=True)) for row in backend.rows("t", columns)]
    assert same(pa.Table.from_pylist(rows, columns), expected) == ""
    assert same(pa.Table.from_pylist(rows[1:], columns), expected) != ""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


@pytest.mark.parametrize("beside", [False, True], ids=["in the target", "beside it"])
def test_position_beside_the_target_is_noticed(golden: Any, tmp_path: pathlib.Path, beside: bool) -> None:
    """Negative control: with a position that is stored after the transaction, a kill between them copies rows twice."""
    name = TABLES[0]
    copy = in_duckdb(golden, name, tmp_path, [("commit", 2)], beside=beside)
    assert (same(copy, rows_of(golden, name)) != "") == beside
