"""Small log blocks are decoded several at once, with the rows, and the places in errors, of blocks decoded alone."""

from __future__ import annotations

import pathlib
import random
from collections import Counter
from typing import Any

import pytest

from penstock.proto.errors import CorruptBlock
from penstock.proto.model.splits import EventTimeOrdering
from penstock.reader.avro.decoder import AvroDecoder
from penstock.reader.log import block_decoder, scanner
from penstock.reader.log.parquet_block import ParquetBlock
from penstock.reader.read_split import ReadOptions
from tests.oracle import slice_writer
from tests.unit.reader.slices import SliceFolder, comparable

FIELDS = {"ts": "long", "v": "string", "n": {"type": "record", "name": "n", "fields": [{"name": "x", "type": "int"}]}}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> SliceFolder:
    return SliceFolder(tmp_path, FIELDS, EventTimeOrdering(("ts",)))


def row(key: Any, ts: int, value: str) -> dict[str, Any]:
    return {"_hoodie_record_key": key, "ts": ts, "v": value, "n": {"x": ts}}


def older(folder: SliceFolder) -> dict[str, Any]:
    """A schema without the last column."""
    return slice_writer.table_schema({name: kind for name, kind in folder.fields.items() if name != "n"})


def without_nested(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "n"}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("one_pass_bytes", [0, 1 << 20])
def test_rows_are_those_of_the_oracle(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch, seed: int, one_pass_bytes: int
) -> None:
    """Blocks of two schemas, of deletes, of no records and of one record, in one or many files."""
    monkeypatch.setattr(scanner, "ONE_PASS_BYTES", one_pass_bytes)
    monkeypatch.setattr(block_decoder, "JOINED_BYTES", random.Random(seed).choice([1, 300, 1 << 20]))
    monkeypatch.setattr(scanner, "_PENDING_BLOCKS", random.Random(seed).choice([1, 3, 256]))
    chance = random.Random(seed)
    folder.write_base([[row(f"k{number}", 5, "base") for number in range(30)]])
    blocks: list[bytes] = []
    for number in range(40):
        items = [
            row(f"k{chance.randrange(40)}", chance.randrange(10), f"{number}.{place}")
            for place in range(chance.choice([0, 1, 1, 5]))
        ]
        match chance.randrange(4):
            case 0:
                keys = [(f"k{chance.randrange(40)}", "LongWrapper", chance.randrange(10)) for _ in range(3)]
                blocks.append(slice_writer.delete_block(keys, "1"))
            case 1:
                blocks.append(slice_writer.data_block(older(folder), [without_nested(item) for item in items], "1"))
            case _:
                blocks.append(slice_writer.data_block(folder.avro, items, "1"))
        if number == 39 or chance.random() < 0.5:
            folder.write_log(*blocks)
            blocks = []
    expected = comparable([{"n": None, **item} for item in folder.oracle("long")])
    for compiled in (True, False):
        assert comparable(folder.rows(options=ReadOptions(compiled=compiled))) == expected


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts decodes of Avro records, and Parquet blocks that are opened."""
    counts: Counter[str] = Counter()
    decode, opened = AvroDecoder.decode, ParquetBlock._open

    def counted_decode(self: AvroDecoder, *arguments: Any) -> Any:
        counts["avro"] += 1
        return decode(self, *arguments)

    def counted_open(self: ParquetBlock, *arguments: Any) -> Any:
        counts["parquet"] += 1
        return opened(self, *arguments)

    monkeypatch.setattr(AvroDecoder, "decode", counted_decode)
    monkeypatch.setattr(ParquetBlock, "_open", counted_open)
    return counts


@pytest.mark.parametrize(("joined_bytes", "decodes"), [(1 << 20, 2), (0, 100)])
def test_decodes_do_not_grow_with_blocks(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch, calls: Counter[str], joined_bytes: int, decodes: int
) -> None:
    monkeypatch.setattr(scanner, "ONE_PASS_BYTES", 0)
    monkeypatch.setattr(block_decoder, "JOINED_BYTES", joined_bytes)
    for number in range(10):
        rows = [[row(f"k{number}-{place}", 1, "v")] for place in range(5)]
        folder.write_log(*(slice_writer.data_block(folder.avro, some, "1") for some in rows))
    assert len(folder.rows(options=ReadOptions(compiled=True))) == 50
    assert calls["avro"] == decodes


@pytest.mark.parametrize(("small_bytes", "opens"), [(32 << 10, 20), (0, 30)])
def test_small_parquet_blocks_are_decoded_in_one_pass(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch, calls: Counter[str], small_bytes: int, opens: int
) -> None:
    monkeypatch.setattr(scanner, "ONE_PASS_BYTES", 0)
    monkeypatch.setattr(scanner, "_SMALL_PARQUET_BYTES", small_bytes)
    rows = [[row(f"k{number}", 1, "v")] for number in range(10)]
    folder.write_log(*(slice_writer.parquet_block(folder.arrow, some, "1") for some in rows))
    assert len(folder.rows()) == 10
    assert calls["parquet"] == opens


@pytest.mark.parametrize("one_pass_bytes", [0, 1 << 20])
@pytest.mark.parametrize("damage", ["record", "key", "late column"])
def test_error_names_the_block_and_the_record_in_it(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch, damage: str, one_pass_bytes: int
) -> None:
    """A column that the first pass does not need is damaged in the second."""
    monkeypatch.setattr(scanner, "ONE_PASS_BYTES", one_pass_bytes)
    blocks = []
    for number in range(12):
        rows = [row(f"k{number}-{place}", 1, "v" * 9) for place in range(4)]
        if damage == "key" and number == 7:
            rows[2]["_hoodie_record_key"] = None
        blocks.append(slice_writer.data_block(folder.avro, rows, "1"))
    if damage == "record":
        blocks[7] = blocks[7].replace(b"k7-2", b"\xff" * 4)
    if damage == "late column":
        at = blocks[7].index(b"v" * 9, blocks[7].index(b"k7-2"))
        blocks[7] = blocks[7][: at - 1] + b"\xff" + blocks[7][at:]
    folder.write_log(*blocks[:5])
    folder.write_log(*blocks[5:])
    offset = len(blocks[5]) + len(blocks[6])
    which = {"record": "one of the records 0 to 3 of 4", "key": "a record without", "late column": "record 2 of 4"}
    with pytest.raises(CorruptBlock, match=rf"\.log\.2_0-1-1: block at byte {offset} .*{which[damage]}"):
        folder.rows(options=ReadOptions(compiled=True))


def test_memory_of_joined_blocks_is_bounded_by_what_is_copied(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the last record of each block win: all bytes between them would be copied with them."""
    monkeypatch.setattr(scanner, "ONE_PASS_BYTES", 0)
    monkeypatch.setattr(block_decoder, "JOINED_BYTES", 10_000)
    for number in range(5):
        middle = [row("m", number, "y" * 3_000) for _ in range(3)]
        ends = [row(f"{place}{number}", 1, "x") for place in "az"]
        folder.write_log(slice_writer.data_block(folder.avro, [ends[0], *middle, ends[1]], "1"))
    sizes: list[int] = []
    decode = AvroDecoder.decode

    def measured(self: AvroDecoder, data: Any, *arguments: Any) -> Any:
        if hasattr(data, "nbytes"):
            sizes.append(data.nbytes)
        return decode(self, data, *arguments)

    monkeypatch.setattr(AvroDecoder, "decode", measured)
    assert len(folder.rows(options=ReadOptions(compiled=True))) == 11
    assert max(sizes, default=0) <= 10_000
    monkeypatch.setattr(block_decoder, "JOINED_BYTES", 1 << 20)
    folder.rows(options=ReadOptions(compiled=True))
    assert max(sizes) > 40_000


def test_error_of_the_first_damaged_block_comes_first(folder: SliceFolder) -> None:
    """The second one's records have no bounds, which are found earlier."""
    blocks = [slice_writer.data_block(folder.avro, [row(f"k{number}", 1, "v" * 9)], "1") for number in range(3)]
    blocks[1] = blocks[1].replace(b"k1", b"\xff\xff")
    content = slice_writer.data_block(folder.avro, [row("k2", 1, "v" * 9)], "1")
    at = content.index(b"\0\0\0\3\0\0\0\1")
    blocks[2] = content[: at + 7] + b"\2" + content[at + 8 :]
    folder.write_log(*blocks)
    with pytest.raises(CorruptBlock, match=rf"block at byte {len(blocks[0])} of"):
        folder.rows(options=ReadOptions(compiled=True))
