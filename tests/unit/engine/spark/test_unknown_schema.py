"""Loads of tables without a known schema raise an error."""

from __future__ import annotations

import pathlib

import pytest

from penstock.engine.spark.source import PenstockDataSource
from penstock.proto.errors import SchemaMismatch

PROPERTIES = """hoodie.table.name=empty
hoodie.table.version=9
hoodie.table.type=MERGE_ON_READ
hoodie.record.merge.mode=COMMIT_TIME_ORDERING
"""


@pytest.mark.parametrize("more", [{}, {"query": "cdc", "after": "earliest"}])
def test_table_without_data_and_schema(tmp_path: pathlib.Path, more: dict[str, str]) -> None:
    (tmp_path / ".hoodie" / "timeline").mkdir(parents=True)
    (tmp_path / ".hoodie" / "hoodie.properties").write_text(PROPERTIES)
    with pytest.raises(SchemaMismatch, match=f"no schema: table {tmp_path}"):
        PenstockDataSource({"path": str(tmp_path)} | more).schema()
