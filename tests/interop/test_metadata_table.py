"""Tables with a metadata table that Hudi and Penstock write in turn: Hudi reads the same rows with it and without, its
validator finds no difference, and it goes on, also after a writer of Penstock was killed."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from tests.interop.hudi_options import hudis_options
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, rows_of, table_of
from tests.unit.engine.write.killed_storage import Killed, as_other_process
from tests.unit.writer.metadata_table.metadata_tables import instants, listed, listings
from tests.unit.writer.metadata_table.test_kills import KilledAfterPath

pytestmark = [pytest.mark.interop, pytest.mark.exhaustive, pytest.mark.timeout(900)]

FIRST: list[Row] = [(f"k{n}", 10, n, "oslo" if n % 2 else "riga") for n in range(1, 9)]
BEFORE_DATA = 5
"""The step of a recorded write at which its own completed file is created: the metadata table has its commit."""
BEFORE_COMPACTED = 4
"""The step of a compaction of the metadata table at which its completed file is created."""


class Trip:
    """A table with a metadata table, and its model."""

    def __init__(self, hudi: Any, path: pathlib.Path, kind: str, index: str) -> None:
        self.hudi, self.path, self.index, self.model, self.seq = hudi, path, index, Model(), 20
        self.options = hudis_options(9, kind, index) | {
            "hoodie.metadata.enable": "true",
            "hoodie.table.timeline.timezone": "UTC",
        }

    def rows(self) -> list[Row]:
        """An update, and a new key in a partition that may be new."""
        self.seq += 1
        key = self.seq * 7 % 11 + 1
        return [(f"k{key}", self.seq, self.seq % 99, "oslo" if key % 2 else "riga"), (f"n{self.seq}", 1, 1, "bern")]

    def write(self, rows: list[Row], operation: str = "upsert", **options: Any) -> str:
        buckets = 3 if self.index == "bucket" else None
        options |= {"index": self.index, "buckets": buckets, "sole_writer": True}
        instant = write(str(self.path), table_of(rows), operation, **options).instant
        if operation == "upsert":
            self.model.upsert(rows)
        else:
            self.model.overwrite(rows)
        return instant

    def hudi_writes(self, rows: list[Row], **options: str) -> None:
        more = {name.replace("__", "."): value for name, value in options.items()}
        self.hudi.write(self.path, HUDIS_COLUMNS, rows, self.options | more)
        self.model.upsert(rows)

    def killed_write(self, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
        """A write whose process dies at this step from the first one in the metadata table on."""
        model, self.model = self.model, Model()
        with monkeypatch.context() as patch:
            as_other_process(patch)
            storage = KilledAfterPath(self.path, step, "/metadata/")
            patch.setattr("penstock.engine.write.planned_write.open_writable", lambda path: storage)
            with pytest.raises(Killed):
                self.write(self.rows())
        self.model = model

    def check(self, what: str, *, validates: bool = False) -> None:
        """Rows of Penstock and of Hudi, which lists by the metadata table and by folders, are those of the model."""
        expected = sorted(self.model.rows.values())
        assert rows_of(penstock.read(str(self.path)).read_all()) == expected, f"{what}: Penstock"
        for enabled in ("true", "false"):
            answer = rows_of(self.hudi.read(self.path, hoodie__metadata__enable=enabled))
            assert answer == expected, f"{what}: Hudi, hoodie.metadata.enable={enabled}"
        by_metadata, by_folders = listings(self.path)
        assert by_metadata == by_folders, what
        if validates:
            self.validate(what)

    def validate(self, what: str) -> None:
        """Hudi's own comparison of the metadata table with the folders."""
        name = f"trip_{self.seq}"
        self.hudi.call(f"CREATE TABLE {name} USING hudi LOCATION '{self.path}'")
        compared = self.hudi.call(f"CALL validate_metadata_table_files(table => '{name}', verbose => true)")
        differing = [
            row
            for row in compared
            if not (row["is_present_in_fs"] and row["is_present_in_metadata"]) or row["fs_size"] != row["metadata_size"]
        ]
        assert compared and not differing, what
        self.hudi.call(f"DROP TABLE {name}")


def test_metadata_table_of_hudi_is_kept_current(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other partitions are removed, and Hudi builds them again. Killed writes are rolled back by Hudi and by
    Penstock."""
    trip = Trip(hudi, tmp_path / "trip", "merge_on_read", "bucket")
    trip.hudi_writes(FIRST)
    assert listed(trip.path) == "column_stats,files,partition_stats"
    trip.write(trip.rows())
    assert listed(trip.path) == "files"
    trip.check("upsert by Penstock", validates=True)
    trip.killed_write(monkeypatch, BEFORE_DATA)
    trip.hudi_writes(trip.rows())
    assert ("rollback", "completed") in [item[1:] for item in instants(trip.path)]
    trip.check("killed write, rolled back by Hudi", validates=True)
    trip.options["hoodie.metadata.index.column.stats.enable"] = "false"
    trip.killed_write(monkeypatch, BEFORE_DATA - 1)
    trip.write(trip.rows())
    trip.killed_write(monkeypatch, BEFORE_DATA)
    trip.write(trip.rows(), "insert_overwrite")
    trip.check("killed writes, rolled back by Penstock")
    services = {
        "hoodie__compact__inline": "true",
        "hoodie__compact__inline__max__delta__commits": "1",
        "hoodie__clean__automatic": "true",
        "hoodie__clean__async": "false",
        "hoodie__clean__commits__retained": "1",
        "hoodie__metadata__compact__max__delta__commits": "2",
    }
    trip.hudi_writes(trip.rows(), **services)
    trip.write(trip.rows())
    trip.check("compaction, clean and compaction of the metadata table by Hudi", validates=True)
    begin = trip.hudi.instants(trip.path)[-3][1]
    end = trip.hudi.instants(trip.path)[-1][1]
    hudis = trip.hudi.incremental(trip.path, begin, end)
    ours = penstock.read(str(trip.path), query="incremental", after=begin, upto=end).read_all()
    assert rows_of(hudis) == rows_of(ours) and ours.num_rows


def test_metadata_table_of_penstock_is_gone_on_with_by_hudi(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Penstock compacts it; Hudi carries out a compaction that a killed process began, and archives."""
    trip = Trip(hudi, tmp_path / "trip", "copy_on_write", "simple")
    trip.options["hoodie.metadata.index.column.stats.enable"] = "false"
    create_table(
        str(trip.path),
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="seq",
        table_type="copy_on_write",
        index="simple",
        metadata_table=True,
    )
    trip.write(FIRST)
    for _ in range(8):
        trip.write(trip.rows())
    trip.check("ten commits", validates=True)
    trip.killed_write(monkeypatch, BEFORE_COMPACTED)
    assert ("compaction", "inflight") in [item[1:] for item in instants(trip.path)]
    trip.hudi_writes(trip.rows())
    assert [item[1:] for item in instants(trip.path)].count(("commit", "completed")) == 1
    trip.check("compaction of the metadata table by Hudi", validates=True)
    for _ in range(10):
        trip.write(trip.rows())
    assert [item[1:] for item in instants(trip.path)].count(("commit", "completed")) == 2
    trip.check("compaction of the metadata table by Penstock", validates=True)
    archive = {
        "hoodie__clean__automatic": "true",
        "hoodie__clean__async": "false",
        "hoodie__clean__commits__retained": "1",
        "hoodie__archive__automatic": "true",
        "hoodie__keep__min__commits": "3",
        "hoodie__keep__max__commits": "4",
    }
    trip.hudi_writes(trip.rows(), **archive)
    trip.write(trip.rows())
    trip.check("clean and archive by Hudi", validates=True)
    trip.write(trip.rows(), metadata="off")
    assert listed(trip.path) == "" and not (trip.path / ".hoodie/metadata").exists()
    trip.hudi_writes(trip.rows())
    trip.write(trip.rows())
    trip.check("built again by Hudi", validates=True)
