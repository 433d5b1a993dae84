"""Time zones by name, in which a timeline may be written. Not here: what an instant's digits mean in one."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from penstock.proto.errors import ConfigurationError


def named_zone(name: str) -> tzinfo:
    """The zone of this IANA name (`UTC` needs no database). ConfigurationError if there is none."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"option timelineTimezone: got {name[:80]!r}, expected a time zone's name such as Europe/Berlin or UTC"
        ) from error
