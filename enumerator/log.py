"""The log of the enumerator, logger `penstock.enumerator`: one line per event, `what happened key=value …`.

Events: `plan opened`, `slot sealed` (INFO once, DEBUG when repeated); of each split at DEBUG `split assigned`,
`split repeated` (asked for again), `split finished`; `progress moved to another timeline layout`, `event times read`
(of splits whose files do not have them). WARNING: `metadata table passed over`; `hollow instant passed over`; `round
beyond its limits`; `log file gone`, if a request continues without it (onCorrupt=skip).
Groups: `round planned`, `reader joined`, `reader left`, `reader lost` (WARNING: its lease ended); at DEBUG
`split assigned`, `split committed` (a part of it), `split finished`. A line of a request also carries its ids
(`penstock.proto.logging`).
"""

from __future__ import annotations

import logging

from penstock.proto.logging import log_event_to

log = logging.getLogger("penstock.enumerator")

_REASON_CHARS = 500


def log_event(what: str, *, level: int = logging.INFO, exc_info: BaseException | None = None, **fields: object) -> None:
    """Logs one event, with the traceback of `exc_info`; costs nothing if the level is disabled."""
    log_event_to(log, what, level=level, exc_info=exc_info, **fields)


def log_fallback(table: str, reason: str) -> None:
    """Logs a warning that the metadata table of a table could not be used: `metadata table passed over`."""
    log_event("metadata table passed over", level=logging.WARNING, table=table, reason=reason[:_REASON_CHARS])
