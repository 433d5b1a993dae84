"""Detects damage in the middle of SQLite's WAL, which SQLite treats as the end of the WAL. Pure.

SQLite reads a WAL up to the first frame whose checksum does not match, and drops the rest (its file format,
"The Write-Ahead Log"). This is correct only for a torn tail. With `synchronous=FULL` a transaction begins after the
previous one was synced, so at most the last transaction can be partly on disk. If two commits follow a broken frame, at
least one of them was acknowledged and must not be dropped. A flipped bit in the last transaction cannot be
distinguished from a torn write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Final

import numpy as np
import numpy.typing as npt

from penstock.enumerator.store.sqlite.row_format import DamagedRow

_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_MAGIC: Final = 0x377F0682
"""The last bit is the byte order of the checksums."""
_LEAST_PAGE, _MOST_PAGE = 512, 65536
_FRAMES_AT_A_TIME: Final = 512
_MASK: Final = 0xFFFFFFFF

Words = npt.NDArray[np.uint32]


def check_wal(stream: IO[bytes], name: str) -> None:
    """DamagedRow if acknowledged transactions follow a damaged frame. `stream`: the whole file, from its beginning."""
    header = stream.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return
    magic, _, page_bytes, _, salt_1, salt_2, *checksums = struct.unpack(">8I", header)
    order = ">" if magic & 1 else "<"
    sound = magic & ~1 == _MAGIC and _LEAST_PAGE <= page_bytes <= _MOST_PAGE and page_bytes & (page_bytes - 1) == 0
    sums = _Sums(3, order).after((0, 0), header[:24])[0] if sound else (0, 0)
    if not sound or sums != tuple(checksums):
        if len(stream.read(_FRAME_HEADER_BYTES + _LEAST_PAGE)) < _FRAME_HEADER_BYTES + _LEAST_PAGE:
            return  # no frame was ever written after it
        raise DamagedRow(f"the header of {name} does not fit its checksum")
    broken: int | None = None
    commits = 0
    for number, (salts, size, fits) in enumerate(_frames(stream, page_bytes, sums, order)):
        ours = salts == (salt_1, salt_2)
        if broken is None and not (ours and fits):
            broken = number
        if broken is not None and ours and size:
            commits += 1
            if commits > 1:
                raise DamagedRow(f"frame {broken} of {name}, with acknowledged transactions after it")


def _frames(
    stream: IO[bytes], page_bytes: int, sums: tuple[int, int], order: str
) -> Iterator[tuple[tuple[int, int], int, bool]]:
    """Yields the salts of each whole frame, the database size of a commit (else 0), whether its checksum matches."""
    frame_bytes = _FRAME_HEADER_BYTES + page_bytes
    frame_sums = _Sums(1 + page_bytes // 8, order)
    while data := stream.read(frame_bytes * _FRAMES_AT_A_TIME):
        starts = range(0, len(data) - frame_bytes + 1, frame_bytes)
        summed = b"".join(data[at : at + 8] + data[at + _FRAME_HEADER_BYTES : at + frame_bytes] for at in starts)
        reached = frame_sums.all_after(sums, summed)
        for at in starts:
            _, size, salt_1, salt_2, *checksums = struct.unpack_from(">6I", data, at)
            sums = next(reached)
            yield (salt_1, salt_2), size, sums == tuple(checksums)


class _Sums:
    """SQLite's running checksum over blocks of `pairs` pairs of words: `s0 += a + s1; s1 += b + s0`, modulo 2^32.

    One step is the matrix (1 1; 1 2) and the pair (a, a + b), so a block is one product with powers of that matrix.
    """

    def __init__(self, pairs: int, order: str) -> None:
        powers = [(1, 0, 0, 1)]
        for _ in range(pairs):
            p, q, r, s = powers[-1]
            powers.append(((p + r) & _MASK, (q + s) & _MASK, (p + 2 * r) & _MASK, (q + 2 * s) & _MASK))
        self._whole = powers.pop()
        self._weights: Words = np.array(powers[::-1], np.uint32)
        self._dtype = np.dtype(f"{order}u4")
        self._pairs = pairs

    def all_after(self, sums: tuple[int, int], data: bytes) -> Iterator[tuple[int, int]]:
        """The checksum after each block of the data."""
        words = np.frombuffer(data, self._dtype).astype(np.uint32).reshape(-1, self._pairs, 2)
        first = words[:, :, 0]
        second = first + words[:, :, 1]
        weights = self._weights
        added_0 = (first * weights[:, 0] + second * weights[:, 1]).sum(axis=1, dtype=np.uint32)
        added_1 = (first * weights[:, 2] + second * weights[:, 3]).sum(axis=1, dtype=np.uint32)
        p, q, r, s = self._whole
        for one, two in zip(added_0.tolist(), added_1.tolist(), strict=True):
            sums = (p * sums[0] + q * sums[1] + one) & _MASK, (r * sums[0] + s * sums[1] + two) & _MASK
            yield sums

    def after(self, sums: tuple[int, int], data: bytes) -> list[tuple[int, int]]:
        """`all_after` as a list."""
        return list(self.all_after(sums, data))
