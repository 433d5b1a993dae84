"""Options as Spark passes them."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql import types as st

from penstock.engine.spark.load import entry_point_at_load, loaded, only_a_batch, only_a_stream, requested_columns
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint, ParsedOptions


def declared(*names: str) -> st.StructType:
    return st.StructType([st.StructField(name, st.StringType()) for name in names])


def test_lower_case_keys_as_spark_keeps_them() -> None:
    load = loaded({"path": "/t", "splitbytes": "1000", "Columns": "id, Name"}, EntryPoint.BATCH, {})
    assert load.table == "/t"
    assert (load.options.split_bytes, load.options.columns) == (1000, ("id", "Name"))


def test_state_of_a_reader_is_pickled() -> None:
    load = loaded({"path": "/t", "where": "id > 3"}, EntryPoint.BATCH, {})
    assert pickle.loads(pickle.dumps(load)) == load


@pytest.mark.parametrize("option_values", [{}, {"path": ""}, {"limit": "3"}])
def test_no_table(option_values: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="no table: give load"):
        loaded(option_values, EntryPoint.BATCH, {})


def test_several_tables() -> None:
    with pytest.raises(ConfigurationError, match="one table per load"):
        loaded({"paths": '["/a","/b"]'}, EntryPoint.BATCH, {})


def test_unknown_option_suggests_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown option 'colums'.*columns"):
        loaded({"path": "/t", "colums": "id"}, EntryPoint.BATCH, {})


@pytest.mark.parametrize("name", ["asOf", "limit"])
def test_stream_refuses_batch_options(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"(?i)option {name} does not apply here \(stream\)"):
        loaded({"path": "/t", name: "20260131235959123"}, EntryPoint.STREAM, {})


def test_batch_refuses_stream_options() -> None:
    with pytest.raises(ConfigurationError, match=r"(?i)maxCommitsPerTrigger does not apply here"):
        loaded({"path": "/t", "maxCommitsPerTrigger": "1"}, EntryPoint.BATCH, {})


def test_environment_fills_in() -> None:
    environment = {"PENSTOCK_SERVER": "127.0.0.1:7070"}
    assert loaded({"path": "t"}, EntryPoint.STREAM, environment).options.server == "127.0.0.1:7070"
    assert (
        loaded({"path": "t", "server": "127.0.0.1:1"}, EntryPoint.STREAM, environment).options.server == "127.0.0.1:1"
    )


def test_options_of_other_entry_points_are_refused() -> None:
    assert entry_point_at_load({"path": "/t", "upto": "latest"}) is EntryPoint.BATCH
    assert entry_point_at_load({"path": "/t", "maxcommitspertrigger": "1"}) is EntryPoint.STREAM


@pytest.mark.parametrize(
    ("option_values", "batch"),
    [
        ({}, False),
        ({"after": "earliest"}, False),
        ({"query": "incremental"}, False),
        ({"query": "snapshot"}, True),
        ({"hoodie.datasource.query.type": "read_optimized"}, True),
        ({"asof": "20260131235959123"}, True),
        ({"limit": "3"}, True),
    ],
)
def test_stream_refuses_options_that_exclude_each_other(option_values: dict[str, str], batch: bool) -> None:
    assert only_a_batch(loaded({"path": "/t", **option_values}, EntryPoint.BATCH, {}).options) is batch


def test_batch_refuses_options_that_exclude_each_other() -> None:
    keys = {"path": "/t", "eventtime": "ts", "idletimeout": "1s"}
    assert only_a_stream(loaded(keys, EntryPoint.STREAM, {}).options)
    assert not only_a_stream(loaded({"path": "/t", "eventTime": "ts", "upto": "1" * 14}, EntryPoint.STREAM, {}).options)


def test_columns_are_always_named() -> None:
    assert requested_columns(declared("b", "A"), ParsedOptions()) == ("b", "A")
    assert requested_columns(declared("ID"), ParsedOptions(columns=("id",))) == ("ID",)


@pytest.mark.parametrize("names", [("a",), ("b", "a"), ("a", "b", "c")])
def test_columns_and_a_declared_schema_must_agree(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="name different columns"):
        requested_columns(declared(*names), ParsedOptions(columns=("a", "b")))


def test_schema_without_columns() -> None:
    with pytest.raises(ConfigurationError, match="no columns"):
        requested_columns(st.StructType([]), ParsedOptions())
