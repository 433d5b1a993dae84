"""Slices of tables without meta columns: keys derived from the rows; both decoders return the oracle's rows."""

from __future__ import annotations

import datetime
import decimal
import json
import pathlib
import tempfile
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, CorruptFile, SchemaMismatch, TableError
from penstock.proto.model.splits import EventTimeOrdering
from penstock.reader.read_split import ReadOptions
from penstock.reader.values.record_keys import KeyMaker, key_maker
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from tests.oracle import slice_writer
from tests.unit.reader.slices import BASE_INSTANT, SliceFolder, comparable

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
def test_reader_is_the_oracle(base: list[Any], logs: list[Any], batch_rows: int) -> None:
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
        assert columns == comparable([{"v": result["v"]} for result in folder.oracle("long")])


@pytest.mark.parametrize("compiled", [True, False])
def test_positions_are_checked_by_the_derived_keys(tmp_path: pathlib.Path, compiled: bool) -> None:
    folder = SliceFolder(tmp_path, FIELDS, key_fields=("a", "b"))
    folder.write_base([[row(("x", 1), 0, "old"), row(("x", 1), 0, "copy")]])
    both = [row(("x", 1), 1, "new"), row(("x", 1), 1, "new")]
    folder.write_log(slice_writer.data_block(folder.avro, both, "20260102000000000", positions=(BASE_INSTANT, [0, 1])))
    result = folder.rows(columns=("v",), options=ReadOptions(compiled=compiled))
    assert result == [{"v": "new"}, {"v": "new"}]


@pytest.mark.parametrize("compiled", [True, False])
def test_partial_updates_match_rows_by_derived_keys(tmp_path: pathlib.Path, compiled: bool) -> None:
    folder = SliceFolder(tmp_path, FIELDS, key_fields=("a", "b"))
    folder.write_base([[row(("x", 1), 5, "old"), row(("y", 1), 6, "stays")]])
    update = slice_writer.table_schema({"a": "string", "b": "int", "v": "string"}, with_meta=False)
    new = {"a": "x", "b": 1, "v": "new"}
    folder.write_log(slice_writer.data_block(update, [new], "20260102000000000", partial=True))
    result = folder.rows(columns=("a", "ts", "v"), options=ReadOptions(compiled=compiled))
    assert comparable(result) == comparable([{"a": "y", "ts": 6, "v": "stays"}, {"a": "x", "ts": 5, "v": "new"}])
    lone = folder.rows(columns=("ts",), options=ReadOptions(compiled=compiled))
    assert comparable(lone) == comparable([{"ts": 6}, {"ts": 5}])


def test_partial_update_without_all_of_the_key_is_refused(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, FIELDS, key_fields=("a", "b"))
    update = slice_writer.table_schema({"a": "string", "v": "string"}, with_meta=False)
    folder.write_log(slice_writer.data_block(update, [{"a": "x", "v": "new"}], "20260102000000000", partial=True))
    with pytest.raises(CorruptBlock, match=r"partial updates without key column b"):
        folder.rows()


DATE = {"type": "int", "logicalType": "date"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
EXACT = {"type": "fixed", "name": "f", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 8}
NOON = datetime.datetime(2021, 5, 5, 1, 2, 3, 500000, datetime.UTC)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("string", "x", "x"),
        ("int", -5, "-5"),
        ("long", 2**40, "1099511627776"),
        ("boolean", True, "true"),
        ("double", 1e10, "1.0E10"),
        ("double", 1e-5, "1.0E-5"),
        ("float", 16777216.0, "1.6777216E7"),
        (EXACT, decimal.Decimal("2.5"), "2.50000000"),
        (EXACT, decimal.Decimal("1E-8"), "1E-8"),
        (DATE, datetime.date(2020, 1, 1), "2020-01-01"),
        (MICROS, NOON, "1620176523500000"),
        ({"type": "long", "logicalType": "timestamp-millis"}, NOON, "1620176523500"),
        ("bytes", b"abc", "616263"),
    ],
)
def test_single_column_is_the_text_of_hudis_deletes(kind: Any, value: Any, text: str) -> None:
    avro = {"type": "record", "name": "r", "fields": [{"name": "k", "type": kind}]}
    record = parse_record_schema(json.dumps(avro))
    batch = pa.record_batch([pa.array([value], arrow_schema(record).field("k").type)], ["k"])
    assert key_maker(["k"], record, "t").keys(batch).to_pylist() == [text]


NESTED = {"type": "record", "name": "s", "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": "int"}]}


@pytest.mark.parametrize("compiled", [True, False])
def test_nested_column_is_a_key(tmp_path: pathlib.Path, compiled: bool) -> None:
    folder = SliceFolder(tmp_path, {"s": NESTED, "v": "string"}, key_fields=("s.a",))
    folder.write_base([[{"s": {"a": key, "b": 1}, "v": "old"} for key in "123"]])
    update = slice_writer.data_block(folder.avro, [{"s": {"a": "2", "b": 2}, "v": "new"}], "20260102000000000")
    folder.write_log(update, slice_writer.delete_block([("1", None, None)], "20260103000000000"))
    result = folder.rows(columns=("v", "s"), options=ReadOptions(compiled=compiled))
    assert result == [{"v": "old", "s": {"a": "3", "b": 1}}, {"v": "new", "s": {"a": "2", "b": 2}}]


class TestNamedKeys:
    def folder(self, path: pathlib.Path, key: str, kind: str, value: Any) -> SliceFolder:
        created = SliceFolder(path, {"a": kind, "v": "string"}, key_fields=("a",))
        created.write_base([[{"a": value, "v": "gone"}]])
        created.write_log(slice_writer.delete_block([(key, None, None)], "20260102000000000"))
        return created

    @pytest.mark.parametrize("key", ["1", "a:1"])
    def test_deletes_may_say_the_columns_name(self, tmp_path: pathlib.Path, key: str) -> None:
        assert self.folder(tmp_path, key, "string", "1").rows(keys_may_be_named=True) == []

    def test_elsewhere_it_is_part_of_the_value(self, tmp_path: pathlib.Path) -> None:
        assert self.folder(tmp_path, "a:1", "string", "1").rows() == [{"a": "1", "v": "gone"}]

    def test_value_like_a_name_is_refused(self, tmp_path: pathlib.Path) -> None:
        with pytest.raises(TableError, match="begins with a:"):
            self.folder(tmp_path, "a:1", "string", "a:1").rows(keys_may_be_named=True)


@pytest.mark.parametrize(("key", "says"), [(None, "without a"), ("", "with an empty a")])
def test_row_without_key_is_damage(tmp_path: pathlib.Path, key: str | None, says: str) -> None:
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


@pytest.mark.parametrize(("fields", "says"), [(("s",), "is nested"), (("x",), "is missing"), (("s.z",), "missing")])
def test_columns_without_a_text_are_refused_as_keys(tmp_path: pathlib.Path, fields: tuple[str, ...], says: str) -> None:
    folder = SliceFolder(tmp_path, {"s": NESTED, "v": "string"}, key_fields=fields)
    folder.write_log(slice_writer.data_block(folder.avro, [{"s": {"a": "1", "b": 2}, "v": "x"}], "20260102000000000"))
    with pytest.raises(SchemaMismatch, match=says):
        folder.rows()


def test_without_a_log_no_key_is_needed(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, {"a": "double"}, key_fields=("a",))
    folder.write_base([[{"a": None}, {"a": 1.5}]])
    assert folder.rows() == [{"a": None}, {"a": 1.5}]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=4)), max_size=12), st.integers(0, 3))
def test_bytes_are_hexadecimal_text(values: list[bytes | None], skipped: int) -> None:
    column = pa.array([b"\xff\xfe", b"", None, *values], pa.binary()).slice(skipped)
    batch = pa.RecordBatch.from_arrays([column, pa.array(["x"] * len(column))], names=["b", "c"])
    expected = [f"b:{'__null__' if value is None else value.hex() or '__empty__'},c:x" for value in column.to_pylist()]
    assert KeyMaker(("b", "c")).keys(batch).to_pylist() == expected
