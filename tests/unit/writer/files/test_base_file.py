"""Base files: the rows come back, the footer has what Hudi's indexes need, and row groups are bounded."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.table.parquet.bloom_filter import parse_bloom_filter
from penstock.table.schema.avro import META_COLUMNS
from penstock.table.schema.avro_text import avro_schema_json
from penstock.writer.files import base_file
from penstock.writer.files.base_file import BaseFileWriter

COLUMNS = pa.schema([("n", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
SCHEMA = pa.schema([*[(name, pa.string()) for name in META_COLUMNS], *COLUMNS])
AVRO = avro_schema_json(COLUMNS, "t", meta_columns=True)


def rows(*keys: str) -> pa.RecordBatch:
    columns = {name: list(keys) for name in META_COLUMNS} | {"n": range(len(keys)), "at": [0] * len(keys)}
    return pa.RecordBatch.from_pydict(columns, SCHEMA)


def written(*batches: pa.RecordBatch, expected: int = 10) -> pq.ParquetFile:
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, SCHEMA, AVRO, expected)
    for batch in batches:
        writer.write(batch)
    writer.close()
    assert writer.num_rows == sum(batch.num_rows for batch in batches)
    return pq.ParquetFile(io.BytesIO(sink.getvalue()))


def test_rows_come_back_with_filter_range_and_schema() -> None:
    file = written(rows("b", "\U00010000"), rows(), rows("a", "\uffff"))
    assert file.read().column("n").to_pylist() == [0, 1, 0, 1]
    footer = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    assert footer["parquet.avro.schema"] == AVRO
    assert (footer["hoodie_min_record_key"], footer["hoodie_max_record_key"]) == ("a", "\uffff"), "by UTF-16 units"
    bloom = parse_bloom_filter(footer["org.apache.hudi.bloomfilter"], footer["hoodie_bloom_filter_type_code"], "f")
    assert bloom.bits > 0 and sum(int(row.sum()) for row in bloom.rows) > 0


def test_file_without_rows_has_no_range() -> None:
    file = written()
    assert file.metadata.num_rows == 0
    assert b"hoodie_min_record_key" not in file.metadata.metadata


@pytest.mark.parametrize("parts", [1, 7])
def test_row_groups_are_bounded_also_within_a_large_batch(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    batch = rows(*(f"key{number:05d}" for number in range(700)))
    monkeypatch.setattr(base_file, "_ROW_GROUP_BYTES", batch.nbytes // 7)
    file = written(*(batch.slice(begin, 700 // parts) for begin in range(0, 700, 700 // parts)))
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert sum(groups) == 700 and len(groups) >= 4 and max(groups) <= 200
    assert file.read().column("_hoodie_record_key").to_pylist() == batch.column("_hoodie_record_key").to_pylist()
