"""Fault 16: a log file is truncated or flipped at every byte. Remains of failed appends lose no row; damage is an
error.

The offsets of a small file cover all cases: bad magic, a length beyond the file, no footer, garbage between blocks, a
truncated last block.
"""

from __future__ import annotations

import pathlib
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.proto.errors import PenstockError
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import CommitTimeOrdering, LogWrite, VisibleInstants
from penstock.table.log.blocks import LogBlock, read_blocks
from tests.oracle import slice_writer
from tests.unit.reader.slices import SliceFolder

VISIBLE = VisibleInstants(frozenset(InstantTime(text) for text in ("001", "002", "003")))
WRITES = (("001", 2, 0), ("002", 2, 0), ("003", 0, 1))
ROWS = ["b002", "c002"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> SliceFolder:
    return SliceFolder(tmp_path_factory.mktemp("fault16"), {"v": "string"}, CommitTimeOrdering())


def block(folder: SliceFolder, instant: str, *keys: str, text: str = "") -> bytes:
    rows = [{"_hoodie_record_key": key, "v": text or instant} for key in keys]
    return slice_writer.data_block(folder.avro, rows, instant)


def parts(folder: SliceFolder) -> list[bytes]:
    """Two data blocks with the remains of a failed append between them, and a delete block."""
    second = block(folder, "002", "b", "c")
    deleted = slice_writer.delete_block([("a", "IntWrapper", 0)], "003")
    return [block(folder, "001", "a", "b"), second[: len(second) // 2], second, deleted]


def read(folder: SliceFolder, content: bytes, **changed: Any) -> list[str] | str:
    """Values by key, or the code of the error."""
    folder.logs.clear()
    folder.write_log(content)
    writes = tuple(LogWrite(InstantTime(instant), rows, gone) for instant, rows, gone in WRITES)
    folder.logs[-1] = replace(folder.logs[-1], writes=writes)
    try:
        rows = folder.rows(visible=VISIBLE, **changed)
    except PenstockError as error:
        return error.code
    return [f"{row['_hoodie_record_key']}{row['v']}" for row in rows]


def payload(content: bytes) -> set[int]:
    """Offsets of row values and header texts, in which the framing cannot detect changes."""
    offsets: set[int] = set()
    for item in read_blocks(content, "file"):
        if isinstance(item, LogBlock):
            offsets |= set(range(item.offset + 22, item.content_start - 8)) | set(
                range(item.content_start, item.content_end)
            )
    return offsets


def test_fault_16_log_cut_at_any_offset_returns_all_rows_or_an_error(folder: SliceFolder) -> None:
    pieces = parts(folder)
    whole = b"".join(pieces)
    assert read(folder, whole) == ROWS
    for cut in range(len(whole)):
        assert read(folder, whole[:cut]) == "CORRUPT_BLOCK", f"cut at {cut}: a completed instant's rows are cut off"
    leftover = len(pieces[0] + pieces[1])
    for cut in range(len(pieces[0]) + 6, leftover):  # the remains themselves may end anywhere after their magic
        assert read(folder, whole[:cut] + whole[leftover:]) == ROWS


def test_fault_16_cut_logs_give_hudis_rows_with_on_corrupt_skip(folder: SliceFolder) -> None:
    first, left, second, deleted = parts(folder)
    whole = first + left + second + deleted
    seen = set()
    for cut in range(0, len(whole), 3):
        answer = read(folder, whole[:cut], skip_corrupt=True)
        rows = ["a001", "b001"] if cut >= len(first) else []
        if cut >= len(whole) - len(deleted):
            rows = ["a001", "b002", "c002"]
        assert answer == rows, f"cut at {cut}"
        seen.add(tuple(rows))
    assert len(seen) == 3


def flips(content: bytes) -> Iterator[tuple[int, bytes]]:
    for at in range(len(content)):
        for mask in (0xFF, 1 << at % 8):
            yield at, content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]


@pytest.mark.exhaustive
def test_fault_16_flipped_framing_byte_returns_all_rows_or_an_error(folder: SliceFolder) -> None:
    whole = b"".join(parts(folder))
    inside = payload(whole)
    errors = 0
    for at, content in flips(whole):
        answer = read(folder, content)  # for every byte: rows or a named error
        if at not in inside:
            assert answer == ROWS or isinstance(answer, str), f"byte {at}: {answer}"
            errors += isinstance(answer, str)
    assert errors > 100


def test_fault_16_garbage_between_blocks_is_counted_and_takes_no_row(folder: SliceFolder) -> None:
    first, _, second, deleted = parts(folder)
    for garbage in (b"#HUDI#", b"#HUDI#" + bytes(8), b"#HUDI#" + b"\x7f" + b"\xff" * 7, b"#HUDI##HUDI#" * 50):
        assert read(folder, first + garbage + second + deleted) == ROWS
        assert read(folder, first + second + deleted + garbage) == ROWS
        assert read(folder, garbage + first + second + deleted) == ROWS


@pytest.mark.parametrize("value", [2**31 - 1, 2**62, 2**63 - 1, 2**64 - 1])
@pytest.mark.parametrize("place", ["block size", "content length", "header count", "record count"])
def test_fault_16_memory_stays_under_four_times_the_file(tmp_path: pathlib.Path, place: str, value: int) -> None:
    folder = SliceFolder(tmp_path, {"v": "string"}, CommitTimeOrdering())
    large = block(folder, "001", *(f"key {number}" for number in range(2000)), text="v" * 1000)
    second = block(folder, "002", "b", "c")
    content = bytearray(second + large + second)
    (_, large_block, _) = [item for item in read_blocks(bytes(content), "file") if isinstance(item, LogBlock)]
    at, width = {
        "block size": (large_block.offset + 6, 8),
        "content length": (large_block.content_start - 8, 8),
        "header count": (large_block.offset + 22, 4),
        "record count": (large_block.content_start + 4, 4),
    }[place]
    content[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "big")
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    read(folder, bytes(second))  # imports and compiles
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        answer = read(folder, bytes(content))
        peak = tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert answer == "CORRUPT_BLOCK"
    assert peak < 4 * len(content), f"{peak} bytes for a file of {len(content)}"
