"""The interface of a store.

A store holds one ordered list of records, and one list of pieces (the encoded scan and splits) for each plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """An encoded record."""

    kind: str
    """The kind of the record."""
    version: int
    """The version of the payload format of this kind."""
    payload: bytes
    """The encoded record."""


def check_record(record: StoredRecord) -> None:
    """ValueError for a record without a kind, or with a version outside 0 to MAX_VERSION."""
    if not record.kind or not 0 <= record.version <= MAX_VERSION:
        raise ValueError(f"record {record.kind!r} version {record.version}: expected a kind and a version below 2^31")


@dataclass(frozen=True, slots=True)
class PlanPieces:
    """A plan, encoded in pieces that are read one by one."""

    plan_id: str
    """The plan's id."""
    scan: bytes
    """The encoded scan."""
    splits: tuple[bytes, ...]
    """The encoded splits, in order."""


MAX_VERSION: Final = (1 << 31) - 1
"""The highest version of a record."""
AHEAD_BYTES: Final = 256 << 10
"""The most bytes that one call of `Store.splits_from` returns, except for a single larger split."""


class Store(Protocol):
    """One process writes, under one epoch. Appends of a process whose epoch is not the newest are refused.

    Any thread. After a failed write (StorageError) every further call fails with the same error until the store is
    opened again, because the content of the disk is unknown.
    """

    @property
    def epoch(self) -> int:
        """The epoch of this process. Each opening has a higher one."""
        ...

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> None:
        """Appends the records, drops plans (unknown ids are ignored), then writes the new plans (each replaces one of
        the same id). Atomic, and durable on return. Fenced if another process has opened the store since;
        StorageError."""
        ...

    def records(self) -> Iterator[StoredRecord]:
        """All records in order. StateDamaged for damage in the middle; StateVersionError for a newer store."""
        ...

    def rewrite(self, records: Iterable[StoredRecord]) -> None:
        """Replaces all records by fewer equivalent ones. Atomic, and durable on return. Plans stay."""
        ...

    def plan_ids(self) -> frozenset[str]:
        """The ids of the held plans."""
        ...

    def scan(self, plan_id: str) -> bytes:
        """The scan of a held plan; KeyError for an unknown id. StateDamaged."""
        ...

    def splits(self, plan_id: str, indices: Sequence[int]) -> list[bytes]:
        """These splits of a held plan, in the order of `indices`; KeyError for an unknown one. StateDamaged."""
        ...

    def splits_from(self, plan_id: str, first: int, most: int) -> list[bytes]:
        """Splits of a held plan from `first` on, in order: at most `most`, and at most AHEAD_BYTES, but at least one.
        KeyError for an unknown plan or split. StateDamaged."""
        ...

    def close(self) -> None:
        """Closes the store, so that another process can open it at once. May be called again."""
        ...
