"""Folds the log's records by key where records fill each other's gaps: the records of a key's row, highest first.

Pure decisions over arrays, all records at once (Hudi `BufferedRecordMergerFactory`, its partial mergers). A loop over
the records in arrival order would do the following:

* a data record that wins over older data is placed above it;
* a data record that loses against the current record is placed below it, if newer records fill gaps too;
* a delete that wins removes all records of the key, and later records start a new row.

Which record wins is decided by the rule of `merge.fold`.
"""

from __future__ import annotations

import numpy as np

from penstock.proto.model.splits import CommitTimeOrdering, OrderingMode
from penstock.proto.value_classes import dataclass
from penstock.reader.merge.fold import RecordKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """records[starts[i]:starts[i + 1]] make the row of key number i, highest first; none for a deleted key."""

    records: np.ndarray
    """The records of all keys (int64, places in arrival order). Only data records are among them."""
    starts: np.ndarray
    """Where each key's records begin (int64)."""

    def members(self) -> np.ndarray:
        """Every record that is part of a row, in arrival order."""
        return np.sort(self.records)


def chains(
    mode: OrderingMode,
    numbers: np.ndarray,
    count: int,
    kinds: np.ndarray,
    ranks: np.ndarray | None,
    *,
    from_newer: bool,
) -> Chains:
    """The chain of each of `count` keys; numbers, kinds and ranks as for `merge.fold.fold`.

    `from_newer`: a newer record with a lower ordering value fills gaps of the older one.
    """
    order = np.argsort(numbers, kind="stable")
    number, kind = numbers[order], kinds[order]
    if ranks is None or isinstance(mode, CommitTimeOrdering):
        rank = np.zeros(len(order), np.int64)
    else:
        rank = np.unique(ranks, return_inverse=True)[1].astype(np.int64)[order]
    if isinstance(mode, CommitTimeOrdering):
        kind = np.where(kind == RecordKind.DATA, kind, np.uint8(RecordKind.DELETE))
    wins = _wins(number, kind, rank)
    places = np.arange(len(order))
    data = kind == RecordKind.DATA
    deleted_at = np.full(count, -1, np.int64)
    gone = wins & ~data
    np.maximum.at(deleted_at, number[gone], places[gone])
    data &= places > deleted_at[number]
    top = data & wins
    first_top = np.full(count, len(order), np.int64)
    np.minimum.at(first_top, number[top], places[top])
    beneath = data & ~wins & (places > first_top[number]) if from_newer else np.zeros(len(order), bool)
    chosen = np.flatnonzero(top | beneath)
    height = np.where(top[chosen], -chosen, chosen)
    chosen = chosen[np.lexsort((height, number[chosen]))]
    starts = np.searchsorted(number[chosen], np.arange(count + 1))
    return Chains(records=order[chosen], starts=starts)


def _wins(number: np.ndarray, kind: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Which records (sorted by key, then arrival) win when they arrive: those not below the current record of their
    key.

    A default delete starts over: until a data record follows it, other deletes change nothing.
    """
    default: np.ndarray = kind == RecordKind.DEFAULT_DELETE
    starts = default.copy()
    starts[:1] = True
    starts[1:] |= number[1:] != number[:-1]
    segment = np.cumsum(starts) - 1
    if not len(number):
        return np.zeros(0, bool)
    first = np.flatnonzero(starts)
    is_data = kind == RecordKind.DATA
    seen = np.cumsum(is_data)
    seen_before = (seen - is_data)[first]
    idle = default[first][segment] & (seen == seen_before[segment]) & ~default
    level = np.where(default | idle, 0, rank + 1) + segment * (int(rank.max()) + 2)
    highest = np.maximum.accumulate(level)
    before = np.concatenate(([-1], highest[:-1]))
    return np.asarray((level >= before) & ~idle | starts)
