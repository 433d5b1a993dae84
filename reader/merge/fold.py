"""The log's records folded by key: which record of each key stands for it when the base is met.

Pure decisions over arrays, all records at once (Hudi `BufferedRecordMerger`, `DeleteRecord`, RFC-97). What the loop
over the records in arrival order would do, for data N or a delete D against the standing record E:

* commit time: the later always stands;
* event time: N stands if E is a *default* delete (one without an ordering value of its own) or its value is not below
  E's. A default delete always stands. Another D changes nothing if E is a default delete or E's value is above D's,
  else it stands. What a null value is, the ranks say (`merge.ordering`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering, MergeMode


class RecordKind(IntEnum):
    """What a log record says about its key."""

    DATA = 0
    DELETE = 1
    DEFAULT_DELETE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """standing[number]: the record (place in arrival order, int64) that stands for the key.

    `duplicates` records were followed by a newer one that stands; `lost` ones came after it, with a lower value.
    """

    standing: np.ndarray
    duplicates: int
    lost: int


def fold(mode: MergeMode, numbers: np.ndarray, count: int, kinds: np.ndarray, ranks: np.ndarray | None) -> Folded:
    """The standing record of each of `count` keys.

    numbers: the key of each record, in arrival order; every key has one. kinds: uint8 of `RecordKind`. ranks: int64
    whose order is that of the ordering values; None without an ordering field, where all values are equal.
    """
    match mode:
        case CommitTimeOrdering():
            standing = _last(numbers, count, np.arange(len(numbers)), numbers)
        case EventTimeOrdering():
            standing = _highest(numbers, count, kinds, np.zeros(len(numbers), np.int64) if ranks is None else ranks)
    final = standing[numbers]
    places = np.arange(len(numbers))
    return Folded(
        standing=standing,
        duplicates=int(np.count_nonzero(places < final)),
        lost=int(np.count_nonzero(places > final)),
    )


def _highest(numbers: np.ndarray, count: int, kinds: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """By key: nothing before the last default delete counts; behind it, deletes do not count before the first data.

    Of what counts the highest stands, the latest of equals; if nothing counts, the default delete.
    """
    places = np.arange(len(numbers))
    is_default = kinds == RecordKind.DEFAULT_DELETE
    standing = np.full(count, -1, np.int64)
    counts = np.ones(len(numbers), bool)
    if is_default.any():
        np.maximum.at(standing, numbers[is_default], places[is_default])
        behind = places > standing[numbers]
        data = behind & (kinds == RecordKind.DATA)
        first_data = np.full(count, len(numbers), np.int64)
        np.minimum.at(first_data, numbers[data], places[data])
        first_data[standing < 0] = 0
        counts = behind & (places >= first_data[numbers])
    highest = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(highest, numbers[counts], ranks[counts])
    top = counts & (ranks == highest[numbers])
    return _last(numbers, count, places[top], numbers[top], standing)


def _last(
    numbers: np.ndarray, count: int, places: np.ndarray, keys: np.ndarray, standing: np.ndarray | None = None
) -> np.ndarray:
    standing = np.full(count, -1, np.int64) if standing is None else standing
    np.maximum.at(standing, keys, places)
    return standing
