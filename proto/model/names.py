"""Names that callers choose: of groups, readers, streams and alignment sets."""

from __future__ import annotations

import re
from typing import Final

from penstock.proto.errors import ConfigurationError

MAX_NAME_CHARS: Final = 200
"""The longest name; its characters are letters, digits, `.`, `_`, `-`, `:`, `@`, `/`."""

_NAME = re.compile(r"[A-Za-z0-9._:@/-]+", flags=re.ASCII)


def checked_name(kind: str, text: str) -> str:
    """`text` if it is a valid name, else ConfigurationError. `kind`: such as `group` or `reader id`."""
    if not text:
        raise ConfigurationError(f"{kind}: field `{kind}`: got nothing, expected a value: name one")
    if len(text) > MAX_NAME_CHARS:
        raise ConfigurationError(f"{kind} {text[:40]!r}…: {len(text)} characters, expected at most {MAX_NAME_CHARS}")
    if not _NAME.fullmatch(text):
        raise ConfigurationError(f"{kind} {text!r}: expected letters (a to z), digits, and . _ - : @ / alone")
    return text


def sanitized_name(text: str) -> str:
    """A valid name from any text: other characters become `-`, and it is cut to MAX_NAME_CHARS."""
    return re.sub(r"[^A-Za-z0-9._:@/-]", "-", text, flags=re.ASCII)[:MAX_NAME_CHARS] or "-"
