"""Changes of `hoodie.properties`: Hudi's order, and what an interrupted change leaves."""

from __future__ import annotations

import pathlib

import pytest

from penstock.proto.errors import CorruptFile, WriteConflict
from penstock.table.config.properties import load_properties
from penstock.writer.metadata_table.table_properties import change_properties
from tests.unit.engine.write.recorded_storage import Lake

FILE, BACKUP = ".hoodie/hoodie.properties", ".hoodie/hoodie.properties.backup"


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake = Lake(tmp_path / "t", (9, "merge_on_read", "bucket"), monkeypatch)
    lake.storage.calls.clear()
    return lake


def test_order_is_that_of_hudi_and_other_keys_stay(lake: Lake) -> None:
    before = dict(lake.table().properties.raw)
    stale = lake.path / ".hoodie/.hoodie.properties.crc"
    stale.touch()
    change_properties(lake.storage, {"a:b": "c=ü", "hoodie.table.cdc.enabled": "true"})
    assert lake.storage.calls == [("create", BACKUP), ("remove", FILE), ("create", FILE), ("remove", BACKUP)]
    assert lake.table().properties.raw == {**before, "a:b": "c=ü", "hoodie.table.cdc.enabled": "true"}
    assert not stale.exists(), "Hadoop would find the file damaged"


@pytest.mark.parametrize("main", ["whole", "missing", "damaged"])
def test_interrupted_change_is_completed_or_undone(lake: Lake, main: str) -> None:
    text = (lake.path / FILE).read_text()
    (lake.path / BACKUP).write_text(f"{text}old=1\n")
    if main != "whole":
        (lake.path / FILE).unlink()
    if main == "damaged":
        (lake.path / FILE).write_text("hoodie.table.name=t\nhoodie.table.checksum=1\n")
    change_properties(lake.storage, {"new": "2"})
    raw = load_properties(lake.storage).raw
    assert (raw.get("old"), raw["new"]) == (None if main == "whole" else "1", "2")
    assert not (lake.path / BACKUP).exists()


def test_damaged_backup_is_not_taken(lake: Lake) -> None:
    (lake.path / BACKUP).write_text("x=1\n")
    (lake.path / FILE).unlink()
    with pytest.raises(CorruptFile):
        change_properties(lake.storage, {"new": "2"})
    assert (lake.path / BACKUP).exists()


def test_change_of_another_writer_is_a_conflict(lake: Lake) -> None:
    text = (lake.path / FILE).read_text()

    def backed_up(method: str, path: str) -> None:
        if (method, path) == ("create", BACKUP):
            (lake.path / BACKUP).write_text(text)

    lake.storage.before = backed_up
    with pytest.raises(WriteConflict, match=r"another writer changes .*hoodie\.properties"):
        change_properties(lake.storage, {"new": "2"})
    assert (lake.path / FILE).read_text() == text
