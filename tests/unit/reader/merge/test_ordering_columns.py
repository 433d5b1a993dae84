"""Plain numbers of deletes in time columns, which have the unit of the column's type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import CorruptBlock
from penstock.reader.merge.ordering_columns import in_microseconds
from penstock.table.log.delete_list import ARRAY, INT, LONG, NULL, TIME_MICROS
from penstock.table.log.deletes import DeleteRecords, OrderingItems
from penstock.table.schema.avro import AvroField, Primitive

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
