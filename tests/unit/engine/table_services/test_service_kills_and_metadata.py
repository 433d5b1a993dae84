"""Services of a table with a metadata table that are killed at any step: readers that list by it see the same rows, the
next run goes on, and the metadata table has the files of the folders then."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import pytest

from penstock.engine.table_services import metadata_services
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.clustering import cluster
from penstock.engine.table_services.compaction import compact
from penstock.engine.write.rollback import rollback
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.metadata_table import compaction
from penstock.writer.metadata_table.opened import WritableMetadata
from tests.unit.engine.table_services.serviced_lake import upsert
from tests.unit.engine.table_services.test_service_kills import killed_at
from tests.unit.engine.write.killed_storage import KilledStorage
from tests.unit.engine.write.recorded_storage import FIRST, KINDS, SECOND, Kind, Lake, Row, upserted
from tests.unit.engine.write.test_kills import leftovers
from tests.unit.writer.metadata_table.metadata_tables import listed, listings
from tests.unit.writer.metadata_table.test_kills import killed

Service = Callable[[str], object]
LATER: list[Row] = [("k1", 7, "oslo"), ("k2", 7, "riga")]

SERVICES: dict[str, tuple[Kind, Service]] = {
    "compact": (KINDS[0], compact),
    "cluster": (KINDS[1], lambda path: cluster(path, sort_by=["id"])),
    "clean": (KINDS[1], lambda path: clean(path, commits=1)),
    "archive": (KINDS[1], lambda path: archive(path, keep_min=1, keep_max=2)),
}


def lake_of(folder: pathlib.Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table with a metadata table, which reads use for any number of partitions, and some writes."""
    with monkeypatch.context() as patch:
        lake = Lake(folder / "table", kind, patch, metadata_table=True)
        lake.write(FIRST)
        lake.write(SECOND)
        lake.write(LATER)
        lake.write([("late", 1, "wien")], "insert")
    monkeypatch.setattr("penstock.table.metadata.listing.FEW_PARTITIONS", 0)
    return lake


def copy_of(lake: Lake, step: int) -> Lake:
    copy = Lake.__new__(Lake)
    copy.path, copy.kind = lake.path.with_name(f"table{step}"), lake.kind
    shutil.copytree(lake.path, copy.path)
    return copy


def check(lake: Lake, what: str) -> None:
    """Nothing is left of a killed run, and the metadata table is used and has the files of the folders."""
    by_metadata, by_folders = listings(lake.path)
    assert listed(lake.path) == "files" and by_metadata == by_folders, what
    archived = {"timeline/history", *(item.requested_time for item in lake.table().archive().instants)}
    inner = WritableMetadata.open(LocalStorage(str(lake.path)))
    assert all(item.is_completed for item in inner.timeline.instants), what
    assert not (lake.path / ".hoodie/metadata/.hoodie/lock").exists(), what
    assert [file for file in leftovers(lake.path) if not any(text in file for text in archived)] == [], what


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("service", SERVICES)
def test_killed_service_goes_on(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    kind, run = SERVICES[service]
    monkeypatch.setattr(compaction, "AFTER", 2 if service in ("archive", "clean") else 10)
    monkeypatch.setattr(metadata_services, "AFTER", 1)
    monkeypatch.setattr(metadata_services, "_LEAST_COMMITS", 1)
    monkeypatch.setattr(metadata_services, "_READERS_NEED", 0)
    lake = lake_of(tmp_path, kind, monkeypatch)
    rows = lake.rows()
    for step in range(1, 200):
        copy = copy_of(lake, step)
        if not killed_at(copy.path, step, run, after=bool(step % 2)):
            break
        what = f"{service} killed at step {step}"
        assert copy.rows() == rows, what
        expected = rows
        if step % 3 == 0:
            upsert(copy.path, ("k3", 9, "oslo"))
            expected = upserted(rows, [("k3", 9, "oslo")])
        run(str(copy.path))
        assert copy.rows() == expected, what
        check(copy, what)
        shutil.rmtree(copy.path)
    assert step > 8
    check(copy, "not killed")


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind[1])
def test_killed_rollback_of_a_completed_write(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Readers see all of the write or nothing, and the next write carries the rollback out."""
    lake = lake_of(tmp_path, kind, monkeypatch)
    after = lake.rows()
    before = [row for row in after if row[0] != "late"]
    newest = lake.table().timeline().completed_writes[-1].requested_time
    seen = set()
    for step in range(1, 100):
        copy = copy_of(lake, step)
        storage = KilledStorage(copy.path, step, after=bool(step % 2))
        if not killed(monkeypatch, "rollback", storage, lambda path=copy.path: rollback(str(path), newest)):
            break
        what = f"killed at step {step}"
        rows = copy.rows()
        assert rows in (before, after), what
        seen.add(rows == after)
        upsert(copy.path, *LATER, sole_writer=True)
        assert copy.rows() == rows or copy.rows() == before, what
        check(copy, what)
        shutil.rmtree(copy.path)
    assert copy.rows() == before and seen == {True, False} and step > 8
