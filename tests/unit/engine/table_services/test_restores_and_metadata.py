"""Savepoints and restores of tables with a metadata table, also when they are killed: it has the files that the folders
have."""

from __future__ import annotations

import logging
import pathlib
import shutil
from collections.abc import Iterator

import pytest

from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import delete_savepoint, savepoint
from penstock.engine.write.rollback import rollback
from penstock.proto.errors import TableError
from penstock.writer.metadata_table import compaction
from tests.unit.engine.table_services.metadata_lakes import check, kinds, lake_of
from tests.unit.engine.table_services.test_service_kills import killed_at
from tests.unit.engine.write.recorded_storage import FIRST, KINDS, SECOND, Kind, Lake, Row, upserted
from tests.unit.writer.metadata_table.metadata_tables import instants, list_partitions, listed, listings

THIRD: list[Row] = [("k3", 3, "oslo"), ("k1", 3, "oslo"), ("late", 3, "wien")]


def restorable(lake: Lake) -> str:
    """Adds a savepoint, and writes and services after it; the savepoint's instant."""
    saved = savepoint(str(lake.path)).instant
    lake.write(SECOND)
    lake.write(THIRD)
    if lake.kind[1] == "merge_on_read":
        compact(str(lake.path))
    lake.write([("k5", 9, "oslo")], "insert_overwrite")
    return saved


@kinds
@pytest.mark.parametrize("after", [2, 10], ids=["compacted", "not compacted"])
def test_restored_table_has_its_metadata_table(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, after: int
) -> None:
    """Also if a compaction of the metadata table merged what is removed."""
    monkeypatch.setattr(compaction, "AFTER", after)
    lake = lake_of(tmp_path, kind, monkeypatch)
    saved = restorable(lake)
    check(lake.path)
    restore(str(lake.path))
    assert lake.rows() == sorted(FIRST)
    check(lake.path)
    recorded = {item[0] for item in instants(lake.path)}
    assert saved in recorded, "a restore of Hudi to the savepoint looks for it"
    for row in THIRD:
        lake.write([row])
        check(lake.path)
    delete_savepoint(str(lake.path), saved)
    assert lake.rows() == upserted(FIRST, THIRD)


@kinds
def test_rollback_of_a_write_that_the_metadata_table_was_created_with(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: Kind
) -> None:
    """No instant of the metadata table has its files, so that the metadata table is removed."""
    lake = lake_of(tmp_path, kind, monkeypatch)
    lake.write(SECOND)
    saved = restorable(lake)
    restore(str(lake.path))
    delete_savepoint(str(lake.path), saved)
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        assert rollback(str(lake.path), saved) == (saved,)
    assert "was created with" in caplog.text and listed(lake.path) == ""
    assert lake.rows() == sorted(FIRST)


def test_restored_table_of_version_6_has_none(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path / "t", KINDS[3], monkeypatch)
    lake.write(FIRST)
    saved = savepoint(str(lake.path)).instant
    lake.write(SECOND)
    (lake.path / ".hoodie/metadata").mkdir()
    list_partitions(lake.path, "files")
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        assert restore(str(lake.path), saved).savepoint == saved
    assert "the table was restored" in caplog.text and listed(lake.path) == ""
    assert lake.rows() == sorted(FIRST)


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        (KINDS[3], "files", "hoodie.table.metadata.partitions"),
        (KINDS[1], "column_stats", "hoodie.table.metadata.partitions.inflight"),
    ],
    ids=["version 6", "Hudi is building a partition"],
)
def test_savepoint_does_not_depend_on_the_metadata_table(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, name: str, key: str
) -> None:
    """No clean, write or restore of Penstock keeps it current, and a savepoint does not change it."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    list_partitions(lake.path, name, key)
    saved = savepoint(str(lake.path)).instant
    assert [item.requested_time for item in lake.table().timeline().savepoints] == [saved]
    delete_savepoint(str(lake.path), saved)
    assert lake.table().timeline().savepoints == ()


def test_restore_of_other_partitions_and_of_files_of_other_writers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = lake_of(tmp_path, KINDS[1], monkeypatch)
    restorable(lake)
    (lake.path / "oslo/part-0.parquet").write_bytes(b"of another writer")
    before = lake.everything()
    with pytest.raises(TableError, match=r"part-0\.parquet .* was not named by Hudi"):
        restore(str(lake.path))
    assert lake.everything() == before
    (lake.path / "oslo/part-0.parquet").unlink()
    list_partitions(lake.path, "column_stats,files")
    (lake.path / ".hoodie/metadata/column_stats").mkdir()
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        restore(str(lake.path))
    assert "a restore removed the partitions column_stats" in caplog.text
    check(lake.path)


def killed_copies(lake: Lake) -> Iterator[tuple[str, Lake]]:
    """Copies of the table, each with a restore that was killed at another step."""
    for step in range(1, 200):
        copy = Lake.__new__(Lake)
        copy.path, copy.kind = lake.path.with_name(f"t{step}"), lake.kind
        shutil.copytree(lake.path, copy.path)
        if not killed_at(copy.path, step, restore, after=bool(step % 2)):
            break
        yield f"step {step}", copy
        shutil.rmtree(copy.path)
    assert step > 20


@pytest.mark.exhaustive
@pytest.mark.thorough
def test_killed_restore_goes_on(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers see whole writes; after the next restore and write the metadata table, if it is left, has all files."""
    lake = lake_of(tmp_path, KINDS[0], monkeypatch)
    saved = savepoint(str(lake.path)).instant
    lake.write(SECOND)
    lake.write(THIRD)
    monkeypatch.undo()
    states = [sorted(FIRST), upserted(FIRST, SECOND), upserted(upserted(FIRST, SECOND), THIRD)]
    kept = set()
    for what, copy in killed_copies(lake):
        assert copy.rows() in states, what
        if listed(copy.path):
            by_metadata, by_folders = listings(copy.path)
            assert by_metadata == by_folders, what
        assert restore(str(copy.path), saved).savepoint == saved
        assert copy.rows() == states[0], what
        kept.add(listed(copy.path))
        if listed(copy.path):
            check(copy.path, what)
    assert kept == {"files", ""}


@kinds
def test_killed_savepoint_and_deletion(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """A savepoint that is killed protects all its files or is made again; a deletion that is killed goes on."""
    lake = lake_of(tmp_path, kind, monkeypatch)
    instant = lake.write(SECOND).instant
    path = str(lake.path)
    steps = {"savepoint": 0, "delete": 0}
    for name, run in (("savepoint", savepoint), ("delete", lambda table: delete_savepoint(table, instant))):
        rows = lake.rows()
        for step in range(1, 50):
            if not killed_at(lake.path, step, run, after=bool(step % 2)):
                break
            steps[name] = step
            assert lake.rows() == rows
            saved = {item.requested_time for item in lake.table().timeline().savepoints}
            if name == "savepoint" and saved:
                delete_savepoint(path, instant)
            elif name == "delete" and not saved:
                savepoint(path, instant)
        lake.write([("k1", 9 if name == "savepoint" else 10, "oslo")])
        check(lake.path)
        if name == "savepoint":
            assert [item.requested_time for item in lake.table().timeline().savepoints] == [instant]
    assert min(steps.values()) >= 3
    names = [file.name for file in lake.timeline_folder.iterdir()]
    assert not [file for file in names if "savepoint" in file]
