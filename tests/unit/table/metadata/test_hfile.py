"""HFiles: every shape a writer gives them, and every way in which bytes can lie."""

from __future__ import annotations

import gzip
import pathlib
import random
import struct
import zlib
from typing import Any, Protocol

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, PenstockError, UnsupportedFeature
from penstock.table.hfile.layout import LayoutError, hadoop_vint, parse_trailer, varint
from penstock.table.hfile.reader import HFile
from penstock.table.log.blocks import BlockKind, LogBlock, read_blocks
from tests.unit.table.metadata.hfile_writer import GZ, LZ4, NONE, SNAPPY, crc32c, write_hfile


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...


def opened(data: bytes) -> HFile:
    return HFile(pa.BufferReader(data), "file x of table t")


def rows_of(count: int, key_bytes: int = 12) -> list[tuple[bytes, bytes]]:
    return [(f"{i:0{key_bytes}d}".encode(), f"value {i}".encode() * (i % 5)) for i in range(count)]


SHAPES: list[dict[str, Any]] = [
    {},
    {"codec": NONE},
    {"codec": NONE, "checksum": 1},
    {"minor": 3, "checksum": 1},
    {"codec": SNAPPY, "block_rows": 40},
    {"codec": LZ4, "block_rows": 40, "levels": 2},
    {"codec": LZ4, "checksum": 1},
    {"codec": SNAPPY, "checksum": 2},
    {"short_keys": True},
    {"block_rows": 7},
    {"block_rows": 7, "levels": 2},
    {"block_rows": 2, "levels": 3},
    {"block_rows": 1, "levels": 4, "codec": NONE},
    {"varint_lengths": True, "block_rows": 9},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("key_bytes", [12, 117, 118, 131, 150, 300])
def test_every_shape_is_read(shape: dict[str, Any], key_bytes: int) -> None:
    rows = rows_of(100, key_bytes)
    file = opened(write_hfile(rows, info={b"schema": b"{}", b"other": b"x" * 200}, **shape))
    assert list(file.scan()) == rows
    assert file.entry_count == 100
    assert file.info() == {b"schema": b"{}", b"other": b"x" * 200}
    expected = [rows[i] for i in (0, 6, 7, 50, 98, 99)]
    absent = [b"", b"0", rows[7][0] + b"!", rows[50][0][:-1], b"~"]
    assert list(file.lookup([row for row, _ in reversed(expected)] + absent)) == expected
    assert list(file.lookup([])) == []


def test_empty_file_has_no_rows() -> None:
    file = opened(write_hfile([]))
    assert list(file.scan()) == []
    assert list(file.lookup([b"x"])) == []


@given(
    keys=st.sets(st.binary(max_size=200), min_size=1, max_size=60),
    expected=st.sets(st.binary(max_size=3), max_size=10),
    shape=st.sampled_from(SHAPES),
)
@settings(max_examples=60, deadline=None)
def test_lookup_is_the_scan_cut_to_the_requested_rows(
    keys: set[bytes], expected: set[bytes], shape: dict[str, Any]
) -> None:
    rows = [(key, key[::-1]) for key in sorted(keys)]
    request = expected | set(sorted(keys)[::3])
    file = opened(write_hfile(rows, **{**shape, "block_rows": 4}))
    assert list(file.scan()) == rows
    assert list(file.lookup(request)) == [(row, value) for row, value in rows if row in request]


def test_lookup_reads_only_the_blocks_it_needs() -> None:
    reads: list[int] = []

    class Counting:
        def __init__(self, data: bytes) -> None:
            self._inner = pa.BufferReader(data)

        def size(self) -> int:
            return int(self._inner.size())

        def read_at(self, size: int, offset: int) -> bytes:
            reads.append(offset)
            return bytes(self._inner.read_at(size, offset))

    file = HFile(Counting(write_hfile(rows_of(1000), block_rows=10, levels=3)), "x")
    reads.clear()
    assert len(list(file.lookup([b"000000000500"]))) == 1
    assert len(reads) == 6, "header and body of an intermediate, a leaf and a data block"


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


WHOLE = write_hfile(rows_of(50), block_rows=10, codec=NONE)
TRAILER = len(WHOLE) - 4096


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "expected a trailer"),
        (WHOLE[1:], "is"),
        (WHOLE[:-1], "version"),
        (changed(WHOLE, len(WHOLE) - 4, b"\0\0\0\2"), "version 2.0"),
        (changed(WHOLE, TRAILER, b"X"), "trailer begins"),
        (changed(WHOLE, TRAILER + 8, b"\xff\xff\x7f"), "trailer message"),
        (changed(WHOLE, 8, b"\x7f\xff\xff\xff"), "bytes"),
        (changed(WHOLE, 8, b"\xff\xff\xff\xff"), "bytes"),
        (changed(WHOLE, 12, b"\0\0\0\1"), "should have 1 bytes"),
        (changed(WHOLE, 24, b"\x09"), "checksum type 9"),
        (changed(WHOLE, 33, b"\x7f"), "cell of"),
        (changed(WHOLE, 0, b"IDXLEAF2"), "IDXLEAF2"),
        (write_hfile(rows_of(20)[::-1]), "ascending rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damage_is_named(data: bytes, says: str) -> None:
    with pytest.raises(CorruptFile, match=says):
        list(opened(data).scan())


def test_bit_that_flipped_is_found() -> None:
    for checksum, codec in ((1, NONE), (0, GZ)):
        data = write_hfile(rows_of(50), codec=codec, checksum=checksum)
        assert list(opened(data).scan()) == rows_of(50)
        for at in (46, 60, 90):  # after the 10 bytes of gzip's own header
            with pytest.raises(CorruptFile):
                list(opened(changed(data, at, bytes([data[at] ^ 4]))).scan())


def test_block_with_another_crc_32c_is_damage() -> None:
    data = bytearray(write_hfile(rows_of(3), codec=NONE, checksum=1))
    end = struct.unpack_from(">i", data, 29)[0]
    data[24] = 2
    data[end : end + 4] = struct.pack(">I", crc32c(bytes(data[:end])))
    list(opened(bytes(data)).lookup([]))
    data[end] ^= 1
    with pytest.raises(CorruptFile, match="checksum"):
        list(opened(bytes(data)).scan())


def test_decompression_bomb_stays_small() -> None:
    """A block that says it is small and is large, and one that says it is larger than gzip can make it."""
    bomb = gzip.compress(b"\0" * (64 << 20), 9)
    for says in (100, 1 << 30, 2**31 - 1):
        head = b"DATABLK*" + struct.pack(">iiqBii", len(bomb), says, -1, 0, 16384, 33 + len(bomb))
        real = write_hfile([(b"k", b"v" * (len(bomb)))], codec=NONE)
        size = struct.unpack_from(">i", real, 8)[0]
        padded = (head + bomb).ljust(33 + size, b"\0")
        trailer = bytearray(real[-4096:])
        at = trailer.index(b"\x60\x02")
        trailer[at + 1] = GZ
        assert parse_trailer(bytes(trailer)).codec == GZ
        with pytest.raises(CorruptFile):
            list(HFile(pa.BufferReader(padded + real[33 + size : -4096] + bytes(trailer)), "x").scan())


def test_cyclic_index_is_refused() -> None:
    data = bytearray(write_hfile(rows_of(40), block_rows=10, codec=NONE))
    root = data.index(b"IDXROOT2") + 33
    second = root + 12 + 1 + data[root + 12]
    data[second : second + 8] = data[root : root + 8]
    with pytest.raises(CorruptFile, match="returns to"):
        list(opened(bytes(data)).scan())


@pytest.mark.parametrize(("number", "name"), [(0, "LZO"), (5, "BZIP2"), (6, "ZSTD")])
def test_compression_that_is_not_read_is_named(number: int, name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=f"file x of table t is compressed by {name}, expected GZ, NONE"):
        opened(write_hfile(rows_of(3), codec=number))


def test_compression_that_hbase_does_not_have_is_damage() -> None:
    with pytest.raises(CorruptFile, match="compression 7, expected 0 to 6"):
        opened(write_hfile(rows_of(3), codec=7))


def test_absent_compression_is_damage() -> None:
    """An empty trailer would otherwise be a file without rows."""
    data = write_hfile(rows_of(3), codec=NONE)
    assert data.count(b"\x60\x02") == 1
    with pytest.raises(CorruptFile, match="compression -1"):
        opened(data.replace(b"\x60\x02", b"\x78\x02"))
    trailer = len(data) - 4096
    with pytest.raises(CorruptFile, match="compression -1"):
        opened(data[: trailer + 8] + bytes(4084) + data[-4:])


def test_numbers() -> None:
    assert [varint(b"\x05", 0), varint(b"\xc8\x01", 0)] == [(5, 1), (200, 2)]
    assert [hadoop_vint(b"\x05", 0), hadoop_vint(b"\x8f\xc8", 0), hadoop_vint(b"\x87\x07", 0)] == [
        (5, 1),
        (200, 2),
        (-8, 2),
    ]
    for data in (b"", b"\xff" * 11):
        with pytest.raises(LayoutError):
            varint(data, 0)
    with pytest.raises(LayoutError):
        hadoop_vint(b"\x88\1", 0)


def real_files(golden: Golden) -> list[bytes]:
    """Base files and log blocks by HBase's writer and by Hudi's own writer."""
    result: list[bytes] = []
    for case in ("B_v9_timeline_mor", "B_v6_colstats_mor"):
        for path in sorted((golden.table(case) / ".hoodie" / "metadata").glob("*/*")):
            if path.suffix == ".hfile":
                result.append(path.read_bytes())
            elif ".log." in path.name and path.suffix != ".crc" and len(result) < 12:
                data = path.read_bytes()
                result += [
                    data[block.content_start : block.content_end]
                    for block in read_blocks(memoryview(data), path.name)
                    if isinstance(block, LogBlock) and block.kind is BlockKind.HFILE_DATA
                ]
    return result


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The file with a few bytes, numbers or lengths changed, mostly where the structure is."""
    out = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        start = draw.choice([0, max(0, len(out) - 4096), 0, len(out) // 2])
        at = min(start + draw.randrange(160), len(out) - 9)
        match draw.randrange(5):
            case 0:
                out[at] ^= 1 << draw.randrange(8)
            case 1:
                out[at : at + 4] = struct.pack(">i", draw.choice([-1, 0, 1, 2**31 - 1, -(2**31), len(out), 4096]))
            case 2:
                out[at : at + 8] = struct.pack(">q", draw.choice([-1, 0, 2**63 - 1, len(out)]))
            case 3:
                del out[at : at + draw.randint(1, 40)]
            case _:
                out[at:at] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 9)))
        if len(out) < 4200:
            break
    return bytes(out)


def read_whole(data: bytes) -> None:
    file = opened(data)
    file.info()
    rows = list(file.scan())
    assert list(file.lookup([row for row, _ in rows])) == rows


def test_mutations_of_real_files_are_rows_or_a_named_error(golden: Golden) -> None:
    files = real_files(golden)
    assert len(files) >= 8
    draw = random.Random(20_261_121)
    outcomes = {True: 0, False: 0}
    for number in range(4000):
        try:
            read_whole(mutated(files[number % len(files)], draw))
            outcomes[True] += 1
        except PenstockError:
            outcomes[False] += 1
    assert min(outcomes.values()) > 100


def test_mutations_of_uncompressed_files_with_deep_indexes() -> None:
    shapes = [write_hfile(rows_of(60), block_rows=5, codec=NONE, levels=levels) for levels in (1, 2, 3)]
    draw = random.Random(7)
    for number in range(4000):
        data = bytearray(shapes[number % 3])
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            read_whole(bytes(data))
        except PenstockError:
            continue


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes_before_a_trailer(data: bytes) -> None:
    for whole in (data, data + WHOLE[-4096:], data + zlib.compress(data) + WHOLE):
        try:
            read_whole(whole)
        except PenstockError:
            continue
