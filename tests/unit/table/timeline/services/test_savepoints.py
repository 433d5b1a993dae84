"""Savepoints: the files that Hudi's own protect, and damaged ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile
from penstock.table.hudi_table import open_table
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.instants import parse_instant_file
from penstock.table.timeline.metadata_schemas.savepoints import SAVEPOINT
from penstock.table.timeline.services.savepoints import Savepoint, encode_savepoint, parse_savepoint

NAMES = st.from_regex(r"[a-z0-9-]{1,20}_0-1-2_[0-9]{17}\.parquet", fullmatch=True)
INSTANT = parse_instant_file("1.savepoint", 1)


@pytest.mark.golden
@pytest.mark.parametrize("case", ["A_savepoint_kept_v9_h120", "A_savepoint_restore_v6_h0150"])
def test_files_of_hudis_savepoint(golden: Any, case: str) -> None:
    table = open_table(str(golden.table(case)))
    (savepoint,) = table.timeline().savepoints
    found = table.savepoint(savepoint)
    files = found.protected
    assert {partition for partition, _ in files} == {"p=a", "p=b"}
    assert all((golden.table(case) / partition / name).exists() for partition, name in files)
    assert parse_savepoint(encode_savepoint(found), savepoint) == found


@given(
    st.builds(
        Savepoint,
        files=st.dictionaries(
            st.sampled_from(["", "p=a", "p=β/q=b c"]), st.lists(NAMES, unique=True).map(sorted).map(tuple)
        ),
        user=st.text(),
        saved_at_ms=st.integers(0, 2**62),
        comment=st.text(),
    )
)
def test_savepoint_is_decoded_from_its_file(savepoint: Savepoint) -> None:
    assert INSTANT is not None
    assert parse_savepoint(encode_savepoint(savepoint), INSTANT) == savepoint


@pytest.mark.parametrize("files", [{"p=a": ["a/b"]}, {"p=a": [""]}, {"..": ["a"]}])
def test_paths_are_refused(files: dict[str, list[str]]) -> None:
    partitions = {key: {"partitionPath": key, "savepointDataFile": names} for key, names in files.items()}
    fields = {"savepointedBy": "", "savepointedAt": 1, "comments": "", "partitionMetadata": partitions, "version": 1}
    assert INSTANT is not None
    with pytest.raises(CorruptFile):
        parse_savepoint(encode_container(SAVEPOINT, fields), INSTANT)
