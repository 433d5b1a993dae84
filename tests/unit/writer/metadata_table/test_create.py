"""Metadata tables of new tables: the same files and properties as those of Hudi."""

from __future__ import annotations

import pathlib

import pytest

from penstock.engine.write.create import create_table
from penstock.proto.errors import ConfigurationError
from penstock.table.config.java_properties import parse_properties
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.metadata.folder import FolderStorage
from penstock.table.metadata.metadata_table import METADATA_FOLDER
from tests.unit.engine.write.recorded_storage import SCHEMA
from tests.unit.writer.metadata_table.metadata_tables import listed, listings


def inner(path: pathlib.Path) -> HudiTable:
    storage = FolderStorage(open_table(str(path)).storage, METADATA_FOLDER)
    return HudiTable(storage, load_properties(storage))


@pytest.mark.golden
def test_properties_files_and_commit_are_those_of_hudi(tmp_path: pathlib.Path, golden: object) -> None:
    path = tmp_path / "a_mdt_all_v9_h120"
    create_table(str(path), SCHEMA, record_key="id", partition_by="city", buckets=1, metadata_table=True)
    theirs = golden.table("A_mdt_all_v9_h120")  # type: ignore[attr-defined]
    name = ".hoodie/metadata/.hoodie/hoodie.properties"
    assert parse_properties((path / name).read_bytes()) == parse_properties((theirs / name).read_bytes())
    first = "0" * 17
    (ours, hudis) = (
        {file.name.partition("_")[0] for file in (table / METADATA_FOLDER / "files").iterdir() if first in file.name}
        for table in (path, theirs)
    )
    assert ours == hudis
    commits = [
        table.commit(next(item for item in table.timeline().completed_writes if item.requested_time == first))
        for table in (inner(path), inner(theirs))
    ]
    stats = [[(stat.file_id, stat.partition, stat.num_inserts, stat.prev_commit) for stat in c.stats] for c in commits]
    assert stats[0] == stats[1] and commits[0].operation == commits[1].operation
    assert listed(path) == "files" and listings(path) == ({}, {})


def test_old_version_and_existing_table_are_refused(tmp_path: pathlib.Path) -> None:
    settings = {"record_key": "id", "buckets": 1, "metadata_table": True}
    with pytest.raises(ConfigurationError, match="metadata_table needs version 9; got 6"):
        create_table(str(tmp_path / "t"), SCHEMA, table_version=6, **settings)  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()
    create_table(str(tmp_path / "t"), SCHEMA, **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="exists"):
        create_table(str(tmp_path / "t"), SCHEMA, **settings)  # type: ignore[arg-type]
    assert listings(tmp_path / "t") == ({}, {})
