"""Compaction of the partition `files`: when it is due, what it leaves, and a process that is killed in between."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from penstock.engine.write.write import write
from penstock.table.hfile.layout import TRAILER_BYTES
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.instants import Action
from penstock.writer.metadata_table.compaction import AFTER
from penstock.writer.metadata_table.opened import WritableMetadata
from tests.unit.engine.write.killed_storage import KilledStorage
from tests.unit.engine.write.recorded_storage import Lake, arrow
from tests.unit.writer.metadata_table.metadata_tables import instants, listings
from tests.unit.writer.metadata_table.test_kills import killed

KIND = (9, "merge_on_read", "bucket")


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake = Lake(tmp_path / "t", KIND, monkeypatch, metadata_table=True)
    for number in range(AFTER - 2):  # and the first one, which created the metadata table
        lake.write([("a", number, "oslo" if number % 2 else "riga")], "insert_overwrite" if number == 5 else "upsert")
    assert "commit" not in [item[1] for item in instants(lake.path)]
    return lake


def test_tenth_delta_is_followed_by_a_compaction(lake: Lake) -> None:
    for number in range(AFTER + 2):
        lake.write([("b", number, "bern")])
        by_metadata, by_folders = listings(lake.path)
        assert by_metadata == by_folders
    compactions = [item[0] for item in instants(lake.path) if item[1] == "commit"]
    assert len(compactions) == 2
    table = WritableMetadata.open(LocalStorage(str(lake.path))).table
    commits = [item for item in table.timeline().completed_writes if item.action is Action.COMMIT]
    (first, second) = (table.commit(item).stats[0] for item in commits)
    assert first.compacted_logs is not None and first.compacted_logs.files == AFTER, "the first log has no records"
    assert second.prev_commit == commits[0].requested_time and second.prev_base_file == first.file_name
    info = table.storage.file_info(second.path)
    assert info is not None and info.size_bytes == second.file_size_bytes


def test_pending_write_that_is_recorded_defers_compaction(lake: Lake) -> None:
    """Its rollback could not remove its records from a base file."""
    instant = lake.write([("b", 0, "bern")]).instant
    (completed,) = (lake.path / ".hoodie/timeline").glob(f"{instant}_*.deltacommit")
    content = completed.read_bytes()
    completed.unlink()
    (lake.path / ".hoodie/.heartbeat").mkdir(exist_ok=True)
    (lake.path / f".hoodie/.heartbeat/{instant}").touch()
    lake.write([("c", 0, "wien")])
    assert "commit" not in [item[1] for item in instants(lake.path)]
    completed.write_bytes(content)
    lake.write([("c", 1, "wien")])
    assert "commit" in [item[1] for item in instants(lake.path)]
    by_metadata, by_folders = listings(lake.path)
    assert by_metadata == by_folders


def test_kill_at_each_step(lake: Lake, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write([("a", 99, "oslo")])
    states = set()
    for step in range(1, 60):
        path = tmp_path / f"t{step}"
        shutil.copytree(lake.path, path)
        storage = KilledStorage(path, step, after=False)
        if not killed(
            monkeypatch, "planned_write", storage, lambda path=path: write(str(path), arrow([("d", 1, "oslo")]))
        ):
            break
        states |= {item[1:] for item in instants(path) if item[1] in ("compaction", "commit")}
        monkeypatch.setattr("penstock.engine.write.planned_write.open_writable", lambda path: LocalStorage(path))
        write(str(path), arrow([("e", 1, "bern")]))
        by_metadata, by_folders = listings(path)
        assert by_metadata == by_folders, f"step {step}"
        kinds = [item[1:] for item in instants(path)]
        assert kinds.count(("commit", "completed")) == 1 and all(state == "completed" for _, state in kinds), f"{step}"
        shutil.rmtree(path)
    assert states == {("compaction", "requested"), ("compaction", "inflight"), ("commit", "completed")}


def test_base_file_of_an_unread_compression_removes_the_metadata_table(lake: Lake) -> None:
    """It could never be compacted again, and readers cannot use it."""
    for number in range(AFTER):
        lake.write([("b", number, "bern")])
    base = max((lake.path / ".hoodie/metadata/files").glob("*.hfile"), key=lambda path: path.stat().st_mtime_ns)
    data = base.read_bytes()
    trailer = len(data) - TRAILER_BYTES
    assert data[trailer:].count(b"\x60\x01") == 1, "the field of the compression"
    base.write_bytes(data[:trailer] + data[trailer:].replace(b"\x60\x01", b"\x60\x06"))
    for number in range(AFTER):
        assert (lake.path / ".hoodie/metadata").exists() or number > 1
        lake.write([("c", number, "bern")])
    assert not (lake.path / ".hoodie/metadata").exists()
