"""Tables with a record index that Hudi writes: reads by key, with the groups that the index excludes, have all rows."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from penstock.enumerator.planning.pruning import groups
from penstock.enumerator.planning.pruning.pruned_plan import Reason
from penstock.proto.model.queries import Snapshot
from penstock.table.hudi_table import open_table
from tests.interop.hudi_options import hudis_options, service_call
from tests.interop.test_writes import HUDIS_COLUMNS, Row
from tests.pruned_keys import KeyReads, check, reads_by_key

pytestmark = [pytest.mark.interop, pytest.mark.exhaustive, pytest.mark.timeout(900)]

CITIES = ("oslo", "riga", "bern")
FIRST: list[Row] = [(f"k{n}", 10, n, CITIES[n % 3]) for n in range(1, 25)]
ABSENT = ("k0", "never", "")
INDEX = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.record.index.min.filegroup.count": "3",
    "hoodie.metadata.record.index.max.filegroup.count": "3",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.table.timeline.timezone": "UTC",
}


@pytest.fixture(autouse=True)
def _few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "FEW_FILES", 0)


class Life:
    """A table with a record index that Hudi writes step by step."""

    def __init__(self, hudi: Any, path: pathlib.Path, version: int, kind: str) -> None:
        self.hudi, self.path = hudi, path
        self.options = hudis_options(version, kind, "simple") | INDEX
        if kind == "merge_on_read":
            self.options |= {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
            self.options.pop("hoodie.datasource.write.precombine.field")

    def write(self, rows: list[Row], operation: str = "upsert", **options: str) -> None:
        more = {name.replace("__", "."): value for name, value in options.items()}
        named = {"hoodie.datasource.write.operation": operation}
        self.hudi.write(self.path, HUDIS_COLUMNS, rows, self.options | named | more)

    def reads(self) -> KeyReads:
        return reads_by_key(open_table(str(self.path)), Snapshot(), ABSENT, "id")

    def check(self) -> None:
        check(self.reads(), Reason.RECORD_INDEX)


def moved(rows: list[Row]) -> list[Row]:
    """The rows in the next partition, newer."""
    return [(key, seq + 10, value, CITIES[(CITIES.index(city) + 1) % 3]) for key, seq, value, city in rows]


def live(life: Life, *, upserts_after_deletes: bool = True) -> None:
    """Writes that add, change, move and delete keys, each checked."""
    life.write(FIRST)
    life.check()
    life.write([(key, 20, value + 1, city) for key, _, value, city in FIRST[::3]])
    life.check()
    life.write([(f"n{n}", 20, n, CITIES[n % 3]) for n in range(6)])
    life.check()
    life.write(moved(FIRST[:6]))
    life.check()
    life.write([(key, 30, value, city) for key, _, value, city in FIRST[9:12]], "delete")
    life.check()
    if upserts_after_deletes:
        life.write([(key, 40, value, city) for key, _, value, city in FIRST[9:11]])
        life.check()
    life.write([("o1", 50, 1, "bern"), ("o2", 50, 2, "bern")], "insert_overwrite")
    reads = life.reads()
    assert not reads.wrong and reads.unused, "an overwrite may repeat a key of another partition"


@pytest.mark.parametrize("kind", ["merge_on_read", pytest.param("copy_on_write", marks=pytest.mark.long)])
def test_reads_by_key_of_newest_hudi(hudi: Any, tmp_path: pathlib.Path, kind: str) -> None:
    life = Life(hudi, tmp_path / "trip", 9, kind)
    live(life)


@pytest.mark.long
def test_reads_by_key_of_old_hudi(old_hudi: Any, tmp_path: pathlib.Path) -> None:
    """In threads of another class loader than its own, 0.15.0 cannot read the deletes of an index, as an upsert does
    (ClassCastException of HoodieDeleteRecord)."""
    life = Life(old_hudi, tmp_path / "trip", 6, "copy_on_write")
    live(life, upserts_after_deletes=False)


@pytest.mark.long
def test_clustering_and_rollback(hudi: Any, tmp_path: pathlib.Path) -> None:
    """Clustering moves keys into new groups, and the index follows; so does it after a rollback."""
    life = Life(hudi, tmp_path / "trip", 9, "copy_on_write")
    life.write(FIRST)
    life.write([(f"n{n}", 20, n, CITIES[n % 3]) for n in range(6)])
    hudi.call(service_call("clustering", "scheduleAndExecute", life.path, life.options))
    life.check()
    life.write(moved(FIRST[:3]))
    hudi.call(f"CREATE TABLE rolled USING hudi LOCATION '{life.path}'")
    newest = max(requested for requested, _, action in hudi.instants(life.path) if action == "commit")
    hudi.call(f"CALL rollback_to_instant(table => 'rolled', instant_time => '{newest}')")
    reads = life.reads()
    assert not reads.wrong, reads


def test_keys_that_repeat_and_a_writer_without_the_index(hudi: Any, tmp_path: pathlib.Path) -> None:
    """Both prune nothing: an insert of a key that the table has, and a write that does not update the index."""
    life = Life(hudi, tmp_path / "trip", 9, "copy_on_write")
    life.write(FIRST)
    life.check()
    life.write([(key, 60, value, city) for key, _, value, city in moved(FIRST[:4])], "insert")
    reads = life.reads()
    assert not reads.wrong and any("may repeat keys" in why for why in reads.unused), reads
