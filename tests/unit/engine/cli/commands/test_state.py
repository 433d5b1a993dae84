"""`penstock state check`: states of stopped, running and killed servers; damaged and newer states."""

from __future__ import annotations

import hashlib
import os
import pathlib
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.enumerator.store.protocol import PlanPieces, StoredRecord
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli


def filled(directory: pathlib.Path) -> SqliteStore:
    store = open_sqlite(directory)
    store.append([StoredRecord("lease", 2, b"four"), StoredRecord("group", 1, b"six six")])
    plans = [PlanPieces(f"p{i}", b"scan", (b"split",) * i) for i in range(4)]
    store.append([StoredRecord("lease", 2, b"")], plans)
    return store


def digests(directory: pathlib.Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


def test_state_of_a_stopped_server(cli: Cli, tmp_path: pathlib.Path) -> None:
    filled(tmp_path / "s").close()
    before = digests(tmp_path / "s")
    result = cli("state", "check", tmp_path / "s", "--format", "json")
    assert result.code == 0 and result.stderr == ""
    report = result.json
    assert report["kinds"] == [
        {"kind": "group", "version": 1, "records": 1, "payload_bytes": 7},
        {"kind": "lease", "version": 2, "records": 2, "payload_bytes": 4},
    ]
    assert len(report["state_id"]) == 32 and report["holder"]["pid"] == os.getpid()
    expected = {"format_version": 1, "epoch": 1, "live": False, "records": 3, "plans": 4, "splits": 6, "damage": None}
    assert expected.items() <= report.items() and report["whole"] is True
    assert report["size_bytes"] == (tmp_path / "s" / "penstock.db").stat().st_size
    assert digests(tmp_path / "s") == before


def test_state_as_text(cli: Cli, tmp_path: pathlib.Path) -> None:
    filled(tmp_path / "s").close()
    text = cli("state", "check", tmp_path / "s").text
    for line in (r"epoch           1", "live            no", "whole           yes", "lease  2        2        4"):
        assert line in text


def test_state_of_a_running_server(cli: Cli, tmp_path: pathlib.Path) -> None:
    store = filled(tmp_path / "s")
    for i in range(3):
        report = cli("state", "check", tmp_path / "s", "--format", "json").json
        assert report["live"] and report["whole"] and report["records"] == 3 + i and report["epoch"] == 1
        store.append([StoredRecord("more", 1, b"")])
    assert store.epoch == 1
    store.close()


@pytest.mark.parametrize("with_index", [True, False])
def test_state_of_a_killed_server_is_read_and_not_changed(cli: Cli, tmp_path: pathlib.Path, with_index: bool) -> None:
    store = filled(tmp_path / "s")
    killed = tmp_path / "killed"
    killed.mkdir()
    for path in (tmp_path / "s").iterdir():
        if with_index or not path.name.endswith("-shm"):
            (killed / path.name).write_bytes(path.read_bytes())
    store.close()
    before = digests(killed)
    report = cli("state", "check", killed, "--format", "json").json
    assert report["whole"] and report["records"] == 3 and report["splits"] == 6 and not report["live"]
    assert digests(killed) == before


def test_damaged_state_exits_with_3_and_prints_the_records_before_it(cli: Cli, tmp_path: pathlib.Path) -> None:
    filled(tmp_path / "s").close()
    with closing(sqlite3.connect(tmp_path / "s" / "penstock.db")) as connection:
        connection.execute("UPDATE records SET payload = x'00' WHERE seq = 2")
        connection.commit()
    result = cli("state", "check", tmp_path / "s", "--format", "json")
    assert result.code == 3 and "[STATE_DAMAGED]" in result.stderr and "record 2: its checksum" in result.stderr
    assert "restore a backup" in result.stderr and "look with" not in result.stderr
    assert result.json["records"] == 1 and not result.json["whole"] and "record 2" in result.json["damage"]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("DELETE FROM records WHERE seq = 2", "record 2 is missing"),
        ("DELETE FROM records WHERE seq = 3", "records from 3 up to 4 are missing"),
        ("INSERT INTO records SELECT 4, epoch, kind, version, payload, crc FROM records WHERE seq = 3", "record 4"),
        ("UPDATE records SET kind = 'other' WHERE seq = 1", "record 1"),
        ("UPDATE records SET payload = 'text' WHERE seq = 1", "record 1"),
        ("UPDATE records SET kind = CAST(x'ff' AS TEXT) WHERE seq = 1", "decode"),
        ("UPDATE meta SET epoch = 9", "meta"),
        ("DELETE FROM meta", "meta"),
        ("DROP TABLE records", "no such table"),
        ("DELETE FROM plans WHERE plan_id = 'p1'", "got 3 plans, expected 4"),
        ("UPDATE plans SET splits = 1 WHERE plan_id = 'p2'", "plan 'p2'"),
        ("UPDATE pieces SET bytes = x'01' WHERE id = (3 << 32) + 2", "plan p2: the checksum of its split 1"),
        ("DELETE FROM pieces WHERE id = (4 << 32) + 3", "plan p3: its split 2 is missing"),
        ("DELETE FROM pieces WHERE id = (2 << 32)", "plan p1: its scan is missing"),
        ("INSERT INTO pieces VALUES ((4 << 32) + 99, x'', 0)", "belongs to no plan"),
    ],
)
def test_errors_name_each_kind_of_damage(cli: Cli, tmp_path: pathlib.Path, damage: str, named: str) -> None:
    filled(tmp_path / "s").close()
    with closing(sqlite3.connect(tmp_path / "s" / "penstock.db")) as connection:
        connection.execute(damage)
        connection.commit()
    result = cli("state", "check", tmp_path / "s")
    assert result.code == 3 and named in result.stderr and str(tmp_path / "s") in result.stderr


def test_newer_store_exits_with_1(cli: Cli, tmp_path: pathlib.Path) -> None:
    filled(tmp_path / "s").close()
    with closing(sqlite3.connect(tmp_path / "s" / "penstock.db")) as connection:
        connection.execute("DROP TABLE meta")
        connection.execute("PRAGMA user_version = 2")
    result = cli("state", "check", tmp_path / "s")
    assert result.code == 1 and "[STATE_VERSION]" in result.stderr and result.text == ""


@pytest.mark.parametrize("there", [True, False])
def test_missing_state_exits_with_2(cli: Cli, tmp_path: pathlib.Path, there: bool) -> None:
    result = cli("state", "check", tmp_path if there else tmp_path / "nowhere")
    assert result.code == 2 and "[CONFIGURATION]" in result.stderr and str(tmp_path) in result.stderr
    assert cli("state", "check").code == 2


def test_state_without_a_command_prints_help(cli: Cli) -> None:
    result = cli("state")
    assert result.code == 2 and "check" in result.stderr


def test_state_is_backed_up_beside_its_server_and_restored_after_its_end(cli: Cli, tmp_path: pathlib.Path) -> None:
    state, file = tmp_path / "s", tmp_path / "backup.db"
    store = open_sqlite(state)
    store.append([StoredRecord("numbers", 1, b'{"last":7}')])
    result = cli("state", "backup", state, file, "--format", "json")
    assert result.code == 0 and result.json["file"] == str(file)
    assert (result.json["records"], result.json["plans"], result.json["splits"]) == (1, 0, 0)
    again = cli("state", "backup", state, file)
    assert again.code != 0 and "the file exists" in again.stderr
    refused = cli("state", "restore", file, state)
    assert refused.code != 0 and "serves from it" in refused.stderr
    store.close()
    restored = cli("state", "restore", file, state)
    assert restored.code == 0 and "moved_to" in restored.text and str(state / "replaced-") in restored.text
    assert cli("state", "restore", file, tmp_path / "new", "--format", "json").json["moved_to"] is None
    assert cli("state", "check", state, "--format", "json").json["records"] == 2
