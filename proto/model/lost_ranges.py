"""What becomes of a reader whose next range is gone. Values only; streams and groups share them."""

from __future__ import annotations

import enum


class OnLostRange(enum.Enum):
    """What a stream or a group does when the range behind its position can no longer be answered exactly."""

    FAIL = "fail"
    EARLIEST = "earliest"
    SNAPSHOT = "snapshot"
