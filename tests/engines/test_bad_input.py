"""Wrong options and columns, and tables that change between the call and the execution: the right error."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest

from penstock import errors
from tests.engines.frames import DuckDB, Engine, Polars, engine_named
from tests.engines.queries import Compare, Query
from tests.engines.written_table import INSTANT

LATER_INSTANT = "20261121000000000"


@pytest.fixture
def own_table(values_table: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the table that the test may change."""
    return shutil.copytree(values_table, tmp_path / "table")


def test_option_that_does_not_exist_is_refused(engine: Engine, values_table: pathlib.Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="colums"):
        engine.table(values_table, colums=["id"])
    with pytest.raises(errors.ConfigurationError, match="limit"):
        engine.table(values_table, limit=3)
    with pytest.raises(errors.ConfigurationError, match="nothing"):
        engine.table(values_table, columns=["nothing"])
    with pytest.raises(errors.ConfigurationError, match="nothing"):
        engine.table(values_table, where="nothing = 1")


def test_path_without_table_is_refused(engine: Engine, tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.PenstockError, match="nowhere"):
        engine.table(tmp_path / "nowhere")


def test_unknown_column_is_the_error_of_the_engine(engine: Engine, values_table: pathlib.Path) -> None:
    frame = engine.table(values_table)
    with pytest.raises(Exception, match="nothing") as condition:
        engine.run(frame, Query(Compare(("nothing",), "=", 1), ("id",)))
    with pytest.raises(Exception, match="nothing") as column:
        engine.run(frame, Query(None, ("nothing",)))
    for error in (condition, column):
        assert not isinstance(error.value, errors.PenstockError | AssertionError)


def test_column_of_another_type_is_an_error(engine: Engine, own_table: pathlib.Path) -> None:
    frame = engine.table(own_table)
    _alter(own_table, "i", ["null", "long"])
    with pytest.raises(Exception, match="was int32 when the query was written, and is int64 now"):
        engine.run(frame, Query(None, ("id", "i")))
    assert engine.run(frame, Query(None, ("id", "n"))).num_rows > 0
    assert engine.run(engine.table(own_table), Query(None, ("id", "i"))).num_rows > 0


def test_lost_file_is_an_error(engine: Engine, own_table: pathlib.Path) -> None:
    frame = engine.table(own_table)
    for file in own_table.rglob("file1*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="file1"):
        engine.all_rows(frame)


@pytest.mark.parametrize("name", ["polars", "polars-streaming"])
def test_errors_keep_their_class_in_polars(name: str, own_table: pathlib.Path) -> None:
    engine = engine_named(name)
    assert isinstance(engine, Polars)
    frame = engine.table(own_table)
    shutil.rmtree(own_table)
    with pytest.raises(errors.PenstockError, match="table"):
        frame.collect()


def test_registered_name_is_a_view(values_table: pathlib.Path) -> None:
    from penstock.duckdb import register

    engine = DuckDB()
    register(engine.connection, "t", values_table, columns=["id", "n"])
    assert engine.connection.sql("SELECT count(*) FROM t AS one JOIN t AS two USING (id)").fetchall() == [(240,)]
    assert [row[0] for row in engine.connection.sql("DESCRIBE t").fetchall()] == ["id", "n"]
    engine.connection.unregister("t")
    with pytest.raises(Exception, match="t does not exist"):
        engine.connection.sql("SELECT * FROM t")


def _alter(table: pathlib.Path, column: str, kind: object) -> None:
    """A commit without files whose schema has another type for the column."""
    timeline = table / ".hoodie"
    commit = json.loads((timeline / f"{INSTANT}.commit").read_text())
    schema = json.loads(commit["extraMetadata"]["schema"])
    for field in schema["fields"]:
        if field["name"] == column:
            field["type"] = kind
    commit |= {"partitionToWriteStats": {}, "extraMetadata": {"schema": json.dumps(schema)}}
    (timeline / f"{LATER_INSTANT}.commit").write_text(json.dumps(commit))
