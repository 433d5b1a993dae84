"""Savepoints and restores by Hudi and by Penstock, on one table: both read the rows of the savepoint, and go on."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import penstock
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import savepoint
from penstock.engine.write.create import create_table
from penstock.engine.write.rollback import rollback
from penstock.engine.write.write import write
from tests.interop.hudi_options import COMPACTS, hudis_options, service_call
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Row, rows_of, table_of
from tests.unit.engine.write.test_interrupted_rollbacks import plan_rollback

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

FIRST: list[Row] = [(f"k{n}", 1, n, "oslo" if n % 2 else "riga") for n in range(6)]
SECOND: list[Row] = [("k1", 2, 20, "oslo"), ("new", 2, 21, "bern")]
THIRD: list[Row] = [("k1", 3, 30, "oslo"), ("k2", 3, 31, "riga"), ("later", 3, 32, "riga")]

CLEANS = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.async": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}


def keeps_version(version: int) -> dict[str, str]:
    """Settings without which Hudi's restore upgrades a table of version 6, and then leaves the rows of removed writes
    in logs (docs/reference/semantics.md)."""
    return {"hoodie.write.auto.upgrade": "false", "hoodie.write.table.version": str(version)}


def merge_on_read_table(path: pathlib.Path, version: int) -> pathlib.Path:
    """An empty table with a bucket index, in which each partition has three buckets."""
    create_table(
        str(path),
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="seq",
        table_type="merge_on_read",
        table_version=version,
        index="bucket",
        buckets=3,
        name="trip",
    )
    return path


def merged(*writes: list[Row]) -> list[Row]:
    rows = {(row[3], row[0]): row for part in writes for row in part}
    return sorted(rows.values())


@pytest.mark.sampled(1, rest=1)
@pytest.mark.parametrize(
    ("version", "kind", "index"),
    [
        (9, "merge_on_read", "bucket"),
        (6, "merge_on_read", "simple"),
        (9, "copy_on_write", "simple"),
        (6, "copy_on_write", "simple"),
    ],
)
def test_each_restores_what_both_wrote(hudi: Any, tmp_path: pathlib.Path, version: int, kind: str, index: str) -> None:
    path = tmp_path / "trip"
    options = hudis_options(version, kind, index)

    def by_hudi(rows: list[Row], **more: str) -> None:
        hudi.write(path, HUDIS_COLUMNS, [list(row) for row in rows], options | more)

    def check(expected: list[Row]) -> None:
        assert rows_of(penstock.read(str(path)).read_all()) == expected
        assert rows_of(hudi.read(path)) == expected

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
        name="trip",
    )
    write(str(path), table_of(FIRST))
    by_hudi(SECOND)
    saved = savepoint(str(path)).instant
    write(str(path), table_of(THIRD))
    by_hudi([("k3", 4, 40, "oslo")], **(COMPACTS if kind == "merge_on_read" else {}))
    write(str(path), table_of([("k1", 5, 50, "oslo")]))
    check(merged(FIRST, SECOND, THIRD, [("k3", 4, 40, "oslo"), ("k1", 5, 50, "oslo")]))

    assert len(restore(str(path)).removed) >= 3
    check(merged(FIRST, SECOND))
    by_hudi(THIRD, **(COMPACTS if kind == "merge_on_read" else {}))
    check(merged(FIRST, SECOND, THIRD))

    last = write(str(path), table_of([("k4", 6, 60, "riga")])).instant
    assert rollback(str(path), last) == (last,)
    check(merged(FIRST, SECOND, THIRD))
    statement = f"CALL rollback_to_savepoint(path => '{path}', instant_time => '{saved}')"
    hudi.script({"hoodie.metadata.enable": "false", **keeps_version(version)}, [statement])
    check(merged(FIRST, SECOND))
    write(str(path), table_of(THIRD))
    check(merged(FIRST, SECOND, THIRD))
    by_hudi([("k5", 7, 70, "riga")], **(COMPACTS if kind == "merge_on_read" else {}))
    check(merged(FIRST, SECOND, THIRD, [("k5", 7, 70, "riga")]))


@pytest.mark.parametrize("version", [6, pytest.param(9, marks=pytest.mark.exhaustive)])
def test_rows_of_archived_writes_stay_after_a_restore(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    """The write of the savepoint is the only one of the timeline then."""
    path = tmp_path / "trip"
    create_table(
        str(path),
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="seq",
        table_type="copy_on_write",
        table_version=version,
        index="simple",
        name="trip",
    )
    kept: list[Row] = [(f"k{n}", 1, n, city) for n, city in enumerate(("oslo", "riga", "bern", "rome"))]
    for row in kept:
        write(str(path), table_of([row]))
    savepoint(str(path))
    for city in ("bonn", "nice", "york"):
        write(str(path), table_of([("later", 2, 2, city)]))
    archived = archive(str(path), keep_min=2, keep_max=3, delta_commits=1).instants
    assert len(archived) == 3, "up to the savepoint"
    restore(str(path))
    for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
        assert rows_of(rows) == sorted(kept)
    write(str(path), table_of([("k0", 3, 30, "oslo")]))
    hudi.write(path, HUDIS_COLUMNS, [["k1", 3, 31, "riga"]], hudis_options(version, "copy_on_write", "simple"))
    for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
        assert rows_of(rows) == sorted([("k0", 3, 30, "oslo"), ("k1", 3, 31, "riga"), *kept[2:]])


@pytest.mark.parametrize(("version", "restored_by_hudi"), [(9, True), (6, False)])
def test_savepoint_while_a_compaction_is_pending(
    hudi: Any, tmp_path: pathlib.Path, version: int, restored_by_hudi: bool
) -> None:
    """Hudi's clean deletes the base file that the compaction writes later in a partition without later logs: the
    savepoint keeps the files that it merged, which both read."""
    path = merge_on_read_table(tmp_path / "trip", version)

    def put(n: int, *cities: str) -> str:
        return write(str(path), table_of([("a", n, n, city) for city in cities])).instant

    put(1, "oslo", "riga")
    put(2, "oslo", "riga")
    compact(str(path), schedule_only=True)
    saved = savepoint(str(path), put(3, "oslo")).instant
    compact(str(path), run_only=True)
    compacted = max((path / "riga").glob("*.parquet"), key=lambda file: file.name[-25:])
    for n in (4, 5):
        put(n, "oslo", "riga")
        compact(str(path))
    assert compacted.exists()
    hudi.write(path, HUDIS_COLUMNS, [["a", 6, 6, "bern"]], hudis_options(version, "merge_on_read", "bucket") | CLEANS)
    assert not compacted.exists()

    expected: list[Row] = [("a", 2, 2, "riga"), ("a", 3, 3, "oslo")]
    assert rows_of(penstock.read(str(path), as_of=saved).read_all()) == expected
    if restored_by_hudi:
        statement = f"CALL rollback_to_savepoint(path => '{path}', instant_time => '{saved}')"
        hudi.script({"hoodie.metadata.enable": "false"}, [statement])
    else:
        restore(str(path))
    for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
        assert rows_of(rows) == expected
    optimized = hudi.read(path, hoodie__datasource__query__type="read_optimized")
    assert rows_of(penstock.read(str(path), query="read_optimized").read_all()) == rows_of(optimized)
    put(7, "riga")
    compact(str(path))
    for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
        assert rows_of(rows) == [("a", 3, 3, "oslo"), ("a", 7, 7, "riga")]
    options = hudis_options(version, "merge_on_read", "bucket") | COMPACTS
    hudi.write(path, HUDIS_COLUMNS, [["a", 8, 8, "riga"]], options)
    for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
        assert rows_of(rows) == [("a", 3, 3, "oslo"), ("a", 8, 8, "riga")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("fails_first", [False, True])
def test_penstock_restores_where_hudi_fails_after_a_late_compaction(
    hudi: Any, tmp_path: pathlib.Path, version: int, fails_first: bool
) -> None:
    """A compaction completed after a write that was requested after it: Hudi rolls the compaction back first."""
    path = merge_on_read_table(tmp_path / "trip", version)

    def put(n: int) -> str:
        return write(str(path), table_of([("a", n, n, "oslo")])).instant

    put(1)
    saved = savepoint(str(path), put(2)).instant
    put(3)
    compact(str(path), schedule_only=True)
    put(4)
    compact(str(path), run_only=True)
    if fails_first:
        with pytest.raises(RuntimeError, match="please rollback greater commits first"):
            hudi.script(
                {"hoodie.metadata.enable": "false"},
                [f"CALL rollback_to_savepoint(path => '{path}', instant_time => '{saved}')"],
            )
    restore(str(path), saved)
    for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
        assert rows_of(rows) == [("a", 2, 2, "oslo")]
    hudi.write(path, HUDIS_COLUMNS, [["a", 5, 5, "oslo"]], hudis_options(version, "merge_on_read", "bucket"))
    for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
        assert rows_of(rows) == [("a", 5, 5, "oslo")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", [9, 6])
def test_hudi_carries_out_the_plan_of_a_compaction_that_was_rolled_back(
    hudi: Any, tmp_path: pathlib.Path, version: int
) -> None:
    """A process of Hudi planned the rollback of its stopped compaction and was killed; Penstock's next write completes
    the rollback."""
    path = merge_on_read_table(tmp_path / "trip", version)

    def put(n: int) -> None:
        write(str(path), table_of([("a", n, n, "oslo"), (f"k{n}", n, n, "oslo")]))

    put(1)
    put(2)
    (planned,) = (result.instant for result in compact(str(path), schedule_only=True))
    put(3)
    timeline = path / ".hoodie" / ("timeline" if version == 9 else "")
    (timeline / f"{planned}.compaction.inflight").touch()
    plan_rollback(str(path), planned)
    put(4)
    left = [file.name for file in timeline.glob(f"{planned}*")]
    assert left == [f"{planned}.compaction.requested"]
    expected: list[Row] = [("a", 4, 4, "oslo"), *((f"k{n}", n, n, "oslo") for n in (1, 2, 3, 4))]
    options = hudis_options(version, "merge_on_read", "bucket") | {"hoodie.compact.inline.max.delta.commits": "1"}
    for _ in range(2):  # before and after Hudi carries out the plan
        for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
            assert rows_of(rows) == expected
        hudi.call(service_call("compaction", "execute", path, options))
    assert list(timeline.glob(f"{planned}*.commit")), "Hudi carried out the plan"
    hudi.write(path, HUDIS_COLUMNS, [["k5", 5, 5, "oslo"]], hudis_options(version, "merge_on_read", "bucket"))
    for rows in (hudi.read(path), penstock.read(str(path)).read_all()):
        assert rows_of(rows) == [*expected, ("k5", 5, 5, "oslo")]
