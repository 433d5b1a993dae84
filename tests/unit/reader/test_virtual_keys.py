"""Slices of tables without meta columns: keys made of the rows, the oracle's rows by both roads."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import slice_writer
from slices import BASE_INSTANT, SliceFolder, comparable

from penstock.proto.errors import CorruptBlock, CorruptFile, UnsupportedFeature
from penstock.proto.splits import EventTimeOrdering
from penstock.reader.read_split import ReadOptions
from penstock.reader.virtual_keys import record_keys

FIELDS = {"a": "string", "b": "int", "ts": "long", "v": "string"}
KEYS = st.tuples(st.sampled_from([None, "", "a", "a,b:1", "é"]), st.sampled_from([None, 0, -7]))
ROWS = st.lists(st.tuples(KEYS, st.integers(0, 3)), max_size=7)


def key_of(key: tuple[str | None, int | None]) -> str:
    texts = ["__null__" if part is None else str(part) or "__empty__" for part in key]
    return f"a:{texts[0]},b:{texts[1]}"


def row(key: tuple[str | None, int | None], ts: int, v: str) -> dict[str, Any]:
    return {"a": key[0], "b": key[1], "ts": ts, "v": v}


@settings(max_examples=60, deadline=None)
@given(
    base=ROWS,
    logs=st.lists(st.tuples(ROWS, ROWS, st.booleans()), min_size=1, max_size=3),
    batch_rows=st.sampled_from([1, 3, 999]),
)
def test_the_reader_is_the_oracle(base: list[Any], logs: list[Any], batch_rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = SliceFolder(pathlib.Path(name), FIELDS, EventTimeOrdering(("ts",)), key_fields=("a", "b"))
        if base:
            folder.write_base([[row(key, ts, f"base{n}") for n, (key, ts) in enumerate(base)]])
        for number, (data, deletes, parquet) in enumerate(logs):
            instant = f"2026010200000000{number}"
            rows = [row(key, ts, f"{number}.{n}") for n, (key, ts) in enumerate(data)]
            folder.write_log(
                slice_writer.parquet_block(folder.arrow, rows, instant)
                if parquet
                else slice_writer.data_block(folder.avro, rows, instant),
                slice_writer.delete_block([(key_of(key), "LongWrapper", ts) for key, ts in deletes], instant),
            )
        expected = comparable(folder.oracle("long"))
        for options in (ReadOptions(batch_rows), ReadOptions(batch_rows, compiled=False)):
            assert comparable(folder.rows(options=options)) == expected
        columns = comparable(folder.rows(columns=("v",), options=ReadOptions(batch_rows)))
        assert columns == comparable([{"v": found["v"]} for found in folder.oracle("long")])


@pytest.mark.parametrize("compiled", [True, False])
def test_positions_are_checked_by_the_made_keys(tmp_path: pathlib.Path, compiled: bool) -> None:
    folder = SliceFolder(tmp_path, FIELDS, key_fields=("a", "b"))
    folder.write_base([[row(("x", 1), 0, "old"), row(("x", 1), 0, "copy")]])
    both = [row(("x", 1), 1, "new"), row(("x", 1), 1, "new")]
    folder.write_log(slice_writer.data_block(folder.avro, both, "20260102000000000", positions=(BASE_INSTANT, [0, 1])))
    found = folder.rows(columns=("v",), options=ReadOptions(compiled=compiled))
    assert found == [{"v": "new"}, {"v": "new"}]


@pytest.mark.parametrize("compiled", [True, False])
def test_partial_updates_meet_the_rows_of_their_made_keys(tmp_path: pathlib.Path, compiled: bool) -> None:
    folder = SliceFolder(tmp_path, FIELDS, key_fields=("a", "b"))
    folder.write_base([[row(("x", 1), 5, "old"), row(("y", 1), 6, "stays")]])
    update = slice_writer.table_schema({"a": "string", "b": "int", "v": "string"}, with_meta=False)
    new = {"a": "x", "b": 1, "v": "new"}
    folder.write_log(slice_writer.data_block(update, [new], "20260102000000000", partial=True))
    found = folder.rows(columns=("a", "ts", "v"), options=ReadOptions(compiled=compiled))
    assert comparable(found) == comparable([{"a": "y", "ts": 6, "v": "stays"}, {"a": "x", "ts": 5, "v": "new"}])
    lone = folder.rows(columns=("ts",), options=ReadOptions(compiled=compiled))
    assert comparable(lone) == comparable([{"ts": 6}, {"ts": 5}])


def test_a_partial_update_without_all_of_the_key_is_refused(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, FIELDS, key_fields=("a", "b"))
    update = slice_writer.table_schema({"a": "string", "v": "string"}, with_meta=False)
    folder.write_log(slice_writer.data_block(update, [{"a": "x", "v": "new"}], "20260102000000000", partial=True))
    with pytest.raises(CorruptBlock, match=r"partial updates without key column b"):
        folder.rows()


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array(["x"]), "x"),
        (pa.array([-5], pa.int32()), "-5"),
        (pa.array([2**40]), "1099511627776"),
        (pa.array([True]), "true"),
    ],
)
def test_a_single_column_is_its_text(array: pa.Array, text: str) -> None:
    assert record_keys(pa.record_batch([array], ["k"]), ["k"]).to_pylist() == [text]


@pytest.mark.parametrize(("key", "says"), [(None, "without a"), ("", "with an empty a")])
def test_a_row_without_key_is_damage(tmp_path: pathlib.Path, key: str | None, says: str) -> None:
    folder = SliceFolder(tmp_path, FIELDS, key_fields=("a",))
    block = slice_writer.data_block(folder.avro, [row((key, 1), 0, "v")], "20260102000000000")
    folder.write_log(block)
    with pytest.raises(CorruptBlock, match=f"a record {says}"):
        folder.rows()
    folder.logs.clear()
    folder.write_base([[row((key, 1), 0, "v")]])
    folder.write_log(slice_writer.data_block(folder.avro, [row(("y", 1), 0, "v")], "20260102000000000"))
    with pytest.raises(CorruptFile, match=f"base file .*: a row {says}"):
        folder.rows()


@pytest.mark.parametrize("kind", ["double", {"type": "int", "logicalType": "date"}, "bytes"])
def test_a_key_column_whose_text_is_not_settled_is_refused(tmp_path: pathlib.Path, kind: Any) -> None:
    folder = SliceFolder(tmp_path, {"a": kind, "v": "string"}, key_fields=("a",))
    folder.write_log(slice_writer.data_block(folder.avro, [{"v": "x"}], "20260102000000000"))
    with pytest.raises(UnsupportedFeature, match="key column 'a' of type"):
        folder.rows()


def test_without_a_log_no_key_is_needed(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, {"a": "double"}, key_fields=("a",))
    folder.write_base([[{"a": None}, {"a": 1.5}]])
    assert folder.rows() == [{"a": None}, {"a": 1.5}]
