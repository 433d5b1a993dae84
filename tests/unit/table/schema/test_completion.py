"""The columns that a query can return."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat
from penstock.table.schema.completion import returned_schema

TABLE = pa.schema([("id", pa.int64()), ("v", pa.string())])


def test_column_follows_all_others() -> None:
    assert returned_schema(TABLE, None, completion_time=False) == TABLE
    assert returned_schema(TABLE, None, completion_time=True).names == ["id", "v", "_completion_time"]
    assert returned_schema(TABLE, ChangeFormat.ROWS, completion_time=True).names[-2:] == [
        "_change_seq",
        "_completion_time",
    ]
    assert returned_schema(TABLE, ChangeFormat.HUDI, completion_time=True).names == [
        "op", "ts_ms", "before", "after", "_completion_time",
    ]  # fmt: skip


def test_column_of_the_table_with_its_name_is_refused_only_with_the_option() -> None:
    own = TABLE.append(pa.field("_Completion_Time", pa.string()))
    assert returned_schema(own, None, completion_time=False) == own
    with pytest.raises(ConfigurationError, match="the table has one of its own: leave the option out"):
        returned_schema(own, None, completion_time=True)
