"""Fault 17: hostile lengths, deep schemas, decompression bombs: limits refuse them as CORRUPT without large
allocations."""

from __future__ import annotations

import base64
import io
import json
import pathlib
import struct
import tracemalloc
import zipfile
from collections.abc import Callable

import fastavro
import pyarrow as pa
import pytest

import penstock
from penstock.proto.errors import CorruptBlock, CorruptFile, FormatError, UnsupportedFeature
from penstock.proto.model.positions import InstantTime
from penstock.reader.avro.decoder import AvroDecoder, record_bounds
from penstock.reader.read_split import warm_up
from penstock.table.hfile.reader import HFile
from penstock.table.log.blocks import BlockKind, BlockPlace, Damage, LogBlock, read_blocks
from penstock.table.log.deletes import decode_deletes
from penstock.table.log.positions import cardinality
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.history import parse_history
from penstock.table.timeline.avro_container import single_record
from penstock.table.timeline.commits import parse_commit
from penstock.table.timeline.instants import Action, Instant, State
from tests.fuzz.corpus import GOLDEN, Member, members

LENGTHS = (2**31 - 1, -1, -(2**31), 2**32 - 1, 2**62, 2**63 - 1, -(2**63), 2**64 - 1)
PLACE = BlockPlace("t", "file", 0, "001")
LIMIT_BYTES = 8 << 20
"""Memory that the refusal of a few hundred bytes may allocate."""


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    """Kernels are compiled before memory is counted."""
    warm_up()


def bounded(action: Callable[[], object], *expected: type[Exception]) -> None:
    """The action fails as expected and allocates at most LIMIT_BYTES."""
    tracemalloc.start()
    arrow = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(arrow)
    try:
        with pytest.raises(expected or (FormatError,)):
            action()
        peak = tracemalloc.get_traced_memory()[1] + (arrow.max_memory() or 0)
    finally:
        pa.set_memory_pool(before)
        tracemalloc.stop()
    assert peak < LIMIT_BYTES, f"{peak} bytes"


def varint(value: int) -> bytes:
    """A zigzag-encoded number of Avro."""
    unsigned = (value << 1 ^ value >> 63) & 2**64 - 1
    out = bytearray()
    while unsigned > 0x7F:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    return bytes([*out, unsigned])


@pytest.mark.parametrize("value", LENGTHS)
def test_fault_17_hostile_lengths_in_a_log_files_framing(value: int) -> None:
    data = members()["log"][0].data
    for at in range(6, 34):
        for width in (4, 8):
            hostile = data[:at] + (value & (1 << 8 * width) - 1).to_bytes(width, "big") + data[at + width :]
            try:
                items = list(read_blocks(hostile, "file"))
            except CorruptBlock:  # of a block's type or version
                continue
            assert all(item.end <= len(hostile) for item in items)
            assert any(isinstance(item, Damage) for item in items) or hostile[6:14] == data[6:14]


@pytest.mark.parametrize("value", LENGTHS)
@pytest.mark.parametrize("compiled", [True, False])
def test_fault_17_hostile_lengths_in_records(value: int, compiled: bool) -> None:
    schema = parse_record_schema('{"type":"record","name":"r","fields":[{"name":"a","type":"string"}]}')
    count = (value & 2**32 - 1).to_bytes(4, "big")
    bounded(lambda: record_bounds(b"\0\0\0\3" + count + b"\0\0\0\1x", PLACE, compiled=compiled), CorruptBlock)
    bounded(lambda: record_bounds(b"\0\0\0\3\0\0\0\1" + count + b"x", PLACE, compiled=compiled), CorruptBlock)
    record = varint(value if -(2**63) <= value < 2**63 else -1) + b"x"
    content = b"\0\0\0\3\0\0\0\1" + len(record).to_bytes(4, "big") + record
    begin, end = record_bounds(content, PLACE)
    decoder = AvroDecoder(schema, ["a"], schema, compiled=compiled)
    bounded(lambda: list(decoder.decode(content, begin, end, PLACE)), CorruptBlock)


@pytest.mark.parametrize("value", LENGTHS)
def test_fault_17_hostile_lengths_in_delete_blocks_and_positions(value: int) -> None:
    length = (value & 2**32 - 1).to_bytes(4, "big")
    inside = varint(value if -(2**63) <= value < 2**63 else -1)
    bounded(lambda: decode_deletes(b"\0\0\0\3" + length + b"\0", PLACE), CorruptBlock)
    for list_ in (inside + b"\2", b"\2\2" + inside, b"\2\2\2a\2" + inside):
        bounded(
            lambda list_=list_: decode_deletes(b"\0\0\0\3" + len(list_).to_bytes(4, "big") + list_, PLACE), CorruptBlock
        )
    many = (value & 2**64 - 1).to_bytes(8, "little")
    bounded(lambda: cardinality(base64.b64encode(many + bytes(12)).decode()), CorruptBlock)


DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"array","items":' * DEEP + '"int"' + "}" * DEEP,
        "[" * DEEP,
        '{"type":"record","name":"r","fields":[{"name":"a","type":' * 900 + '"int"' + "}]}" * 900,
        '{"type":"record","name":"r","fields":[{"name":"a","type":"r"}]}',
        json.dumps(
            {"type": "record", "name": "r", "fields": [{"name": f"f{n}", "type": "int"} for n in range(50_000)]}
        ),
        '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"f","size":9223372036854775807}}]}',
    ],
    ids=["deep arrays", "deep lists", "deep records", "recursion", "wide", "fixed"],
)
def test_fault_17_deep_schemas(text: str) -> None:
    for parse in (parse_record_schema, lambda text: parse_history(f'{{"schemas":[{text}]}}', "file")):
        with pytest.raises((FormatError, UnsupportedFeature)):
            parse(text)
    bounded(lambda: single_record(container(text, b""), "file"), CorruptFile) if len(text) < 1 << 20 else None


def container(schema: str, block: bytes, codec: bytes = b"null", count: int = 1) -> bytes:
    """An Avro object container file of one block."""
    text = schema.encode()
    entries = varint(11) + b"avro.schema" + varint(len(text)) + text + varint(10) + b"avro.codec" + varint(len(codec))
    return b"Obj\1\4" + entries + codec + b"\0" + b"s" * 16 + varint(count) + varint(len(block)) + block + b"s" * 16


def test_fault_17_values_that_take_no_bytes_are_not_repeated() -> None:
    empty = '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":"null"}}]}'
    bounded(lambda: single_record(container(empty, varint(2**40) + b"\0"), "file"), CorruptFile)
    wide = [{"name": f"f{number}", "type": "null"} for number in range(9000)]
    nested = {"type": "array", "items": {"type": "record", "name": "w", "fields": wide}}
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": nested}]})
    bounded(lambda: single_record(container(schema, varint(2**40) + b"\0"), "file"), CorruptFile)


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_fault_17_compressed_metadata_file_is_never_unpacked(codec: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"a": bytes(24 << 20)}], codec=codec)
    bounded(lambda: single_record(sink.getvalue(), "file"), CorruptFile)


def test_fault_17_commit_of_deep_json() -> None:
    time = InstantTime("20260101000000000")
    instant = Instant(
        requested_time=time, completion_time=time, action=Action.COMMIT, state=State.COMPLETED, file_name="f"
    )
    for text in (
        '{"partitionToWriteStats":' + "[" * DEEP,
        '{"a":' * DEEP,
        '{"partitionToWriteStats":{"p":[{"numWrites":1e999}]}}',
    ):
        with pytest.raises(CorruptFile):
            parse_commit(text.encode(), instant)


def test_fault_17_gzip_bomb_in_an_hfile() -> None:
    """The block declares fewer bytes than it contains, or more than possible: neither is decompressed."""
    member: Member = members()["hfile"][0]
    for announced in (1, 2**31 - 1, 2**30):
        data = bytearray(member.data)
        data[12:16] = announced.to_bytes(4, "big")
        bounded(lambda data=data: list(HFile(pa.BufferReader(bytes(data)), "file").scan()), CorruptFile)


def test_fault_17_delete_block_that_declares_a_record_too_many(tmp_path: pathlib.Path) -> None:
    """Its last record begins at the end of the arrays: a decoder that writes before the check crashes."""
    with zipfile.ZipFile(GOLDEN / "A_merge_event_long_v6_h0150.zip") as packed:
        packed.extractall(tmp_path)
    logs = sorted(path for path in tmp_path.glob("**/.*.log.*") if ".hoodie" not in path.parts)
    log = next(path for path in logs if path.suffix != ".crc")
    before = penstock.read(tmp_path).read_all()
    assert before.num_rows > 0
    good = log.read_bytes()
    block = next(item for item in read_blocks(good, "file") if isinstance(item, LogBlock))
    instant = block.header.instant_time.encode()
    for rows in (257, 8192):
        records = varint(rows + 1) + b"\2\0\0\0" * rows + b"\2"
        content = struct.pack(">ii", 3, len(records)) + records
        header = struct.pack(">iii", 1, 0, len(instant)) + instant
        inside = struct.pack(">ii", 1, BlockKind.DELETE) + header + struct.pack(">q", len(content)) + content + bytes(4)
        size = len(inside) + 8
        log.write_bytes(good + b"#HUDI#" + struct.pack(">q", size) + inside + struct.pack(">q", size + 6))
        with pytest.raises(CorruptBlock, match=f"{log.name}.*byte {len(good)}.*delete record {rows} does not fit"):
            penstock.read(tmp_path).read_all()
    log.write_bytes(good)
    assert penstock.read(tmp_path).read_all().equals(before)
