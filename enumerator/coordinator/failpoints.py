"""Failpoints: the environment variable PENSTOCK_FAILPOINTS names points at which the process kills itself, for tests.

`coordinator` calls `hit` at each point. The variable is read once, when this module is imported. Without it `hit` only
checks whether a dictionary is empty.

    PENSTOCK_FAILPOINTS="append.before=kill;append.after=kill@3"

`append.before`: decided, not appended. `append.after`: durable, not answered. `@N`: at the Nth time.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Final

from penstock.proto.errors import ConfigurationError

VARIABLE: Final = "PENSTOCK_FAILPOINTS"
APPEND_BEFORE: Final = "append.before"
APPEND_AFTER: Final = "append.after"
NAMES: Final = (APPEND_BEFORE, APPEND_AFTER)
_LEFT: dict[str, int] = {}
_LOCK = threading.Lock()


def parsed(text: str) -> dict[str, int]:
    """The number of the hit that kills, by failpoint. ConfigurationError for a text that cannot be parsed."""
    hits: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        match = re.fullmatch(r"([a-z.]+)=kill(?:@([1-9][0-9]{0,8}))?", part)
        if match is None or match[1] not in NAMES:
            raise ConfigurationError(
                f"{VARIABLE}: got {part[:80]!r}, expected NAME=kill or NAME=kill@N with a NAME of {', '.join(NAMES)}"
            )
        hits[match[1]] = int(match[2] or 1)
    return hits


def arm(environment: Mapping[str, str]) -> None:
    """Sets the failpoints of the environment."""
    with _LOCK:
        _LEFT.clear()
        _LEFT.update(parsed(environment.get(VARIABLE, "")))


def hit(name: str, kill: Callable[[int, int], object] = os.kill) -> None:
    """Kills the process as `kill -9` does, if this is the configured hit of the failpoint."""
    if not _LEFT:
        return
    with _LOCK:
        left = _LEFT.get(name, 0) - 1
        if left >= 0:
            _LEFT[name] = left
        if left == 0:
            kill(os.getpid(), signal.SIGKILL)


arm(os.environ)
