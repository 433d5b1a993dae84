"""What a log line carries beside its words: fields of its own, and those that all lines of a request share.

`bound` is how lines correlate: whatever is logged while it holds, in this thread, is of that request, table, group,
reader, plan or split. Belongs here: fields and their text. Not here: handlers, levels, forms of lines (`engine.cli`).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

MAX_FIELD_CHARS: Final = 2000
"""Of one value in a line: some are foreign text."""
_PLAIN = re.compile(r"[A-Za-z0-9._:/@%+,~-]+")

Fields = Mapping[str, object]
_BOUND: ContextVar[tuple[Callable[[], Fields], ...]] = ContextVar("penstock_log_fields", default=())


@dataclass(frozen=True, slots=True)
class Told:
    """What happened, and the line's own fields, in order: `record.told` of a line that `tell_to` logged."""

    what: str
    fields: Fields


def tell_to(
    logger: logging.Logger,
    what: str,
    *,
    level: int = logging.INFO,
    exc_info: BaseException | None = None,
    **fields: object,
) -> None:
    """Logs one event, as text `what key=value …`, with the traceback of `exc_info`; costs nothing where the level is
    off."""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", event_text(what, **fields), extra={"told": Told(what, fields)}, exc_info=exc_info)


def event_text(what: str, **fields: object) -> str:
    """`what key=value key=value`, in the order given. Values that hold a space, a quote, '=' or anything unprintable
    are written as JSON strings, so that a line can always be taken apart."""
    return " ".join([what, *(f"{key}={shown_value(value)}" for key, value in fields.items())])


def shown_value(value: object) -> str:
    """A field's value as it stands in a line of text."""
    text = str(value)
    if len(text) > MAX_FIELD_CHARS:
        text = text[:MAX_FIELD_CHARS] + "…"
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


@contextmanager
def bound(made: Callable[[], Fields] | None = None, **fields: object) -> Iterator[None]:
    """Lines that are logged while the block runs carry these fields. `made` is asked only if a line is logged."""
    token = _BOUND.set((*_BOUND.get(), made or (lambda: fields)))
    try:
        yield
    finally:
        _BOUND.reset(token)


def bound_fields() -> dict[str, object]:
    """The fields that hold now; of one name the innermost."""
    found: dict[str, object] = {}
    for made in _BOUND.get():
        found.update(made())
    return found
