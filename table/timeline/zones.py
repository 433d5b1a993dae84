"""The time zone of a timeline, by its IANA name, and times of instants in it, as moments in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import CompletionTimes, InstantTime


def named_zone(name: str) -> tzinfo:
    """The zone of this IANA name; `UTC` needs no time zone database. ConfigurationError for an unknown name."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    from zoneinfo import ZoneInfo  # late: most timelines are in UTC

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"option timelineTimezone: got {name[:80]!r}, expected a time zone's name such as Europe/Berlin or UTC"
        ) from error


def instant_ms(text: str, zone: tzinfo | None) -> int | None:
    """UTC milliseconds of an instant of 14 or 17 digits in the timeline's zone; None for another text or no zone."""
    if zone is None or len(text) not in (14, 17) or not text.isdigit():
        return None
    try:
        date, clock = (
            (int(text[:4]), int(text[4:6]), int(text[6:8])),
            (int(text[8:10]), int(text[10:12]), int(text[12:14])),
        )
        wall = datetime(*date, *clock, tzinfo=zone)
    except ValueError:
        return None
    return int(wall.timestamp()) * 1000 + int(text[14:] or "0")


def completion_times(known: Mapping[InstantTime, InstantTime], zone: tzinfo) -> CompletionTimes:
    """The completion times of instants (requested -> completion time, wall clock in `zone`) in UTC milliseconds.

    An instant whose requested or completion time is not of 14 or 17 digits, or not a calendar time, is left out. An
    hour that a zone's clock shows twice counts as the first of the two.
    """
    times: dict[int, int] = {}
    for requested, completion in known.items():
        completed_ms = instant_ms(completion, zone)
        if completed_ms is not None and len(requested) in (14, 17):
            times[int(requested)] = completed_ms
    ordered = sorted(times)
    return CompletionTimes(tuple(ordered), tuple(times[number] for number in ordered))
