"""Compactions and clusterings that Hudi and Penstock plan and carry out for each other: the rows of real Hudi, of
Penstock and of a slow model are equal after each, and Hudi goes on with the table."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from tests.golden.rows import difference
from tests.interop.hudi_options import hudis_options, service_call
from tests.interop.mixed.writers import SERVICES
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, rows_of, table_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


class Serviced:
    """A table that both write and serve, with a model of its rows."""

    def __init__(self, hudi: Any, path: pathlib.Path, version: int, kind: str, index: str) -> None:
        self.hudi, self.path, self.version, self.model = hudi, path, version, Model()
        create_table(
            str(path),
            SCHEMA,
            record_key="id",
            partition_by="city",
            ordering="seq",
            table_type=kind,
            table_version=version,
            index=index,
            buckets=3 if index == "bucket" else None,
        )
        self.options = hudis_options(version, kind, index)
        self.clock = 10
        self.draw = random.Random(f"{version}/{kind}")
        self.keys: dict[str, str] = {}

    def rows(self, count: int, fresh: int = 0, late: bool = True) -> list[Row]:
        """Updates of `count` rows, some of them late, and `fresh` new rows."""
        self.clock += 10
        known = self.draw.sample(sorted(self.keys.items()), count)
        new = {f"k{len(self.keys) + n}": self.draw.choice(("oslo", "riga")) for n in range(fresh)}
        self.keys |= new
        return [
            (key, self.clock - (self.draw.choice((0, 0, 15)) if late else 0), self.clock + place, city)
            for place, (key, city) in enumerate([*known, *new.items()])
        ]

    def by_penstock(self, rows: list[Row], operation: str = "upsert", deleted: frozenset[str] = frozenset()) -> str:
        instant = write(str(self.path), table_of(rows, deleted), operation).instant
        self.model.upsert(rows, deleted)
        self.keys = {key: city for key, city in self.keys.items() if key not in deleted}
        return instant

    def by_hudi(self, rows: list[Row], *services: str, **more: str) -> None:
        options = self.options | more
        for service in services:
            options |= SERVICES[service]
        self.hudi.write(self.path, HUDIS_COLUMNS, rows, options)
        self.model.upsert(rows)

    def call(self, kind: str, part: str, **more: str) -> None:
        """Hudi's compaction or clustering: schedule, execute or both."""
        now = {"hoodie.compact.inline.max.delta.commits": "1"}
        all_files = {"hoodie.clustering.plan.strategy.small.file.limit": "1000000000"}
        self.hudi.call(service_call(kind, part, self.path, self.options | more | now | all_files))

    def compare(self, what: str, begin: str = "", as_of: str = "") -> pa.Table:
        """The rows, also without logs, as of an instant and of a range. Returns Penstock's rows without logs."""
        ours = penstock.read(str(self.path)).read_all()
        assert rows_of(ours) == sorted(self.model.rows.values()), f"{what}: Penstock"
        self._check_rows(self.hudi.read(self.path), ours, what)
        base = penstock.read(str(self.path), query="read_optimized").read_all()
        self._check_rows(self.hudi.read(self.path, hoodie__datasource__query__type="read_optimized"), base, what)
        if as_of:
            ours = penstock.read(str(self.path), as_of=as_of).read_all()
            self._check_rows(self.hudi.read(self.path, as__of__instant=as_of), ours, f"{what}: as of {as_of}")
            ours = penstock.read(str(self.path), query="read_optimized", as_of=as_of).read_all()
            of_base_files = {"hoodie__datasource__query__type": "read_optimized", "as__of__instant": as_of}
            self._check_rows(self.hudi.read(self.path, **of_base_files), ours, f"{what}: base files as of {as_of}")
        if begin:
            instants = self.hudi.instants(self.path)
            (first,) = [item[1] or item[0] for item in instants if item[0] == begin]
            last = max(item[1] or item[0] for item in instants)
            ours = penstock.read(str(self.path), query="incremental", after=first, upto=last).read_all()
            self._check_rows(self.hudi.incremental(self.path, first, last), ours, f"{what}: after {begin}")
        return base

    @staticmethod
    def _check_rows(hudis: pa.Table, ours: pa.Table, what: str) -> None:
        """All columns, the names of files too."""
        assert difference(hudis, ours) == "", what


def play_compactions(lake: Serviced) -> None:
    """Each part of a compaction by either, with writes of both between plan and run."""
    first: list[Row] = [(f"k{n}", 10, n, "oslo" if n % 2 else "riga") for n in range(20)]
    lake.keys = {row[0]: row[3] for row in first}
    lake.by_penstock(first)
    lake.by_hudi(lake.rows(6, 2))
    marked = lake.rows(3, late=False)
    begin = lake.by_penstock(marked, deleted=frozenset(row[0] for row in marked))

    lake.call("compaction", "schedule")
    lake.by_penstock(lake.rows(5, 1))
    (result,) = penstock.compact(str(lake.path), run_only=True, sole_writer=True)
    base = lake.compare("Hudi's plan, Penstock's run")
    assert sum(result.instant in name for name in base["_hoodie_file_name"].to_pylist()) == result.rows > 0

    (plan,) = penstock.compact(str(lake.path), schedule_only=True)
    lake.by_hudi(lake.rows(5, 1))
    last = lake.by_penstock(lake.rows(4))
    lake.call("compaction", "execute")
    assert plan.instant in {item[0] for item in lake.hudi.instants(lake.path) if item[2] == "commit"}
    lake.compare("Penstock's plan, Hudi's run")

    penstock.compact(str(lake.path))
    base = lake.compare("Penstock's compaction", begin, as_of=last)
    assert sorted(base["id"].to_pylist()) == sorted(key for _, key in lake.model.rows), "no logs are left"
    lake.by_hudi(lake.rows(6, 2), "compaction", "clean")
    lake.by_penstock(lake.rows(3))
    lake.by_hudi(lake.rows(3), "clean", "archive")
    lake.compare("Hudi's upserts, compaction, clean and archive")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 6])
def test_compactions_of_both(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    play_compactions(Serviced(hudi, tmp_path / "trip", version, "merge_on_read", "bucket"))


@pytest.mark.long
def test_compactions_of_both_with_older_hudi(old_hudi: Any, hudi: Any, tmp_path: pathlib.Path) -> None:
    lake = Serviced(old_hudi, tmp_path / "trip", 6, "merge_on_read", "bucket")
    play_compactions(lake)
    lake.hudi = hudi
    lake.compare("the newest Hudi")


def play_clusterings(lake: Serviced) -> None:
    """Each part of a clustering by either; then Hudi finds the keys in the new groups."""
    for number in range(3):
        rows: list[Row] = [(f"k{10 * number + n}", 10, n, "oslo" if n % 2 else "riga") for n in range(9, -1, -1)]
        lake.keys |= {row[0]: row[3] for row in rows}
        lake.by_penstock(rows, "bulk_insert")
    begin = lake.by_penstock(lake.rows(6, late=False))

    lake.call("clustering", "schedule", **{"hoodie.clustering.plan.strategy.sort.columns": "id"})
    (result,) = penstock.cluster(str(lake.path), run_only=True)
    assert (result.groups, result.written_files) == (6, 2)
    base = lake.compare("Hudi's plan, Penstock's run", as_of=begin)
    ids = [row["id"] for row in base.to_pylist() if row["city"] == "oslo"]
    assert ids == sorted(ids)

    lake.by_hudi(lake.rows(4, 2, late=False))
    last = lake.by_penstock([(f"n{n}", 10, n, "oslo") for n in range(4)], "bulk_insert")
    (plan,) = penstock.cluster(str(lake.path), sort_by=["name", "id"], schedule_only=True)
    lake.call("clustering", "execute")
    assert plan.instant in {item[0] for item in lake.hudi.instants(lake.path) if item[2] == "replacecommit"}
    lake.compare("Penstock's plan, Hudi's run", begin)

    lake.by_penstock([(f"m{n}", 10, n, "riga") for n in range(4)], "bulk_insert")
    lake.by_penstock(lake.rows(5, late=False))
    (result,) = penstock.cluster(str(lake.path), sort_by=["id"])
    assert result.groups >= 2
    lake.compare("Penstock's clustering", as_of=last)
    lake.by_hudi(lake.rows(6, 2, late=False), "clean")
    lake.by_hudi(lake.rows(3, late=False), "clean", "archive")
    lake.by_penstock(lake.rows(3, late=False))
    lake.compare("Hudi's upserts, clean and archive")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind"), [(9, "merge_on_read"), (6, "copy_on_write")])
def test_clusterings_of_both(hudi: Any, tmp_path: pathlib.Path, version: int, kind: str) -> None:
    play_clusterings(Serviced(hudi, tmp_path / "trip", version, kind, "simple"))


@pytest.mark.long
@pytest.mark.parametrize(("version", "kind"), [(6, "merge_on_read"), (9, "copy_on_write")])
def test_clusterings_of_both_in_other_tables(hudi: Any, tmp_path: pathlib.Path, version: int, kind: str) -> None:
    play_clusterings(Serviced(hudi, tmp_path / "trip", version, kind, "simple"))


@pytest.mark.long
def test_clusterings_of_both_with_older_hudi(old_hudi: Any, hudi: Any, tmp_path: pathlib.Path) -> None:
    lake = Serviced(old_hudi, tmp_path / "trip", 6, "merge_on_read", "simple")
    play_clusterings(lake)
    lake.hudi = hudi
    lake.compare("the newest Hudi")


@pytest.mark.parametrize("version", [9, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_hudi_carries_out_what_a_killed_process_left(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A compaction that is killed after it has written its first file."""
    from tests.unit.engine.table_services.serviced_lake import OPENS
    from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process

    lake = Serviced(hudi, tmp_path / "trip", version, "merge_on_read", "bucket")
    first: list[Row] = [(f"k{n}", 10, n, "oslo" if n % 2 else "riga") for n in range(12)]
    lake.keys = {row[0]: row[3] for row in first}
    lake.by_penstock(first)
    lake.by_penstock(lake.rows(6))
    (plan,) = penstock.compact(str(lake.path), schedule_only=True)
    files = 0
    for step in range(1, 30):
        storage = KilledStorage(lake.path, step, after=True)
        with monkeypatch.context() as patch:
            as_other_process(patch)
            patch.setattr(OPENS, lambda path, storage=storage: storage)
            with pytest.raises(Killed):
                penstock.compact(str(lake.path), run_only=True)
        files = len(list(lake.path.glob(f"*/*_{plan.instant}.parquet")))
        if files > 1:
            break
    assert files > 1
    assert rows_of(penstock.read(str(lake.path)).read_all()) == sorted(lake.model.rows.values())
    assert rows_of(hudi.read(lake.path)) == sorted(lake.model.rows.values())
    lake.call("compaction", "execute")
    lake.compare("Hudi's run after a killed one")
    lake.by_penstock(lake.rows(3))
    lake.by_hudi(lake.rows(3), "compaction", "clean")
    lake.compare("both went on")
