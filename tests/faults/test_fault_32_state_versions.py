"""Fault 32, at the store: states of every format version so far are readable; a newer version is refused by name."""

from __future__ import annotations

import pathlib
import shutil
import sqlite3
from contextlib import closing

import pytest

from penstock.enumerator.store.protocol import PlanPieces, Store, StoredRecord
from penstock.enumerator.store.sqlite.check import KindCount, check_state
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.store.sqlite.row_format import FORMAT_VERSION
from penstock.proto.errors import StateDamaged, StateVersionError

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures" / "state"

V1_RECORDS = [
    StoredRecord("group", 1, b"kept"),
    StoredRecord("lease é", 3, bytes(range(256))),
    StoredRecord("x", 0, b""),
]
V1_PLANS = [
    PlanPieces("plan-a", b"scan a", (b"split 0", b"", b"split 2")),
    PlanPieces("plan-b", b"", ()),
]
FROZEN = {1: (V1_RECORDS, V1_PLANS)}
"""Format version -> contents of `store.v<N>.db`, which must never change. tests/fixtures/state/README.md describes how
to add one."""


def filled(store: Store) -> None:
    """The contents of the frozen files, after records and plans were deleted again."""
    store.append([StoredRecord("gone", 1, b"1")], [PlanPieces("plan-gone", b"s", (b"1", b"2"))])
    store.rewrite(V1_RECORDS[:2])
    store.append(V1_RECORDS[2:], V1_PLANS, ["plan-gone"])


def unpacked(version: int, folder: pathlib.Path) -> pathlib.Path:
    """A state directory with the frozen file."""
    folder.mkdir()
    shutil.copyfile(FIXTURES / f"store.v{version}.db", folder / "penstock.db")
    return folder


def holds(store: Store, version: int) -> None:
    records, plans = FROZEN[version]
    assert list(store.records()) == records
    assert store.plan_ids() == {plan.plan_id for plan in plans}
    for plan in plans:
        splits = store.splits(plan.plan_id, range(len(plan.splits)))
        assert PlanPieces(plan.plan_id, store.scan(plan.plan_id), tuple(splits)) == plan


def test_fault_32_every_version_has_a_frozen_state() -> None:
    assert sorted(FROZEN) == list(range(1, FORMAT_VERSION + 1))
    assert {path.name for path in FIXTURES.glob("*.db")} == {f"store.v{version}.db" for version in FROZEN}


@pytest.mark.parametrize("version", sorted(FROZEN))
def test_fault_32_frozen_state_is_read_and_continued(tmp_path: pathlib.Path, version: int) -> None:
    state = unpacked(version, tmp_path / "state")
    report = check_state(state)
    assert report.format_version == version and report.epoch == 1 and not report.damage
    assert report.kinds[0] == KindCount("group", 1, 1, 4) and (report.plans, report.splits) == (2, 3)
    store = open_sqlite(state)
    assert store.epoch == 2
    holds(store, version)
    store.append([StoredRecord("new", 1, b"")])
    assert list(store.records()) == [*FROZEN[version][0], StoredRecord("new", 1, b"")]
    store.close()


def test_fault_32_current_store_writes_the_frozen_format(tmp_path: pathlib.Path) -> None:
    """The rows, literally except for the random id: a change of the written rows is a new version."""
    store = open_sqlite(tmp_path / "state")
    filled(store)
    store.close()
    frozen = unpacked(FORMAT_VERSION, tmp_path / "frozen")

    def dumped(directory: pathlib.Path) -> list[str]:
        with closing(sqlite3.connect(directory / "penstock.db")) as connection:
            settings = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")]
            lines = [line for line in connection.iterdump() if '"meta" VALUES' not in line]
            meta = connection.execute(
                "SELECT version, epoch, first_seq, next_seq, next_plan, plans FROM meta"
            ).fetchone()
        return [*map(str, settings), *lines, str(meta)]

    assert dumped(tmp_path / "state") == dumped(frozen)


def newer(directory: pathlib.Path, *statements: str) -> pathlib.Path:
    """The state as another version of Penstock might write it."""
    with closing(sqlite3.connect(directory / "penstock.db")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return directory


@pytest.mark.parametrize(
    "statements",
    [
        ("PRAGMA user_version = 2", "ALTER TABLE meta ADD COLUMN more", "UPDATE meta SET version = 2"),
        ("PRAGMA user_version = 2", "DROP TABLE meta", "CREATE TABLE other (a)"),
    ],
)
def test_fault_32_newer_store_is_refused_by_name_and_left_alone(
    tmp_path: pathlib.Path, statements: tuple[str, ...]
) -> None:
    state = newer(unpacked(1, tmp_path / "state"), *statements)
    before = (state / "penstock.db").read_bytes()
    for opened in (open_sqlite, check_state):
        with pytest.raises(StateVersionError, match="store format version 2, this Penstock reads and writes version 1"):
            opened(state)
    assert (state / "penstock.db").read_bytes() == before


def test_fault_32_header_that_contradicts_the_content_is_damage(tmp_path: pathlib.Path) -> None:
    state = newer(unpacked(1, tmp_path / "state"), "PRAGMA user_version = 3")
    with pytest.raises(StateDamaged, match="header says store format version 3, its content 1"):
        open_sqlite(state)


def test_fault_32_another_programs_database_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "state").mkdir()
    newer(tmp_path / "state", "CREATE TABLE theirs (a)", "PRAGMA journal_mode = WAL")
    with pytest.raises(StateDamaged, match="not a state file of Penstock"):
        open_sqlite(tmp_path / "state")
