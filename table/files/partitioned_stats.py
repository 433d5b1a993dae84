"""The write stats of a commit by partition, decoded when they are first needed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar, overload

T = TypeVar("T")
RawStat = tuple[object, ...]
"""The fields of a write stat as the file has them, not checked."""
Decode = Callable[[str, "list[RawStat]", str], tuple[T, ...]]
"""Decodes the raw stats of a partition. CorruptFile, with the text `where`, for a stat that is not valid."""


class PartitionedStats(Sequence[T], Generic[T]):
    """The stats of some partitions, by partition, then in the order of `decode`; it equals a tuple of the same stats.

    The stats of a partition are decoded when they are first used, once, and CorruptFile is raised then. Safe to use
    from several threads: two of them may decode the same stats.
    """

    __slots__ = ("_decode", "_stats", "_where", "partitions")

    def __init__(
        self,
        stats: dict[str, list[RawStat] | tuple[T, ...]],
        decode: Decode[T],
        where: str,
        partitions: Collection[str] = (),
    ) -> None:
        """`stats` has the raw stats of each partition as a list. `partitions` are those that count, all by default."""
        self._stats = stats
        self._decode = decode
        self._where = where
        self.partitions = tuple(sorted(partitions or (name for name, items in stats.items() if items)))
        """The partitions that have stats, sorted. It decodes nothing."""

    def within(self, partitions: Collection[str]) -> Sequence[T]:
        """The stats of these partitions only. What one of both decodes, the other has as well."""
        names = [name for name in self.partitions if name in partitions]
        if len(names) == len(self.partitions):
            return self
        return PartitionedStats(self._stats, self._decode, self._where, names) if names else ()

    def raw(self, place: int) -> Iterator[object]:
        """The field at this place of each raw stat that is not decoded yet."""
        items = (self._stats[name] for name in self.partitions)
        return (stat[place] for stats in items if isinstance(stats, list) for stat in stats)

    def decode(self) -> None:
        """Decodes all stats. CorruptFile."""
        for partition in self.partitions:
            self._of(partition)

    def __len__(self) -> int:
        return sum(len(self._stats[name]) for name in self.partitions)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(map(self._of, self.partitions))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | PartitionedStats) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _of(self, partition: str) -> tuple[T, ...]:
        stats = self._stats[partition]
        if isinstance(stats, list):
            stats = self._stats[partition] = self._decode(partition, stats, self._where)
        return stats
