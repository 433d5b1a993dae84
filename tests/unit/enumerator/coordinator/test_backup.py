"""Backup and restore of a state: copies are complete, and members from before the restore are fenced."""

from __future__ import annotations

import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from penstock.enumerator.coordinator import backup
from penstock.enumerator.coordinator.backup import EPOCHS_A_SECOND, LEAST_JUMP, back_up, restore
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.store.sqlite.check import check_state
from penstock.enumerator.store.sqlite.lock import Clocks
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.store.sqlite.store import SqliteStore
from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    PenstockError,
    StateDamaged,
    StateVersionError,
    StorageError,
    UnknownPlan,
)
from penstock.proto.model.groups import Assignments, Member, SplitProgress
from penstock.proto.model.queries import PlanRequest, Snapshot
from tests.memory_store import DirectJournal
from tests.unit.enumerator.scripted_service import Clock, Script, spec_of

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "state"
NOW_S = 1_790_000_000


def clocks(now_s: float = NOW_S) -> Clocks:
    """Clocks that stand at a time of day; a wait fails."""
    return Clocks(monotonic=iter(range(10**6)).__next__, sleep=lambda _: None, wall=lambda: now_s)


@dataclass
class Process:
    """A server on a state directory."""

    directory: pathlib.Path
    script: Script = field(default_factory=lambda: Script(newest=3))
    store: SqliteStore = field(init=False)
    service: EnumeratorService = field(init=False)

    def __post_init__(self) -> None:
        self.store = open_sqlite(self.directory)
        clock = Clock()
        coordinator = durable_coordinator(
            self.store, DirectJournal(self.store), clock_ms=clock, settings=CoordinatorSettings()
        )
        self.service = EnumeratorService(
            {"t": "/lake"},
            reads=self.script,
            follows=self.script,
            clock_ms=clock,
            coordinator=coordinator,
            poll_ms=None,
        )  # type: ignore[arg-type]

    def join(self, reader_id: str, request_id: str) -> Member:
        return self.service.join_group("g", reader_id, spec_of(), request_id).member

    def splits(self, member: Member, sequence: int) -> Assignments:
        self.service.split_discovery.discover()
        assignments = self.service.request_splits(member, 2, sequence)
        assert isinstance(assignments, Assignments)
        return assignments

    def end(self) -> None:
        self.store.close()


def finished(assignments: Assignments) -> tuple[SplitProgress, ...]:
    return tuple(SplitProgress(ref=one.ref, ordinal=0, finished=True) for one in assignments.splits)


def test_member_from_before_the_restore_is_fenced_with_or_without_backup_record(tmp_path: pathlib.Path) -> None:
    """Both readers rejoin and get the open splits of the backup; their earlier epochs cannot commit them."""
    before = Process(tmp_path / "state")
    held = before.join("in-backup", "1")
    assignments = before.splits(held, 1)
    back_up(tmp_path / "state", tmp_path / "backup.db")
    before.service.commit_splits(held, finished(assignments))
    late = before.join("after-backup", "2")
    before.splits(late, 1)
    before.end()
    outcome = restore(tmp_path / "backup.db", tmp_path / "state", clocks=clocks())
    assert (outcome.groups, outcome.readers) == (1, 1) and outcome.first_epoch > NOW_S * EPOCHS_A_SECOND
    after = Process(tmp_path / "state")
    for zombie in (held, late):
        with pytest.raises(Fenced):
            after.service.request_splits(zombie, 2, 2)
    new = [after.join(name, "again") for name in ("in-backup", "after-backup")]
    assert min(member.epoch for member in new) > max(held.epoch, late.epoch)
    again = after.splits(new[0], 1)
    assert sorted(one.split.split_id for one in again.splits) == sorted(
        one.split.split_id for one in assignments.splits
    )
    for zombie in (held, late):
        with pytest.raises(Fenced):
            after.service.commit_splits(zombie, finished(assignments))
        with pytest.raises(Fenced):
            after.service.heartbeat(zombie)
    after.service.commit_splits(new[0], finished(again))
    after.end()


def test_epochs_differ_after_two_restores_of_one_backup(tmp_path: pathlib.Path) -> None:
    first = Process(tmp_path / "state")
    epochs = [first.join("r", "0").epoch]
    back_up(tmp_path / "state", tmp_path / "backup.db")
    first.end()
    for number, now_s in enumerate((NOW_S, NOW_S + 1, 5, 5)):
        restore(tmp_path / "backup.db", tmp_path / "state", clocks=clocks(now_s))
        server = Process(tmp_path / "state")
        epochs += [server.join("r", f"{number}/{one}").epoch for one in range(3)]
        server.end()
    assert len(set(epochs)) == len(epochs)
    assert epochs[1:7] == sorted(epochs[1:7]) and min(epochs[7:]) > LEAST_JUMP


def test_plan_from_before_the_restore_is_unknown(tmp_path: pathlib.Path) -> None:
    """Its slots may have got entries after the backup."""
    before = Process(tmp_path / "state")
    plan = before.service.open_plan(PlanRequest(table="t", query=Snapshot(), slots=2), "r").plan_id
    back_up(tmp_path / "state", tmp_path / "backup.db")
    before.end()
    assert restore(tmp_path / "backup.db", tmp_path / "state", clocks=clocks()).plans == 1
    after = Process(tmp_path / "state")
    with pytest.raises(UnknownPlan):
        after.service.next_split(plan, 0, 0)
    after.end()
    assert check_state(tmp_path / "state").plans == 0


CHILD = """
import os, signal, sys
from tests.unit.enumerator.coordinator.test_backup import Process, back_up
from pathlib import Path
server = Process(Path(sys.argv[1]))
for number in range(5):
    server.join(f"r{number}", "1")
back_up(sys.argv[1], sys.argv[2])
for number in range(40):
    server.join(f"late-{number}", "1")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_restore_replaces_the_wal_of_a_killed_server(tmp_path: pathlib.Path) -> None:
    """The old WAL belongs to the old database: beside the restored one it would corrupt it."""
    state, file = tmp_path / "state", tmp_path / "backup.db"
    command = [sys.executable, "-c", CHILD, str(state), str(file)]
    ended = subprocess.run(command, cwd=pathlib.Path(__file__).parents[4], check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert (state / "penstock.db-wal").stat().st_size > 0
    by_hand = tmp_path / "by-hand"
    shutil.copytree(state, by_hand)
    shutil.copyfile(file, by_hand / "penstock.db")
    outcome = restore(file, state, clocks=clocks())
    assert outcome.readers == 5 and outcome.moved_to is not None
    assert {path.name for path in outcome.moved_to.iterdir()} >= {"penstock.db", "penstock.db-wal"}
    assert {path.name for path in state.iterdir()} == {"penstock.db", "penstock.lock", outcome.moved_to.name}
    report = check_state(state)
    assert not report.damage and report.records == outcome.report.records + 6
    assert opened(by_hand) != outcome.report.records, "the negative control: a copy by hand is not the backup"


def test_restore_that_was_interrupted_leaves_no_empty_state(tmp_path: pathlib.Path) -> None:
    """As after a power failure between the moves of the old and of the new database."""
    process = Process(tmp_path / "state")
    process.join("r", "one")
    back_up(tmp_path / "state", tmp_path / "backup")
    process.end()
    moved_to = restore(tmp_path / "backup", tmp_path / "state", clocks=clocks()).moved_to
    assert moved_to is not None
    assert isinstance(opened(tmp_path / "state"), int), "the negative control: a restore that ended"
    (tmp_path / "state" / "penstock.db").unlink()
    with pytest.raises(StateDamaged, match=f"{moved_to.name} holds one that a restore"):
        open_sqlite(tmp_path / "state")
    assert restore(tmp_path / "backup", tmp_path / "state", clocks=clocks()).groups == 1
    assert isinstance(opened(tmp_path / "state"), int)


def opened(directory: pathlib.Path) -> int | str:
    """The number of records of the opened directory, or the code of the error."""
    try:
        store = open_sqlite(directory)
    except PenstockError as error:
        return error.code
    with closing(store):
        return len(list(store.records()))


def test_restore_changes_nothing_if_its_records_stay_in_the_wal(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the database alone would be the unchanged backup, with members that are not fenced."""
    process = Process(tmp_path / "state")
    process.join("r", "one")
    back_up(tmp_path / "state", tmp_path / "backup")
    process.end()
    before = (tmp_path / "state" / "penstock.db").read_bytes()
    with closing(sqlite3.connect(":memory:")) as other:

        def opened(directory: pathlib.Path) -> SqliteStore:
            nonlocal other
            store = open_sqlite(directory)
            other = sqlite3.connect(directory / "penstock.db")
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM sqlite_master").fetchall()
            return store

        monkeypatch.setattr(backup, "open_sqlite", opened)
        with pytest.raises(StorageError, match="left in its WAL"):
            restore(tmp_path / "backup", tmp_path / "state", clocks=clocks())
        other.close()
    assert (tmp_path / "state" / "penstock.db").read_bytes() == before


def test_restore_is_refused_while_a_server_runs(tmp_path: pathlib.Path) -> None:
    server = Process(tmp_path / "state")
    server.join("r", "1")
    back_up(tmp_path / "state", tmp_path / "backup.db")
    names = sorted(path.name for path in (tmp_path / "state").iterdir())
    with pytest.raises(StorageError, match="serves from it"):
        restore(tmp_path / "backup.db", tmp_path / "state", clocks=clocks())
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == names
    server.join("r2", "1")
    server.end()


@pytest.mark.parametrize("damaged", [b"CREATE TABLE", b"reader-joined", b"round-planned"])
def test_restore_of_a_damaged_backup_changes_nothing(tmp_path: pathlib.Path, damaged: bytes) -> None:
    server = Process(tmp_path / "state")
    server.splits(server.join("r", "1"), 1)
    file = tmp_path / "backup.db"
    back_up(tmp_path / "state", file)
    server.end()
    held = (tmp_path / "state" / "penstock.db").read_bytes()
    data = file.read_bytes()
    assert damaged in data
    file.write_bytes(data.replace(damaged, bytes(byte ^ 1 for byte in damaged), 1))
    with pytest.raises(StateDamaged):
        restore(file, tmp_path / "state", clocks=clocks())
    assert (tmp_path / "state" / "penstock.db").read_bytes() == held
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"penstock.db", "penstock.lock"}


def test_backup_is_written_whole_or_not_at_all(tmp_path: pathlib.Path) -> None:
    server = Process(tmp_path / "state")
    server.join("r", "1")
    report = back_up(tmp_path / "state", tmp_path / "one.db")
    assert report.records == check_state(tmp_path / "state").records and not report.live
    with pytest.raises(ConfigurationError, match="the file exists"):
        back_up(tmp_path / "state", tmp_path / "one.db")
    server.end()
    back_up(tmp_path / "state", tmp_path / "two.db")
    assert {path.name for path in tmp_path.iterdir()} == {"state", "one.db", "two.db"}
    assert (tmp_path / "two.db").stat().st_mode & 0o777 == 0o600
    with (tmp_path / "state" / "penstock.db").open("r+b") as stream:
        stream.seek(4_096)
        stream.write(b"\xff" * 8_000)
    with pytest.raises(StateDamaged):
        back_up(tmp_path / "state", tmp_path / "three.db")
    with pytest.raises(ConfigurationError, match="no state"):
        back_up(tmp_path, tmp_path / "four.db")
    with pytest.raises(ConfigurationError, match="no such file"):
        restore(tmp_path / "four.db", tmp_path / "state")
    assert {path.name for path in tmp_path.iterdir()} == {"state", "one.db", "two.db"}


def test_restore_of_unreadable_records_changes_nothing(tmp_path: pathlib.Path) -> None:
    server = Process(tmp_path / "state")
    server.join("r", "1")
    server.end()
    held = (tmp_path / "state" / "penstock.db").read_bytes()
    with pytest.raises(StateVersionError, match="start the release that wrote it"):
        restore(FIXTURES / "store.v1.db", tmp_path / "state", clocks=clocks())
    assert (tmp_path / "state" / "penstock.db").read_bytes() == held
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"penstock.db", "penstock.lock"}
