"""The data source without Spark: what it keeps between load() and the readers."""

from __future__ import annotations

import pathlib
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.spark import source as data_source
from penstock.engine.spark.source import PenstockDataSource
from penstock.engine.spark.stream.reader import PenstockStreamReader
from penstock.proto.errors import ConfigurationError, UnsupportedFeature

pytestmark = pytest.mark.golden


def source(table: pathlib.Path, **options: str) -> PenstockDataSource:
    return PenstockDataSource(options={"path": str(table), **options})


def test_stream_knows_whether_its_schema_is_that_of_the_load(golden: Any) -> None:
    """Spark pickles the data source after schema(), which it does not call for a schema of the caller."""
    table = golden.table("A_evo_add_column_v9_h120")
    loaded = source(table, onNewColumns="fail")
    schema = loaded.schema()
    assert isinstance(pickle.loads(pickle.dumps(loaded)).streamReader(schema), PenstockStreamReader)
    with pytest.raises(ConfigurationError, match=r"got \.schema\(\)"):
        source(table, onNewColumns="fail").streamReader(schema).initialOffset()
    assert isinstance(source(table).streamReader(schema), PenstockStreamReader)


def test_columns_are_refused_at_load(golden: Any) -> None:
    table = golden.table("A_evo_add_column_v9_h120")
    with pytest.raises(ConfigurationError, match="onNewColumns=fail is for a stream of all columns"):
        source(table, onNewColumns="fail", columns="id").schema()


def test_completion_time_is_the_last_column_of_the_table(golden: Any) -> None:
    table = golden.table("A_evo_add_column_v9_h120")
    assert source(table, completionTime="true").schema().names[-1] == "_completion_time"
    assert source(table, completionTime="true", query="cdc", after="earliest").schema().names[-1] == "_completion_time"
    assert "_completion_time" not in source(table).schema().names


def test_writers_name_what_writes_the_operations_that_they_refuse(golden: Any) -> None:
    """Spark's Python writers get rows in any order, so that a file group would have rows in several tasks."""
    table = golden.table("A_evo_add_column_v9_h120")
    schema, table = source(table).schema(), source(table, operation="upsert")
    with pytest.raises(UnsupportedFeature, match=r"use penstock.spark.write\(df, path, operation\)"):
        table.writer(schema, False)
    with pytest.raises(
        UnsupportedFeature, match=r"foreachBatch\(penstock.spark.sink\(path, operation, checkpoint=folder\)\)"
    ):
        table.streamWriter(schema, False)


def test_sessions_of_a_process_register_one_after_the_other() -> None:
    """They share the environment of Spark's context, which the source copies while variables are added to it."""
    copied: list[dict[str, str]] = []

    class Sources:
        def register(self, registered: object) -> None:
            assert data_source._REGISTERING.locked()
            copied.append(dict(context.environment))

    context = SimpleNamespace(environment={"PYTHONHASHSEED": "0"})
    session: Any = SimpleNamespace(sparkContext=context, dataSource=Sources())
    data_source.register(session)
    assert copied == [{"PYTHONHASHSEED": "0"} | data_source._SET_BY_STREAMS]
    assert context.environment == {"PYTHONHASHSEED": "0"} and not data_source._REGISTERING.locked()
