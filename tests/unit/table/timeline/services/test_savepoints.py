"""Savepoints: the files that Hudi's own protect, and damaged ones."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.proto.errors import CorruptFile
from penstock.table.hudi_table import open_table
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.instants import parse_instant_file
from penstock.table.timeline.metadata_schemas.savepoints import SAVEPOINT
from penstock.table.timeline.services.savepoints import parse_savepoint

INSTANT = parse_instant_file("1.savepoint", 1)


@pytest.mark.golden
@pytest.mark.parametrize("case", ["A_savepoint_kept_v9_h120", "A_savepoint_restore_v6_h0150"])
def test_files_of_hudis_savepoint(golden: Any, case: str) -> None:
    table = open_table(str(golden.table(case)))
    (savepoint,) = table.timeline().savepoints
    files = table.savepoint(savepoint)
    assert {partition for partition, _ in files} == {"p=a", "p=b"}
    assert all((golden.table(case) / partition / name).exists() for partition, name in files)


@pytest.mark.parametrize("files", [{"p=a": ["a/b"]}, {"p=a": [""]}, {"..": ["a"]}])
def test_paths_are_refused(files: dict[str, list[str]]) -> None:
    partitions = {key: {"partitionPath": key, "savepointDataFile": names} for key, names in files.items()}
    fields = {"savepointedBy": "", "savepointedAt": 1, "comments": "", "partitionMetadata": partitions, "version": 1}
    assert INSTANT is not None
    with pytest.raises(CorruptFile):
        parse_savepoint(encode_container(SAVEPOINT, fields), INSTANT)
