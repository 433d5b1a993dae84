"""Fields of structs by their names in a table's properties."""

from __future__ import annotations

import pyarrow as pa

from penstock.reader.values.field_paths import column_of_fields, field_type, field_values

INNER = pa.struct([("seq", pa.int64()), ("note", pa.string())])
OUTER = pa.struct([("x", pa.int32()), ("in", INNER)])


def test_column_has_the_given_values_and_else_nulls() -> None:
    values = {"s.in.seq": pa.array([1, None, 3], pa.int32()), "s2.x": pa.array([9, 9, 9]), "id": pa.array(["a"] * 3)}
    column = column_of_fields("s", OUTER, values, 3)
    assert column.type == OUTER
    assert column.to_pylist() == [{"x": None, "in": {"seq": seq, "note": None}} for seq in (1, None, 3)]
    batch = pa.record_batch([column], ["s"])
    assert field_values(batch, "s.in.seq").to_pylist() == [1, None, 3]
    assert field_type(batch.schema, "s.in.seq") == pa.int64()
    assert column_of_fields("id", pa.large_string(), values, 3) == pa.array(["a"] * 3, pa.large_string())


def test_column_without_values_is_null() -> None:
    values = {"sin.x": pa.array([1, 2])}
    assert column_of_fields("s", OUTER, values, 2) == pa.nulls(2, OUTER)
    assert column_of_fields("sin", pa.int64(), values, 2) == pa.nulls(2, pa.int64()), "a column that is no struct"
