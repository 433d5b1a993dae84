"""Two writers, one of which changes the columns; and columns whose type cannot change."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.write import write
from penstock.proto.errors import SchemaMismatch, WriteConflict
from tests.unit.engine.write.recorded_storage import FIRST, Kind, Lake, Row, arrow, each_kind


def with_column(rows: list[Row]) -> pa.Table:
    return arrow(rows).append_column("added", pa.array([f"x{key}" for key, *_ in rows]))


def added(lake: Lake) -> dict[str, str | None]:
    """The added column by key."""
    return {row["id"]: row["added"] for row in penstock.read(str(lake.path)).read_all().to_pylist()}


def interrupted(lake: Lake, mine: pa.Table, other: pa.Table) -> None:
    """Writes `mine`, and `other` before its first data file is created."""
    begun: list[str] = []

    def between(method: str, path: str) -> None:
        if method == "new_file" and not begun:
            begun.append(path)
            write(str(lake.path), other)

    lake.storage.before = between
    try:
        write(str(lake.path), mine)
    finally:
        assert begun


@each_kind
def test_column_of_writer_between_is_conflict(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """The first writer would record the old schema, and readers would lose the column."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    with pytest.raises(WriteConflict, match="has other columns"):
        interrupted(lake, arrow([("a", 5, "aaa")]), with_column([("b", 5, "bbb")]))
    assert added(lake)["b"] == "xb" and "a" not in added(lake)
    lake.write([("a", 5, "aaa")])
    assert added(lake)["b"] == "xb" and added(lake)["a"] is None


@each_kind
def test_added_column_during_other_write_is_conflict(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Readers take the schema of the write that began last."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    with pytest.raises(WriteConflict, match="has other columns"):
        interrupted(lake, with_column([("a", 5, "aaa")]), arrow([("b", 5, "bbb")]))
    write(str(lake.path), with_column([("a", 5, "aaa")]))
    assert added(lake)["a"] == "xa" and added(lake)["b"] is None


@each_kind
def test_same_column_is_no_conflict(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """The negative control."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    interrupted(lake, with_column([("a", 5, "aaa")]), with_column([("b", 5, "bbb")]))
    assert added(lake)["a"] == "xa" and added(lake)["b"] == "xb"


def test_ordering_column_keeps_its_type(tmp_path: pathlib.Path) -> None:
    """Deletes in logs keep the type of their ordering values, and a key may be widened."""
    path = str(tmp_path / "t")
    schema = pa.schema([("id", pa.int32()), ("seq", pa.int32()), ("_hoodie_is_deleted", pa.bool_())])
    penstock.create_table(path, schema, record_key="id", ordering="seq", buckets=1)
    penstock.write(path, pa.table([[1, 2], [5, 5], [False, True]], schema=schema))
    wide = schema.set(1, pa.field("seq", pa.int64()))
    with pytest.raises(SchemaMismatch, match="'seq' is int64, and int32 in the table"):
        penstock.write(path, pa.table([[2], [6], [False]], schema=wide))
    penstock.write(path, pa.table([[2], [6], [False]], schema=schema.set(0, pa.field("id", pa.int64()))))
    assert sorted(penstock.read(path).read_all()["id"].to_pylist()) == [1, 2]


def test_null_in_dictionary_of_ordering_column_is_refused(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "t")
    penstock.create_table(
        path, pa.schema([("id", pa.string()), ("seq", pa.string())]), record_key="id", ordering="seq", buckets=1
    )
    seq = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    with pytest.raises(SchemaMismatch, match="ordering column 'seq'"):
        penstock.write(path, pa.table({"id": ["a", "b"], "seq": seq}))
