"""The options of a catalog's table survive in its schema."""

from __future__ import annotations

import os

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.engine.spark.source import PenstockDataSource
from penstock.engine.spark.stored_options import (
    options_of_new_table,
    options_of_read,
    with_stored_options,
    without_stored_options,
)
from penstock.errors import ConfigurationError

PLAIN = StructType([StructField("a", LongType(), True, {"comment": "kept"}), StructField("b", StringType())])
CREATED = {
    "location": "file:/lake/orders",
    "path": "file:/lake/orders",
    "provider": "Penstock",
    "owner": "root",
    "asof": "20260101000000000",
    "option.asof": "20260101000000000",
    "option.kafka.topic": "orders",
    "kafka.topic": "orders",
    "team": "sales",
}
"""What Spark 4.3 passes for CREATE TABLE … OPTIONS (path, asOf, `kafka.topic`) TBLPROPERTIES (team)."""


def test_load_is_not_a_new_table() -> None:
    assert options_of_new_table({"path": "/lake/orders", "asOf": "20260101000000000"}) is None


def test_new_table_keeps_its_location_and_options_only() -> None:
    assert options_of_new_table(CREATED) == {
        "path": "/lake/orders",
        "asof": "20260101000000000",
        "kafka.topic": "orders",
    }


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("file:/lake/my orders#1%20", "/lake/my orders#1%20"),
        ("file:///lake/orders", "/lake/orders"),
        ("s3://bucket/orders", "s3://bucket/orders"),
        ("lake/orders", os.path.abspath("lake/orders")),  # noqa: PTH100
    ],
)
def test_location_becomes_a_path_for_every_process(location: str, path: str) -> None:
    assert options_of_new_table({"provider": "penstock", "location": location}) == {"path": path}


def test_name_on_a_server_stays_as_it_is() -> None:
    given = {"provider": "penstock", "location": "orders", "option.server": "127.0.0.1:7"}
    assert options_of_new_table(given) == {"path": "orders", "server": "127.0.0.1:7"}


def test_options_among_tblproperties_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"TBLPROPERTIES contain the option asOf.*OPTIONS \(asOf"):
        options_of_new_table({"provider": "penstock", "location": "/lake/orders", "asof": "2026"})


def test_new_table_needs_a_path() -> None:
    with pytest.raises(ConfigurationError, match="no path: give LOCATION"):
        options_of_new_table({"provider": "penstock", "owner": "root"})


def test_stored_schema_gives_the_options_back() -> None:
    stored = with_stored_options(PLAIN, {"path": "/lake/orders", "asof": "1"})
    through_the_catalog = StructType.fromJson(stored.jsonValue())
    assert options_of_read({}, through_the_catalog) == {"path": "/lake/orders", "asof": "1"}
    assert without_stored_options(stored) == PLAIN != stored


def test_options_at_a_read_are_refused() -> None:
    """Spark would apply them to other references of the table too."""
    stored = with_stored_options(PLAIN, {"path": "/lake/orders"})
    with pytest.raises(ConfigurationError, match=r"read with options \(asof, limit\).*Create another table"):
        options_of_read({"limit": "3", "asOf": "2"}, stored)


def test_read_with_its_own_path_uses_no_stored_option() -> None:
    stored = with_stored_options(PLAIN, {"path": "/lake/orders", "asof": "1"})
    assert options_of_read({"PATH": "/lake/others"}, stored) == {"path": "/lake/others"}


def test_schema_of_the_user_names_the_cause() -> None:
    with pytest.raises(ConfigurationError, match="created with a list of columns cannot work"):
        PenstockDataSource({}).reader(PLAIN)
    with pytest.raises(ConfigurationError, match="created with a list of columns cannot work"):
        PenstockDataSource({}).streamReader(PLAIN).initialOffset()


@pytest.mark.parametrize("damaged", ["{", "[]", '{"path": 1}', 7])
def test_damaged_metadata_is_an_error(damaged: object) -> None:
    schema = StructType([StructField("a", LongType(), True, {"penstock.table": damaged})])
    with pytest.raises(ConfigurationError, match=r"metadata penstock\.table .* is damaged"):
        options_of_read({}, schema)


@pytest.mark.parametrize("name", ["mergers", "MERGERS"])
def test_functions_are_neither_stored_nor_read_from_a_catalog(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"mergers is not stored, .*penstock.mergers"):
        options_of_new_table({**CREATED, f"option.{name}": "a=os:system"})
    stored = with_stored_options(PLAIN, {"path": "/lake/orders", name: "a=os:system"})
    with pytest.raises(ConfigurationError, match="mergers is not stored"):
        options_of_read({}, stored)
    assert options_of_read({"path": "/t", name: "a=os:path"}, PLAIN)[name.lower()] == "a=os:path"
