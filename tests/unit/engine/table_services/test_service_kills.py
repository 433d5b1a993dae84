"""A process that is killed at any step of a clean or an archival: readers see the same rows and instants, and the next
one goes on."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import pytest

import penstock
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.write.write import write
from penstock.table.hudi_table import open_table
from penstock.table.timeline.instants import WRITE_ACTIONS
from penstock.writer.table_services import archival
from tests.unit.engine.table_services.lake import Lake, rows_of
from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process

OPENED = "penstock.engine.table_services.serviced_table.open_writable"


def killed_at(path: pathlib.Path, step: int, run: Callable[[str], object], *, after: bool) -> bool:
    """Whether the service was killed at this step; False if it has fewer."""
    storage = KilledStorage(path, step, after=after)
    with pytest.MonkeyPatch.context() as patch:
        as_other_process(patch)
        patch.setattr(OPENED, lambda _: storage)
        try:
            run(str(path))
        except Killed:
            return True
    return False


def instants(path: pathlib.Path) -> list[str]:
    """The writes that readers know, of the timeline and of the archive, each once."""
    table = open_table(str(path))
    active = [item.requested_time for item in table.timeline().completed_writes]
    archived = [item.requested_time for item in table.archive().instants if item.action in WRITE_ACTIONS]
    assert len(archived) == len(set(archived))
    return sorted({*active, *archived})


def traces(path: pathlib.Path) -> list[str]:
    """What only an interrupted service leaves."""
    table = open_table(str(path))
    pending = [item.file_name for item in table.timeline().instants if not item.is_completed]
    return pending + [file.name for file in (path / ".hoodie").rglob("*") if file.name in ("lock",)]


@pytest.mark.thorough
@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_killed_clean_is_carried_on(tmp_path: pathlib.Path, version: int, after: bool) -> None:
    lake = Lake(tmp_path, version)
    lake.write(3)
    lake.write(1, cities=("riga",), operation="delete_partition")
    lake.write(1, cities=("oslo",))
    rows, retained = lake.states[lake.instants[-1]], lake.instants[-1]
    for step in range(1, 100):
        path = tmp_path / f"copy{step}"
        shutil.copytree(lake.path, path)
        if not killed_at(path, step, lambda table: clean(table, commits=1), after=after):
            break
        assert rows_of(path) == rows_of(path, as_of=retained) == rows, step
        clean(str(path), commits=1)
        assert rows_of(path) == rows_of(path, as_of=retained) == rows, step
        assert traces(path) == [] and not (path / "riga").exists(), step
        table = open_table(str(path))
        assert len(table.list_partition("oslo")) == 2, step
        assert len(table.timeline().completed_cleans) == 1, step
        shutil.rmtree(path)
    assert step > 10


@pytest.mark.thorough
@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_killed_archival_is_carried_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, after: bool
) -> None:
    """The second archival, which on layout 2 merges its file with that of the first."""
    monkeypatch.setattr(archival, "MERGED_FILES", 2)
    monkeypatch.setattr(archival, "MANIFESTS", 1)
    lake = Lake(tmp_path, version)
    lake.write(4, cities=("oslo",))

    def archive_most(table: str) -> object:
        return archive(table, keep_min=1, keep_max=2, delta_commits=1)

    archive_most(str(lake.path))
    lake.write(3, cities=("oslo",))
    clean(str(lake.path), commits=1)
    lake.write(1, cities=("oslo",))
    keys = {item.requested_time: lake.table.timeline().order_key(item) for item in lake.table.timeline().instants}
    begin = lake.instants[-3]
    expected = range_rows(lake.path, keys[begin])
    assert expected
    for step in range(1, 200):
        path = tmp_path / f"copy{step}"
        shutil.copytree(lake.path, path)
        if not killed_at(path, step, archive_most, after=after):
            break
        for _ in range(2):
            assert instants(path) == lake.instants, step
            assert rows_of(path) == lake.states[lake.instants[-1]], step
            assert range_rows(path, keys[begin]) == expected, step
            archive_most(str(path))
        write(str(path), penstock.read(str(path)).read_all().select(["id", "seq", "city"]))
        write(str(path), penstock.read(str(path)).read_all().select(["id", "seq", "city"]))
        archive_most(str(path))
        table = open_table(str(path))
        archived = {(item.requested_time, item.action) for item in table.archive().instants}
        assert not archived & {(item.requested_time, item.action) for item in table.timeline().instants}, step
        assert len(table.timeline().completed_writes) == 1 and traces(path) == [], step
        shutil.rmtree(path)
    assert step > 10


def range_rows(path: pathlib.Path, after: str) -> list[tuple[str, int]]:
    return rows_of(path, query="incremental", after=after)
