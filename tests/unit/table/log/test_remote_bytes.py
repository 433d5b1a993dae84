"""Bytes that are far: the same slices and the same blocks as those that are here."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock
from penstock.table.log import remote_bytes
from penstock.table.log.blocks import MAGIC, Damage, LogBlock, read_blocks
from penstock.table.log.remote_bytes import RemoteBytes, RemoteRangeTooLong


def far(data: bytes) -> RemoteBytes:
    return RemoteBytes(pa.BufferReader(data))


def block(content: bytes, kind: int) -> bytes:
    body = struct.pack(">iiiii", 1, kind, 1, 0, 3) + b"123" + struct.pack(">q", len(content)) + content + bytes(4)
    return MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 320), st.integers(0, 320)), max_size=8))
def test_slices_are_those_of_bytes_here(data: bytes, slices: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_bytes, "WINDOW_BYTES", 16)
        result = far(data)
        assert len(result) == len(data)
        assert [bytes(result[start:stop]) for start, stop in slices] == [data[start:stop] for start, stop in slices]


PIECES = st.lists(
    st.one_of(st.builds(block, st.binary(max_size=40), st.integers(0, 7)), st.binary(max_size=30), st.just(MAGIC)),
    max_size=5,
)


@given(PIECES)
def test_blocks_up_to_the_first_gap_are_the_same(pieces: list[bytes]) -> None:
    data = b"".join(pieces)

    def read(source: pa.Buffer | RemoteBytes) -> list[LogBlock | Damage | str]:
        result: list[LogBlock | Damage | str] = []
        try:
            for item in read_blocks(source, "f"):
                result.append(item)
        except CorruptBlock as error:
            result.append(str(error))
        return result

    here, present = read(pa.py_buffer(data)), read(far(data))
    if here == present:
        return
    *before, gap = present
    assert before == here[: len(before)]
    same = here[len(before)]
    assert isinstance(gap, Damage) and isinstance(same, Damage)
    assert (gap.start, gap.reason, gap.end) == (same.start, same.reason, len(data))


def test_long_slice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_bytes, "LONGEST_BYTES", 10)
    with pytest.raises(RemoteRangeTooLong, match="11 bytes at byte 2"):
        far(bytes(20))[2:13]
