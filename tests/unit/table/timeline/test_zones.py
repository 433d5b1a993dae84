"""Completion times of instants as UTC milliseconds."""

from __future__ import annotations

import datetime as dt
import random
from zoneinfo import ZoneInfo

from penstock.proto.model.positions import CompletionTimes, InstantTime
from penstock.table.timeline.zones import completion_times, instant_ms

BERLIN = ZoneInfo("Europe/Berlin")


def of(*pairs: tuple[str, str], zone: dt.tzinfo = dt.UTC) -> CompletionTimes:
    return completion_times({InstantTime(requested): InstantTime(completed) for requested, completed in pairs}, zone)


def test_instants_ascend_with_the_time_of_each() -> None:
    times = of(("20260102000000000", "20260102000001500"), ("20260101000000000", "20260101000002000"))
    assert times.instants == (20260101000000000, 20260102000000000)
    assert times.completed_ms == (1767225602000, 1767312001500)


def test_random_times_equal_those_of_strptime() -> None:
    """The conversion that the release before used, for random wall clocks, valid or not."""
    chosen = random.Random(7)
    for _ in range(2_000):
        text = "".join(chosen.choice(parts) for parts in (("1999", "2026"), ("01", "12", "13"), ("01", "28", "31"),
                       ("00", "23", "24"), ("00", "59", "60"), ("00", "59", "61"), ("", "000", "999")))  # fmt: skip
        for zone in (dt.UTC, BERLIN):
            try:
                wall = dt.datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=zone)
                expected = int(wall.timestamp()) * 1000 + int(text[14:] or "0")
            except ValueError:
                expected = None
            assert instant_ms(text, zone) == expected, text


def test_local_wall_clock_is_converted() -> None:
    (summer,) = of(("20260701000000000", "20260701120000000"), zone=BERLIN).completed_ms
    assert summer == dt.datetime(2026, 7, 1, 10, tzinfo=dt.UTC).timestamp() * 1000
    (twice,) = of(("20261025000000000", "20261025023000000"), zone=BERLIN).completed_ms
    assert twice == dt.datetime(2026, 10, 25, 0, 30, tzinfo=dt.UTC).timestamp() * 1000  # the first of the two


def test_invalid_times_are_left_out() -> None:
    assert of(
        ("20260101000000000", "001"), ("001", "20260101000000000"), ("20260101000000000", "2026133100000000")
    ) == (CompletionTimes())
    assert of(("20260101000000", "20260101000001000")).instants == (20260101000000,)
    assert of() == CompletionTimes()
