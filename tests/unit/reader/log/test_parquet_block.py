"""Parquet data blocks: the rows of Avro ones, every codec, two passes, types by the base file's rules, damage named."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, InvariantViolation, OutOfMemory, SchemaMismatch
from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.reader.base import checked_file
from penstock.reader.base.accepted_file import accepted_file
from penstock.reader.kernels.choice import KernelChoice
from penstock.reader.log import parquet_block, scanner
from penstock.reader.log.parquet_block import ParquetBlock
from penstock.reader.read_split import ReadOptions
from penstock.reader.split import context
from penstock.reader.split.emit import BatchSize
from penstock.table.log.blocks import BlockPlace, LogBlock, read_blocks
from penstock.table.schema.avro import parse_record_schema
from tests.oracle import slice_writer
from tests.unit.reader.slices import BASE_INSTANT, SliceFolder, comparable

FIELDS: dict[str, Any] = {"ts": "long", "v": "string", "_hoodie_is_deleted": "boolean"}
PLACE = BlockPlace("orders", "p/.log.1", 7, "001")


def row(key: str, ts: int | None, v: str = "", deleted: bool | None = None) -> dict[str, Any]:
    return {"_hoodie_record_key": key, "ts": ts, "v": v, "_hoodie_is_deleted": deleted}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> SliceFolder:
    return SliceFolder(tmp_path, FIELDS, EventTimeOrdering(("ts",)))


def parquet(folder: SliceFolder, instant: str, *rows: dict[str, Any], **more: Any) -> bytes:
    return slice_writer.parquet_block(more.pop("schema", folder.arrow), rows, instant, **more)


def opened(folder: SliceFolder, block: bytes) -> ParquetBlock:
    (result,) = read_blocks(pa.py_buffer(block), "f")
    assert isinstance(result, LogBlock)
    content = pa.py_buffer(block).slice(result.content_start, result.content_end - result.content_start)
    return ParquetBlock(content, PLACE, "orders", parse_record_schema(json.dumps(folder.avro)))


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("one_pass_bytes", [0, 1 << 20])
def test_every_codec_in_one_pass_and_two(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch, codec: str, one_pass_bytes: int
) -> None:
    monkeypatch.setattr(scanner, "ONE_PASS_BYTES", one_pass_bytes)
    folder.write_base([[row("a", 5, "base"), row("b", 5, "base"), row("c", 5, "base")]])
    rows = [row("a", 6, "1"), row("n", 1, "1"), row("b", 9, "", True), row("m", None, "1")]
    folder.write_log(
        parquet(folder, "1", *rows, compression=codec, row_group_rows=2),
        slice_writer.delete_block([("n", "LongWrapper", 1)], "1"),
        slice_writer.data_block(folder.avro, [row("m", 2, "avro")], "2"),
    )
    result = folder.rows()
    assert comparable(result) == comparable(folder.oracle("long"))
    assert [(r["_hoodie_record_key"], r["v"]) for r in result] == [("c", "base"), ("a", "1"), ("m", "avro")]
    assert folder.rows(columns=("v",)) == [{"v": r["v"]} for r in result]


def test_block_whose_rows_take_far_more_memory_than_it_has_bytes_is_refused(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a dictionary repeats is held as rows: the size of those counts, not that of the block."""
    rows = [row(f"{number:05d}", number, "x" * 10_000) for number in range(2000)]
    block = opened(folder, parquet(folder, "1", *rows, compression="zstd"))
    assert block.content.size < 100_000
    columns = ["_hoodie_record_key", "v"]
    assert sum(batch.num_rows for batch in block.decode(columns)) == 2000
    monkeypatch.setattr(parquet_block, "_HELD_BYTES", 10 << 20)
    monkeypatch.setattr(parquet_block, "_HELD_PER_BYTE", 100)
    with pytest.raises(OutOfMemory, match=r"log\.1.*a Parquet block of \d+ bytes take more than 10485760"):
        list(block.decode(columns))
    assert sum(batch.num_rows for batch in block.decode(columns[:1])) == 2000
    assert sum(batch.num_rows for batch in block.decode(columns, np.arange(100))) == 100


records = st.builds(
    row, st.sampled_from("abcdefgh"), st.none() | st.integers(0, 5), st.text(max_size=4), st.none() | st.booleans()
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.lists(records, max_size=6), st.integers(1, 4)), max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_parquet_and_avro_blocks_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory,
    blocks: list[tuple[bool, list[dict[str, Any]], int]],
    event_time: bool,
    one_pass: bool,
) -> None:
    mode = EventTimeOrdering(("ts",)) if event_time else CommitTimeOrdering()
    folder = SliceFolder(tmp_path_factory.mktemp("t"), FIELDS, mode)
    folder.write_base([[row("a", 3, "base"), row("b", 3, "base")], [row("c", None, "base")]])
    for number, (is_parquet, rows, group_rows) in enumerate(blocks):
        if is_parquet:
            folder.write_log(parquet(folder, f"{number}", *rows, row_group_rows=group_rows))
        else:
            folder.write_log(slice_writer.data_block(folder.avro, rows, f"{number}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "ONE_PASS_BYTES", 1 << 20 if one_pass else 0)
        patch.setattr(parquet_block, "_SIZE", BatchSize(2, 1 << 20))
        assert comparable(folder.rows()) == comparable(folder.oracle("long"))


def test_record_positions_place_records_on_copies_of_a_key(folder: SliceFolder) -> None:
    folder.write_base([[row("a", 1, "base"), row("a", 1, "base"), row("b", 1, "base"), row("c", 1, "base")]])
    folder.write_log(
        parquet(folder, "1", row("a", 2, "new"), row("a", 2, "new"), positions=(BASE_INSTANT, [0, 1])),
        slice_writer.delete_block([("c", "LongWrapper", 3)], "1", positions=(BASE_INSTANT, [3])),
    )
    result = folder.rows()
    assert [(r["_hoodie_record_key"], r["v"]) for r in result] == [("b", "base"), ("a", "new"), ("a", "new")]
    assert comparable(result) == comparable(folder.oracle("long"))


def test_only_row_groups_with_winners_are_decoded(folder: SliceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    block = opened(folder, parquet(folder, "1", *(row(f"k{n}", n) for n in range(20)), row_group_rows=5))
    read: list[int] = []
    real = parquet_block.BaseFile.read
    monkeypatch.setattr(
        parquet_block.BaseFile,
        "read",
        lambda self, number, *arguments: (read.append(number), real(self, number, *arguments))[1],
    )
    result = list(block.decode(("ts",), np.array([1, 4, 17])))
    assert [value for batch in result for value in batch.column(0).to_pylist()] == [1, 4, 17]
    assert read == [0, 3]
    assert list(block.decode(("ts",), np.array([], np.int64))) == []
    with pytest.raises(InvariantViolation):
        list(block.decode(("ts",), np.array([20])))


def test_columns_take_the_tables_types_and_missing_ones_are_null(folder: SliceFolder) -> None:
    """An int block in a table whose column has become a long, and no delete mark: as in a base file."""
    older = folder.arrow.set(folder.arrow.get_field_index("ts"), pa.field("ts", pa.int32()))
    older = older.remove(older.get_field_index("_hoodie_is_deleted"))
    plain = {"_hoodie_record_key": "a", "ts": 3, "v": "x"}
    folder.write_log(parquet(folder, "1", plain, schema=older))
    assert [(r["ts"], r["v"], r["_hoodie_is_deleted"]) for r in folder.rows()] == [(3, "x", None)]
    changed = folder.arrow.set(folder.arrow.get_field_index("v"), pa.field("v", pa.bool_()))
    folder.write_log(parquet(folder, "2", {**plain, "v": True}, schema=changed))
    with pytest.raises(SchemaMismatch, match=r"log\.2_0-1-1: Parquet block at byte 0 of instant 2: type change of"):
        folder.rows()


def test_kernel_checks_small_blocks(folder: SliceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts each block of a log, and the rows are those that Python's checks give. A read without kernels, and one
    whose process has few bytes to check, does not load them."""
    folder.write_base([[row("a", 5, "base"), row("b", 5, "base")]])
    folder.write_log(parquet(folder, "1", row("a", 6, "x"), row("c", 1, "y")), parquet(folder, "2", row("b", 7, "z")))
    accepted: list[Any] = []

    def counted(data: bytes, length: int) -> Any:
        accepted.append(accepted_file(data, length))
        return accepted[-1]

    monkeypatch.setattr(checked_file, "accepted_file", counted)
    plain = comparable(folder.rows(options=ReadOptions(compiled=False)))
    assert not accepted
    assert comparable(folder.rows(options=ReadOptions(compiled=True))) == plain
    blocks = len(accepted)
    assert all(accepted) and blocks > 1 + 2, "the base file, and each block"
    accepted.clear()
    monkeypatch.setattr(context, "KERNELS", KernelChoice(are_loaded=lambda: False))
    assert comparable(folder.rows(options=ReadOptions(compiled=True, is_chosen=True))) == plain
    assert len(accepted) < blocks


@pytest.mark.parametrize("compiled", [True, False])
def test_content_that_is_damaged_is_named_as_a_block(folder: SliceFolder, compiled: bool) -> None:
    content = opened(folder, parquet(folder, "1", *(row(f"k{n}", n) for n in range(50)))).content.to_pybytes()
    record = parse_record_schema(json.dumps(folder.avro))
    flipped = bytearray(content)
    flipped[4:400] = bytes(396)
    for bad in (b"", b"PAR1", content[:-8], content[100:], bytes(flipped)):
        with pytest.raises(CorruptBlock, match=r"table orders: p/\.log\.1: Parquet block at byte 7 of instant 001"):
            block = ParquetBlock(pa.py_buffer(bad), PLACE, "orders", record, compiled=compiled)
            list(block.decode(folder.arrow.names))


def test_more_rows_than_bytes_can_hold_are_not_decoded(folder: SliceFolder) -> None:
    nothing = pa.table({"v": pa.nulls(200_000, pa.string())})
    sink = pa.BufferOutputStream()
    pq.write_table(nothing, sink, compression="gzip")
    block = ParquetBlock(sink.getvalue(), PLACE, "orders", parse_record_schema(json.dumps(folder.avro)))
    with pytest.raises(CorruptBlock, match="200000 rows cannot be in"):
        block.num_rows()


def test_footer_with_more_rows_than_its_row_groups_is_damage(
    folder: SliceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = opened(folder, parquet(folder, "1", *(row(f"k{n}", n) for n in range(4)), row_group_rows=2))
    monkeypatch.setattr(parquet_block.BaseFile, "num_rows", property(lambda self: 5))
    with pytest.raises(CorruptBlock, match="records up to 4, the footer says 5"):
        list(block.decode(("ts",)))


def test_record_without_key_is_damage(folder: SliceFolder) -> None:
    folder.write_log(parquet(folder, "1", {"_hoodie_record_key": None, "ts": 1}))
    with pytest.raises(CorruptBlock, match="a record without _hoodie_record_key"):
        folder.rows()


def test_legacy_calendar_of_a_block_is_no_matter(tmp_path: pathlib.Path) -> None:
    """As in Hudi's reader of log blocks, which takes them for CORRECTED whatever their footer says."""
    folder = SliceFolder(tmp_path, {"day": {"type": "int", "logicalType": "date"}})
    days = pa.array([-171595], pa.int32()).view(pa.date32())
    marks = {
        "org.apache.spark.version": "3.5.8",
        "org.apache.spark.legacyDateTime": "",
        "org.apache.spark.timeZone": "UTC",
    }
    content = pa.BufferOutputStream()
    pq.write_table(pa.table({"day": days}).replace_schema_metadata(marks), content)
    block = ParquetBlock(content.getvalue(), PLACE, "orders", parse_record_schema(json.dumps(folder.avro)))
    assert [batch["day"].view(pa.int32()).to_pylist() for batch in block.decode(["day"])] == [[-171595]]
