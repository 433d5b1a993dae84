"""Formats of a log line: text or a JSON object. Both contain the fields of the line and those of its request
(`penstock.proto.logging`).
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from penstock.engine.cli.output.terminal_text import printable
from penstock.proto.logging import LogEvent, context_fields, field_text

_PLAIN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "log_event"}
_OURS = ("time", "level", "logger", "message", "traceback")


class TextLines(logging.Formatter):
    """`TIME LEVEL LOGGER: event key=value …`; unprintable characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        event = getattr(record, "log_event", None)
        own = event.fields if isinstance(event, LogEvent) else {}
        more = {name: value for name, value in _fields(record).items() if name not in own}
        extra = "".join(f" {name}={field_text(value)}" for name, value in more.items())
        message = printable(record.getMessage() + extra)
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{_moment(record)} {record.levelname.lower()} {record.name}: {message}{trace}"


class JsonLines(logging.Formatter):
    """One object per line: `time`, `level`, `logger`, `message`, `traceback` if there is one, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        event = getattr(record, "log_event", None)
        fields = _fields(record)
        line: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": event.what if isinstance(event, LogEvent) else record.getMessage(),
            **{name: value for name, value in fields.items() if name not in _OURS},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields of the request, overridden by `extra` of the logging call, overridden by those of the line itself.

    Names that begin with an underscore are left out: libraries such as Ray add them to every record of the process.
    """
    attributes = vars(record)
    more = attributes.keys() - _PLAIN_FIELDS
    extra = {name: attributes[name] for name in attributes if name in more and name[0] != "_"} if more else {}
    event = attributes.get("log_event")
    return {**context_fields(), **extra, **(event.fields if isinstance(event, LogEvent) else {})}


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
