"""Log files: the blocks decode to the written rows and deletes, data first."""

from __future__ import annotations

import io
import json
import struct

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.reader.kernels.deletes import decode_delete_list
from penstock.table.log.blocks import BlockKind, BlockPlace, LogBlock, read_blocks
from penstock.table.log.deletes import decode_deletes
from penstock.table.schema.avro import parse_record_schema
from penstock.writer.files import log_file
from penstock.writer.files.log_file import LogDeletes, log_blocks

T = "20261123000000000"


RECORD = parse_record_schema(
    """{"type": "record", "name": "r", "fields": [
        {"name": "n", "type": ["null", "long"]}, {"name": "s", "type": ["null", "string"]}]}"""
)


def blocks(
    rows: list[pa.RecordBatch], deletes: list[LogDeletes], *, in_avro: bool = False
) -> list[tuple[BlockKind, bytes]]:
    """Kind and content of each block."""
    data = b"".join(log_blocks(T, "p", RECORD, rows, deletes, in_avro=in_avro))
    found = [block for block in read_blocks(memoryview(data), "f") if isinstance(block, LogBlock)]
    assert all(block.header.instant_time == T for block in found)
    return [(block.kind, data[block.content_start : block.content_end]) for block in found]


def rows_of(content: bytes) -> list[int]:
    numbers: list[int] = pq.read_table(pa.BufferReader(content)).column("n").to_pylist()
    return numbers


def test_data_comes_first_then_deletes() -> None:
    none = LogDeletes(pa.array([], pa.string()))
    deletes = [LogDeletes(pa.array(["a"]), (pa.array([7]),)), LogDeletes(pa.array(["b", "c"])), none]
    found = blocks([pa.RecordBatch.from_pydict({"n": [1, 2]})], deletes)
    assert [kind for kind, _ in found] == [BlockKind.PARQUET_DATA, BlockKind.DELETE, BlockKind.DELETE]
    assert rows_of(found[0][1]) == [1, 2]
    keys = []
    for _, content in found[1:]:
        records = decode_deletes(content, BlockPlace("t", "f", 0, T), decode_delete_list)
        keys += records.keys.to_pylist()
    assert keys == ["a", "b", "c"]


def test_statistics_are_those_of_constant_meta_columns() -> None:
    columns = ["_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name", "n"]
    [(_, content)] = blocks([pa.RecordBatch.from_pydict({name: ["a", "a"] for name in columns})], [])
    row_group = pq.read_metadata(pa.BufferReader(content)).row_group(0)
    statistics = [row_group.column(place).statistics for place in range(len(columns))]
    assert [known is not None and known.has_min_max for known in statistics] == [True, False, True, True, False]


def test_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [pa.RecordBatch.from_pydict({"n": [number] * 10}) for number in range(5)]
    monkeypatch.setattr(log_file, "_BLOCK_BYTES", 2 * batches[0].nbytes)
    found = blocks([*batches, batches[0].slice(0, 0)], [])
    assert [rows_of(content) for _, content in found] == [[0] * 10 + [1] * 10, [2] * 10 + [3] * 10, [4] * 10]


def test_nothing_makes_no_block() -> None:
    assert blocks([], [LogDeletes(pa.array([], pa.string()))]) == []


def test_avro_block_has_the_records_of_its_schema() -> None:
    """Read by fastavro, which is not this project's."""
    columns = pa.schema([("n", pa.int64()), ("s", pa.string())])
    rows = [{"n": 1, "s": "é"}, {"n": None, "s": ""}, {"n": -(1 << 40), "s": None}]
    batches = [pa.RecordBatch.from_pylist(some, columns) for some in (rows[:1], rows[1:])]
    ((kind, content),) = blocks(batches, [], in_avro=True)
    assert kind is BlockKind.AVRO_DATA
    stream = io.BytesIO(content)
    version, count = struct.unpack(">ii", stream.read(8))
    assert (version, count) == (3, len(rows))
    found = []
    for _ in range(count):
        (size,) = struct.unpack(">i", stream.read(4))
        record = io.BytesIO(stream.read(size))
        found.append(fastavro.schemaless_reader(record, json.loads(RECORD.json_text), None))
        assert record.tell() == size
    assert (found, stream.read()) == (rows, b"")
