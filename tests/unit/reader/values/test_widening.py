"""Files and blocks of narrower types than the table's: every decoder returns the oracle's values or an error."""

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

from penstock.proto.errors import SchemaMismatch
from penstock.proto.model.splits import EventTimeOrdering
from penstock.reader.read_split import ReadOptions
from penstock.reader.values.widening import NotExact, widened
from penstock.table.schema.arrow import arrow_schema, arrow_type
from penstock.table.schema.avro import Decimal, Primitive, parse_record_schema
from tests.oracle import slice_writer
from tests.oracle.widening import widen_row
from tests.unit.reader.slices import SliceFolder, comparable

INT, LONG, FLOAT, DOUBLE = (Primitive(kind) for kind in ("int", "long", "float", "double"))
TEXT, BYTES, DATE = Primitive("string"), Primitive("bytes"), Primitive("int", "date")
DATE_JSON = {"type": "int", "logicalType": "date"}
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
PLAIN = st.one_of(
    st.sampled_from([0.0, -0.0]), st.floats(0.0078125, 9999999.0, width=32), st.floats(-9999999.0, -1.0, width=32)
)


def decimal_of(precision: int, scale: int, name: str = "") -> Any:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


CHANGES: dict[str, tuple[Any, Any, st.SearchStrategy[Any]]] = {
    "int_long": ("int", "long", INTS),
    "int_float": ("int", "float", INTS),
    "int_double": ("int", "double", INTS),
    "int_string": ("int", "string", INTS),
    "int_decimal": ("int", decimal_of(14, 3), INTS),
    "long_float": ("long", "float", LONGS),
    "long_double": ("long", "double", LONGS),
    "long_string": ("long", "string", LONGS),
    "long_decimal": ("long", decimal_of(38, 2), LONGS),
    "float_double": ("float", "double", PLAIN),
    "float_string": ("float", "string", PLAIN),
    "float_decimal": ("float", decimal_of(20, 2), st.integers(-99999, 99999).map(lambda n: n / 8)),
    "double_string": ("double", "string", PLAIN),
    "double_decimal": ("double", decimal_of(20, 2), st.integers(-(10**7), 10**7).map(lambda n: n / 8)),
    "string_decimal": ("string", decimal_of(9, 2), st.integers(-(10**9), 10**9).map(lambda n: f"{n / 1000:.3f}")),
    "decimal_string": (decimal_of(12, 8), "string", st.decimals(-9999, 9999, places=8)),
    "date_string": (DATE_JSON, "string", st.dates(datetime.date(1600, 1, 1))),
    "string_date": ("string", DATE_JSON, st.dates().map(str)),
    "string_bytes": ("string", "bytes", st.text(max_size=9)),
    "bytes_string": ("bytes", "string", st.one_of(st.text(max_size=9).map(str.encode), st.binary(max_size=4))),
}


def write_old(folder: SliceFolder, fields: dict[str, Any], rows: list[dict[str, Any]], blocks: int) -> None:
    """The first row as base file, the others as log blocks, all with a schema of these fields."""
    avro = slice_writer.table_schema(fields)
    arrow = arrow_schema(parse_record_schema(json.dumps(avro)))
    folder.write_base([rows[:1]], arrow)
    for number in range(blocks):
        part = rows[1 + number :: blocks]
        if part:
            folder.write_log(slice_writer.data_block(avro, part, f"2026010200000000{number}"))


def expected_texts(folder: SliceFolder, fields: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    avro = slice_writer.table_schema(fields)
    result = [widen_row({**dict.fromkeys(avro_names(avro)), **row}, avro, folder.avro) for row in rows]
    return sorted(comparable([{name: row[name] for name in folder.fields} for row in result]))


def avro_names(avro: dict[str, Any]) -> list[str]:
    return [field["name"] for field in avro["fields"]]


def got(folder: SliceFolder, compiled: bool) -> list[str]:
    return sorted(comparable(folder.rows(columns=tuple(folder.fields), options=ReadOptions(compiled=compiled))))


@pytest.mark.thorough
@pytest.mark.parametrize("change", CHANGES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_promotion_is_the_oracles_in_base_and_log_by_both_decoders(change: str, data: st.DataObject) -> None:
    old, new, values = CHANGES[change]
    held = data.draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=6))
    rows = [{"_hoodie_record_key": f"k{place}", "c": value} for place, value in enumerate(held)]
    with tempfile.TemporaryDirectory() as name:
        folder = SliceFolder(pathlib.Path(name), {"c": new})
        write_old(folder, {"c": old}, rows, 2)
        expected = expected_texts(folder, {"c": old}, rows)
        assert got(folder, compiled=True) == expected
        assert got(folder, compiled=False) == expected


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), INTS),
            st.one_of(st.none(), st.lists(st.one_of(st.none(), PLAIN), max_size=3)),
            st.one_of(st.none(), st.dictionaries(st.text(max_size=3), st.one_of(st.none(), INTS), max_size=3)),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_nested_fields_are_promoted_added_dropped_and_moved(held: list[tuple[Any, Any, Any]]) -> None:
    old = {"s": record("o", x="int", gone="string", list=array("float")), "m": mapping("int")}
    new = {"m": mapping("string"), "s": record("n", added="long", list=array("double"), x="double"), "late": "date"}
    new["late"] = DATE_JSON
    rows = [
        {"_hoodie_record_key": f"k{n}", "s": None if x is None else {"x": x, "gone": "g", "list": floats}, "m": entries}
        for n, (x, floats, entries) in enumerate(held)
    ]
    base = [{**row, "m": None if row["m"] is None else list(row["m"].items())} for row in rows[:1]]
    with tempfile.TemporaryDirectory() as name:
        folder = SliceFolder(pathlib.Path(name), new)
        write_old(folder, old, [*base, *rows[1:]], 1)
        expected = expected_texts(folder, old, rows)
        assert got(folder, compiled=True) == expected
        assert got(folder, compiled=False) == expected


def record(name: str, **fields: Any) -> dict[str, Any]:
    listed = [{"name": field, "type": ["null", kind], "default": None} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": ["null", items]}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": ["null", values]}


@pytest.mark.parametrize(
    ("old", "new", "value", "says"),
    [
        (DOUBLE, Decimal(10, 2), float("nan"), "not a number"),
        (DOUBLE, Decimal(4, 2), 99.995, "more digits"),
        (TEXT, Decimal(4, 2), "100", "more digits"),
        (TEXT, Decimal(4, 2), "1e999999999", "more digits"),
        (TEXT, Decimal(4, 2), " 1", "not a number"),
        (TEXT, Decimal(4, 2), "", "not a number"),
        (TEXT, DATE, "2021-02-30", "not a date"),
        (TEXT, DATE, "x", "not a date"),
        (LONG, Primitive("long", "local-timestamp-millis"), 2**62, "do not fit"),
        (LONG, Decimal(10, 2), 123456789, "does not fit"),
        (DATE, TEXT, datetime.date(1582, 10, 14), "a date outside"),
    ],
)
def test_value_that_hudi_does_not_read_is_refused(old: Any, new: Any, value: Any, says: str) -> None:
    with pytest.raises(NotExact, match=says):
        widened(pa.array([None, value], arrow_type(old)), old, new)


def test_short_or_rounded_texts_are_those_of_hudi_1_2() -> None:
    texts = pa.array(["1.255", "-1.255", "-7", "1e2", "1E-9", None])
    assert [str(x) for x in widened(texts, TEXT, Decimal(6, 2)).to_pylist()[:5]] == [
        "1.26", "-1.26", "-7.00", "100.00", "0.00",
    ]  # fmt: skip
    dates = pa.array(["2020-01-05", "2020-2-3", "1500-03-01"])
    assert [str(day) for day in widened(dates, TEXT, DATE).to_pylist()] == ["2020-01-05", "2020-02-03", "1500-03-01"]
    exact = pa.array([decimal.Decimal(text) for text in ("1.25", "1E-8", "0", "-12345678901.5")], pa.decimal128(20, 8))
    assert widened(exact, Decimal(20, 8), TEXT).to_pylist() == ["1.25000000", "1E-8", "0E-8", "-12345678901.50000000"]
    odd = pa.array([b"\xff\0\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"abc"])
    assert widened(odd, BYTES, TEXT).to_pylist() == ["\ufffd\0\ufffd", "\ufffd", "\ufffd", "abc"]


def test_units_that_older_writers_named_wrong_are_the_tables() -> None:
    instant = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
    millis = int(instant.timestamp() * 1000)
    called = pa.array([millis, None]).view(pa.timestamp("us", "UTC"))
    result = widened(called, Primitive("long", "timestamp-micros"), Primitive("long", "timestamp-millis"))
    assert result.to_pylist() == [instant, None]
    plain = widened(pa.array([millis]), LONG, Primitive("long", "local-timestamp-millis"))
    assert plain.to_pylist() == [instant.replace(tzinfo=None)]
    plain = widened(pa.array([millis * 1000]), LONG, Primitive("long", "local-timestamp-micros"))
    assert plain.to_pylist() == [instant.replace(tzinfo=None)]


def test_forms_that_golden_tables_show() -> None:
    assert widened(pa.array([0.1, 0.3], pa.float32()), FLOAT, DOUBLE).to_pylist() == [0.1, 0.3]
    assert widened(pa.array([0.25, 3.0, 5.5]), DOUBLE, TEXT).to_pylist() == ["0.25", "3.0", "5.5"]
    assert widened(pa.array([49], pa.int32()), INT, TEXT).to_pylist() == ["49"]
    assert widened(pa.array([decimal.Decimal("1.5")]), Decimal(2, 1), Decimal(6, 3)).to_pylist() == [
        decimal.Decimal("1.500")
    ]


@pytest.mark.parametrize("compiled", [True, False])
def test_value_that_is_not_exact_is_refused_with_file_and_column(tmp_path: pathlib.Path, compiled: bool) -> None:
    folder = SliceFolder(tmp_path, {"c": decimal_of(4, 2)})
    write_old(folder, {"c": "string"}, [{"_hoodie_record_key": "k", "c": "no"}], 0)
    with pytest.raises(SchemaMismatch, match=r"group_0-1-1.*column 'c': 'no' is not a number; Hudi"):
        folder.rows(options=ReadOptions(compiled=compiled))
    folder.base = None
    folder.write_log(
        slice_writer.data_block(
            slice_writer.table_schema({"c": "string"}), [{"_hoodie_record_key": "k", "c": "no"}], "20260102000000000"
        )
    )
    with pytest.raises(SchemaMismatch, match=r"\.log\.1_.*column c: 'no' is not a number; Hudi"):
        folder.rows(options=ReadOptions(compiled=compiled))


class TestOrderingColumns:
    def slice(self, folder: pathlib.Path, old: Any, new: Any, base: Any, log: Any) -> SliceFolder:
        created = SliceFolder(folder, {"ts": new}, EventTimeOrdering(("ts",)))
        old_avro = slice_writer.table_schema({"ts": old})
        created.write_base(
            [[{"_hoodie_record_key": "k", "ts": base}]], arrow_schema(parse_record_schema(json.dumps(old_avro)))
        )
        created.write_log(
            slice_writer.data_block(created.avro, [{"_hoodie_record_key": "k", "ts": log}], "20260102000000000")
        )
        return created

    @pytest.mark.parametrize(
        ("old", "new", "base", "log", "stands"),
        [
            ("int", "long", 5, 2**40, 2**40),
            ("int", "double", 5, 4.5, 5.0),
            ("float", "double", 0.5, 0.25, 0.5),
            ("int", decimal_of(12, 2), 7, decimal.Decimal("6.99"), decimal.Decimal("7.00")),
            (DATE_JSON, "string", datetime.date(2026, 1, 2), "2026-01-01", "2026-01-02"),
        ],
    )
    def test_widened_one_orders_as_the_tables_type(
        self, tmp_path: pathlib.Path, old: Any, new: Any, base: Any, log: Any, stands: Any
    ) -> None:
        result = self.slice(tmp_path, old, new, base, log).rows(columns=("ts",))
        assert result == [{"ts": stands}]

    @pytest.mark.parametrize(
        ("old", "new", "base", "log", "stands"), [("int", "string", 9, "10", "9"), ("long", "double", 9, 1.0, 9.0)]
    )
    def test_one_whose_order_changes_compares_as_the_tables_type(
        self, tmp_path: pathlib.Path, old: Any, new: Any, base: Any, log: Any, stands: Any
    ) -> None:
        """As Hudi 1.2.0: what was older as a number may be newer as text."""
        assert self.slice(tmp_path, old, new, base, log).rows(columns=("ts",)) == [{"ts": stands}]

    def test_records_of_a_log_whose_order_changes(self, tmp_path: pathlib.Path) -> None:
        created = SliceFolder(tmp_path, {"ts": "string"}, EventTimeOrdering(("ts",)))
        old = slice_writer.table_schema({"ts": "int"})
        for number, ts in enumerate((9, 10)):
            rows = [{"_hoodie_record_key": "k", "ts": ts}]
            created.write_log(slice_writer.data_block(old, rows, f"2026010{number + 1}000000000"))
        assert created.rows(columns=("ts",)) == [{"ts": "9"}]

    @pytest.mark.parametrize("block", ["avro", "parquet"])
    def test_each_of_several_columns_is_checked(self, tmp_path: pathlib.Path, block: str) -> None:
        created = SliceFolder(tmp_path, {"ts": "long", "seq": "string"}, EventTimeOrdering(("ts", "seq")))

        def write(fields: dict[str, Any], row: dict[str, Any], instant: str) -> None:
            avro = slice_writer.table_schema(fields)
            rows = [{"_hoodie_record_key": "k", **row}]
            arrow = arrow_schema(parse_record_schema(json.dumps(avro)))
            parquet = block == "parquet"
            created.write_log(
                slice_writer.parquet_block(arrow, rows, instant)
                if parquet
                else slice_writer.data_block(avro, rows, instant)
            )

        write({"ts": "int", "seq": "string"}, {"ts": 5, "seq": "b"}, "20260102000000000")
        write({"ts": "long", "seq": "string"}, {"ts": 5, "seq": "a"}, "20260103000000000")
        assert created.rows(columns=("ts", "seq")) == [{"ts": 5, "seq": "b"}]
        write({"ts": "long", "seq": "int"}, {"ts": 5, "seq": 9}, "20260104000000000")
        assert created.rows(columns=("ts", "seq")) == [{"ts": 5, "seq": "b"}]

    def test_deletes_of_the_old_type_by_several_columns(self, tmp_path: pathlib.Path) -> None:
        created = SliceFolder(tmp_path, {"ts": "long", "seq": "int"}, EventTimeOrdering(("ts", "seq")))
        old = slice_writer.table_schema({"ts": "int", "seq": "int"})
        values = [("IntWrapper", 5), ("IntWrapper", 1)]
        created.write_log(
            slice_writer.data_block(old, [{"_hoodie_record_key": "k", "ts": 9, "seq": 0}], "20260102000000000"),
            slice_writer.delete_block([("k", "ArrayWrapper", values)], "20260103000000000", schema=old),
        )
        with pytest.raises(SchemaMismatch, match="deletes with values of ordering column 'ts' as int"):
            created.rows()

    def test_deletes_that_win_have_no_values_to_look_at(self, tmp_path: pathlib.Path) -> None:
        created = SliceFolder(tmp_path, {"ts": "long"}, EventTimeOrdering(("ts",), deletes_win=True))
        old = slice_writer.table_schema({"ts": "int"})
        created.write_log(
            slice_writer.data_block(old, [{"_hoodie_record_key": "k", "ts": 9}], "20260102000000000"),
            slice_writer.delete_block([("k", "IntWrapper", 5)], "20260103000000000", schema=old),
        )
        assert created.rows() == []

    @pytest.mark.parametrize(("value", "refused"), [(5, True), (0, False)])
    def test_deletes_with_values_of_the_old_type(self, tmp_path: pathlib.Path, value: int, refused: bool) -> None:
        created = SliceFolder(tmp_path, {"ts": "long"}, EventTimeOrdering(("ts",)))
        old = slice_writer.table_schema({"ts": "int"})
        rows = [{"_hoodie_record_key": key, "ts": 9} for key in ("k", "j")]
        created.write_log(
            slice_writer.data_block(old, rows, "20260102000000000"),
            slice_writer.delete_block([("k", "IntWrapper", value)], "20260103000000000", schema=old),
        )
        if refused:
            with pytest.raises(SchemaMismatch, match="deletes with values of ordering column 'ts' as int"):
                created.rows()
        else:
            assert [row["_hoodie_record_key"] for row in created.rows()] == ["j"]
