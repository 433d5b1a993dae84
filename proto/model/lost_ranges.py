"""`OnLostRange`, the policy of streams and groups for a range that can no longer be read."""

from __future__ import annotations

import enum


class OnLostRange(enum.Enum):
    """What a stream or a group does when the range after its position can no longer be read exactly."""

    FAIL = "fail"
    """Stop with PositionExpired."""
    EARLIEST = "earliest"
    """Continue with what still exists, and report the gap."""
    SNAPSHOT = "snapshot"
    """Read the table's rows again and continue after them."""
