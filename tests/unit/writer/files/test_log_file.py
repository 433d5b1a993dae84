"""Log files: the blocks decode to the written rows and deletes, data first."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.reader.kernels.deletes import decode_delete_list
from penstock.table.log.blocks import BlockKind, BlockPlace, LogBlock, read_blocks
from penstock.table.log.deletes import decode_deletes
from penstock.writer.files import log_file
from penstock.writer.files.log_file import LogDeletes, log_blocks

T = "20261123000000000"


def blocks(rows: list[pa.RecordBatch], deletes: list[LogDeletes]) -> list[tuple[BlockKind, bytes]]:
    """Kind and content of each block."""
    data = b"".join(log_blocks(T, "p", "{}", rows, deletes))
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


def test_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [pa.RecordBatch.from_pydict({"n": [number] * 10}) for number in range(5)]
    monkeypatch.setattr(log_file, "_BLOCK_BYTES", 2 * batches[0].nbytes)
    found = blocks([*batches, batches[0].slice(0, 0)], [])
    assert [rows_of(content) for _, content in found] == [[0] * 10 + [1] * 10, [2] * 10 + [3] * 10, [4] * 10]


def test_nothing_makes_no_block() -> None:
    assert blocks([], [LogDeletes(pa.array([], pa.string()))]) == []
