"""Both decoders of JSON give the same rows, reasons and counts, whatever the bytes are."""

from __future__ import annotations

import json
import string

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.reader.topics.json.columns import JsonColumns
from penstock.reader.topics.json.rows import JsonRows
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import AvroField, parse_record_schema

LOGICAL = (
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
    ("string", "uuid"),
)
TYPES: tuple[object, ...] = (
    *("boolean", "int", "long", "float", "double", "bytes", "string"),
    *({"type": kind, "logicalType": logical} for kind, logical in LOGICAL),
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "fixed", "name": "f", "size": 2},
    {"type": "enum", "name": "e", "symbols": ["a", "b"]},
    {"type": "array", "items": ["null", "int"]},
    {"type": "map", "values": "string"},
    {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "double"]}]},
)
NAMES = [f"c{place}" for place in range(len(TYPES))]
RECORD = parse_record_schema(
    json.dumps(
        {
            "type": "record",
            "name": "row",
            "fields": [{"name": name, "type": ["null", kind]} for name, kind in zip(NAMES, TYPES, strict=True)],
        }
    )
)
KNOWN = (*NAMES, "meta")
SCHEMA = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in RECORD.fields])


def both(values: list[bytes | None], fields: tuple[AvroField, ...] = RECORD.fields) -> tuple[object, object]:
    answers = []
    schema = pa.schema([SCHEMA.field(field.name) for field in fields])
    for decoder in (JsonRows, JsonColumns):
        result = decoder(fields, schema, KNOWN).values(values)
        result.rows.validate(full=True)
        assert result.rows.schema == schema
        texts = [repr(_plain(column).to_pylist()) for column in result.rows.columns]
        answers.append((texts, dict(result.reasons), result.unknown))
    return answers[0], answers[1]


def _plain(column: pa.Array) -> pa.Array:
    """Dates and times as their numbers: Python has not all of them."""
    if not pa.types.is_temporal(column.type):
        return column
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())


NUMBERS = st.one_of(
    st.integers(-10, 70_000).map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.sampled_from(
        [
            *(
                "-0",
                "-0.0",
                "0e0",
                "1.0",
                "-1.50",
                "1e2",
                "1E+2",
                "5e-1",
                "1e400",
                "-1e39",
                "1e-400",
                "00",
                "01",
                "1.",
                ".5",
            ),
            *("-", "+1", "1e", "1e+", "2147483647", "2147483648", "-2147483648", "9223372036854775807", "1e9999999"),
            *("9223372036854775808", "-9223372036854775808", "16777217", "0.1", "3.4028235e38", "3.4028236e38", "NaN"),
            *("Infinity", "9007199254740993", "123456789012345678901234567890", "0.30000000000000004", "8388608.5"),
            *("9223372036854775", "9223372036854776", "-9223372036854776", "86399999", "86400000", "1" * 1001),
        ]
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9).map(str),
)
TEXTS = st.one_of(
    st.text(max_size=6),
    st.text(string.digits + "+-.eE", max_size=8),
    st.sampled_from(
        [
            *("2024-07-13", "2024-02-30", "2000-02-29", "1900-02-29", "0000-01-01", "-0001-01-01", "+12024-01-01"),
            *("2024-07-13T11:36:01.951Z", "2024-07-13 11:36", "1969-12-31T23:59:59.9999999", "2024-07-13t11:36:01z"),
            *("2024-07-13T11:36:01+01:00", "2024-07-13T11:36:01.-1", "2024-07-13T11:36:01.", "2024-07-13T24:00:00Z"),
            *("2024-07-13T11:36:01.123456789Z", "2024-07-13T11:36:01.1234567891Z", "2024-07-13T11:36:60Z"),
            *("2024-07-13T11:36:01+18:00", "2024-07-13T11:36:01-18:01", "2024-07-13T11:36:01-00:30:15", "11:36:01.951"),
            *(
                "1700000000000",
                "NaN",
                "-Infinity",
                "Infinity",
                " 1.5 ",
                "1d",
                "true",
                "null",
                "a",
                "b",
                "12",
                "1234",
                "JxA=",
            ),
            *("9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z", "2024-07-13T11:36:01Zx", "2024-07-13T11"),
        ]
    ),
)
RAW_TEXTS = st.sampled_from(
    [
        *(
            rb'"\u00e9\n\/\\\""',
            rb'"\ud83d\ude00"',
            rb'"\ud83d"',
            rb'"\ude00"',
            rb'"\ud83dx"',
            rb'"\u12"',
            rb'"\x"',
            b'"\t"',
        ),
        *(
            b'"\xc3\xa9"',
            b'"\xff"',
            b'"\xed\xa0\x80"',
            b'"\xf4\x90\x80\x80"',
            b'"\xe0\x80\x80"',
            b'"\xc3"',
            rb'"\u0000"',
        ),
        *(
            b'"',
            rb'"\"',
            rb'"2024\u002d07-13"',
            b'"\x7f"',
            b'"\xf0\x9f\x98\x80"',
            rb'"\u+123"',
            rb'"\uD83D\uDE00\uFFFD"',
        ),
    ]
)
FLAT = st.one_of(
    NUMBERS.map(str.encode),
    TEXTS.map(lambda text: json.dumps(text).encode()),
    TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    RAW_TEXTS,
    st.sampled_from(
        [b"null", b"true", b"false", b"nul", b"True", b"", b"[1,2]", b"{}", b"[]", b'{"x":1.5,"y":2}', b"[-64,255]"]
    ),
)
BLANK = st.sampled_from([b"", b"", b"", b" ", b"\n\t\r ", b"\x0b"])
NESTED = st.recursive(
    FLAT,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: b"[" + b",".join(items) + b"]"),
        st.lists(inner, max_size=3).map(
            lambda items: b"{" + b" , ".join(b'"x%d":%s' % (n, item) for n, item in enumerate(items)) + b"}"
        ),
    ),
    max_leaves=4,
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Mostly an object of the columns; sometimes anything."""
    names = draw(
        st.lists(st.sampled_from([*NAMES, "meta", "x", "c", "c100", r"c\u0031", "é"]), max_size=6, unique=True)
    )
    parts = [b'"%s"%s:%s' % (name.encode(), draw(BLANK), draw(NESTED)) for name in names]
    body = draw(BLANK) + b"{" + b",".join(parts) + b"}" + draw(BLANK)
    cut = draw(st.integers(0, 40))
    if cut == 0:
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=2)) + body[at + draw(st.integers(0, 2)) :]
    return body


@pytest.mark.thorough
@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), records()), max_size=6))
@example(
    [b"{}", None, b"", b"null", b"[]", b'{"c2":1}{"c2":2}', b'{"c2":1', b',"c1":2}', b'{"c2":1}x', b'{"c2":1,}', b"{,}"]
)
@example([b'{"c2":' + b"[" * 70 + b"]" * 70 + b"}", b'{"x":' + b"[" * 70 + b"]" * 70 + b"}", b"[" * 100_000])
@example([b'{"c2":1,"c2":2,"c6":"a","c6":null}', b'{"c6":{"b":1.50,"a":[null,true,"\\u0001"]}}', b'{"c6":-0}'])
@example([b'{"c6":"\xef\xbb\xbf"}', b'\xef\xbb\xbf{"c2":1}', '{"c2":1}'.encode("utf-16")])
def test_bulk_and_row_wise_decoding_agree(values: list[bytes | None]) -> None:
    rows, columns = both(values)
    assert rows == columns


@pytest.mark.parametrize("field", RECORD.fields, ids=lambda field: str(field.type))
@settings(max_examples=30, deadline=None)
@given(st.lists(FLAT, min_size=1, max_size=30))
def test_bulk_and_row_wise_decoding_agree_on_each_type(field: AvroField, values: list[bytes]) -> None:
    rows, columns = both([b'{"%s":%s}' % (field.name.encode(), value) for value in values], (field,))
    assert rows == columns


def test_one_odd_record_leaves_the_others_alone() -> None:
    values: list[bytes | None] = [b'{"c2":%d,"c6":"text %d"}' % (n, n) for n in range(8192)]
    values[4000] = b'{"c2":1.5}'
    values[4001] = b'{"c2":"17"}'
    values[5000] = None
    result = JsonColumns(RECORD.fields, SCHEMA, KNOWN).values(values)
    assert dict(result.reasons) == {4000: "column c2: the number 1.5, expected a long"}
    expected = [n if n not in (4000, 5000) else None for n in range(8192)]
    expected[4001] = 17
    assert result.rows.column("c2").to_pylist() == expected
    texts = result.rows.column("c6").to_pylist()
    assert [texts[n] for n in (3999, 4000, 4001, 4002, 5000)] == ["text 3999", None, None, "text 4002", None]


def test_names_of_any_number_and_order_are_recognised() -> None:
    fields = [{"name": f"column_{n}", "type": ["null", "int"]} for n in range(1500)]
    record = parse_record_schema(json.dumps({"type": "record", "name": "wide", "fields": fields}))
    schema = pa.schema([pa.field(field.name, pa.int32()) for field in record.fields])
    forward = {f"column_{n}": n for n in range(1500)}
    documents = [forward, dict(reversed(forward.items())), {"column_7": 7, "nothing": 1, "column_1499": 1}]
    result = JsonColumns(record.fields, schema, schema.names).values([json.dumps(item).encode() for item in documents])
    assert result.unknown == 1
    rows = result.rows.to_pylist()
    assert rows[0] == rows[1] == forward
    assert {name: value for name, value in rows[2].items() if value is not None} == {"column_7": 7, "column_1499": 1}
