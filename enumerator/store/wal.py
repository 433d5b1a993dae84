"""Whether SQLite's WAL is damaged in the middle, which SQLite itself takes for its end. Pure: a function of its bytes.

SQLite reads a WAL up to the first frame whose checksum does not fit, and drops the rest (its file format,
"The Write-Ahead Log"). That is right for a torn tail alone: with `synchronous=FULL` a transaction is
begun when the one before it was synced, so that at most one, the last, can be half on disk. Two commits behind a
broken frame were acknowledged: to drop them would be to forget what was promised. A flip in the very last transaction
looks like a torn write; nobody can tell.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Final

import numpy as np
import numpy.typing as npt

from penstock.enumerator.store.row_format import DamagedRow

_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_MAGIC: Final = 0x377F0682
"""The last bit says in which byte order the checksums are."""
_LEAST_PAGE, _MOST_PAGE = 512, 65536
_FRAMES_AT_A_TIME: Final = 512
_MASK: Final = 0xFFFFFFFF

Words = npt.NDArray[np.uint32]


def check_wal(stream: IO[bytes], name: str) -> None:
    """DamagedRow if acknowledged transactions stand behind damage. `stream`: the whole file, from its beginning."""
    header = stream.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return
    magic, _, page_bytes, _, salt_1, salt_2, *told = struct.unpack(">8I", header)
    order = ">" if magic & 1 else "<"
    sound = magic & ~1 == _MAGIC and _LEAST_PAGE <= page_bytes <= _MOST_PAGE and page_bytes & (page_bytes - 1) == 0
    sums = _Sums(3, order).after((0, 0), header[:24])[0] if sound else (0, 0)
    if not sound or sums != tuple(told):
        if len(stream.read(_FRAME_HEADER_BYTES + _LEAST_PAGE)) < _FRAME_HEADER_BYTES + _LEAST_PAGE:
            return  # no frame was ever written behind it
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
                raise DamagedRow(f"frame {broken} of {name}, with acknowledged transactions behind it")


def _frames(
    stream: IO[bytes], page_bytes: int, sums: tuple[int, int], order: str
) -> Iterator[tuple[tuple[int, int], int, bool]]:
    """Of each whole frame: its salts, the size that a commit gives (else 0), whether its checksum fits."""
    frame_bytes = _FRAME_HEADER_BYTES + page_bytes
    weighed = _Sums(1 + page_bytes // 8, order)
    while data := stream.read(frame_bytes * _FRAMES_AT_A_TIME):
        starts = range(0, len(data) - frame_bytes + 1, frame_bytes)
        summed = b"".join(data[at : at + 8] + data[at + _FRAME_HEADER_BYTES : at + frame_bytes] for at in starts)
        reached = weighed.all_after(sums, summed)
        for at in starts:
            _, size, salt_1, salt_2, *told = struct.unpack_from(">6I", data, at)
            sums = next(reached)
            yield (salt_1, salt_2), size, sums == tuple(told)


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
        """The sums behind each block of the data."""
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
        """As `all_after`, at once."""
        return list(self.all_after(sums, data))
