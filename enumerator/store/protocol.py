"""What a store must do: the seam between decisions and disks.

A store holds one ordered list of records and, by plan, one list of pieces (encoded scans and splits). Nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it is kept: `kind` and `version` say how `payload` is to be read."""

    kind: str
    version: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class PlanPieces:
    """What belongs to a plan and is read piece by piece: its scan and its splits, encoded."""

    plan_id: str
    scan: bytes
    splits: tuple[bytes, ...]


AHEAD_BYTES: Final = 256 << 10
"""Of the splits that `Store.splits_from` reads in one go."""


class Store(Protocol):
    """One process writes, under one epoch; appends of a process whose epoch is not the newest are refused.

    Any thread. After a failed write (StorageError) every further call fails the same way until the store is opened
    anew: nobody knows what the disk holds.
    """

    @property
    def epoch(self) -> int:
        """This process's epoch; each opening has a higher one."""
        ...

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> None:
        """Adds the records at the end, forgets the dropped plans (unknown ids are nothing), then keeps the new ones (in
        the place of one of the same id): all or nothing, durable on return. Fenced if another process opened the
        store since; StorageError."""
        ...

    def records(self) -> Iterator[StoredRecord]:
        """All records in order. StateDamaged for damage in the middle; StateVersionError for a newer store."""
        ...

    def rewrite(self, records: Iterable[StoredRecord]) -> None:
        """Replaces all records by fewer that mean the same: all or nothing, durable on return. Plans stay."""
        ...

    def plan_ids(self) -> frozenset[str]:
        """The plans kept."""
        ...

    def scan(self, plan_id: str) -> bytes:
        """Of a kept plan; KeyError else. StateDamaged."""
        ...

    def splits(self, plan_id: str, indices: Sequence[int]) -> list[bytes]:
        """Those splits of a kept plan, in the order asked; KeyError else. StateDamaged."""
        ...

    def splits_from(self, plan_id: str, first: int, most: int) -> list[bytes]:
        """Splits of a kept plan from `first` on, in order: at most `most`, fewer at its end, or where they are more
        than AHEAD_BYTES together, but one; KeyError else. StateDamaged."""
        ...

    def close(self) -> None:
        """Lets another process have the store at once. May be called again."""
        ...
