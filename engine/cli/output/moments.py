"""Points in time as text."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(at_ms: int) -> str:
    """UTC as ISO text with milliseconds; a time outside the calendar as its number."""
    try:
        text = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
    return text.replace("+00:00", "Z")
