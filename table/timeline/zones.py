"""The time zone of a timeline, by its IANA name."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from penstock.proto.errors import ConfigurationError


def named_zone(name: str) -> tzinfo:
    """The zone of this IANA name; `UTC` needs no time zone database. ConfigurationError for an unknown name."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"option timelineTimezone: got {name[:80]!r}, expected a time zone's name such as Europe/Berlin or UTC"
        ) from error
