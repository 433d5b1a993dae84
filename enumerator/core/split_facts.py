"""What `decide` needs of the splits of a round: sizes, order, and bounds of event times. Arrays, no splits.

A *lane* is a file group: its splits of different rounds go to one reader at a time, in order. Lanes and partitions are
identified by 64-bit hashes. Two that collide wait for each other without need; a collision has no other effect.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.errors import StateDamaged

_LAYOUTS: Final = {b"facts1\n": 3, b"facts2\n": 5}
"""The number of columns by the first bytes. The second layout has event times."""
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1

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
    lows_us: Numbers | None = None
    """By split: no row has an earlier event time; the lowest number if a row may have any, the highest if no row has an
    event time. None if the bounds are not known."""
    highs_us: Numbers | None = None
    """By split: no row has a later event time; the lowest number if unknown. None if the bounds are not known."""

    def __len__(self) -> int:
        return len(self.sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SplitFacts) and self.encoded() == other.encoded()

    def __hash__(self) -> int:
        return hash(self.encoded())

    def encoded(self) -> bytes:
        """The facts as bytes; the inverse of `decoded`."""
        columns = [self.sizes, self.lanes, self.partitions]
        if self.lows_us is not None and self.highs_us is not None:
            columns += [self.lows_us, self.highs_us]
        magic = next(magic for magic, count in _LAYOUTS.items() if count == len(columns))
        return magic + zlib.compress(np.stack(columns).astype("<i8").tobytes(), level=1)

    def span(self) -> EventTimeSpan:
        """The span of the event times of all splits."""
        if self.lows_us is None or self.highs_us is None:
            return EventTimeSpan(is_unbounded=len(self) > 0)
        low = int(self.lows_us.min(initial=_HIGHEST))
        high = int(self.highs_us.max(initial=_LOWEST))
        return EventTimeSpan(
            None if low in (_LOWEST, _HIGHEST) else low, None if high == _LOWEST else high, low == _LOWEST
        )

    def admitted(self, until_us: int | None) -> npt.NDArray[np.bool_]:
        """By split: whether no row has an event time above `until_us`, as far as the bounds are known. None: whether no
        row has an event time."""
        if self.lows_us is None or self.highs_us is None:
            return np.zeros(len(self), dtype=np.bool_)
        admitted: npt.NDArray[np.bool_] = self.lows_us == _HIGHEST
        if until_us is not None:
            admitted |= (self.lows_us != _LOWEST) & (self.highs_us <= until_us)
        return admitted

    def is_admitted(self, index: int, until_us: int | None) -> bool:
        """`admitted` of one split, or whether it is unbounded."""
        if self.lows_us is None or self.highs_us is None:
            return True
        low_us = int(self.lows_us[index])
        return low_us in (_HIGHEST, _LOWEST) or (until_us is not None and int(self.highs_us[index]) <= until_us)

    def unbounded(self) -> npt.NDArray[np.bool_]:
        """By split: whether a row may have any event time."""
        return np.ones(len(self), dtype=np.bool_) if self.lows_us is None else self.lows_us == _LOWEST

    def is_unbounded(self, index: int) -> bool:
        """`unbounded` of one split."""
        return self.lows_us is None or int(self.lows_us[index]) == _LOWEST

    @classmethod
    def decoded(cls, data: bytes, most: int = 1 << 24) -> SplitFacts:
        """The inverse of `encoded`, for at most `most` splits. StateDamaged."""
        try:
            magic = next((magic for magic in _LAYOUTS if data.startswith(magic)), None)
            if magic is None:
                raise ValueError("unknown beginning")
            columns, inflate = _LAYOUTS[magic], zlib.decompressobj()
            raw = inflate.decompress(data[len(magic) :], most * columns * 8 + 1)
            if len(raw) > most * columns * 8:
                raise ValueError(f"more than {most} splits")
            if not inflate.eof or inflate.unused_data:
                raise ValueError("cut short, or followed by something else")
            table = np.frombuffer(raw, dtype="<i8").reshape(columns, -1)
        except (ValueError, zlib.error) as error:
            raise StateDamaged(f"facts of a plan's splits: {error}; the state directory is damaged") from error
        return cls(*(np.ascontiguousarray(row, dtype=np.int64) for row in table))


def facts_of(splits: Iterable[tuple[int, str, str]], event_times: Sequence[EventTimeSpan] | None = None) -> SplitFacts:
    """Facts of splits, each as (bytes, partition, file group), with the span of the event times of each."""
    sizes, lanes, partitions = [], [], []
    for size_bytes, partition, file_group in splits:
        sizes.append(size_bytes)
        lanes.append(hash_of(partition, file_group))
        partitions.append(hash_of(partition))
    columns = (np.array(column, dtype=np.int64) for column in (sizes, lanes, partitions))
    facts = SplitFacts(*columns)
    if event_times is None:
        return facts
    lows = [_LOWEST if span.is_unbounded else _HIGHEST if span.low_us is None else span.low_us for span in event_times]
    highs = [_LOWEST if span.high_us is None else span.high_us for span in event_times]
    return replace(facts, lows_us=np.array(lows, dtype=np.int64), highs_us=np.array(highs, dtype=np.int64))


def sizes_alone(sizes_bytes: Iterable[int]) -> SplitFacts:
    """Facts of splits without an order: those of the plan API."""
    sizes = np.fromiter(sizes_bytes, dtype=np.int64)
    return SplitFacts(sizes, np.zeros_like(sizes), np.zeros_like(sizes))


def hash_of(*names: str) -> int:
    """A hash of the names; the same in every release, because it is persisted."""
    encoded = b"".join(len(name.encode()).to_bytes(8, "big") + name.encode() for name in names)
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "big", signed=True)
