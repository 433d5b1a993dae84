"""Images as JSON: every text parses to the values that a plain encoder writes, in both spellings, for any types."""

from __future__ import annotations

import base64
import decimal
import json
import math
import struct
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.reader.cdc.images import Images, ImageStyle
from penstock.reader.cdc.json_text import image_texts
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordSchema,
    RecordType,
)

LEAVES: list[AvroType] = [
    Primitive("boolean"),
    Primitive("int"),
    Primitive("long"),
    Primitive("float"),
    Primitive("double"),
    Primitive("bytes"),
    Primitive("string"),
    Primitive("int", "date"),
    Primitive("long", "timestamp-micros"),
    Primitive("long", "local-timestamp-micros"),
    Primitive("string", "uuid"),
    Decimal(12, 3),
    Decimal(30, 0, 13),
    Decimal(38, 20, 16),
    Fixed(3),
    EnumType(("A", "B")),
]


def record_of(types: list[AvroType]) -> tuple[AvroField, ...]:
    return tuple(AvroField(f"c{place}", kind, True, 0) for place, kind in enumerate(types))


def nested(inner: st.SearchStrategy[AvroType]) -> st.SearchStrategy[AvroType]:
    records = st.lists(inner, min_size=1, max_size=3).map(lambda types: RecordType(record_of(types)))
    return st.one_of(inner.map(lambda kind: ArrayType(kind, 0)), inner.map(lambda kind: MapType(kind, 0)), records)


TYPES = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=6)
TEXTS = st.text(max_size=8) | st.sampled_from(['"', "\\", "\n\t\x00\x1f", "é\u2028\U0001f600", "null", "{}"])


def values(kind: AvroType) -> st.SearchStrategy[Any]:
    """What Arrow holds of a type, null included."""
    match kind:
        case Primitive(logical="date"):
            return st.none() | st.dates()
        case Primitive(logical="timestamp-micros" | "local-timestamp-micros"):
            return st.none() | st.integers(-(2**62), 2**62)
        case Primitive(kind="boolean"):
            return st.none() | st.booleans()
        case Primitive(kind="int"):
            return st.none() | st.integers(-(2**31), 2**31 - 1)
        case Primitive(kind="long"):
            return st.none() | st.integers(-(2**63), 2**63 - 1)
        case Primitive(kind="float"):
            return st.none() | st.floats(width=32)
        case Primitive(kind="double"):
            return st.none() | st.floats()
        case Primitive(kind="bytes"):
            return st.none() | st.binary(max_size=6)
        case Decimal(precision=precision, scale=scale):
            bound = 10**precision - 1
            whole = st.integers(-bound, bound) | st.sampled_from([0, -1, 127, 128, -128, -129, 255, 256, -bound])
            exact = decimal.Context(prec=60)
            return st.none() | whole.map(lambda number: decimal.Decimal(number).scaleb(-scale, exact))
        case Fixed(size):
            return st.none() | st.binary(min_size=size, max_size=size)
        case EnumType(symbols):
            return st.none() | st.sampled_from(symbols)
        case ArrayType(items):
            return st.none() | st.lists(values(items), max_size=3)
        case MapType(inner):
            return st.none() | st.dictionaries(TEXTS, values(inner), max_size=3).map(
                lambda result: list(result.items())
            )
        case RecordType(fields):
            return st.none() | st.fixed_dictionaries({field.name: values(field.type) for field in fields})
    return st.none() | TEXTS


def spelled(kind: AvroType, value: Any, *, is_avro: bool) -> Any:
    """The expected result of `json.loads` for the text of one value."""
    if value is None:
        return None
    match kind:
        case Primitive(kind="float" | "double"):
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Primitive(logical="date"):
            return value.toordinal() - 719163
        case Primitive(kind="bytes"):
            return value.decode("latin-1") if is_avro else base64.b64encode(value).decode()
        case Fixed():
            return list(struct.unpack(f"{len(value)}b", value)) if is_avro else base64.b64encode(value).decode()
        case Decimal(scale=scale, fixed_size=size):
            if not is_avro:
                return value
            number = int(value.scaleb(scale, decimal.Context(prec=60)))
            least = next(width for width in range(1, 40) if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1)
            stored = number.to_bytes(size or least, "big", signed=True)
            return spelled(Fixed(size) if size else Primitive("bytes"), stored, is_avro=True)
        case ArrayType(items):
            return [spelled(items, item, is_avro=is_avro) for item in value]
        case MapType(inner):
            remaining = value if is_avro else [(key, item) for key, item in value if item is not None]
            return {key: spelled(inner, item, is_avro=is_avro) for key, item in remaining}
        case RecordType(fields):
            return spelled_record(fields, value, is_avro=is_avro)
    return value


def spelled_record(fields: tuple[AvroField, ...], row: dict[str, Any], *, is_avro: bool) -> dict[str, Any]:
    result = {field.name: spelled(field.type, row[field.name], is_avro=is_avro) for field in fields}
    return result if is_avro else {name: value for name, value in result.items() if value is not None}


def same(actual: Any, expected: Any) -> bool:
    """Equal with type: a number is no bool; a float32 may be spelled by its shortest text."""
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and list(actual) == list(expected)
            and all(same(actual[name], expected[name]) for name in expected)
        )
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(same, actual, expected))
    if isinstance(expected, decimal.Decimal):
        return not isinstance(actual, bool | str) and decimal.Decimal(actual) == expected
    if isinstance(expected, float):
        if not isinstance(actual, decimal.Decimal):
            return False
        return float(actual) == expected or struct.pack("f", float(actual)) == struct.pack("f", expected)
    return type(actual) is type(expected) and actual == expected


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(TYPES, min_size=1, max_size=3), st.sampled_from(ImageStyle))
def test_texts_parse_to_the_values(data: st.DataObject, types: list[AvroType], style: ImageStyle) -> None:
    record = RecordSchema("row", record_of(types), "")
    rows = data.draw(
        st.lists(st.fixed_dictionaries({f.name: values(f.type) for f in record.fields}), min_size=1, max_size=4)
    )
    columns = [pa.array([row[f.name] for row in rows], arrow_type(f.type)) for f in record.fields]
    batch = pa.RecordBatch.from_arrays(columns, names=[f.name for f in record.fields])
    first = data.draw(st.integers(0, len(rows) - 1))
    images = Images(batch.slice(first), record, style)
    texts = image_texts(images).to_pylist()
    assert texts == image_texts(images, compiled=False).to_pylist()
    is_avro = style is not ImageStyle.ENGINE
    for text, row in zip(texts, rows[first:], strict=True):
        expected = spelled_record(record.fields, row, is_avro=is_avro)
        actual = json.loads(text, parse_float=decimal.Decimal)
        assert same(actual, expected), (text, expected)


ROW = {"n": 1, "text": 'a"b', "raw": b"\x00\xff", "gone": None, "items": [1, None], "price": decimal.Decimal("-1.50")}
FIELDS = {
    "n": Primitive("int"),
    "text": Primitive("string"),
    "raw": Primitive("bytes"),
    "gone": Primitive("long"),
    "items": ArrayType(Primitive("int"), 0),
    "price": Decimal(5, 2, 3),
}


def one_row(style: ImageStyle) -> str:
    record = RecordSchema("row", tuple(AvroField(name, kind, True, 0) for name, kind in FIELDS.items()), "")
    columns = [pa.array([ROW[name]], arrow_type(kind)) for name, kind in FIELDS.items()]
    batch = pa.RecordBatch.from_arrays(columns, names=list(FIELDS))
    (text,) = image_texts(Images(batch, record, style)).to_pylist()
    return str(text)


def test_spelling_of_engine_rows() -> None:
    assert one_row(ImageStyle.ENGINE) == '{"n":1,"text":"a\\"b","raw":"AP8=","items":[1,null],"price":-1.50}'


@pytest.mark.parametrize("style", [ImageStyle.LOGGED, ImageStyle.RECORD])
def test_spelling_of_avro_records(style: ImageStyle) -> None:
    assert one_row(style) == (
        '{"n": 1, "text": "a\\"b", "raw": "\\u0000ÿ", "gone": null, "items": [1, null], "price": [-1, -1, 106]}'
    )


def test_row_of_nothing_but_nulls() -> None:
    record = RecordSchema("row", record_of([Primitive("int"), Primitive("string")]), "")
    batch = pa.RecordBatch.from_arrays([pa.nulls(2, pa.int32()), pa.nulls(2, pa.string())], names=["c0", "c1"])
    assert image_texts(Images(batch, record)).to_pylist() == ["{}", "{}"]
    assert image_texts(Images(batch, record, ImageStyle.LOGGED))[0].as_py() == '{"c0": null, "c1": null}'


@pytest.mark.parametrize("special", ['"', "\\", "\x00", "\x1f", " ", "é"])
def test_one_text_to_escape_among_many(special: str) -> None:
    """A column without such a text is measured in another way."""
    record = RecordSchema("row", record_of([Primitive("string"), Primitive("string")]), "")
    texts = [f"{number} plain" for number in range(100)]
    for place in (0, 50, 99):
        changed = [*texts[:place], f"x{special}y", *texts[place + 1 :]]
        batch = pa.RecordBatch.from_arrays([pa.array(texts), pa.array(changed)], names=["c0", "c1"])
        expected = [{"c0": text, "c1": other} for text, other in zip(texts, changed, strict=True)]
        assert [json.loads(text) for text in image_texts(Images(batch, record)).to_pylist()] == expected


JAVA = {
    pa.float64(): {
        2e23: "1.9999999999999998E23",
        5e-324: "4.9E-324",
        1e7: "1.0E7",
        -9999999.5: "-9999999.5",
        0.001: "0.001",
        -0.00099: "-9.9E-4",
        -0.0: "-0.0",
        123.0: "123.0",
        -9.0495377744880896e16: "-9.0495377744880896E16",
        math.nan: '"NaN"',
        -math.inf: '"-Infinity"',
    },
    pa.float32(): {3.4028234663852886e38: "3.4028235E38", 1.401298464324817e-45: "1.4E-45", 0.5: "0.5", 16.0: "16.0"},
}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("style", ImageStyle)
@pytest.mark.parametrize("arrow", JAVA)
def test_numbers_have_the_digits_that_java_prints(arrow: pa.DataType, style: ImageStyle, compiled: bool) -> None:
    kind = Primitive("double" if arrow == pa.float64() else "float")
    record = RecordSchema("row", record_of([kind, ArrayType(kind, 0)]), "")
    numbers = pa.array([9.5, *JAVA[arrow], None], arrow)
    lists = pa.array([[number] for number in numbers.to_pylist()], pa.list_(arrow))
    batch = pa.RecordBatch.from_arrays([numbers, lists], names=["c0", "c1"]).slice(1)
    texts = image_texts(Images(batch, record, style), compiled=compiled).to_pylist()
    expected = [f'{{"c0":{text},"c1":[{text}]}}' for text in JAVA[arrow].values()]
    assert [text.replace(" ", "") for text in texts[:-1]] == expected


def test_null_values_of_maps_are_left_out_of_engine_rows_alone() -> None:
    kinds: dict[str, AvroType] = {
        "m": MapType(Primitive("int"), 0),
        "ms": ArrayType(MapType(RecordType(record_of([Primitive("int")])), 0), 0),
    }
    record = RecordSchema("row", tuple(AvroField(name, kind, True, 0) for name, kind in kinds.items()), "")
    maps = [[("z", 0)], None, [], [("a", None)], [("a", None), ("b", 1), ("c", None), ("d", 2)]]
    lists = [[[("k", None), ("l", {"c0": None})], None, [("n", None)]], None, [], [[]], [[("o", {"c0": 3})]]]
    columns = [pa.array(column, arrow_type(kind)) for column, kind in zip((maps, lists), kinds.values(), strict=True)]
    images = Images(pa.RecordBatch.from_arrays(columns, names=list(kinds)).slice(1), record)
    assert image_texts(images).to_pylist() == [
        "{}",
        '{"m":{},"ms":[]}',
        '{"m":{},"ms":[{}]}',
        '{"m":{"b":1,"d":2},"ms":[{"o":{"c0":3}}]}',
    ]
    images = Images(pa.RecordBatch.from_arrays(columns, names=list(kinds)), record)
    assert image_texts(images)[0].as_py() == '{"m":{"z":0},"ms":[{"l":{}},null,{}]}'
    texts = image_texts(replace(images, style=ImageStyle.LOGGED))
    assert texts[3].as_py() == '{"m": {"a": null}, "ms": [{}]}'


def test_columns_that_the_record_does_not_have_are_left_out() -> None:
    record = RecordSchema("row", record_of([Primitive("int")]), "")
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()), pa.array(["x"])], names=["c0", "other"])
    assert image_texts(Images(batch, record)).to_pylist() == ['{"c0":1}']
    assert image_texts(Images(batch.select(["other"]), record)).to_pylist() == ["{}"]
