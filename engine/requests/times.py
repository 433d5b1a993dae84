"""Parses the texts of `after`, `upto` and `asOf` into positions and instants of a timeline; pure.

No clock is read: the results depend only on the text and the time zone. Accepted texts:

* 14 or 17 digits: the instant itself, compared as text as Hudi does; never converted. Zeros only (1 to 13): `earliest`.
* `earliest`, `latest`: before every instant; the newest position.
* `2026-01-31`: midnight. `2026-01-31T23:59:59.123` (or a blank for the T): that millisecond; finer digits are cut off.
* `2026-01-31T23:59:59`: that second *as a whole*, so its last millisecond (Hudi's `HoodieInstantTimeGenerator` pads
  with 999): `upto` includes the second, `after` begins after it, and ranges cut at the same text neither lose nor
  repeat an instant.
* A zone at the end (`Z`, `+01:00`): the time is in this zone. Without a zone the time is in the timeline's zone.
* 10 digits, 13 digits, in `asOf` only: seconds, milliseconds since 1970 UTC.

Instants are wall clock in the timeline's zone (`hoodie.table.timeline.timezone`): UTC, or LOCAL for the local time of
the writer. A table does not record the writer's zone; the option `timelineTimezone` sets it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TypeAlias

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Latest
from penstock.proto.value_classes import dataclass
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.zones import named_zone

Time: TypeAlias = str | datetime | date
"""A time as callers write it; `penstock.proto.options.types.Time` gives its text."""

ZoneFor = Callable[[str], tzinfo]
"""Returns the timeline's zone for the conversion of a text. ConfigurationError: unknown; the error names the option."""

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|z|[+-]\d\d:?\d\d)?)?", flags=re.ASCII)
_FORMS = "an instant of 14 or 17 digits, an ISO date or time such as 2026-01-31T23:59:59.000Z"


@dataclass(frozen=True, slots=True)
class TimelineZone:
    """The zone in which the instants of a table are written, as far as it is known."""

    table: str
    """The table, for error texts."""
    declared: str
    """The table's `hoodie.table.timeline.timezone`: UTC or LOCAL."""
    option: str | None = None
    """The caller's `timelineTimezone`; None without the option."""

    def known(self) -> tzinfo | None:
        """The zone; None for a LOCAL timeline without the option. ConfigurationError: the option is not a time zone."""
        if self.declared.upper() == "UTC":
            return UTC
        return None if self.option is None else named_zone(self.option)

    def required(self, text: str) -> tzinfo:
        """The zone. ConfigurationError: the zone is unknown, so that `text` cannot be converted."""
        zone = self.known()
        if zone is None:
            raise ConfigurationError(
                f"cannot convert {text!r} for table {redacted_uri(self.table)}: its timeline is written in its "
                "writer's local time (hoodie.table.timeline.timezone=LOCAL); set the option timelineTimezone to the "
                "writer's zone, such as Europe/Berlin, or give an instant's digits"
            )
        return zone


def range_bound(option: str, text: str, zone: ZoneFor) -> Position | Latest:
    """The bound that `after` or `upto` names: a whole order key, EARLIEST or Latest. ConfigurationError otherwise."""
    word = text.strip()
    if word == "latest":
        return Latest()
    if word == "earliest" or re.fullmatch(r"0{1,13}", word):
        return EARLIEST
    if re.fullmatch(r"[0-9]{14}|[0-9]{17}", word):
        return Position(InstantTime(word))
    if word.isdecimal():
        raise ConfigurationError(
            f"option {option}: got {text[:80]!r}, expected {_FORMS}, earliest or latest (only asOf accepts seconds or "
            "milliseconds since 1970)"
        )
    instant = _iso_instant(word, zone)
    if instant is None:
        raise ConfigurationError(f"option {option}: got {text[:80]!r}, expected {_FORMS}, earliest or latest")
    return Position(instant)


def requested_time(option: str, text: str, zone: ZoneFor) -> InstantTime:
    """The instant that `asOf` names, as Hudi's `formatQueryInstant` (plus zones). ConfigurationError otherwise."""
    word = text.strip()
    if re.fullmatch(r"[0-9]{14}|[0-9]{17}", word):
        return InstantTime(word)
    if re.fullmatch(r"[0-9]{10}|[0-9]{13}", word):
        milliseconds = int(word) * (1000 if len(word) == 10 else 1)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
        return _digits(moment.astimezone(zone(text)))
    instant = _iso_instant(word, zone)
    if instant is None:
        raise ConfigurationError(
            f"option {option}: got {text[:80]!r}, expected {_FORMS}, or seconds (10 digits) or milliseconds (13) since "
            "1970; for the newest state leave it out"
        )
    return instant


def utc_of(instant: str, zone: tzinfo) -> datetime | None:
    """The UTC time of an instant in the wall clock of `zone`; None if the digits are not a calendar time."""
    padded = instant + "999" if len(instant) == 14 else instant
    if not re.fullmatch(r"[0-9]{17}", padded):
        return None
    try:
        wall = datetime.strptime(padded[:14], "%Y%m%d%H%M%S").replace(microsecond=int(padded[14:]) * 1000, tzinfo=zone)
        return wall.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _iso_instant(word: str, zone: ZoneFor) -> InstantTime | None:
    match = _ISO.fullmatch(word)
    if match is None:
        return None
    day, clock, fraction, offset = match.groups()
    timeline = zone(word)
    if clock is None:
        clock, fraction = "00:00:00", "000"
    millisecond = "999" if fraction is None else (fraction + "00")[:3]
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}.{millisecond}{(offset or '').upper()}")
        return _digits(moment if moment.tzinfo is None else moment.astimezone(timeline))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"not a calendar time: {word!r} ({error})") from error


def _digits(wall: datetime) -> InstantTime:
    text = f"{wall.year:04d}{wall.month:02d}{wall.day:02d}{wall.hour:02d}{wall.minute:02d}{wall.second:02d}"
    return InstantTime(f"{text}{wall.microsecond // 1000:03d}")
