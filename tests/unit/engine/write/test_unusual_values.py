"""Values that files or paths of a table cannot hold are one clear error, and nothing is written. Run-end encoded
columns are decoded."""

from __future__ import annotations

import decimal
import pathlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.proto.errors import SchemaMismatch

FINE: Any = pa.decimal128(30, 18)
IS_DELETED = "_hoodie_is_deleted"


def files(path: str) -> list[str]:
    return sorted(str(file) for file in pathlib.Path(path).rglob("*") if file.is_file())


def is_refused(path: str, data: Any, operation: str = "upsert", *, match: str) -> None:
    before = files(path)
    with pytest.raises(SchemaMismatch, match=match):
        write(path, data, operation)
    assert files(path) == before


def raw_text(*values: bytes) -> pa.Array:
    """Text whose bytes Arrow has not checked."""
    return pa.array(values, pa.binary()).view(pa.string())


def priced(key: str, price: str, *, deleted: bool) -> pa.Table:
    return pa.table({"id": [key], "price": pa.array([decimal.Decimal(price)], FINE), IS_DELETED: [deleted]})


def test_delete_with_an_ordering_value_that_no_delete_block_holds_is_refused(tmp_path: pathlib.Path) -> None:
    """Hudi's delete blocks hold decimals of scale 15."""
    path = str(tmp_path / "t")
    rows = priced("a", "1.5", deleted=False)
    create_table(path, rows.schema, record_key="id", ordering="price", table_type="merge_on_read", buckets=1)
    write(path, rows)
    is_refused(
        path,
        priced("a", "2.0000000000000001", deleted=True),
        match="ordering value of a delete.*scale 15.*nothing was written",
    )
    write(path, priced("a", "2.0000000000000001", deleted=False))
    write(path, priced("a", "2.000000000000001", deleted=True))
    assert penstock.read(path).read_all().num_rows == 0
    write(path, priced("a", "2.000000000000000999", deleted=False))
    assert penstock.read(path).read_all().num_rows == 0


@pytest.mark.parametrize("days", [-800_000, 3_000_000])
def test_date_of_a_year_that_no_partition_path_has_is_refused(tmp_path: pathlib.Path, days: int) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"id": ["a"], "day": pa.array([0], pa.date32())})
    create_table(path, rows.schema, record_key="id", partition_by="day", table_type="merge_on_read", buckets=1)
    data = pa.table({"id": ["a"], "day": pa.array([days], pa.int32()).cast(pa.date32())})
    is_refused(path, data, match="day.*years 1 to 9999")
    is_refused(path, data, "delete_partition", match="day.*years 1 to 9999")


@pytest.mark.parametrize("column", ["id", "part", "note"])
@pytest.mark.parametrize("operation", ["upsert", "insert"])
def test_text_that_is_no_utf8_is_refused(tmp_path: pathlib.Path, column: str, operation: str) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"id": ["a", "b"], "part": ["x", "y"], "note": ["", "n"]})
    create_table(path, rows.schema, record_key="id", partition_by="part", table_type="merge_on_read", buckets=1)
    place = rows.schema.get_field_index(column)
    data = rows.set_column(place, column, raw_text(b"fine", b"\xff\xfe"))
    is_refused(path, data, operation, match=f"{column}.*UTF-8")
    reader = pa.RecordBatchReader.from_batches(data.schema, data.to_batches())
    is_refused(path, reader, operation, match=f"{column}.*UTF-8")


def run_end_encoded(values: Any) -> pa.Array:
    return pc.run_end_encode(pa.array(values))


@pytest.mark.parametrize("form", ["table", "batch", "reader"])
def test_run_end_encoded_columns_are_written_as_their_values(tmp_path: pathlib.Path, form: str) -> None:
    path = str(tmp_path / "t")
    plain = pa.table({"id": ["a", "a2", "a3"], "part": ["x", "x", "y"], "n": [7, 7, None]})
    create_table(path, plain.schema, record_key="id", partition_by="part", table_type="merge_on_read", buckets=1)
    encoded = {name: run_end_encoded(plain.column(name).to_pylist()) for name in plain.schema.names}
    table = pa.table(encoded)
    data: Any = {
        "table": table,
        "batch": table.to_batches()[0],
        "reader": pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
    }[form]
    write(path, data)
    read = penstock.read(path, columns=["id", "part", "n"]).read_all()
    assert sorted(read.to_pylist(), key=str) == sorted(plain.to_pylist(), key=str)


def test_nested_run_end_encoded_column_is_refused(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"id": ["a"], "s": pa.array([{"n": 1}])})
    create_table(path, rows.schema, record_key="id", table_type="merge_on_read", buckets=1)
    nested = pa.StructArray.from_arrays([run_end_encoded([1])], ["n"])
    is_refused(path, pa.table({"id": ["a"], "s": nested}), match="run.end")
