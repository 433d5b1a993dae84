"""HFile data blocks: records by key, the column `key`, damage, bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import CorruptBlock, OutOfMemory
from penstock.reader.log import hfile_block
from penstock.reader.log.block_selection import CountedBlock
from penstock.reader.log.hfile_block import HFileBlock, emptied_column
from penstock.reader.log.record_positions import usable_positions
from penstock.table.hfile.encoder import encode_hfile
from penstock.table.log.blocks import BlockHeader, BlockKind, BlockPlace, LogBlock
from penstock.table.schema.avro import AvroField
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
    monkeypatch.setattr(hfile_block, "HELD_BYTES", 1160)
    assert len(block(cells).keys) == 10
    monkeypatch.setattr(hfile_block, "HELD_BYTES", 1159)
    with pytest.raises(OutOfMemory, match="more than 1159 bytes"):
        block(cells)


def test_an_empty_key_is_the_row() -> None:
    """Records 2 and 0 in two batches; a value that the writer did not empty stays."""
    result = block([(b"a", b""), (b"b", b""), (b"c", b"")])
    batches = [pa.record_batch({"x": [1], "key": [""]}), pa.record_batch({"x": [2], "key": ["own"]})]
    named = list(result.with_keys(iter(batches), np.array([2, 0]), "key"))
    assert [batch.to_pylist() for batch in named] == [[{"x": 1, "key": "c"}], [{"x": 2, "key": "own"}]]


UUID = '{"type": "string", "logicalType": "uuid"}'


@pytest.mark.parametrize(
    ("fields", "history", "expected"),
    [
        ({"key": '"string"'}, {}, "key"),
        ({"key": UUID}, {}, "key"),
        ({"key": '"long"'}, {}, ""),
        ({"x": '"string"'}, {}, ""),
        ({"key": '"string"'}, {"key": "renamed"}, "renamed"),
        ({"x": '"string"'}, {"x": "key"}, ""),
    ],
)
def test_the_writer_empties_a_text_column_by_its_name_in_the_block(
    fields: dict[str, str], history: dict[str, str], expected: str
) -> None:
    texts = ", ".join(f'{{"name": "{name}", "type": {kind}}}' for name, kind in fields.items())
    schema = f'{{"type": "record", "name": "r", "fields": [{texts}]}}'
    assert emptied_column(schema, "w", Renamed(history) if history else None) == expected


class Renamed:
    """The part of a `ColumnMapping` that is used."""

    def __init__(self, history: dict[str, str]) -> None:
        self.history = history

    def in_table(self, field: AvroField) -> AvroField:
        return replace(field, name=self.history.get(field.name, field.name))


@pytest.mark.parametrize(("kind", "expected"), [(BlockKind.AVRO_DATA, [[3, 5]]), (BlockKind.HFILE_DATA, None)])
def test_positions_are_not_those_of_its_records(kind: BlockKind, expected: list[list[int]] | None) -> None:
    header = BlockHeader(instant_time="2", record_positions=slice_writer.roaring([3, 5]), base_instant_of_positions="1")
    found = LogBlock(kind=kind, header=header, offset=0, content_start=0, content_end=0, end=0)
    positions = usable_positions([CountedBlock(0, found, PLACE)], [2], "1")
    assert (positions and [part.tolist() for part in positions]) == expected
