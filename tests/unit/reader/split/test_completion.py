"""Completion times looked up for a column of commit times."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest

from penstock.proto.model.positions import CompletionTimes
from penstock.reader.split.completion import CompletionColumn

TYPE = pa.timestamp("us", tz="UTC")
KNOWN = {"20260101000000": 1_000, "20260101000000000": 2_000, "20260102000000000": -3_500, "20270101000000999": 4_000}


def column(known: dict[str, int]) -> CompletionColumn:
    numbers = sorted((int(instant), completed_ms) for instant, completed_ms in known.items())
    return CompletionColumn(CompletionTimes(tuple(n for n, _ in numbers), tuple(ms for _, ms in numbers)))


def expected(known: dict[str, int], commits: list[str | None]) -> list[dt.datetime | None]:
    """Row at a time."""
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return [epoch + dt.timedelta(milliseconds=known[commit]) if commit in known else None for commit in commits]


@pytest.mark.parametrize("encoded", [False, True])
def test_random_columns_equal_a_lookup_row_at_a_time(*, encoded: bool) -> None:
    """Known commits, unknown ones before, between and after them, texts that are no instants, and nulls."""
    chosen = random.Random(11)
    values = [*KNOWN, "20250101000000000", "20260101120000000", "20300101000000000", "20260101000001", "1", "",
              "x" * 17, "020260101000000000", "99999999999999999", "²0260101000000000", None]  # fmt: skip
    for known in (KNOWN, {"20260102000000000": 7}, {}):
        for rows in (0, 1, 200):
            commits = chosen.choices(values, k=rows)
            array = pa.array(commits, pa.string())
            actual = column(known).of_commits(array.dictionary_encode() if encoded else array)
            assert actual.type == TYPE
            assert actual.to_pylist() == expected(known, commits)


def test_one_commit_for_all_rows() -> None:
    assert column(KNOWN).of_commit("20260101000000000", 3).equals(pa.array([2_000_000] * 3, TYPE))
    assert column(KNOWN).of_commit("20260101000000001", 2).equals(pa.nulls(2, TYPE))
    assert len(column({}).of_commit("20260101000000000", 0)) == 0


def test_rows_without_commit_times_have_none() -> None:
    rows = pa.RecordBatch.from_pydict({"id": [1, 2]})
    assert column(KNOWN).of_batch(rows).equals(pa.nulls(2, TYPE))
    stamped = pa.RecordBatch.from_pydict({"_hoodie_commit_time": ["20260101000000000", "nope"]})
    assert column(KNOWN).of_batch(stamped).to_pylist() == expected(KNOWN, ["20260101000000000", None])
