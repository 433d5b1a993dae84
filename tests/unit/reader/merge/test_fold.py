"""The fold at once against the fold record by record, and the rules one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.reader.merge.fold import RecordKind, fold
from tests.oracle.merge import DATA, DELETE, Record
from tests.oracle.merge import fold as slow_fold

EVENT = EventTimeOrdering(("ts",))
RECORDS = st.lists(
    st.builds(
        lambda key, what, ordering, default: Record(key, what, ordering, default and what == DELETE),
        st.integers(0, 4),
        st.sampled_from([DATA, DATA, DELETE]),
        st.integers(0, 4),
        st.booleans(),
    ),
    max_size=40,
)


def kinds_of(records: list[Record]) -> np.ndarray:
    kinds = [
        RecordKind.DATA if record.what == DATA else RecordKind.DEFAULT_DELETE if record.default else RecordKind.DELETE
        for record in records
    ]
    return np.array(kinds, np.uint8)


def folded(records: list[Record], event_time: bool):
    names = {key: number for number, key in enumerate(dict.fromkeys(record.key for record in records))}
    numbers = np.array([names[record.key] for record in records], np.int64)
    ranks = np.array([record.ordering or 0 for record in records], np.int64)
    mode = EVENT if event_time else CommitTimeOrdering()
    return names, fold(mode, numbers, len(names), kinds_of(records), ranks if event_time else None)


@settings(max_examples=400, deadline=None)
@given(RECORDS, st.booleans())
def test_winner_is_the_oracles(records: list[Record], event_time: bool) -> None:
    names, result = folded(records, event_time)
    expected = slow_fold(records, event_time)
    for key, number in names.items():
        place, record = expected[key]
        if event_time and record.is_commit_time_delete:
            assert records[result.winning[number]].is_commit_time_delete
        else:
            assert result.winning[number] == place
    assert result.duplicates + result.lost + len(names) == len(records)


@pytest.mark.parametrize(
    ("history", "stands"),
    [
        ([("data", 5), ("data", 5)], 1),
        ([("data", 5), ("data", 4)], 0),
        ([("data", 5), ("delete", 5)], 1),
        ([("data", 5), ("delete", 4)], 0),
        ([("delete", 5), ("data", 4)], 0),
        ([("delete", 5), ("data", 5)], 1),
        ([("data", 5), ("default", 0)], 1),
        ([("default", 0), ("data", -9)], 1),
        ([("data", 9), ("default", 0), ("data", 1)], 2),
        ([("default", 0), ("delete", 7)], 0),
        ([("default", 0), ("delete", 7), ("data", 1)], 2),
        ([("data", 9), ("default", 0), ("delete", 7), ("data", 3), ("data", 2)], 3),
        ([("data", 9), ("default", 0), ("default", 0)], 2),
    ],
)
def test_event_time_rule(history: list[tuple[str, int]], stands: int) -> None:
    records = [Record("k", DATA if what == "data" else DELETE, ov, what == "default") for what, ov in history]
    _, result = folded(records, True)
    assert result.winning.tolist() == [stands]
    assert [records[place] for place in result.winning] == [slow_fold(records, True)["k"][1]]


def test_commit_time_takes_the_last_whatever_it_is() -> None:
    records = [Record("k", DATA, 9), Record("k", DELETE, 1), Record("k", DATA, 0)]
    _, result = folded(records, False)
    assert (result.winning.tolist(), result.duplicates, result.lost) == ([2], 2, 0)


def test_event_time_without_a_field_takes_the_last() -> None:
    result = fold(EventTimeOrdering(()), np.zeros(3, np.int64), 1, np.zeros(3, np.uint8), None)
    assert result.winning.tolist() == [2]


def test_lowest_rank_there_is_can_stand() -> None:
    lowest = np.iinfo(np.int64).min
    result = fold(EVENT, np.array([0, 0]), 1, np.zeros(2, np.uint8), np.array([lowest, lowest]))
    assert result.winning.tolist() == [1]


def test_nothing_folds_to_nothing() -> None:
    result = fold(EVENT, np.empty(0, np.int64), 0, np.empty(0, np.uint8), np.empty(0, np.int64))
    assert (len(result.winning), result.duplicates, result.lost) == (0, 0, 0)
