"""A file whose end is replaced."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from penstock.reader.base.orc import other_end
from penstock.reader.base.orc.other_end import with_other_end
from penstock.table.orc_tail import OrcTail
from penstock.table.orc_timestamps import OtherEnd

TAIL = OrcTail(postscript=b"", footer_at=10, footer=b"", codec=0, block_bytes=1)


@pytest.mark.parametrize("repeated", [(b"abc", 12), (b"abcd", 0), (b"x", 1)])
def test_each_part_of_it_is_read(repeated: tuple[bytes, int]) -> None:
    part, size = repeated
    expected = b"0123456789" + part * (size // len(part)) + b"the end"
    with with_other_end(pa.BufferReader(b"0123456789 and the footer"), TAIL, OtherEnd(part, size, b"the end")) as file:
        assert file.size() == len(expected)
        assert file.read() == expected
        rng = random.Random(1)
        for _ in range(300):
            begin, length = rng.randrange(len(expected) + 2), rng.randrange(len(expected) + 2)
            file.seek(begin)
            assert file.read(length) == expected[begin : begin + length]


def test_a_file_that_ends_before_is_read_to_its_end() -> None:
    with with_other_end(pa.BufferReader(b"0123"), TAIL, OtherEnd(b"", 0, b"the end")) as file:
        assert file.read(8) == b"0123"


def test_repeated_bytes_are_not_all_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_end, "_MOST_READ_BYTES", 100)
    with with_other_end(pa.BufferReader(bytes(10)), TAIL, OtherEnd(b"abc", 1 << 40, b"")) as file:
        file.seek(10 + (1 << 39))
        assert len(file.read(100)) == 100
        with pytest.raises(pa.ArrowInvalid, match="a read of 101 bytes"):
            file.read(101)
