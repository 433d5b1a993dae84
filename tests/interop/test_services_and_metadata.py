"""Table services of Penstock on tables with a metadata table: after each, Hudi reads the same rows with it and without,
its validator finds no difference, and Hudi writes, compacts, archives and restores on."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import penstock
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import delete_savepoint, savepoint
from penstock.engine.write.create import create_table
from penstock.engine.write.rollback import rollback
from tests.interop.test_metadata_table import FIRST, Trip
from tests.interop.test_writes import SCHEMA
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
