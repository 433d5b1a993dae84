"""Which texts name a consumer group or one of its readers.

Standard library only, no I/O. Pure.
"""

from __future__ import annotations

import re

from penstock.proto.errors import ConfigurationError
from penstock.proto.groups import MAX_NAME_CHARS

_NAME = re.compile(r"[A-Za-z0-9._:@/-]+", flags=re.ASCII)


def checked_name(kind: str, text: str) -> str:
    """`text`, if it is a name; else ConfigurationError. `kind`: what it names, `group` or `reader id`."""
    if not text:
        raise ConfigurationError(f"{kind}: field `{kind}`: got nothing, expected a value: name one")
    if len(text) > MAX_NAME_CHARS:
        raise ConfigurationError(f"{kind} {text[:40]!r}…: {len(text)} characters, expected at most {MAX_NAME_CHARS}")
    if not _NAME.fullmatch(text):
        raise ConfigurationError(f"{kind} {text!r}: expected letters (a to z), digits, and . _ - : @ / alone")
    return text


def made_name(text: str) -> str:
    """A name made of any text: what may not stand in one becomes `-`."""
    return re.sub(r"[^A-Za-z0-9._:@/-]", "-", text, flags=re.ASCII)[:MAX_NAME_CHARS] or "-"
