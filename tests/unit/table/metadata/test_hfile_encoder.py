"""HFiles that Penstock encodes: round trips with the reader."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.table.hfile.encoder import MAX_ROW_BYTES, encode_hfile
from penstock.table.hfile.layout import TRAILER_BYTES, parse_trailer
from penstock.table.hfile.reader import HFile


def opened(data: bytes) -> HFile:
    return HFile(pa.BufferReader(data), "file")


@given(
    cells=st.dictionaries(st.binary(max_size=300), st.binary(max_size=100), max_size=40),
    info=st.dictionaries(st.sampled_from(["schema", "minRecordKey", "é"]), st.binary(max_size=300)),
    block_bytes=st.sampled_from([1, 200, 1 << 16]),
)
@settings(max_examples=80, deadline=None)
def test_encoded_file_is_read_back(cells: dict[bytes, bytes], info: dict[str, bytes], block_bytes: int) -> None:
    rows = sorted(cells.items())
    data = encode_hfile(rows, info, block_bytes=block_bytes)
    file = opened(data)
    assert list(file.scan()) == rows and file.entry_count == len(rows)
    assert list(file.lookup(cells)) == rows
    assert {name.encode(): value for name, value in info.items()}.items() <= file.info().items()
    assert encode_hfile(rows, info, block_bytes=block_bytes) == data
    blocks = parse_trailer(data[-TRAILER_BYTES:]).data_index_count
    assert blocks == (len(rows) if block_bytes == 1 else blocks) and (blocks > 0) == bool(rows)


def test_required_properties_are_those_of_hudi() -> None:
    info = opened(encode_hfile([(b"a", b"12"), (b"bcd", b"3456")], {})).info()
    assert info.pop(b"hfile.CREATE_TIME_TS") == bytes(8)
    assert info == {
        b"hfile.LASTKEY": b"\0\3bcd",
        b"hfile.AVG_KEY_LEN": struct.pack(">i", 2),
        b"hfile.AVG_VALUE_LEN": struct.pack(">i", 3),
        b"KEY_VALUE_VERSION": struct.pack(">i", 1),
        b"MAX_MEMSTORE_TS_KEY": bytes(8),
    }


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([b"b", b"a"], "expected ascending"),
        ([b"a", b"a"], "expected ascending"),
        ([b"x" * (MAX_ROW_BYTES + 1)], "more"),
    ],
)
def test_rows_that_no_reader_finds_are_refused(rows: list[bytes], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        encode_hfile([(row, b"") for row in rows], {})
