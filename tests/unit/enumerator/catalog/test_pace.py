"""The pace of a listing and the delay until the next one."""

from __future__ import annotations

from penstock.enumerator.catalog.pace import delay_s, pause_s


def spread_s(steps: int, expected: int, interval_s: float) -> float:
    """How long a listing takes whose steps take no time."""
    spent_s = 0.0
    for done in range(1, steps + 1):
        spent_s += pause_s(done, spent_s, expected, interval_s)
    return spent_s


def test_first_listing_has_no_pauses() -> None:
    assert spread_s(10_000, 0, 30) == 0


def test_listing_as_large_as_the_last_takes_half_of_the_interval() -> None:
    assert 14.5 <= spread_s(6_000, 6_000, 30) <= 15


def test_small_listing_takes_no_longer_than_its_least_pace() -> None:
    assert spread_s(50, 50, 3_600) <= 1


def test_slow_storage_is_not_slowed_further() -> None:
    assert pause_s(1_600, 200.0, 1_600, 30) == 0


def test_next_listing_starts_after_the_interval_and_sooner_after_a_failure() -> None:
    assert delay_s(30, 12, 0) == 18
    assert delay_s(30, 300, 0) == 3
    assert [delay_s(30, 0, failures) for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
