"""The codec, the encodings and the types of written Parquet files."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.writer.files.parquet_file import dictionary_columns, parquet_writer

ROWS = 2_000


def nested() -> pa.Table:
    return pa.table(
        {
            "flat": pa.array(range(ROWS)),
            "point": pa.array([{"x": n, "tags": ["a", "b"]} for n in range(ROWS)]),
            "counts": pa.array([[("a", n)] for n in range(ROWS)], pa.map_(pa.string(), pa.int64())),
        }
    )


def encodings(rows: pa.Table) -> dict[str, bool]:
    """Path of each column of the file -> whether it has a dictionary."""
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, rows) as writer:
        writer.write_table(rows)
    group = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    assert {column.compression for column in columns} == {"ZSTD"}
    return {column.path_in_schema: column.has_dictionary_page for column in columns}


def test_dictionary_where_values_repeat() -> None:
    rows = pa.table({"key": [f"key {n}" for n in range(ROWS)], "day": [n % 30 for n in range(ROWS)]})
    assert encodings(rows) == {"key": False, "day": True}


def test_dictionary_of_column_whose_values_occur_twice() -> None:
    rows = pa.table({"twice": [n // 2 for n in range(ROWS)], "once_more": [n // 2 for n in range(ROWS - 1)] + [-1]})
    assert list(dictionary_columns(rows)) == ["twice"]


def test_dictionary_of_nulls_and_of_nested_columns() -> None:
    rows = nested().append_column("nothing", pa.nulls(ROWS, pa.int64()))
    assert encodings(rows) == {
        "flat": False,
        "point.x": True,
        "point.tags.list.element": True,
        "counts.key_value.key": True,
        "counts.key_value.value": True,
        "nothing": True,
    }


def test_first_rows_determine_dictionary() -> None:
    rows = pa.table({"n": [*([7] * 20_000), *range(30_000)]})
    assert encodings(rows) == {"n": True}
    assert encodings(rows.slice(20_000)) == {"n": False}


def test_distinct_values_without_dictionary_are_smaller() -> None:
    rows = pa.table({"key": [f"{n:012d}" for n in range(30_000)]})
    sizes = []
    for dictionary in (["key"], list(dictionary_columns(rows))):
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd", compression_level=3, use_dictionary=dictionary)
        sizes.append(sink.getvalue().size)
    assert sizes[1] < 0.8 * sizes[0]


def test_timestamps_are_microseconds_without_int96() -> None:
    rows = pa.table({"at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))})
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, rows) as writer:
        writer.write_table(rows)
    column = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema.column(0)
    assert column.physical_type == "INT64"
    assert "timeUnit=microseconds" in str(column.logical_type)


def test_file_without_rows() -> None:
    assert list(dictionary_columns(pa.table({"n": pa.array([], pa.int64())}))) == ["n"]
