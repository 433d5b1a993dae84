"""What `decide` needs of the splits of a round: their sizes, and which of them must keep an order. Arrays, no splits.

A *lane* is a file group: its splits of different rounds go to one reader at a time, in order. Lanes and partitions are
identified by 64-bit hashes. Two that collide wait for each other without need; a collision has no other effect.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.proto.errors import StateDamaged

_MAGIC: Final = b"facts1\n"
_COLUMNS: Final = 3

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SplitFacts:
    """Facts of the splits of a plan, in their order. The arrays have equal lengths and are not changed."""

    sizes: Numbers
    """Bytes, by split."""
    lanes: Numbers
    """Hash of the file group, by split."""
    partitions: Numbers
    """Hash of the partition, by split."""

    def __len__(self) -> int:
        return len(self.sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SplitFacts) and self.encoded() == other.encoded()

    def __hash__(self) -> int:
        return hash(self.encoded())

    def encoded(self) -> bytes:
        """The facts as bytes; the inverse of `decoded`."""
        table = np.stack([self.sizes, self.lanes, self.partitions]).astype("<i8")
        return _MAGIC + zlib.compress(table.tobytes(), level=1)

    @classmethod
    def decoded(cls, data: bytes, most: int = 1 << 24) -> SplitFacts:
        """The inverse of `encoded`, for at most `most` splits. StateDamaged."""
        try:
            if not data.startswith(_MAGIC):
                raise ValueError("unknown beginning")
            inflate = zlib.decompressobj()
            raw = inflate.decompress(data[len(_MAGIC) :], most * _COLUMNS * 8 + 1)
            if len(raw) > most * _COLUMNS * 8:
                raise ValueError(f"more than {most} splits")
            if not inflate.eof or inflate.unused_data:
                raise ValueError("cut short, or followed by something else")
            table = np.frombuffer(raw, dtype="<i8").reshape(_COLUMNS, -1)
        except (ValueError, zlib.error) as error:
            raise StateDamaged(f"facts of a plan's splits: {error}; the state directory is damaged") from error
        return cls(*(np.ascontiguousarray(row, dtype=np.int64) for row in table))


def facts_of(splits: Iterable[tuple[int, str, str]]) -> SplitFacts:
    """Facts of splits, each as (bytes, partition, file group)."""
    sizes, lanes, partitions = [], [], []
    for size_bytes, partition, file_group in splits:
        sizes.append(size_bytes)
        lanes.append(hash_of(partition, file_group))
        partitions.append(hash_of(partition))
    columns = (np.array(column, dtype=np.int64) for column in (sizes, lanes, partitions))
    return SplitFacts(*columns)


def sizes_alone(sizes_bytes: Iterable[int]) -> SplitFacts:
    """Facts of splits without an order: those of the plan API."""
    sizes = np.fromiter(sizes_bytes, dtype=np.int64)
    return SplitFacts(sizes, np.zeros_like(sizes), np.zeros_like(sizes))


def hash_of(*names: str) -> int:
    """A hash of the names; the same in every release, because it is persisted."""
    encoded = b"".join(len(name.encode()).to_bytes(8, "big") + name.encode() for name in names)
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "big", signed=True)
