"""Table services of Penstock on tables with a metadata table: after each, Hudi reads the same rows with it and without,
its validator finds no difference, and Hudi writes, compacts, archives and restores on."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock.engine.table_services import metadata_services
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import delete_savepoint, savepoint
from penstock.engine.write.create import create_table
from penstock.engine.write.rollback import rollback
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.metadata_table import compaction as metadata_compaction
from penstock.writer.metadata_table.opened import WritableMetadata
from tests.interop.test_metadata_table import FIRST, Trip
from tests.interop.test_writes import SCHEMA
from tests.unit.engine.table_services.serviced_lake import OPENS
from tests.unit.engine.table_services.test_service_kills import killed_at
from tests.unit.engine.write.killed_storage import KilledStorage
from tests.unit.writer.metadata_table.metadata_tables import listed

pytestmark = [pytest.mark.interop, pytest.mark.exhaustive, pytest.mark.timeout(900)]

COMPACTION = {"hoodie__compact__inline": "true", "hoodie__compact__inline__max__delta__commits": "1"}
METADATA_COMPACTION = {"hoodie__metadata__compact__max__delta__commits": "2"}
"""Not both in one write: in a new JVM Hudi 1.2.0 then fails (ArrayIndexOutOfBoundsException in HoodieMetadataPayload).
"""
ARCHIVAL = {
    "hoodie__clean__automatic": "true",
    "hoodie__clean__async": "false",
    "hoodie__clean__commits__retained": "1",
    "hoodie__archive__automatic": "true",
    "hoodie__keep__min__commits": "3",
    "hoodie__keep__max__commits": "4",
}


@pytest.fixture
def trip(hudi: Any, tmp_path: pathlib.Path) -> Trip:
    """A table of Penstock with a metadata table."""
    lake = Trip(hudi, tmp_path / "trip", "merge_on_read", "bucket")
    lake.options["hoodie.metadata.index.column.stats.enable"] = "false"
    create_table(
        str(lake.path),
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="seq",
        index="bucket",
        buckets=3,
        metadata_table=True,
    )
    lake.write(FIRST)
    return lake


@pytest.mark.long
def test_archival_stops_where_the_metadata_table_is_not_compacted(trip: Trip) -> None:
    for _ in range(3):
        trip.write(trip.rows())
    assert archive(str(trip.path), keep_min=1, keep_max=2, delta_commits=1).instants == ()
    trip.hudi_writes(trip.rows(), **COMPACTION)
    trip.hudi_writes(trip.rows(), **METADATA_COMPACTION)
    compacted = {item[0] for item in trip.hudi.instants(trip.path)}
    last = trip.write(trip.rows())
    archived = archive(str(trip.path), keep_min=1, keep_max=2, delta_commits=1).instants
    assert len(archived) >= 3 and set(archived) < compacted and last not in archived
    trip.check("archival by Penstock", validates=True)
    trip.hudi_writes(trip.rows(), **COMPACTION, **ARCHIVAL)
    archive(str(trip.path), keep_min=1, keep_max=2, delta_commits=1)
    trip.check("compaction, clean and archival by Hudi", validates=True)


@pytest.mark.long
def test_metadata_table_that_penstock_cleans_and_archives(trip: Trip, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hudi reads by it, and cleans, compacts and archives it on."""
    monkeypatch.setattr(metadata_compaction, "AFTER", 3)
    monkeypatch.setattr(metadata_services, "_LEAST_COMMITS", 4)
    monkeypatch.setattr(metadata_services, "_READERS_NEED", 0)
    for _ in range(10):
        trip.write(trip.rows())
    penstock.compact(str(trip.path))
    trip.write(trip.rows())
    trip.write(trip.rows())
    clean(str(trip.path), commits=1)
    archive(str(trip.path), keep_min=2, keep_max=3, delta_commits=1)
    inner = WritableMetadata.open(LocalStorage(str(trip.path))).table
    archived = inner.archive()
    assert (inner.timeline().completed_cleans or archived.cleans) and len(archived.instants) > 5
    trip.check("clean and archival by Penstock", validates=True)
    for _ in range(3):
        trip.hudi_writes(trip.rows(), **METADATA_COMPACTION, **ARCHIVAL)
        trip.write(trip.rows())
    clean(str(trip.path), commits=1)
    archive(str(trip.path), keep_min=2, keep_max=3, delta_commits=1)
    trip.hudi_writes(trip.rows())
    trip.check("services of both", validates=True)


def test_restore_keeps_the_metadata_table(trip: Trip) -> None:
    """Hudi's restore and Penstock's, of one savepoint, after services of the data table and of the metadata table."""
    trip.write(trip.rows())
    saved = savepoint(str(trip.path)).instant
    rows = dict(trip.model.rows)
    trip.write(trip.rows())
    trip.hudi_writes(trip.rows(), **COMPACTION)
    trip.hudi_writes(trip.rows(), **METADATA_COMPACTION)
    trip.write([("k1", 60, 3, "wien")], "insert_overwrite")
    assert len(restore(str(trip.path)).removed) >= 3 and listed(trip.path) == "files"
    trip.model.rows = dict(rows)
    trip.check("restore by Penstock", validates=True)
    trip.hudi_writes(trip.rows(), **COMPACTION)
    last = trip.model.rows
    trip.model.rows = dict(last)
    instant = trip.write(trip.rows())
    assert rollback(str(trip.path), instant) == (instant,) and listed(trip.path) == "files"
    trip.model.rows = last
    trip.check("compaction by Hudi, rollback by Penstock", validates=True)
    trip.write(trip.rows())
    statement = f"CALL rollback_to_savepoint(path => '{trip.path}', instant_time => '{saved}')"
    trip.hudi.script({"hoodie.metadata.enable": "true"}, [statement])
    trip.model.rows = rows
    assert penstock.read(str(trip.path)).read_all().num_rows == len(rows)
    trip.write(trip.rows())
    delete_savepoint(str(trip.path), saved)
    trip.hudi_writes(trip.rows())
    trip.write(trip.rows())
    trip.check("restore by Hudi", validates=True)


def killed_halfway(path: pathlib.Path, run: Callable[[str], object]) -> None:
    """Runs the service on a copy to count its steps, and kills it on the table at the one in the middle."""
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    counted = KilledStorage(copy, 0, after=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OPENS, lambda _: counted)
        run(str(copy))
    shutil.rmtree(copy)
    assert killed_at(path, counted.step // 2, run, after=True)


@pytest.mark.long
def test_hudi_goes_on_after_killed_services(trip: Trip) -> None:
    """Cleans, archivals and restores of Penstock that are killed halfway."""
    saved = savepoint(str(trip.path)).instant
    rows = dict(trip.model.rows)
    trip.write(trip.rows())
    trip.write(trip.rows())
    killed_halfway(trip.path, restore)
    statement = f"CALL rollback_to_savepoint(path => '{trip.path}', instant_time => '{saved}')"
    trip.hudi.script({"hoodie.metadata.enable": "true"}, [statement])
    trip.model.rows = rows
    trip.hudi_writes(trip.rows())
    trip.check("restore that Hudi completes", validates=True)
    delete_savepoint(str(trip.path), saved)

    trip.hudi_writes(trip.rows(), **COMPACTION)
    trip.write(trip.rows())
    penstock.compact(str(trip.path))
    trip.hudi_writes(trip.rows(), **METADATA_COMPACTION)
    killed_halfway(trip.path, lambda path: clean(path, commits=1))
    assert list((trip.path / ".hoodie/timeline").glob("*.clean.inflight"))
    trip.hudi_writes(trip.rows(), **{name: value for name, value in ARCHIVAL.items() if "clean" in name})
    trip.check("clean that Hudi completes", validates=True)

    killed_halfway(trip.path, lambda path: archive(path, keep_min=1, keep_max=2, delta_commits=1))
    trip.write(trip.rows())
    trip.hudi_writes(trip.rows(), **METADATA_COMPACTION)
    trip.hudi_writes(trip.rows(), **ARCHIVAL)
    archive(str(trip.path), keep_min=1, keep_max=2, delta_commits=1)
    trip.check("archival that Hudi completes", validates=True)
