"""JSON documents to and from Python values, without losing a digit. Pure.

As Jackson reads them for Hudi (`USE_BIG_DECIMAL_FOR_FLOATS`): strict JSON; of a repeated name the last one counts.
Stricter in two things: bytes that are not UTF-8, and anything after the document, are refused.
"""

from __future__ import annotations

import decimal
import json
import re
from typing import Final, NoReturn

from penstock.proto.errors import InvariantViolation
from penstock.reader.topics.record.decoded import Unfit


class NumberText(str):
    """A JSON number with a fraction or an exponent, as it is written."""

    __slots__ = ()


def _refuse(name: str) -> NoReturn:
    raise Unfit(f"is not JSON: {name} is not a JSON number")


_NOTHING: Final = object()
_DECODER: Final = json.JSONDecoder(parse_float=NumberText, parse_constant=_refuse)
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def parse_json(data: bytes) -> object:
    """The document; whole numbers as int, others as `NumberText`. Unfit for bytes that are not a JSON document."""
    try:
        return _DECODER.decode(data.decode())
    except UnicodeDecodeError as error:
        raise Unfit(f"is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise Unfit("nests too deeply") from None
    except Unfit:
        raise
    except ValueError as error:
        raise Unfit(f"is not JSON: {str(error)[:100]}") from None


def json_text(value: object) -> str:
    """A value as Jackson writes it: compact, numbers with a fraction as Java's `BigDecimal` writes them.

    Without recursion, so that every nesting that the parser accepts can be written.
    """
    parts: list[str] = []
    pending: list[tuple[str, object]] = [("", value)]  # text to write, then a value unless it is _NOTHING
    while pending:
        text, item = pending.pop()
        parts.append(text)
        if isinstance(item, dict):
            pending.append(("}", _NOTHING))
            members = [(f"{',' if place else '{'}{_flat_text(name)}:", item[name]) for place, name in enumerate(item)]
            pending.extend(reversed(members or [("{", _NOTHING)]))
        elif isinstance(item, list):
            pending.append(("]", _NOTHING))
            items = [("," if place else "[", inner) for place, inner in enumerate(item)]
            pending.extend(reversed(items or [("[", _NOTHING)]))
        elif item is not _NOTHING:
            parts.append(_flat_text(item))
    return "".join(parts)


def _flat_text(value: object) -> str:
    if isinstance(value, NumberText):
        return _number_text(value)
    if isinstance(value, str):
        return f'"{_ESCAPED.sub(_escape, value)}"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, int):
        raise InvariantViolation(f"a value of {type(value).__name__} in a JSON document")
    return str(value)


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04X}"


def _number_text(text: NumberText) -> str:
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise Unfit(f"the number {text[:60]}, whose exponent is out of range") from None
    if not number and number.is_signed():
        number = number.copy_abs()  # Java's zero has no sign
    return str(number)
