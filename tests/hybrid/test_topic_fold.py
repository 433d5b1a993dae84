"""`topic_fold` reports rows that are lost, repeated, unknown, out of order or on the wrong side of the hand-over."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random

import pytest

from tests.hybrid.topic_fold import Change, append_problems, change_problems, fold, fold_topic
from tests.hybrid.topic_records import FIRST_MS, Record, Row

SEAM = {0: 7, 1: 4, 2: 0}


def record(partition: int, offset: int, key: str, ts: int, n: int | None) -> Record:
    """A record; a delete if `n` is None."""
    if n is None:
        return Record(partition, offset, key, None)
    at = dt.datetime.fromtimestamp((FIRST_MS + ts) / 1000, dt.UTC).isoformat()
    fields = {"id": key, "region": "eu", "ts": ts, "n": n, "at": at, "amount": 0.5}
    return Record(partition, offset, key, json.dumps(fields).encode())


@pytest.fixture
def records() -> list[Record]:
    """Three partitions of two keys each, with late records and deletes without effect."""
    rng, records = random.Random(5), list[Record]()
    for partition in range(3):
        for offset in range(12):
            key = f"k{partition}{rng.randrange(2)}"
            deletes = rng.random() < 0.2
            ts = 10 * offset if rng.random() < 0.8 or deletes else 10 * offset - 5
            records.append(record(partition, offset, key, ts, None if deletes else 100 * partition + offset))
    return records


def exact(records: list[Record]) -> list[Change]:
    """The expected changes of a stream."""
    below = [one for one in records if one.offset < SEAM[one.partition]]
    lake = [Change("+I", f"1{key}", True, key, row) for key, row in sorted(fold_topic(below).items())]
    after = [(one, one.row()) for one in records if one.offset >= SEAM[one.partition]]
    return lake + [
        Change("-D" if row is None else "+U", f"99{one.offset:03}{one.partition}", False, one.key, row)
        for one, row in after
    ]


def rows(records: list[Record]) -> list[Row]:
    return [row for one in records if (row := one.row()) is not None]


def test_fold_keeps_the_highest_time_and_the_later_of_equal_ones() -> None:
    first, late, equal = (record(0, n, "k", ts, n).row() for n, ts in ((1, 20), (2, 10), (3, 20)))
    assert fold([("k", first), ("k", late)]) == {"k": first}
    assert fold([("k", first), ("k", late), ("k", equal)]) == {"k": equal}
    assert fold([("k", first), ("k", None), ("k", late)]) == {"k": late}


def test_exact_stream_has_no_problem(records: list[Record]) -> None:
    assert not list(change_problems(exact(records), records, [{0: 1, 1: 1, 2: 1}, SEAM]))
    assert not list(append_problems(rows(records), records))


def test_wrong_hand_over_offsets_are_a_problem(records: list[Record]) -> None:
    assert list(change_problems(exact(records), records, [{**SEAM, 0: 8}]))
    assert list(change_problems(exact(records), records, [])) == ["nothing was handed over"]


@pytest.mark.parametrize("at", range(0, 30, 3))
def test_lost_or_doubled_change_is_a_problem(records: list[Record], at: int) -> None:
    changes = exact(records)
    at %= len(changes)
    assert list(change_problems(changes[:at] + changes[at + 1 :], records, [SEAM]))
    assert list(change_problems([*changes, changes[at]], records, [SEAM]))


def test_changes_out_of_order_are_a_problem(records: list[Record]) -> None:
    changes = exact(records)
    one, other = [number for number, change in enumerate(changes) if not change.is_of_lake and change.row][:4:3]
    changes[one], changes[other] = (
        dataclasses.replace(changes[one], sequence=changes[other].sequence),
        dataclasses.replace(changes[other], sequence=changes[one].sequence),
    )
    assert list(change_problems(changes, records, [SEAM]))


def test_lost_doubled_unknown_or_changed_rows_are_problems(records: list[Record]) -> None:
    all_rows = rows(records)
    (lost,) = append_problems(all_rows[1:], records)
    assert "lost" in lost and "(0, " in lost
    (doubled,) = append_problems([*all_rows, all_rows[3]], records)
    assert "were repeated" in doubled
    (strange,) = append_problems([*all_rows, (*all_rows[0][:3], -7, *all_rows[0][4:])], records)
    assert "of no record" in strange and "-7" in strange
    (changed,) = append_problems([(*all_rows[0][:-1], "other"), *all_rows[1:]], records)
    assert "differ" in changed
