"""Removal of partitions of a metadata table: names that are no folders, and definitions of indexes."""

from __future__ import annotations

import json
import logging
import pathlib
from typing import Any

import pytest

from penstock.proto.errors import CorruptFile
from penstock.writer.metadata_table.partitions import ListedPartitions, drop_metadata_table, drop_partitions
from tests.unit.engine.write.recorded_storage import Lake
from tests.unit.writer.metadata_table.metadata_tables import list_partitions, listed

DEFINITIONS = ".hoodie/.index_defs/index.json"


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake = Lake(tmp_path / "t", (9, "merge_on_read", "bucket"), monkeypatch, metadata_table=True)
    list_partitions(lake.path, "column_stats,files,secondary_index_x")
    list_partitions(lake.path, DEFINITIONS, "hoodie.table.index.defs.path")
    return lake


def define(lake: Lake, content: Any) -> pathlib.Path:
    file = lake.path / DEFINITIONS
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_definitions_of_removed_indexes_go(lake: Lake) -> None:
    indexes = {"column_stats": {"version": "V2"}, "record_index": {"version": "V1"}}
    file = define(lake, {"indexDefinitions": indexes, "more": 1})
    checksum = file.with_name(".index.json.crc")
    checksum.touch()
    drop_partitions(lake.storage, lake.table().properties, ["column_stats", "secondary_index_x"])
    assert json.loads(file.read_text()) == {"indexDefinitions": {"record_index": {"version": "V1"}}, "more": 1}
    assert not checksum.exists() and listed(lake.path) == "files"


def test_whole_metadata_table_goes_with_definitions(lake: Lake) -> None:
    file = define(lake, {"indexDefinitions": {"column_stats": {}}})
    drop_metadata_table(lake.storage, lake.table().properties, "test")
    assert json.loads(file.read_text()) == {"indexDefinitions": {}}
    assert listed(lake.path) == "" and not (lake.path / ".hoodie/metadata").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"indexDefinitions": []}', "{}", "[" * 100_000])
def test_damaged_definitions_stay(lake: Lake, caplog: pytest.LogCaptureFixture, content: str) -> None:
    file = define(lake, content)
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        drop_partitions(lake.storage, lake.table().properties, ["column_stats"])
    assert file.read_text() == content and "definitions of removed indexes stay" in caplog.text
    assert listed(lake.path) == "files,secondary_index_x"


@pytest.mark.parametrize("path", ["../outside.json", "oslo/data.json", "/etc/x"])
def test_definitions_outside_of_metadata_folder_stay(lake: Lake, caplog: pytest.LogCaptureFixture, path: str) -> None:
    list_partitions(lake.path, path, "hoodie.table.index.defs.path")
    with caplog.at_level(logging.WARNING, "penstock.writer"):
        drop_partitions(lake.storage, lake.table().properties, ["column_stats"])
    assert "definitions of removed indexes stay" in caplog.text


@pytest.mark.parametrize("name", ["..", ".hoodie", "a/b", "../../x", "x" * 300, "a b"])
def test_name_that_is_no_folder_is_refused(lake: Lake, name: str) -> None:
    list_partitions(lake.path, f"files,{name}")
    with pytest.raises(CorruptFile, match="expected names of folders"):
        ListedPartitions.of(lake.table().properties)
