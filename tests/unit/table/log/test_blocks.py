"""Framing of log files: whole blocks, gaps, hostile bytes."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, PenstockError
from penstock.table.log.blocks import MAGIC, BlockKind, Damage, LogBlock, read_blocks

INSTANT = "20260101000000000"


def block(
    content: bytes = b"content",
    header: dict[int, bytes] | None = None,
    *,
    kind: int = 3,
    version: int = 1,
    footer: dict[int, bytes] | None = None,
) -> bytes:
    """A block as Hudi writes it."""

    def entries(of: dict[int, bytes]) -> bytes:
        return struct.pack(">i", len(of)) + b"".join(struct.pack(">ii", k, len(v)) + v for k, v in of.items())

    body = struct.pack(">ii", version, kind) + entries({0: INSTANT.encode()} | (header or {}))
    body += struct.pack(">q", len(content)) + content + entries(footer or {})
    size = len(body) + 8
    return MAGIC + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def read(data: bytes) -> list[LogBlock | Damage]:
    return list(read_blocks(memoryview(data), "log.1"))


def content_of(data: bytes, item: Any) -> bytes:
    return data[item.content_start : item.content_end]


def test_blocks_follow_each_other_to_the_last_byte() -> None:
    data = block(b"one") + block(b"", kind=0) + block(b"three", kind=1, footer={3: b"x"})
    first, second, third = read(data)
    assert isinstance(first, LogBlock) and isinstance(second, LogBlock) and isinstance(third, LogBlock)
    assert [content_of(data, item) for item in (first, second, third)] == [b"one", b"", b"three"]
    assert [item.kind for item in (first, second, third)] == [BlockKind.AVRO_DATA, BlockKind.COMMAND, BlockKind.DELETE]
    assert (first.offset, first.end, second.end, third.end) == (0, second.offset, third.offset, len(data))
    assert first.end - first.content_end == 12


def test_header_entries() -> None:
    entries = {
        2: b'{"type": "record"}',
        1: b"20250101000000000",
        3: b"0",
        4: b"2,1",
        5: b"AAAA",
        6: b"0,0",
        7: b"TRUE",
        8: b"20240101000000000",
        99: b"\xff from a later release",
    }
    (item,) = read(block(header=entries))
    assert isinstance(item, LogBlock)
    header = item.header
    assert header.instant_time == INSTANT
    assert header.target_instant_time == "20250101000000000"
    assert header.schema_json == '{"type": "record"}'
    assert header.command == "0"
    assert header.compacted_block_times == ("2", "1")
    assert header.record_positions == "AAAA"
    assert header.base_instant_of_positions == "20240101000000000"
    assert header.is_partial


def test_entries_that_are_not_there() -> None:
    (item,) = read(block())
    assert isinstance(item, LogBlock)
    assert (item.header.schema_json, item.header.record_positions, item.header.is_partial) == ("", None, False)


def test_any_buffer_is_read() -> None:
    data = block()
    expected = read(data)
    assert list(read_blocks(pa.py_buffer(data), "f")) == expected
    assert list(read_blocks(memoryview(bytearray(data)), "f")) == expected
    assert read(b"") == []


def test_append_cut_short_is_a_gap_up_to_the_next_block() -> None:
    half = block(b"x" * 500)[:200]
    data = block() + half + block(b"later")
    first, gap, last = read(data)
    start = len(block())
    assert isinstance(first, Damage) or first.offset == 0
    assert (gap, content_of(data, last)) == (Damage(start, start + 200, gap.reason), b"later")  # type: ignore[union-attr]


def test_half_a_block_at_the_end_and_short_garbage() -> None:
    whole = block()
    for tail in (whole[:3], whole[:10], whole[:-1], b"\0", MAGIC, MAGIC + b"\x7f" * 8):
        first, gap = read(whole + tail)
        assert isinstance(first, LogBlock)
        assert isinstance(gap, Damage)
        assert (gap.start, gap.end) == (len(whole), len(whole) + len(tail))


def test_hudis_four_rules() -> None:
    whole = block()
    wrong_magic = b"#HUDI-" + whole[6:]
    beyond = MAGIC + struct.pack(">q", 10_000) + whole[14:]
    wrong_pointer = whole[:-8] + struct.pack(">q", len(whole) - 14)
    for damaged, reason in (
        (wrong_magic, "no magic"),
        (beyond, "block size 10000"),
        (wrong_pointer, "reverse pointer"),
        (whole + b"stranger", "follows"),
    ):
        gap, good = read(damaged + whole)
        assert isinstance(gap, Damage) and isinstance(good, LogBlock)
        assert reason in gap.reason
        assert (gap.start, gap.end, good.offset) == (0, len(damaged), len(damaged))


def test_block_is_valid_with_fewer_bytes_than_a_magic_after_it() -> None:
    first, gap = read(block() + b"12345")
    assert isinstance(first, LogBlock)
    assert gap == Damage(len(block()), len(block()) + 5, "no magic")


@pytest.mark.parametrize("size", [-1, -(2**63), 0, 31, 2**63 - 1, 2**31])
def test_impossible_sizes(size: int) -> None:
    (gap,) = read(MAGIC + struct.pack(">q", size) + bytes(64))
    assert isinstance(gap, Damage)


def test_magic_inside_the_content_is_content() -> None:
    data = block(b"see " + block() + b" there")
    (item,) = read(data)
    assert isinstance(item, LogBlock)
    assert content_of(data, item) == b"see " + block() + b" there"


def replaced(data: bytes, at: int, form: str, value: int) -> bytes:
    return data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form) :]


@pytest.mark.parametrize("value", [-1, 2, 10**6, 2**31 - 1, -(2**31)])
def test_whole_block_that_contradicts_itself_is_damage_up_to_its_end(value: int) -> None:
    data = block()
    after_header = 22 + 4 + 8 + len(INSTANT)
    for at, form in ((22, ">i"), (30, ">i"), (after_header, ">q"), (len(data) - 12, ">i")):
        gap, good = read(replaced(data, at, form, value) + data)
        assert isinstance(gap, Damage) and isinstance(good, LogBlock)
        assert (gap.start, gap.end) == (0, len(data))


def test_header_text_must_be_text_and_the_instant_a_time() -> None:
    for header in ({0: b""}, {0: b"2026-01-01"}, {0: b"1" * 25}, {2: b"\xff"}):
        (gap,) = read(block(header=header))
        assert isinstance(gap, Damage)


def test_block_written_as_corrupt_is_damage() -> None:
    (gap,) = read(block(kind=2))
    assert isinstance(gap, Damage)


@pytest.mark.parametrize(("change", "named"), [({"kind": 7}, "block type 7"), ({"version": 0}, "version 0")])
def test_unknown_blocks_and_versions_are_refused_by_name(change: dict[str, int], named: str) -> None:
    with pytest.raises(CorruptBlock, match=named) as refusal:
        read(block(**change))  # type: ignore[arg-type]
    assert "log.1" in str(refusal.value) and "byte 0" in str(refusal.value)


def assert_covered(data: bytes) -> None:
    """Items lie in order, inside the file, and end with it."""
    place = 0
    try:
        for item in read_blocks(memoryview(data), "f"):
            start = item.start if isinstance(item, Damage) else item.offset
            assert start == place < item.end <= len(data)
            if isinstance(item, LogBlock):
                assert start < item.content_start <= item.content_end <= item.end - 12
            place = item.end
        assert place == len(data)
    except PenstockError:
        pass


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_files_are_covered_without_a_crash(data: st.DataObject) -> None:
    good = block(b"1234", {2: b"{}", 5: b"AA=="}) + block(b"", kind=1) + block(b"567", footer={1: b"22"})
    raw = bytearray(good)
    for _ in range(data.draw(st.integers(0, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    assert_covered(bytes(raw[:cut]))
    assert_covered(bytes(raw[cut:] + raw[:cut]))


@given(st.lists(st.sampled_from([MAGIC, b"\0", b"\xff", b"\0\0\0\1", b"#", block()]) | st.binary(max_size=20)))
def test_arbitrary_bytes_are_covered(pieces: list[bytes]) -> None:
    assert_covered(b"".join(pieces))


def test_file_full_of_magics_takes_no_longer_than_its_length() -> None:
    assert len(read(MAGIC * 20_000)) == 20_000
