"""Delete blocks: fastavro's lists by both decoders, ordering values by class, hostile bytes."""

from __future__ import annotations

import io
import random
import struct
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, PenstockError, SchemaMismatch
from penstock.reader.kernels import deletes as kernel
from penstock.table.log import delete_list
from penstock.table.log.blocks import BlockPlace
from penstock.table.log.deletes import DeleteRecords, decode_deletes

PLACE = BlockPlace("trips", "p/.f_1.log.1_0-0-0", 77, "20260101000000000")
DECODERS = [delete_list.decode_delete_list, kernel.decode_delete_list]


def wrapper(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": kind}]}


_WRAPPERS = [
    wrapper("BooleanWrapper", "boolean"),
    wrapper("IntWrapper", "int"),
    wrapper("LongWrapper", "long"),
    wrapper("FloatWrapper", "float"),
    wrapper("DoubleWrapper", "double"),
    wrapper("BytesWrapper", "bytes"),
    wrapper("StringWrapper", "string"),
    wrapper("DateWrapper", {"type": "int", "logicalType": "date"}),
    wrapper("DecimalWrapper", "bytes"),
    wrapper("TimeMicrosWrapper", "long"),
    wrapper("TimestampMicrosWrapper", "long"),
]
_ITEMS: Any = ["null", *(str(record["name"]) for record in _WRAPPERS), wrapper("LocalDateWrapper", "int")]
_VALUES_FIELD = {"name": "value", "type": ["null", {"type": "array", "items": _ITEMS}]}
_WRAPPERS.append({"type": "record", "name": "ArrayWrapper", "fields": [_VALUES_FIELD]})
NAMES = [record["name"] for record in _WRAPPERS]
SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "fields": [
            {
                "name": "deleteRecordList",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieDeleteRecord",
                        "fields": [
                            {"name": "recordKey", "type": ["null", "string"]},
                            {"name": "partitionPath", "type": ["null", "string"]},
                            {"name": "orderingVal", "type": ["null", *_WRAPPERS]},
                        ],
                    },
                },
            }
        ],
    }
)


def content(deletes: list[tuple[str | None, str | None, str, Any]], version: int = 3) -> bytes:
    """A block's content for (key, partition, wrapper or '', value)."""
    out = io.BytesIO()
    rows = [
        {"recordKey": key, "partitionPath": partition, "orderingVal": (name, {"value": value}) if name else None}
        for key, partition, name, value in deletes
    ]
    fastavro.schemaless_writer(out, SCHEMA, {"deleteRecordList": rows})
    return framed(out.getvalue(), version)


def framed(payload: bytes, version: int = 3) -> bytes:
    return struct.pack(">ii", version, len(payload)) + payload


_INT = st.integers(-(2**31), 2**31 - 1)
_LONG = st.integers(-(2**63), 2**63 - 1)
_VALUES = st.one_of(
    st.just(("", None)),
    st.tuples(st.just("BooleanWrapper"), st.booleans()),
    st.tuples(st.sampled_from(["IntWrapper", "DateWrapper"]), _INT),
    st.tuples(st.sampled_from(["LongWrapper", "TimeMicrosWrapper", "TimestampMicrosWrapper"]), _LONG),
    st.tuples(st.just("FloatWrapper"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("DoubleWrapper"), st.floats(allow_nan=False)),
    st.tuples(st.sampled_from(["BytesWrapper", "DecimalWrapper"]), st.binary(max_size=20)),
    st.tuples(st.just("StringWrapper"), st.text(max_size=20)),
)


def plain(records: DeleteRecords) -> list[tuple[str, str, Any]]:
    """(key, wrapper, value) of each record, by the arrays."""
    rows = []
    for key, kind, number, text in zip(
        records.keys.to_pylist(),
        records.kinds.tolist(),
        records.numbers.tolist(),
        records.texts.to_pylist(),
        strict=True,
    ):
        name = NAMES[kind - 1] if kind else ""
        value: Any = number
        if not name:
            value = None
        elif name == "BooleanWrapper":
            value = bool(number)
        elif name == "FloatWrapper":
            value = struct.unpack("<f", struct.pack("<i", number))[0]
        elif name == "DoubleWrapper":
            value = struct.unpack("<d", struct.pack("<q", number))[0]
        elif name in ("BytesWrapper", "DecimalWrapper"):
            value = text
        elif name == "StringWrapper":
            value = text.decode()
        rows.append((key, name, value))
    return rows


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=30), st.none() | st.text(max_size=10), _VALUES), max_size=12))
def test_both_decoders_return_what_fastavro_wrote(deletes: list[tuple[str, str | None, tuple[str, Any]]]) -> None:
    data = content([(key, partition, *value) for key, partition, value in deletes])
    for decoder in DECODERS:
        assert plain(decode_deletes(data, PLACE, decoder)) == [(key, *value) for key, _, value in deletes]


@pytest.mark.parametrize("decoder", DECODERS)
def test_blocks_of_a_list_with_their_size_in_bytes(decoder: Any) -> None:
    record = b"\2\2k" + b"\0" + b"\6\x54"  # key "k", no partition, LongWrapper 42
    data = framed(b"\3" + b"\x18" + record * 2 + b"\2" + record + b"\0")  # two (12 bytes), then one, then the end
    assert plain(decode_deletes(data, PLACE, decoder)) == [("k", "LongWrapper", 42)] * 3


@pytest.mark.parametrize("decoder", DECODERS)
def test_empty_list(decoder: Any) -> None:
    records = decode_deletes(pa.py_buffer(content([])), PLACE, decoder)
    assert len(records) == 0
    values, default = records.ordering_as(pa.int64())
    assert (len(values), len(default)) == (0, 0)


@pytest.mark.parametrize("decoder", DECODERS)
def test_null_key_names_the_record(decoder: Any) -> None:
    with pytest.raises(CorruptBlock, match=r"trips.*log\.1.*byte 77.*20260101000000000.*record 1 has no key"):
        decode_deletes(content([("a", "p", "", None), (None, "p", "", None)]), PLACE, decoder)


@pytest.mark.parametrize("decoder", DECODERS)
def test_several_ordering_fields(decoder: Any) -> None:
    both = [("LongWrapper", {"value": 7}), ("StringWrapper", {"value": "s"})]
    rows = [
        ("plain", None, "IntWrapper", 0),
        ("both", None, "ArrayWrapper", both),
        ("none", None, "ArrayWrapper", None),
        ("null", None, "ArrayWrapper", [("LongWrapper", {"value": -1}), None]),
        ("short", None, "ArrayWrapper", both[:1]),
        ("other", None, "ArrayWrapper", both[::-1]),
        ("text", None, "StringWrapper", "between"),
        ("again", None, "ArrayWrapper", [both[0], ("StringWrapper", {"value": "tt"})]),
    ]
    deletes = decode_deletes(content(rows), PLACE, decoder)
    assert deletes.numbers[deletes.kinds == delete_list.ARRAY].tolist() == [2, 0, 2, 1, 2, 2]
    (first, second), default = deletes.ordering_tuples([pa.int64(), pa.string()])
    assert default.tolist() == [True, False, True, False, True, True, True, False]
    assert [first.to_pylist()[row] for row in (1, 3, 7)] == [7, -1, 7]
    assert [second.to_pylist()[row] for row in (1, 3, 7)] == ["s", None, "tt"]


@pytest.mark.parametrize("decoder", DECODERS)
def test_date_among_several_ordering_fields(decoder: Any) -> None:
    days = [("LocalDateWrapper", {"value": 3}), ("DateWrapper", {"value": 4}), ("IntWrapper", {"value": 0})]
    deletes = decode_deletes(content([("a", None, "ArrayWrapper", days)]), PLACE, decoder)
    columns, default = deletes.ordering_tuples([pa.date32(), pa.date32(), pa.int32()])
    assert [column.cast(pa.int32()).to_pylist() for column in columns] == [[3], [4], [0]] and not default.any()
    assert decode_deletes(content([("a", None, "", None)]), PLACE, decoder).ordering_tuples([pa.int32()] * 2)[1].all()


@pytest.mark.parametrize("version", [1, 2])
def test_empty_kryo_blocks(version: int) -> None:
    for empty in (b"", b"\1\0[Lorg.apache.hudi.common.model.DeleteRecord\xbb\1\1"):
        assert len(decode_deletes(framed(empty, version), PLACE)) == 0


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\0\0\0\3",
        struct.pack(">ii", 3, 5) + b"\0",
        struct.pack(">ii", 3, 0),
        content([]) + b"\0",
        framed(b"\0\0"),
    ],
)
def test_frame_that_does_not_fit_is_corrupt(bad: bytes) -> None:
    for decoder in DECODERS:
        with pytest.raises(CorruptBlock):
            decode_deletes(bad, PLACE, decoder)


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(CorruptBlock, match="version 4"):
        decode_deletes(framed(b"\0", 4), PLACE)


def test_key_that_is_no_text_is_corrupt() -> None:
    data = content([("abc", None, "", None)]).replace(b"abc", b"\xff\xfe\xfd")
    for decoder in DECODERS:
        with pytest.raises(CorruptBlock, match="UTF8"):
            decode_deletes(data, PLACE, decoder)


def ordering(deletes: list[tuple[str, Any]], column: pa.DataType) -> tuple[list[Any], list[bool]]:
    records = decode_deletes(content([(f"k{i}", "", *value) for i, value in enumerate(deletes)]), PLACE)
    values, default = records.ordering_as(column)
    values.validate(full=True)
    assert values.type == column
    raw = (
        values
        if not pa.types.is_temporal(column)
        else values.view(pa.int32() if column.bit_width == 32 else pa.int64())
    )
    return raw.to_pylist(), default.tolist()


@pytest.mark.parametrize(
    ("name", "stored", "column", "read"),
    [
        ("BooleanWrapper", True, pa.bool_(), True),
        ("IntWrapper", -5, pa.int32(), -5),
        ("LongWrapper", 0, pa.int64(), 0),
        ("LongWrapper", 2**62, pa.int64(), 2**62),
        ("FloatWrapper", 0.5, pa.float32(), 0.5),
        ("DoubleWrapper", -0.1, pa.float64(), -0.1),
        ("BytesWrapper", b"\xff", pa.binary(), b"\xff"),
        ("StringWrapper", "zoë", pa.string(), "zoë"),
        ("DateWrapper", 20_000, pa.date32(), 20_000),
        ("TimeMicrosWrapper", 86_399_999_999, pa.time64("us"), 86_399_999_999),
        ("TimestampMicrosWrapper", 1_700_000_000_000_001, pa.timestamp("us", "UTC"), 1_700_000_000_000_001),
        ("TimestampMicrosWrapper", -1, pa.timestamp("us"), -1),
    ],
)
def test_values_of_the_columns_class_and_all_others_are_default(
    name: str, stored: Any, column: pa.DataType, read: Any
) -> None:
    stranger = ("StringWrapper", "x") if name != "StringWrapper" else ("BytesWrapper", b"\xff")
    values, default = ordering([(name, stored), ("", None), ("IntWrapper", 0), stranger], column)
    assert values == [read, None, None, None]
    assert default == [False, True, True, True]


def test_decimals_come_back_at_the_columns_scale() -> None:
    def scaled(text: str) -> tuple[str, bytes]:
        number = int(Decimal(text).scaleb(15))
        return "DecimalWrapper", number.to_bytes(16, "big", signed=True)

    values, default = ordering([scaled("12.50"), scaled("-0.01"), ("IntWrapper", 0), scaled("0")], pa.decimal128(10, 2))
    assert values == [Decimal("12.50"), Decimal("-0.01"), None, Decimal("0.00")]
    assert default == [False, False, True, False]
    wider, _ = ordering([scaled("12.5")], pa.decimal128(30, 18))
    assert wider == [Decimal("12.5")]
    for inexact, column in ((scaled("0.001"), pa.decimal128(10, 2)), (scaled("1000"), pa.decimal128(4, 2))):
        with pytest.raises(CorruptBlock, match="not exact"):
            ordering([inexact], column)
    for impossible in (b"", b"\1" + bytes(16)):
        with pytest.raises(CorruptBlock, match="decimal"):
            ordering([("DecimalWrapper", impossible)], pa.decimal128(10, 2))


def test_column_types_without_a_wrapper_are_refused() -> None:
    for column in (pa.list_(pa.int32()), pa.timestamp("ms"), pa.int8()):
        with pytest.raises(SchemaMismatch, match="ordered by a column of type"):
            ordering([("IntWrapper", 1)], column)


def test_string_ordering_value_that_is_no_text_is_corrupt() -> None:
    data = content([("a", None, "StringWrapper", "qqq")]).replace(b"qqq", b"\xffqq")
    with pytest.raises(CorruptBlock, match="UTF8"):
        decode_deletes(data, PLACE).ordering_as(pa.string())


def test_compiled_decoder_has_the_same_constants() -> None:
    for name in ("NULL", "BOOLEAN", "INT", "FLOAT", "DOUBLE", "BYTES", "STRING", "DATE", "DECIMAL", "TIMESTAMP_MICROS"):
        assert getattr(kernel, name) == getattr(delete_list, name)
    for name in ("ARRAY", "FINE", "DAMAGED", "NULL_KEY"):
        assert getattr(kernel, name) == getattr(delete_list, name)


def test_both_decoders_agree_on_damaged_bytes() -> None:
    chance = random.Random(11)
    good = content(
        [
            ("kéy", "p", "LongWrapper", 2**40),
            ("k", None, "StringWrapper", "v" * 70),
            ("", "q", "DecimalWrapper", b"\1\2"),
            ("d", "", "DoubleWrapper", 1.5),
            ("i", "", "IntWrapper", 0),
            ("b", "", "BooleanWrapper", True),
            ("n", "", "", None),
            ("m", "", "ArrayWrapper", [("LongWrapper", {"value": 300}), ("StringWrapper", {"value": "xyz"}), None]),
        ]
    )[8:]
    outcomes = set()
    for _ in range(3000):
        raw = bytearray(good[: chance.randint(len(good) // 2, len(good))] if chance.random() < 0.3 else good)
        for _ in range(chance.randint(1, 3)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        answers = [outcome(framed(bytes(raw)), decoder) for decoder in DECODERS]
        assert answers[0] == answers[1]
        outcomes.add(type(answers[0]))
    assert outcomes == {str, list}


def one_record_more(rows: int, rest: bytes) -> bytes:
    """A block that announces one record more than it holds: `rows` records of four bytes, then `rest`."""
    count = io.BytesIO()
    fastavro.schemaless_writer(count, "long", rows + 1)
    return framed(count.getvalue() + b"\2\0\0\0" * rows + rest)


@pytest.mark.parametrize("rows", [0, 1, 2, 62, 63, 64, 257, 8191, 8192])
@pytest.mark.parametrize(
    "rest", [b"", b"\2", b"\2\0", b"\2\0\0", b"\0", b"\2\0\2", b"\2\0\0\x18"], ids=lambda rest: rest.hex()
)
def test_record_for_which_the_arrays_have_no_room_is_damage(rows: int, rest: bytes) -> None:
    for decoder in DECODERS:
        with pytest.raises(CorruptBlock, match=f"delete record {rows} (does not fit its schema|has no key)"):
            decode_deletes(one_record_more(rows, rest), PLACE, decoder)
    answers = [outcome(one_record_more(rows, rest), decoder) for decoder in DECODERS]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("rows", [0, 1, 63, 257])
def test_smallest_records_fill_the_arrays_to_the_last_row(rows: int) -> None:
    for decoder in DECODERS:
        records = decode_deletes(one_record_more(rows, b"\2\0\0\0" + b"\0"), PLACE, decoder)
        assert records.keys.to_pylist() == [""] * (rows + 1)
        assert records.kinds.tolist() == [delete_list.NULL] * (rows + 1)


def outcome(data: bytes, decoder: Any) -> str | list[Any]:
    """The records, bits and all; or the error."""
    try:
        records = decode_deletes(data, PLACE, decoder)
    except PenstockError as error:
        return str(error)
    arrays = records.kinds, records.numbers
    items = records.items
    result = [] if items is None else [items.kinds.tolist(), items.numbers.tolist(), items.texts.to_pylist()]
    texts = records.texts.to_pylist()
    return [records.keys.to_pylist(), *(np.asarray(array).tolist() for array in arrays), texts, *result]
