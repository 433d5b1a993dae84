"""Plain numbers of deletes in time columns, which have the unit of the column's type."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import CorruptBlock, SchemaMismatch
from penstock.reader.merge.ordering_columns import OrderingColumns, check_same_types, in_microseconds
from penstock.table.log.delete_list import ARRAY, INT, LONG, NULL, TIME_MICROS
from penstock.table.log.deletes import DeleteRecords, OrderingItems
from penstock.table.schema.avro import AvroField, Primitive, parse_record_schema

PLACE: Any = "block 3"
LARGEST = (1 << 63) // 1000


def field(kind: str, logical: str = "") -> AvroField:
    return AvroField("ts", Primitive(kind, logical))


def deletes_of(values: list[tuple[int, int]], items: OrderingItems | None = None) -> DeleteRecords:
    """Deletes by (kind, number)."""
    kinds, numbers = zip(*values, strict=True)
    texts = pa.nulls(len(values), pa.binary())
    keys = pa.array([f"k{place}" for place in range(len(values))])
    return DeleteRecords(
        place=PLACE,
        keys=keys,
        kinds=np.array(kinds, np.int8),
        numbers=np.array(numbers, np.int64),
        texts=texts,
        items=items,
    )


def items_of(values: list[tuple[int, int]]) -> OrderingItems:
    kinds, numbers = zip(*values, strict=True)
    return OrderingItems(
        kinds=np.array(kinds, np.int8),
        numbers=np.array(numbers, np.int64),
        texts=pa.nulls(len(values), pa.binary()),
    )


def values_of(deletes: DeleteRecords | OrderingItems) -> list[tuple[int, int]]:
    return list(zip(deletes.kinds.tolist(), deletes.numbers.tolist(), strict=True))


@pytest.mark.parametrize(
    ("column", "written", "expected"),
    [
        (field("long", "timestamp-millis"), (LONG, 5), (LONG, 5_000)),
        (field("long", "local-timestamp-millis"), (LONG, -5), (LONG, -5_000)),
        (field("int", "time-millis"), (INT, 5), (TIME_MICROS, 5_000)),
        (field("long", "time-micros"), (LONG, 5), (TIME_MICROS, 5)),
        (field("long", "timestamp-micros"), (LONG, 5), (LONG, 5)),
        (field("long"), (LONG, 5), (LONG, 5)),
    ],
)
def test_plain_number_is_converted_by_the_type_of_its_column(
    column: AvroField, written: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert values_of(in_microseconds(deletes_of([written, (NULL, 0), written]), [column])) == [
        expected,
        (NULL, 0),
        expected,
    ]


def test_number_of_another_kind_and_hudis_zero_stay() -> None:
    times = deletes_of([(INT, 0), (INT, 7), (LONG, 7), (TIME_MICROS, 7)])
    assert values_of(in_microseconds(times, [field("int", "time-millis")])) == [
        (INT, 0),
        (TIME_MICROS, 7_000),
        (LONG, 7),
        (TIME_MICROS, 7),
    ]
    zero = deletes_of([(LONG, 0)])
    assert values_of(in_microseconds(zero, [field("long", "time-micros")])) == [(TIME_MICROS, 0)]


def test_values_of_several_columns_are_converted_by_their_places() -> None:
    columns = [field("long"), field("long", "timestamp-millis"), field("int", "time-millis")]
    items = items_of([(LONG, 1), (LONG, 2), (INT, 3), (LONG, 4), (LONG, 5), (LONG, 6), (LONG, 7), (INT, 8)])
    deletes = deletes_of([(ARRAY, 3), (NULL, 0), (ARRAY, 2), (ARRAY, 3)], items)
    converted = in_microseconds(deletes, columns)
    assert converted.items is not None and values_of(converted) == values_of(deletes)
    assert values_of(converted.items) == [
        (LONG, 1),
        (LONG, 2_000),
        (TIME_MICROS, 3_000),
        (LONG, 4),  # two values for three columns: no order
        (LONG, 5),
        (LONG, 6),
        (LONG, 7_000),
        (TIME_MICROS, 8_000),
    ]


def test_deletes_without_several_values_stay_the_same() -> None:
    deletes = deletes_of([(LONG, 1), (NULL, 0)])
    assert in_microseconds(deletes, [field("long"), field("long", "timestamp-millis")]) is deletes
    assert in_microseconds(deletes, [field("long")]) is deletes


@pytest.mark.parametrize("sign", [1, -1])
def test_number_beyond_any_timestamp_is_corrupt(sign: int) -> None:
    column = field("long", "timestamp-millis")
    last = sign * (LARGEST - 1)
    assert values_of(in_microseconds(deletes_of([(LONG, last)]), [column])) == [(LONG, last * 1000)]
    with pytest.raises(CorruptBlock, match="block 3: a delete's ordering value is beyond any timestamp"):
        in_microseconds(deletes_of([(LONG, 1), (LONG, sign * LARGEST)]), [column])
    beyond = deletes_of([(LONG, sign * LARGEST)])
    assert in_microseconds(beyond, [field("long")]) is beyond


def columns_of(*types: pa.DataType, deletes_win: bool = False) -> OrderingColumns:
    names = tuple(f"c{place}" for place in range(len(types)))
    return OrderingColumns(names=names, types=types, dotted=False, deletes_win=deletes_win, place="table t")


@pytest.mark.parametrize(
    ("parts", "deletes_win", "expected"),
    [
        ([pa.array([None, 0, 1], pa.int32())], False, [True, True, False]),
        ([pa.array([None, 0, 1], pa.int64())], False, [True, False, False]),
        ([pa.array([None, "", "a"], pa.string())], False, [True, False, False]),
        ([pa.array([None, 0], pa.int32()), pa.array([None, 0], pa.int32())], False, [False, False]),
        ([pa.array([5, None], pa.int32())], True, [True, True]),
        ([], False, []),
    ],
    ids=["int", "long", "text", "two columns", "deletes win", "none"],
)
def test_marked_records_without_value_are_default_deletes(
    parts: list[pa.Array], deletes_win: bool, expected: list[bool]
) -> None:
    columns = columns_of(*(part.type for part in parts), deletes_win=deletes_win)
    assert columns.without_value(parts).tolist() == expected


@pytest.mark.parametrize(("written", "fits"), [("long", True), ("int", False), ("string", False), (None, True)])
def test_deletes_of_former_type_of_column_are_refused(written: str | None, fits: bool) -> None:
    fields = [{"name": "other", "type": "int"}, *([{"name": "ts", "type": written}] if written else [])]
    writer = parse_record_schema(json.dumps({"type": "record", "name": "r", "fields": fields}))
    if fits:
        check_same_types(writer, ["ts"], [field("long")], "block 3")
        return
    with pytest.raises(SchemaMismatch, match=f"block 3: deletes with values of ordering column 'ts' as {written}"):
        check_same_types(writer, ["ts"], [field("long")], "block 3")


def test_values_are_those_of_fields_of_structs() -> None:
    inner = pa.struct([("seq", pa.int64())])
    kind = pa.struct([("a", inner), ("x", pa.int32())])
    structs = pa.array([{"a": {"seq": 5}, "x": 1}, None, {"a": None, "x": 2}, {"a": {"seq": None}, "x": None}], kind)
    batch = pa.RecordBatch.from_arrays([structs, pa.array([1, 2, 3, 4])], names=["s", "n"])
    columns = OrderingColumns(
        names=("s.a.seq", "n", "s.x"),
        types=(pa.int64(), pa.int64(), pa.int32()),
        dotted=False,
        deletes_win=False,
        place="table t",
    )
    assert columns.columns == ("s", "n") and columns.is_nested
    assert [part.to_pylist() for part in columns.parts(batch)] == [
        [5, None, None, None],
        [1, 2, 3, 4],
        [1, None, 2, None],
    ]


def test_deletes_of_former_type_of_a_nested_field_are_refused() -> None:
    inner = {"type": "record", "name": "i", "fields": [{"name": "seq", "type": "int"}]}
    writer = parse_record_schema(
        json.dumps({"type": "record", "name": "r", "fields": [{"name": "s", "type": ["null", inner], "default": None}]})
    )
    for name in ("s.other", "s.seq.x", "t.seq"):
        check_same_types(writer, [name], [field("long")], "block 3")
    with pytest.raises(SchemaMismatch, match=r"ordering column 's\.seq' as int"):
        check_same_types(writer, ["s.seq"], [field("long")], "block 3")
