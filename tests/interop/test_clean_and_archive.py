"""Cleans and archivals by Penstock: Hudi reads the same rows after each, also of older states and over the boundary of
the archive, and goes on with the table: its cleans begin where Penstock's ended, and the other way round."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import Any

import pytest

import penstock
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.cleaning import clean_executor
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.table.hudi_table import open_table
from tests.interop.hudi_options import COMPACTS, hudis_options
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, rows_of, table_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

HUDI_CLEANS = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.async": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}
HUDI_ARCHIVES = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
CITIES = ("oslo", "riga", "bern")


@dataclass
class Lake:
    """A table, the rows that it must have, and its states by instant."""

    hudi: Any
    path: pathlib.Path
    version: int
    kind: str
    model: Model = field(default_factory=Model)
    states: dict[str, list[Row]] = field(default_factory=dict)
    order_keys: dict[str, str] = field(default_factory=dict)
    clock: int = 10

    def rows(self, count: int, cities: tuple[str, ...] = CITIES) -> list[Row]:
        self.clock += 1
        return [(f"k{n}", self.clock, self.clock + n, cities[n % len(cities)]) for n in range(count)]

    def penstock_writes(self, count: int = 6, cities: tuple[str, ...] = CITIES, operation: str = "upsert") -> None:
        rows = self.rows(count, cities)
        self._wrote(rows, write(str(self.path), table_of(rows), operation).instant, operation)

    def hudi_writes(self, *services: dict[str, str], count: int = 6) -> list[Any]:
        rows = self.rows(count)
        options = hudis_options(self.version, self.kind, "bucket") | {"hoodie.bucket.index.num.buckets": "1"}
        for service in services:
            options |= service
        completed = list(self.hudi.write(self.path, HUDIS_COLUMNS, rows, options))
        writes = sorted(item[0] for item in completed if item[2] in ("commit", "deltacommit"))
        self._wrote(rows, writes[0], "upsert")
        return completed

    def _wrote(self, rows: list[Row], instant: str, operation: str) -> None:
        self.model.upsert(rows) if operation == "upsert" else self.model.overwrite(rows)
        self.states[instant] = sorted(self.model.rows.values())
        self.order_keys |= {item[0]: item[1] or item[0] for item in self.hudi.instants(self.path)}

    def check(self, what: str, hudi: Any = None, *, as_of: tuple[str, ...] = ()) -> None:
        """Snapshot of both, the states at these instants, and the newest range."""
        reader, expected = hudi or self.hudi, sorted(self.model.rows.values())
        assert rows_of(penstock.read(str(self.path)).read_all()) == expected, f"{what}: Penstock"
        assert rows_of(reader.read(self.path)) == expected, f"{what}: Hudi"
        for instant in as_of:
            assert rows_of(penstock.read(str(self.path), as_of=instant).read_all()) == self.states[instant], what
            assert rows_of(reader.read(self.path, as__of__instant=instant)) == self.states[instant], what

    def check_range(self, begin: str, what: str) -> None:
        """The rows that changed after an instant: Hudi's and Penstock's are equal, and those of the model."""
        end = max(self.states)
        first, last = self.order_keys[begin], self.order_keys[end]
        penstocks = rows_of(penstock.read(str(self.path), query="incremental", after=first, upto=last).read_all())
        before = set(self.states[begin])
        assert penstocks == sorted(row for row in self.states[end] if row not in before), what
        assert rows_of(self.hudi.incremental(self.path, first, last)) == penstocks, what

    def check_all_cleaned(self, commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """A clean that looks at all partitions has nothing left to delete: none was missed."""
        with monkeypatch.context() as patch:
            patch.setattr(clean_executor, "_is_incremental", lambda *_: False)
            assert clean(str(self.path), commits=commits, dry_run=True).files == ()

    def last_clean(self) -> Any:
        table = open_table(str(self.path))
        return table.clean(table.timeline().completed_cleans[-1])


def lake_of(hudi: Any, folder: pathlib.Path, version: int, kind: str) -> Lake:
    path = folder / "trip"
    create_table(
        str(path),
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="seq",
        table_type=kind,
        table_version=version,
        buckets=1,
    )
    return Lake(hudi, path, version, kind)


CASES = [(9, "merge_on_read"), (6, "copy_on_write")]
OTHERS = [(9, "copy_on_write"), (6, "merge_on_read")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("version", "kind"), [*CASES, *(pytest.param(*case, marks=pytest.mark.long) for case in OTHERS)]
)
def test_hudi_reads_and_goes_on(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str
) -> None:
    run(lake_of(hudi, tmp_path, version, kind), monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
def test_older_hudi_reads_and_goes_on(
    old_hudi: Any, hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    lake = lake_of(old_hudi, tmp_path, 6, kind)
    run(lake, monkeypatch)
    lake.check("the newest release", hudi)


def run(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes, cleans and archivals by both in turn."""
    path, compacts = str(lake.path), [COMPACTS] if lake.kind == "merge_on_read" else []
    for cities in (CITIES, ("oslo",), CITIES):
        lake.penstock_writes(cities=cities)
    lake.hudi_writes(*compacts)
    lake.penstock_writes(operation="insert_overwrite", cities=("riga",))
    lake.penstock_writes()
    if compacts:
        lake.hudi_writes(*compacts)
    mine = clean(path, commits=3)
    kept = [instant for instant in lake.states if instant >= mine.earliest_to_retain]
    assert mine.files and len(kept) >= 2
    lake.check("Penstock's clean", as_of=(kept[0],))
    lake.check_all_cleaned(3, monkeypatch)

    completed = lake.hudi_writes(HUDI_CLEANS, *compacts)
    assert any(item[2] == "clean" for item in completed)
    assert lake.last_clean().earliest_to_retain > mine.earliest_to_retain
    lake.check_all_cleaned(1, monkeypatch)

    lake.penstock_writes()
    lake.penstock_writes()
    if compacts:
        lake.hudi_writes(*compacts)
    assert clean(path, commits=2).files
    lake.check_all_cleaned(2, monkeypatch)
    kept = sorted(lake.states)
    mine_archived = archive(path, keep_min=3, keep_max=4, delta_commits=1)
    assert kept[-4] in mine_archived.instants and open_table(path).has_archived()
    lake.check("Penstock's clean after Hudi's, and its archival", as_of=(kept[-1],))
    lake.check_range(kept[-4], "a range that begins with an archived instant")

    lake.hudi_writes(HUDI_CLEANS, HUDI_ARCHIVES, *compacts)
    lake.penstock_writes()
    lake.hudi_writes(HUDI_CLEANS, HUDI_ARCHIVES, *compacts)
    lake.check("Hudi's cleans and archivals after Penstock's")
    for _ in range(3):
        lake.penstock_writes()
    clean(path, commits=1)
    assert archive(path, keep_min=2, keep_max=3, delta_commits=1).instants
    archived = {item.requested_time for item in open_table(path).archive().instants}
    assert archived.issuperset(sorted(lake.states)[:-4])
    lake.hudi_writes(HUDI_CLEANS, *compacts)
    lake.check("Hudi's write after Penstock's second archival")
