"""Structured log events: a name with key=value fields, and context fields that all lines of a request share.

`log_context` correlates lines: every line that this thread logs inside the block has the fields of the request, table,
group, reader, plan or split. Handlers, levels and line formats are in `penstock.engine.cli`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from penstock.proto.value_classes import dataclass

MAX_FIELD_CHARS: Final = 2000
"""The longest value in a line of text; some values come from tables or servers."""
_PLAIN = re.compile(r"[A-Za-z0-9._:/@%+,~-]+")

Fields = Mapping[str, object]
_CONTEXT: ContextVar[tuple[Callable[[], Fields], ...]] = ContextVar("penstock_log_fields", default=())


@dataclass(frozen=True, slots=True)
class LogEvent:
    """The attribute `log_event` of a record that `log_event_to` logged."""

    what: str
    """The event's name."""
    fields: Fields
    """The event's own fields, in order."""


def log_event_to(
    logger: logging.Logger,
    what: str,
    *,
    level: int = logging.INFO,
    exc_info: BaseException | None = None,
    **fields: object,
) -> None:
    """Logs one event as `what key=value …`, with the traceback of `exc_info`. Formats nothing if the level is off."""
    if logger.isEnabledFor(level):
        extra = {"log_event": LogEvent(what, fields)}
        logger.log(level, "%s", event_text(what, **fields), extra=extra, exc_info=exc_info)


def event_text(what: str, **fields: object) -> str:
    """`what key=value key=value`, in the order given. A value with a space, a quote, '=' or an unprintable character is
    written as a JSON string, so that a line can always be parsed."""
    return " ".join([what, *(f"{key}={field_text(value)}" for key, value in fields.items())])


def field_text(value: object) -> str:
    """A field's value in a line of text, at most MAX_FIELD_CHARS characters of it."""
    text = str(value)
    if len(text) > MAX_FIELD_CHARS:
        text = text[:MAX_FIELD_CHARS] + "…"
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


@contextmanager
def log_context(compute: Callable[[], Fields] | None = None, **fields: object) -> Iterator[None]:
    """Adds fields to the lines that are logged inside the block. `compute` is called only when a line is logged."""
    token = _CONTEXT.set((*_CONTEXT.get(), compute or (lambda: fields)))
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def context_fields() -> dict[str, object]:
    """The current context fields; an inner block overrides an outer one."""
    fields: dict[str, object] = {}
    for compute in _CONTEXT.get():
        fields.update(compute())
    return fields
