"""What JSON values become, type by type, and which are refused."""

from __future__ import annotations

import datetime
import decimal
import json
import math

import pyarrow as pa
import pytest

from penstock.reader.topics.json.columns import JsonColumns
from penstock.reader.topics.json.rows import JsonRows
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import parse_record_schema

D = decimal.Decimal
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
TIME_MILLIS = {"type": "int", "logicalType": "time-millis"}
TIME_MICROS = {"type": "long", "logicalType": "time-micros"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
FIXED_DECIMAL = {"type": "fixed", "name": "d", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 2}
FIXED = {"type": "fixed", "name": "f", "size": 2}
ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
LIST = {"type": "array", "items": ["null", "int"]}
FULL_LIST = {"type": "array", "items": "int"}
MAP = {"type": "map", "values": ["null", DECIMAL]}
STRUCT = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", DATE]}]}
VECTOR = {"type": "fixed", "name": "v", "size": 8, "logicalType": "vector", "dimension": 2, "elementType": "FLOAT"}


def at(*parts: int, zone: datetime.tzinfo | None = datetime.UTC) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=zone)  # type: ignore[arg-type,misc]


def column(kind: object, value: bytes) -> tuple[object, str | None]:
    """The value, and why there is none; by both decoders."""
    text = json.dumps({"type": "record", "name": "t", "fields": [{"name": "v", "type": ["null", kind]}]})
    record = parse_record_schema(text)
    schema = pa.schema([pa.field("v", arrow_type(record.fields[0].type))])
    answers = []
    for decoder in (JsonRows, JsonColumns):
        result = decoder(record.fields, schema, ["v"]).values([b'{"v":' + value + b"}"])
        answers.append((result.rows.column(0).to_pylist()[0], result.reasons.get(0)))
    assert repr(answers[0]) == repr(answers[1])
    return answers[0]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("boolean", b"true", True),
        ("int", b"2147483647", 2147483647),
        ("int", b'"-12"', -12),
        ("int", b"1e3", 1000),
        ("long", b"9223372036854775807", 2**63 - 1),
        ("long", b"-9223372036854775808", -(2**63)),
        ("long", b"1.0", 1),
        ("double", b"0.1", 0.1),
        ("double", b"0.30000000000000004", 0.30000000000000004),
        ("double", b"5e-324", 5e-324),
        ("double", b"17", 17.0),
        ("double", b'" 1.5e3 "', 1500.0),
        ("double", b'"-Infinity"', -math.inf),
        ("float", b"16777217", 16777216.0),
        ("float", b"0.1", 0.10000000149011612),
        ("string", b'"a\\u00e9\\ud83d\\ude00"', "aé😀"),
        ("string", b"12", "12"),
        ("string", b"1.50", "1.50"),
        ("string", b"-0", "0"),
        ("string", b"1e5", "1E+5"),
        ("string", b"true", "true"),
        ("string", b'{"b": [1, null, "\\u000b\\""], "a": 1.0}', '{"b":[1,null,"\\u000B\\""],"a":1.0}'),
        ("bytes", b'"\xc3\xa9"', "é".encode()),
        (MICROS, b"1700000000000001", at(2023, 11, 14, 22, 13, 20, 1)),
        (MICROS, b'"1700000000000001"', at(2023, 11, 14, 22, 13, 20, 1)),
        (MICROS, b'"2024-07-13T11:36:01.951Z"', at(2024, 7, 13, 11, 36, 1, 951000)),
        (MICROS, b'"2024-07-13 11:36:01.951+01:00"', at(2024, 7, 13, 10, 36, 1, 951000)),
        (MICROS, b'"2024-07-13T11:36"', at(2024, 7, 13, 11, 36)),
        (MICROS, b'"2024-07-13T11:36:01.123456789Z"', at(2024, 7, 13, 11, 36, 1, 123456)),
        (MICROS, b'"1969-12-31T23:59:59.9999999Z"', at(1970, 1, 1)),
        (MILLIS, b"1700000000001", at(2023, 11, 14, 22, 13, 20, 1000)),
        (MILLIS, b'"2024-07-13T11:36:01.9519Z"', at(2024, 7, 13, 11, 36, 1, 951000)),
        (LOCAL, b'"2024-07-13T11:36:01.5"', at(2024, 7, 13, 11, 36, 1, 500000, zone=None)),
        (DATE, b"19000", datetime.date(2022, 1, 8)),
        (DATE, b'"2024-02-29"', datetime.date(2024, 2, 29)),
        (DATE, b'"-1"', datetime.date(1969, 12, 31)),
        (TIME_MILLIS, b"1", datetime.time(0, 0, 0, 1000)),
        (TIME_MILLIS, b'"11:36:01.9519"', datetime.time(11, 36, 1, 951000)),
        (TIME_MICROS, b'"11:36"', datetime.time(11, 36)),
        (DECIMAL, b"12.5", D("12.50")),
        (DECIMAL, b"12", D("12.00")),
        (DECIMAL, b'"-12.34"', D("-12.34")),
        (DECIMAL, b'"JxA="', D("100.00")),
        (FIXED_DECIMAL, b"[0, 39, 16]", D("100.00")),
        (FIXED, b"[-64, 255]", b"\xc0\xff"),
        (ENUM, b'"B"', "B"),
        (LIST, b'[1, null, "3"]', [1, None, 3]),
        (MAP, b'{"a": 1.5, "b": null}', [("a", D("1.50")), ("b", None)]),
        (STRUCT, b'{"x": "2024-01-01", "y": 5}', {"x": datetime.date(2024, 1, 1)}),
        (STRUCT, b"{}", {"x": None}),
    ],
)
def test_values(kind: object, value: bytes, expected: object) -> None:
    result, reason = column(kind, value)
    assert reason is None
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("boolean", b'"true"', "the text 'true', expected true or false"),
        ("boolean", b"1", "the number 1, expected true or false"),
        ("int", b"2147483648", "the number 2147483648, expected an int"),
        ("int", b"1.5", "the number 1.5, expected an int"),
        ("int", b"true", "true, expected an int"),
        ("int", b'" 1"', "the text ' 1', expected an int"),
        ("int", b'"1.0"', "the text '1.0', expected an int"),
        ("long", b"9223372036854775808", "expected a long"),
        ("long", b"1e400", "the number 1e400, expected a long"),
        ("long", b"{}", "an object, expected a long"),
        ("double", b"1e309", "the number 1e309, beyond a double"),
        ("double", b'"1d"', "the text '1d', expected a number"),
        ("float", b"3.5e38", "the number 3.5e38, beyond a float"),
        ("string", b'"\\ud83d"', "half of a surrogate pair"),
        ("bytes", b"[1]", "a list, expected a text"),
        (MICROS, b"1700000000000000.5", "expected a long"),
        (MICROS, b'"2024-02-30T00:00:00Z"', "there is no such day"),
        (MICROS, b'"2024-07-13"', "expected a timestamp like"),
        (MICROS, b'"2024-07-13T11:36:60Z"', "there is no such time of day"),
        (MICROS, b'"+999999-01-01T00:00:00Z"', "beyond what a timestamp-micros can be"),
        (MICROS, b"true", "true, expected a long"),
        (MILLIS, b"9223372036854776", "beyond what a timestamp-millis can be"),
        (LOCAL, b'"2024-07-13T11:36:01Z"', "expected a timestamp like 2024-07-13T11:36:01.951 or"),
        (DATE, b"2147483648", "expected an int"),
        (DATE, b'"2024-07-13T00:00"', "expected a date like"),
        (TIME_MILLIS, b"86400000", "outside of the day"),
        (TIME_MICROS, b'"24:00"', "there is no such time of day"),
        (DECIMAL, b"12.345", "expected a decimal of 6 digits, 2 after the point"),
        (DECIMAL, b"12345", "expected a decimal of 6 digits, 2 after the point"),
        ({**DECIMAL, "precision": 12}, b'"1234"', "which is a decimal both in digits and in Base64"),
        (DECIMAL, b'"x.y"', "expected a decimal"),
        (DECIMAL, b"[1]", "a list, expected a decimal"),
        (FIXED_DECIMAL, b"[39, 16]", "expected a list of 3 numbers"),
        (FIXED, b"[1, 256]", "a list with a value that is not a byte"),
        (FIXED, b'"ab"', "expected a list of 2 numbers"),
        (ENUM, b'"C"', "which is not a symbol of the column's enum"),
        (LIST, b"1", "the number 1, expected a list"),
        (LIST, b"[1, 1.5]", "an item: the number 1.5, expected an int"),
        (FULL_LIST, b"[1, null]", "an item null"),
        (MAP, b'{"a": "z"}', "a value: the text 'z', expected a decimal"),
        (STRUCT, b'{"x": "soon"}', "x: the text 'soon', expected a date"),
        (VECTOR, b"[1, 2]", "a list for a vector"),
    ],
)
def test_refusals(kind: object, value: bytes, problem: str) -> None:
    result, reason = column(kind, value)
    assert result is None
    assert reason is not None
    assert reason.startswith("column v: ")
    assert problem in reason


def test_decimal_in_digits_that_base64_would_make_too_large_is_the_number() -> None:
    assert column(DECIMAL, b'"1234.56"') == (D("1234.56"), None)
    assert column(DECIMAL, b'"1234"') == (D("1234.00"), None)
    assert column({**DECIMAL, "precision": 4}, b'"1234"')[1] is not None
    narrow = {**DECIMAL, "precision": 5, "scale": 0}
    assert column(narrow, b'"99999"') == (D("99999"), None)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"", "value is not JSON"),
        (b"{", "value is not JSON"),
        (b"null", "value is null as JSON"),
        (b"[]", "value is a list, expected an object"),
        (b'{"v":1}{"v":2}', "value is not JSON: Extra data"),
        (b'{"v":1}\n\x00', "value is not JSON: Extra data"),
        (b'{"v":01}', "value is not JSON"),
        (b'{"v":NaN}', "value is not JSON: NaN is not a JSON number"),
        (b'{"v":"\xff"}', "value is not UTF-8 at byte 6"),
        (b'{"v":"\t"}', "value is not JSON"),
        (b'{"v":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "value nests too deeply"),
        (b'{"v":' + b"1" * 5000 + b"}", "value is not JSON"),
    ],
    ids=range(12),
)
def test_documents_that_are_none(value: bytes, problem: str) -> None:
    record = parse_record_schema('{"type": "record", "name": "t", "fields": [{"name": "v", "type": ["null", "long"]}]}')
    schema = pa.schema([pa.field("v", pa.int64())])
    for decoder in (JsonRows, JsonColumns):
        result = decoder(record.fields, schema, ["v"]).values([value, b'{"v":7}'])
        assert result.rows.to_pydict() == {"v": [None, 7]}
        assert list(result.reasons) == [0]
        assert problem in result.reasons[0]
