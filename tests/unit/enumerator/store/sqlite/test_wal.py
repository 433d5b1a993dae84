"""Checksums of the WAL: files of SQLite are valid, and the sums equal those of the reference loop."""

from __future__ import annotations

import io
import shutil
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.store.protocol import StoredRecord
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.store.sqlite.row_format import DamagedRow
from penstock.enumerator.store.sqlite.wal import _Sums, check_wal

FRAME = 24 + 4096


def looped(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    """The checksums, by the loop in SQLite's documentation."""
    s0, s1 = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for i in range(0, len(words), 2):
        s0 = (s0 + words[i] + s1) & 0xFFFFFFFF
        s1 = (s1 + words[i + 1] + s0) & 0xFFFFFFFF
    return s0, s1


@given(
    st.integers(1, 40), st.lists(st.binary(min_size=320, max_size=320), min_size=1, max_size=4), st.sampled_from("<>")
)
def test_checksums_equal_those_of_the_reference_loop(pairs: int, blocks: list[bytes], order: str) -> None:
    cut = [block[: pairs * 8] for block in blocks]
    expected, sums = [], (0xFFFFFFFF, 7)
    for block in cut:
        sums = looped(sums, block, order)
        expected.append(sums)
    assert _Sums(pairs, order).after((0xFFFFFFFF, 7), b"".join(cut)) == expected


@pytest.fixture(scope="module")
def wal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The WAL of a store after several writes and a checkpoint."""
    tmp_path = tmp_path_factory.mktemp("wal")
    store = open_sqlite(tmp_path / "state")
    for i in range(700):
        store.append([StoredRecord("k", 1, b"%d" % i * 900)])
    shutil.copyfile(tmp_path / "state" / "penstock.db-wal", tmp_path / "copy")
    store.close()
    data = (tmp_path / "copy").read_bytes()
    assert len(data) > 600 * FRAME
    return data


def test_wal_is_valid_when_truncated_anywhere(wal: bytes) -> None:
    check_wal(io.BytesIO(wal), "wal")
    for end in [*range(100), *range(0, len(wal), 700_003)]:
        check_wal(io.BytesIO(wal[:end]), "wal")


def test_flipped_byte_before_two_commits_is_detected(wal: bytes) -> None:
    last = 32 + (len(wal) - 32) // FRAME * FRAME
    for at in [*range(32, last - 300 * FRAME, 450_001), 32 + 511 * FRAME + 30, 32 + 512 * FRAME + 30]:
        if wal[8 + 32 + (at - 32) // FRAME * FRAME :][:8] != wal[16:24]:
            break  # frames from before the checkpoint
        broken = bytearray(wal)
        broken[at] ^= 4
        whole_behind = commits_behind(wal, at)
        if whole_behind >= 2:
            with pytest.raises(DamagedRow, match=f"frame {(at - 32) // FRAME} of wal"):
                check_wal(io.BytesIO(broken), "wal")
        else:
            check_wal(io.BytesIO(broken), "wal")


def commits_behind(wal: bytes, at: int) -> int:
    """The number of transactions that end at or after the frame at this offset."""
    first = 32 + (at - 32) // FRAME * FRAME
    frames = range(first, len(wal) - FRAME + 1, FRAME)
    return sum(wal[f + 8 : f + 16] == wal[16:24] and wal[f + 4 : f + 8] != b"\0\0\0\0" for f in frames)


@pytest.mark.parametrize("data", [b"", b"\0" * 31, b"\0" * 32, b"\xff" * 500])
def test_wal_with_a_torn_header_has_no_frames(data: bytes) -> None:
    check_wal(io.BytesIO(data), "wal")


def test_file_that_is_no_wal_is_corruption() -> None:
    with pytest.raises(DamagedRow, match="header of wal"):
        check_wal(io.BytesIO(b"\0" * 10_000), "wal")
