"""Payload classes that order records otherwise than a merge mode, against the comparisons of their Java sources."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import SchemaMismatch, UnsupportedFeature
from penstock.proto.model.splits import CustomMerge
from penstock.reader.merge.mergers import DELETED, find_functions, merger_of
from penstock.reader.merge.payload_orders import first_value_in_log, first_value_with_base, reverse_order

SCHEMA = pa.schema([("a", pa.int64()), ("d", pa.float64()), ("side", pa.string()), (DELETED, pa.bool_())])
FIELDS = {(): (), ("a",): (0,), ("d",): (1,), ("a", "d"): (0, 1)}
VALUES = list(itertools.product((1, 2, 3), (1.0, -0.0, 0.0, math.nan)))
FUNCTIONS = [reverse_order, first_value_in_log, first_value_with_base]
FIRST_VALUE = "org.apache.hudi.common.model.FirstValueAvroPayload"
REVERSE = "org.apache.hudi.common.model.ReverseOrderHoodieRecordPayload"


def batch(side: str, values: list[tuple[Any, Any]], deletes: list[bool]) -> pa.RecordBatch:
    rows = [{"a": a, "d": d, "side": side, DELETED: deleted} for (a, d), deleted in zip(values, deletes, strict=True)]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def as_java(value: float) -> tuple[int, float, int]:
    """Orders numbers as `Double.compareTo`: -0.0 is below 0.0, and NaN above all."""
    return (1, 0, 0) if math.isnan(value) else (0, value, 0 if math.copysign(1, value) < 0 else 1)


def of_java(function: Any, old: tuple[Any, ...], new: tuple[Any, ...], new_is_delete: bool) -> str:
    """The side that a class returns."""
    older, newer = (tuple(map(as_java, values)) for values in (old, new))
    if function is reverse_order:
        return "older" if newer > older else "newer"
    if new_is_delete:  # HoodieMergedLogRecordScanner.processNextDeletedRecord; a delete without a record to merge
        return "older" if function is first_value_in_log and older > newer else "newer"
    if function is first_value_with_base and not old:  # needUpdatingPersistedRecord without an ordering field
        return "newer"
    return "older" if older >= newer else "newer"


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_pair_is_ordered_as_by_its_class(function: Any, fields: tuple[str, ...]) -> None:
    pairs = list(itertools.product(VALUES, VALUES, (False, True)))
    random.Random(3).shuffle(pairs)
    older = batch("older", [old for old, _, _ in pairs], [False] * len(pairs))
    newer = batch("newer", [new for _, new, _ in pairs], [deleted for *_, deleted in pairs])
    expected = [
        of_java(function, *(tuple(values[place] for place in FIELDS[fields]) for values in (old, new)), deleted)
        for old, new, deleted in pairs
    ]
    assert function(older, newer, fields).column("side").to_pylist() == expected
    assert not fields or set(expected) == {"older", "newer"}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_newer_record_wins_against_a_null_and_no_rows_have_no_result(function: Any) -> None:
    older, newer = batch("older", [(None, 1.0)], [False]), batch("newer", [(1, 1.0)], [False])
    assert function(older, newer, ("a",)).column("side").to_pylist() == ["newer"]
    assert function(older.slice(0, 0), newer.slice(0, 0), ("a",)).num_rows == 0


@pytest.mark.parametrize("function", [reverse_order, first_value_with_base])
def test_field_of_a_struct_orders_as_a_column_does(function: Any) -> None:
    pairs = list(itertools.product(VALUES, VALUES, (False, True)))
    older = batch("older", [old for old, _, _ in pairs], [False] * len(pairs))
    newer = batch("newer", [new for _, new, _ in pairs], [deleted for *_, deleted in pairs])
    nested = [nested_batch(whole) for whole in (older, newer)]
    expected = function(older, newer, ("d", "a")).column("side").to_pylist()
    assert function(*nested, ("s.d", "s.in.a")).column("side").to_pylist() == expected
    assert function(*nested, ("s.in.a", "s.d")).column("side").to_pylist() != expected, "the order of fields counts"


def nested_batch(flat: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with the columns a and d as the fields s.in.a and s.d."""
    inner = pa.StructArray.from_arrays([flat.column("a")], ["a"])
    outer = pa.StructArray.from_arrays([inner, flat.column("d")], ["in", "d"])
    return pa.RecordBatch.from_arrays([outer, *flat.columns[2:]], names=["s", "side", DELETED])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(pa.int32(), ["older", "older", "older", "newer"]), (pa.int64(), ["older", "older", "newer", "newer"])],
)
def test_first_value_in_log_compares_no_field_of_a_struct(kind: pa.DataType, expected: list[str]) -> None:
    """Hudi 0.15.0 gives each record of a log the int 0, and compares a delete with it if the delete has an int too."""
    schema = pa.schema([("s", pa.struct([("seq", kind)])), ("side", pa.string()), (DELETED, pa.bool_())])
    records = [(9, False), (-9, False), (-1, True), (1, True)]
    older = pa.RecordBatch.from_pylist(
        [{"s": {"seq": 5}, "side": "older", DELETED: False} for _ in records], schema=schema
    )
    newer = pa.RecordBatch.from_pylist(
        [{"s": {"seq": value}, "side": "newer", DELETED: deleted} for value, deleted in records], schema=schema
    )
    assert first_value_in_log(older, newer, ("s.seq",)).column("side").to_pylist() == expected


def test_null_struct_has_no_value() -> None:
    kind = pa.struct([("seq", pa.int64())])
    older = pa.record_batch([pa.array([None, {"seq": None}, {"seq": 1}], kind), pa.array([False] * 3)], ["s", DELETED])
    newer = pa.record_batch([pa.array([{"seq": 5}] * 3, kind), pa.array([False] * 3)], ["s", DELETED])
    taken = reverse_order(older, newer, ("s.seq",)).column("s").to_pylist()
    assert taken == [{"seq": 5}, {"seq": 5}, {"seq": 1}]


@pytest.mark.parametrize("field", ["s.missing", "missing", "a.ts", "s.ts.more"])
def test_ordering_field_that_the_table_lacks_is_an_error(field: str) -> None:
    columns = pa.schema([("a", pa.int64()), ("s", pa.struct([("ts", pa.int64())]))])
    for present in ("a", "s.ts"):
        assert merger_of(CustomMerge(REVERSE, True, (present,)), 9, (), columns, "table t")
    with pytest.raises(SchemaMismatch, match=rf"ordering field {field}: table t has no such column, and no such field"):
        merger_of(CustomMerge(REVERSE, True, ("a", field)), 9, (), columns, "table t")
    users = ((REVERSE, "penstock.reader.merge.payload_orders:reverse_order"),)
    assert merger_of(CustomMerge(REVERSE, True, (field,)), 9, users, columns, "table t"), "the user's own function"


def test_first_value_is_that_of_hudi_0_15_which_writes_version_6() -> None:
    custom = CustomMerge(FIRST_VALUE, True, ("ts",))
    assert find_functions(custom, 6, (), "table t").with_base is first_value_with_base
    for version in (8, 9):
        with pytest.raises(UnsupportedFeature, match="no function is registered"):
            find_functions(custom, version, (), "table t")
