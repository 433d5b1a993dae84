"""Forms of a log line: text for people, a JSON object for machines. Both carry the fields of the line and those of the
request that it belongs to (`penstock.proto.logging`).
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
    """`TIME LEVEL LOGGER: what happened key=value …`, nothing unprintable."""

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
    """One object a line: `time`, `level`, `logger`, `message`, `traceback` if there is one, and the fields."""

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
    """Those of the request, what the caller put into `extra`, and the line's own, which count most."""
    given = vars(record)
    more = given.keys() - _PLAIN_FIELDS
    extra = {name: given[name] for name in given if name in more} if more else {}
    event = given.get("log_event")
    return {**context_fields(), **extra, **(event.fields if isinstance(event, LogEvent) else {})}


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
