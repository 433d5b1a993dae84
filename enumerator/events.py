"""What the enumerator tells its log, logger `penstock.enumerator`: one line an event, `what happened key=value …`.

Events: `plan opened`, `split assigned` (INFO once, DEBUG when replayed), `slot sealed` (the same), `split finished`,
`progress moved to another timeline layout`, `event times read` (of splits whose files do not tell them). WARNING:
`metadata table passed over`; `hollow instant passed over`; `round beyond its limits`; `log file gone`, if a request
goes on without it (onCorrupt=skip).
Values that hold a space, a quote, '=' or anything unprintable are written as JSON strings, so that a
line can always be taken apart, whatever a path contains.
"""

from __future__ import annotations

import json
import logging
import re

log = logging.getLogger("penstock.enumerator")

_REASON_CHARS = 500
_PLAIN = re.compile(r"[A-Za-z0-9._:/@%+,~-]+")


def event_text(what: str, **fields: object) -> str:
    """`what key=value key=value`, in the order given."""
    return " ".join([what, *(f"{key}={_shown(str(value))}" for key, value in fields.items())])


def tell(what: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Logs one event; costs nothing where the level is off."""
    if log.isEnabledFor(level):
        log.log(level, "%s", event_text(what, **fields))


def tell_fallback(table: str, reason: str) -> None:
    """That a table's metadata table could not be used: `metadata table passed over`, a warning."""
    tell("metadata table passed over", level=logging.WARNING, table=table, reason=reason[:_REASON_CHARS])


def _shown(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)
