"""Folds the log's records by key: which record of each key wins within the log.

Pure decisions over arrays, all records at once (Hudi `BufferedRecordMerger`, `DeleteRecord`, RFC-97). A loop over the
records in arrival order would do the following for a data record N, or a delete D, against the current winner E:

* commit time: the later record always wins;
* event time, N wins if E is a *default* delete (one without an ordering value of its own) or N's value is not below
  E's;
* event time, a default delete always wins;
* event time, another D is ignored if E is a default delete or E's value is above D's, else it wins.

The ranks define how a null value compares (`merge.ordering`).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering, OrderingMode
from penstock.proto.value_classes import dataclass


class RecordKind(IntEnum):
    """The kind of a log record."""

    DATA = 0
    """It holds a row."""
    DELETE = 1
    """It deletes the key, with an ordering value."""
    DEFAULT_DELETE = 2
    """It deletes the key, without an ordering value of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFold:
    """The winner of each key within the log."""

    winning: np.ndarray
    """By key number: the winning record (int64, place in arrival order)."""
    duplicates: int
    """How many records were followed by a newer winner."""
    lost: int
    """How many records arrived after the winner with a lower value."""


def fold(mode: OrderingMode, numbers: np.ndarray, count: int, kinds: np.ndarray, ranks: np.ndarray | None) -> LogFold:
    """The winning record of each of `count` keys.

    numbers: the key of each record, in arrival order; every key has at least one. kinds: uint8 of `RecordKind`. ranks:
    int64 in the order of the ordering values; None without an ordering field, where all values are equal.
    """
    match mode:
        case CommitTimeOrdering():
            winning = _last(numbers, count, np.arange(len(numbers)), numbers)
        case EventTimeOrdering():
            winning = _highest(numbers, count, kinds, np.zeros(len(numbers), np.int64) if ranks is None else ranks)
    final = winning[numbers]
    places = np.arange(len(numbers))
    return LogFold(
        winning=winning,
        duplicates=int(np.count_nonzero(places < final)),
        lost=int(np.count_nonzero(places > final)),
    )


def _highest(numbers: np.ndarray, count: int, kinds: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """By key, records before the last default delete are ignored; after it, deletes before the first data record are
    ignored.

    Of the others the highest wins, the latest of equals. If all are ignored, the default delete wins.
    """
    places = np.arange(len(numbers))
    is_default = kinds == RecordKind.DEFAULT_DELETE
    winning = np.full(count, -1, np.int64)
    counts = np.ones(len(numbers), bool)
    if is_default.any():
        np.maximum.at(winning, numbers[is_default], places[is_default])
        after = places > winning[numbers]
        data = after & (kinds == RecordKind.DATA)
        first_data = np.full(count, len(numbers), np.int64)
        np.minimum.at(first_data, numbers[data], places[data])
        first_data[winning < 0] = 0
        counts = after & (places >= first_data[numbers])
    highest = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(highest, numbers[counts], ranks[counts])
    top = counts & (ranks == highest[numbers])
    return _last(numbers, count, places[top], numbers[top], winning)


def _last(
    numbers: np.ndarray, count: int, places: np.ndarray, keys: np.ndarray, winning: np.ndarray | None = None
) -> np.ndarray:
    winning = np.full(count, -1, np.int64) if winning is None else winning
    np.maximum.at(winning, keys, places)
    return winning
