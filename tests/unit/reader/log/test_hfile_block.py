"""HFile data blocks: records by key, the column `key`, damage, bounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import CorruptBlock, OutOfMemory
from penstock.reader.log import hfile_block
from penstock.reader.log.block_selection import CountedBlock
from penstock.reader.log.hfile_block import HFileBlock, lacks_keys
from penstock.reader.log.record_positions import usable_positions
from penstock.table.hfile.encoder import encode_hfile
from penstock.table.log.blocks import BlockHeader, BlockKind, BlockPlace, LogBlock
from penstock.table.schema.avro import parse_record_schema
from tests.oracle import slice_writer

PLACE = BlockPlace("t", "log.1", 7, "1")


def block(cells: list[tuple[bytes, bytes]], **more: int) -> HFileBlock:
    return HFileBlock.read(pa.py_buffer(encode_hfile(cells, {}, **more)), PLACE)


@pytest.mark.parametrize("count", [0, 1, 300])
@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
def test_records_are_those_of_the_file(count: int, block_bytes: int) -> None:
    cells = [(b"k%04d" % number, b"v" * (number % 7)) for number in range(count)]
    result = block(cells, block_bytes=block_bytes)
    assert result.keys.to_pylist() == [row.decode() for row, _ in cells]
    bounds = zip(result.begins.tolist(), result.ends.tolist(), strict=True)
    assert [result.records[begin:end].tobytes() for begin, end in bounds] == [value for _, value in cells]


def test_content_that_is_no_hfile_is_damage() -> None:
    with pytest.raises(CorruptBlock, match=r"table t: log\.1: block at byte 7 of instant 1: its HFile is damaged"):
        HFileBlock.read(pa.py_buffer(b"no HFile" * 1000), PLACE)


def test_a_row_that_is_no_text_is_damage() -> None:
    with pytest.raises(CorruptBlock, match="not UTF-8"):
        block([(b"\xff\xfe", b"")])


def test_records_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [(b"%d" % number, b"v" * 99) for number in range(10)]
    monkeypatch.setattr(hfile_block, "_HELD_BYTES", 1000)
    assert len(block(cells).keys) == 10
    monkeypatch.setattr(hfile_block, "_HELD_BYTES", 999)
    with pytest.raises(OutOfMemory, match="more than 999 bytes"):
        block(cells)


def test_an_empty_key_is_the_row() -> None:
    """Records 2 and 0 in two batches; a value that the writer did not empty stays."""
    result = block([(b"a", b""), (b"b", b""), (b"c", b"")])
    batches = [pa.record_batch({"x": [1], "key": [""]}), pa.record_batch({"x": [2], "key": ["own"]})]
    named = list(result.with_keys(iter(batches), np.array([2, 0])))
    assert [batch.to_pylist() for batch in named] == [[{"x": 1, "key": "c"}], [{"x": 2, "key": "own"}]]


@pytest.mark.parametrize(
    ("kind", "columns", "expected"),
    [('"string"', ("key",), True), ('"string"', ("x",), False), ('"long"', ("key",), False)],
)
def test_only_a_text_column_of_that_name_is_empty(kind: str, columns: tuple[str, ...], expected: bool) -> None:
    fields = f'[{{"name": "key", "type": {kind}}}, {{"name": "x", "type": "long"}}]'
    writer = parse_record_schema(f'{{"type": "record", "name": "r", "fields": {fields}}}')
    assert lacks_keys(writer, columns) is expected


@pytest.mark.parametrize(("kind", "expected"), [(BlockKind.AVRO_DATA, [[3, 5]]), (BlockKind.HFILE_DATA, None)])
def test_positions_are_not_those_of_its_records(kind: BlockKind, expected: list[list[int]] | None) -> None:
    header = BlockHeader(instant_time="2", record_positions=slice_writer.roaring([3, 5]), base_instant_of_positions="1")
    found = LogBlock(kind=kind, header=header, offset=0, content_start=0, content_end=0, end=0)
    positions = usable_positions([CountedBlock(0, found, PLACE)], [2], "1")
    assert (positions and [part.tolist() for part in positions]) == expected
