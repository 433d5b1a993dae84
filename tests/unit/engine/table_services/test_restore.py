"""Savepoints and restores: the rows of the savepoint are back, nothing of later writes is left, and writes go on."""

from __future__ import annotations

import pathlib
import shutil

import pytest

import penstock
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import delete_savepoint, savepoint
from penstock.engine.write.rollback import rollback
from penstock.proto.errors import ConfigurationError, TableError, WriteConflict
from penstock.table.timeline.instants import Action
from penstock.table.timeline.services.restores import parse_restore_plan
from penstock.table.timeline.services.savepoints import parse_savepoint
from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process
from tests.unit.engine.write.recorded_storage import FIRST, KINDS, SECOND, Kind, Lake, Row, rows_of, upserted

THIRD: list[Row] = [("k3", 3, "oslo"), ("k1", 3, "oslo"), ("late", 3, "riga")]
kinds = pytest.mark.parametrize("kind", KINDS)


def lake_of(folder: pathlib.Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table with one write."""
    lake = Lake(folder / "t", kind, monkeypatch)
    lake.write(FIRST)
    return lake


def timeline_names(lake: Lake) -> list[str]:
    return sorted(file.name for file in lake.timeline_folder.iterdir() if file.is_file() and file.name[0].isdigit())


@kinds
def test_restore_brings_back_the_rows_of_the_savepoint(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = lake_of(tmp_path, kind, monkeypatch)
    saved = lake.write(SECOND).instant
    files = lake.files()
    made = savepoint(str(lake.path), comment="before the load")
    assert (made.instant, made.files) == (saved, len([file for file in files if file in protected(lake)]))
    removed = [
        lake.write(THIRD).instant,
        lake.write([("k1", 9, "oslo")], "insert_overwrite").instant,
        lake.write([("k5", 9, "oslo")]).instant,
    ]
    told = restore(str(lake.path), dry_run=True)
    assert told.removed == tuple(reversed(removed)) and told.instant == ""
    assert lake.rows() != upserted(FIRST, SECOND), "a dry run changes nothing"
    done = restore(str(lake.path))
    assert (done.savepoint, done.removed) == (saved, told.removed) and done.instant > removed[-1]
    assert lake.rows() == upserted(FIRST, SECOND)
    assert files <= lake.files(), "no file of the savepoint is removed"
    others = lake.files() - files
    # on layout 1 a block cancels the blocks of removed writes in logs of kept slices
    assert all(lake.layout == 1 and ".log." in name for name in others)
    timeline = lake.table().timeline()
    assert not {item.requested_time for item in timeline.instants} & set(removed)
    assert [item.action for item in timeline.instants if item.action in (Action.ROLLBACK, Action.RESTORE)] == [
        Action.RESTORE
    ]
    lake.write(THIRD)
    assert lake.rows() == upserted(upserted(FIRST, SECOND), THIRD)


@kinds
def test_files_of_removed_writes_that_were_cleaned_are_not_missed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """A state after the restore needs no file that a clean had removed from a write that the restore removed."""
    lake = lake_of(tmp_path, kind, monkeypatch)
    savepoint(str(lake.path))
    for rows in (SECOND, THIRD, SECOND):
        lake.write(rows)
        if kind[1] == "merge_on_read":
            compact(str(lake.path))
    removed = clean(str(lake.path), commits=1).files
    assert removed
    restore(str(lake.path))
    state = lake.write(SECOND).instant
    lake.write(THIRD)
    assert rows_of(penstock.read(str(lake.path), as_of=state).read_all()) == upserted(FIRST, SECOND)


def protected(lake: Lake) -> set[str]:
    """The files that the table's savepoints name."""
    table = lake.table()
    return {
        f"{partition}/{name}" if partition else name
        for item in table.timeline().savepoints
        for partition, names in parse_savepoint(
            (lake.timeline_folder / item.file_name).read_bytes(), item
        ).files.items()
        for name in names
    }


@pytest.mark.sampled(1)
@kinds
def test_restore_that_is_killed_goes_on(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    lake = lake_of(tmp_path, kind, monkeypatch)
    saved = savepoint(str(lake.path)).instant
    lake.write(SECOND)
    lake.write(THIRD)
    monkeypatch.undo()
    states = [FIRST, upserted(FIRST, SECOND), upserted(upserted(FIRST, SECOND), THIRD)]
    seen = set()
    for step in range(1, 200, 1 if kind == KINDS[0] else 3):
        copy = Lake.__new__(Lake)
        copy.path, copy.kind = tmp_path / f"t{step}", kind
        shutil.copytree(lake.path, copy.path)
        storage = KilledStorage(copy.path, step, after=bool(step % 2))
        with monkeypatch.context() as patch:
            as_other_process(patch)
            patch.setattr("penstock.engine.table_services.serviced_table.open_writable", lambda path, own=storage: own)
            try:
                restore(str(copy.path))
            except Killed:
                pass
            else:
                break
        assert copy.rows() in states, f"part of a write after a kill at step {step}"
        seen.add(states.index(copy.rows()))
        if copy.table().timeline().instants and is_restoring(copy):
            with pytest.raises(WriteConflict, match="penstock restore"):
                penstock.write(str(copy.path), penstock.read(str(copy.path)).read_all().select(["id", "seq", "city"]))
        assert restore(str(copy.path), saved).savepoint == saved
        assert copy.rows() == FIRST
        names = timeline_names(copy)
        assert not [name for name in names if "rollback" in name or not name.startswith((saved, *restores(names)))]
        shutil.rmtree(copy.path)
    assert seen == {0, 1, 2} and step > 10


def restores(names: list[str]) -> set[str]:
    return {name[:17] for name in names if ".restore" in name}


def is_restoring(lake: Lake) -> bool:
    return any(item.action is Action.RESTORE and not item.is_completed for item in lake.table().timeline().instants)


def test_interrupted_restore_goes_on_to_its_own_savepoint_only(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(tmp_path, KINDS[0], monkeypatch)
    saved = savepoint(str(lake.path)).instant
    lake.write(SECOND)
    storage = KilledStorage(lake.path, 3, after=True)
    with monkeypatch.context() as patch:
        as_other_process(patch)
        patch.setattr("penstock.engine.table_services.serviced_table.open_writable", lambda path: storage)
        with pytest.raises(Killed):
            restore(str(lake.path))
    assert is_restoring(lake)
    (planned,) = lake.timeline_folder.glob("*.restore.requested")
    (item,) = [item for item in lake.table().timeline().instants if item.action is Action.RESTORE]
    assert parse_restore_plan(planned.read_bytes(), item).savepoint == saved
    with pytest.raises(ConfigurationError, match="must be completed first"):
        restore(str(lake.path), "20200101000000000")
    restore(str(lake.path))
    assert lake.rows() == FIRST


@kinds
def test_newest_write_is_rolled_back(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    lake = lake_of(tmp_path, kind, monkeypatch)
    before = lake.files()
    first = lake.table().timeline().completed_writes[0].requested_time
    second = lake.write(SECOND).instant
    with pytest.raises(WriteConflict, match="not the newest write"):
        rollback(str(lake.path), first)
    assert rollback(str(lake.path), second) == (second,)
    assert lake.rows() == sorted(FIRST)
    assert before <= lake.files()
    lake.write(THIRD)
    assert lake.rows() == upserted(FIRST, THIRD)


def test_write_with_a_savepoint_is_not_rolled_back(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(tmp_path, KINDS[1], monkeypatch)
    saved = savepoint(str(lake.path)).instant
    with pytest.raises(WriteConflict, match="savepoint"):
        rollback(str(lake.path), saved)
    delete_savepoint(str(lake.path), saved)
    assert not [name for name in timeline_names(lake) if "savepoint" in name]
    assert rollback(str(lake.path), saved) == (saved,) and lake.rows() == []


def test_what_cannot_be_restored_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(tmp_path, KINDS[1], monkeypatch)
    path = str(lake.path)
    with pytest.raises(ConfigurationError, match="has no savepoint"):
        restore(path)
    with pytest.raises(ConfigurationError, match="no completed write"):
        savepoint(path, "20200101000000000")
    with pytest.raises(ConfigurationError, match="no instant has one"):
        delete_savepoint(path, "20200101000000000")
    saved = savepoint(path).instant
    with pytest.raises(ConfigurationError, match="already"):
        savepoint(path)
    lake.write(SECOND)
    later = savepoint(path).instant
    before = lake.everything()
    with pytest.raises(ConfigurationError, match=f"would remove {later}"):
        restore(path, saved)
    assert lake.everything() == before
    delete_savepoint(path, later)
    before = lake.everything()
    lost = sorted(protected(lake))[0]
    (lake.path / lost).unlink()
    with pytest.raises(TableError, match=r"does not exist: nothing was restored"):
        restore(path, saved)
    assert lake.everything() == {name: data for name, data in before.items() if name != lost}
