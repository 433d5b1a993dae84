"""What a split's reading cost, by a clock of the test's own."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.reports import PHASES, MergeOutcomes
from penstock.reader.split.report import SplitTally, max_event_time_us


def test_phases_add_up_by_the_clock_given() -> None:
    ticks = count(0, 2)
    tally = SplitTally(clock=lambda: float(next(ticks)))
    with tally.phase("merge"):
        pass
    with tally.phase("merge"):
        pass
    with pytest.raises(ValueError, match="boom"), tally.phase("emit"):
        raise ValueError("boom")
    report = tally.report()
    assert dict(report.phase_ms) == dict.fromkeys(PHASES, 0) | {"merge": 4000, "emit": 2000}


def test_time_within_a_phase_counts_for_the_inner_one() -> None:
    now = 0.0
    tally = SplitTally(clock=lambda: now)
    inner = tally.nested()
    with tally.phase("merge"):
        now = 1.0
        with inner.phase("base_decode"):
            now = 3.0
        now = 7.0
    now = 100.0  # between batches: nobody's

    def slow() -> Iterator[int]:
        nonlocal now
        for number in range(3):
            now += 10
            with tally.phase("open"):
                now += 1
            yield number

    for _ in tally.timed("emit", slow()):
        now += 1000
    assert dict(tally.report().phase_ms) == dict.fromkeys(PHASES, 0) | {
        "merge": 5000, "base_decode": 2000, "emit": 30_000, "open": 3000
    }  # fmt: skip


def test_rows_bytes_outcomes_and_the_highest_event_time() -> None:
    tally = SplitTally(event_time="at")
    tally.begin(123)
    kind = pa.timestamp("us", "UTC")
    for values in ([5, None], [9, 7], [None], []):
        tally.count_batch(pa.record_batch({"at": pa.array(values, kind)}))
    tally.set_outcomes(MergeOutcomes(won=2))
    report = tally.report()
    assert (report.rows, report.size_bytes, report.outcomes.won, report.max_event_time_us) == (5, 123, 2, 9)


def test_nothing_read_reports_nothing() -> None:
    report = SplitTally().report()
    assert (report.rows, report.size_bytes, report.max_event_time_us) == (0, 0, None)
    assert report.outcomes == MergeOutcomes()


def test_date_is_its_midnight() -> None:
    assert max_event_time_us(pa.array([datetime.date(1970, 1, 3)]), "day") == 2 * 86_400_000_000
    assert max_event_time_us(pa.array([-1], pa.timestamp("us")), "at") == -1


def test_column_without_a_time_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="event-time column 'n' is string"):
        max_event_time_us(pa.array(["1"]), "n")


@pytest.mark.parametrize(("unit", "expected"), [("s", 3_000_000), ("ms", 3_000), ("us", 3), ("", None)])
def test_plain_numbers_have_the_given_unit(unit: str, expected: int | None) -> None:
    assert max_event_time_us(pa.array([3, None, -5]), "n", unit) == expected
    assert max_event_time_us(pa.array([2**62]), "n", "s") is None, "beyond 64 bits of microseconds"
