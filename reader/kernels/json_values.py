"""Converts the tokens of `json_scan` to numbers and texts, one column per call.

A value that is not exactly of the column's type marks its record in `slow`, for the row-wise decoder
(`reader.topics.json.rows`). Tokens are trusted: they are valid JSON of their kind, inside the data.

Safety. Reads stay between the first byte and the end of a token, which `json_scan` checked. Bounds of the arrays that
are written:
- wide, real, valid, slow and left at the row, and offsets at row + 1: their size is the number of rows of the tokens;
- text has room for the bytes of all tokens: an escape is never shorter than its UTF-8 character.
_POWERS is read at an exponent of at most `furthest`, which is at most 22. A kernel never raises.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.reader.kernels.compilation import compiled_lean, inlined

# The kinds of `json_scan`: a kernel's file contains everything that it uses.
_ABSENT: Final = 0
_TEXT: Final = 1
_ESCAPED: Final = 2
_WHOLE: Final = 3
_REAL: Final = 4
_FALSE: Final = 5
_TRUE: Final = 6

_BACKSLASH: Final = 92
_ROOM_FOR_DIGIT: Final = 922337203685477580
_NONE: Final = -(1 << 62)
_POWERS: Final = np.array([10.0**exponent for exponent in range(23)])


@inlined
def _byte(data: Any, at: int) -> Any:
    """data[at]. An unsigned index avoids Python's negative indexing."""
    return np.int64(data[np.uint64(at)])


@inlined
def _digit(data: Any, at: int, end: int) -> Any:
    """The digit at `at`, or -1."""
    byte = _byte(data, at) if at < end else 0
    return byte - 48 if byte >= 48 and byte <= 57 else -1


@inlined
def _more(digits: int, digit: int) -> Any:
    """The number with one more digit; -1 if it overflows."""
    return digits * 10 + digit if digits >= 0 and digits < _ROOM_FOR_DIGIT else -1


@inlined
def _whole(data: Any, at: int, end: int) -> Any:
    """The value of a whole number without its sign; -1 if it overflows."""
    digits = 0
    for place in range(at + 1 if _byte(data, at) == 45 else at, end):
        digits = _more(digits, _byte(data, place) - 48)
    return digits


@compiled_lean
def whole_numbers(data: Any, tokens: Any, limit: int, scale: int, wide: Any, valid: Any, slow: Any) -> None:
    """Converts whole numbers from -limit to limit, times `scale` (the product fits)."""
    for row in range(len(wide)):
        kind = tokens[0, row]
        if kind == _WHOLE:
            digits = _whole(data, tokens[1, row], tokens[2, row])
            if digits < 0 or digits > limit:
                slow[row] = 1
            else:
                wide[row] = (-digits if _byte(data, tokens[1, row]) == 45 else digits) * scale
                valid[row] = 1
        elif kind != _ABSENT:
            slow[row] = 1


@compiled_lean
def booleans(tokens: Any, wide: Any, valid: Any, slow: Any) -> None:
    """Converts true and false to 1 and 0."""
    for row in range(len(wide)):
        kind = tokens[0, row]
        if kind in (_TRUE, _FALSE):
            wide[row] = 1 if kind == _TRUE else 0
            valid[row] = 1
        elif kind != _ABSENT:
            slow[row] = 1


@inlined
def _real(data: Any, at: int, end: int) -> Any:
    """(the digits of a number without sign and point, -1 if they overflow; its power of ten)."""
    digits, exponent, after_point = 0, 0, False
    at += 1 if _byte(data, at) == 45 else 0
    while at < end:
        byte = _byte(data, at)
        if byte == 46:
            after_point = True
        elif byte >= 48 and byte <= 57:
            digits = _more(digits, byte - 48)
            exponent -= 1 if after_point else 0
        else:
            break
        at += 1
    if at < end:  # at an e
        negative = _byte(data, at + 1) == 45
        at += 2 if negative or _byte(data, at + 1) == 43 else 1
        power = 0
        while at < end:
            power = power * 10 + _byte(data, at) - 48
            at += 1
        exponent += -power if negative else power
    return digits, exponent


@compiled_lean
def reals(data: Any, tokens: Any, most_digits: int, furthest: int, real: Any, valid: Any, left: Any, slow: Any) -> None:
    """Converts numbers of one exact operation: digits up to `most_digits`, times or divided by a power of ten up to
    `furthest`. Others are marked in `left`."""
    for row in range(len(real)):
        kind = tokens[0, row]
        if kind in (_WHOLE, _REAL):
            digits, exponent = _real(data, tokens[1, row], tokens[2, row])
            valid[row] = 1
            if digits < 0 or digits > most_digits or exponent < -furthest or exponent > furthest:
                left[row] = 1
            else:
                value = float(digits)
                value = value / _POWERS[-exponent] if exponent < 0 else value * _POWERS[exponent]
                real[row] = -value if digits != 0 and _byte(data, tokens[1, row]) == 45 else value
        elif kind != _ABSENT:
            slow[row] = 1


@inlined
def _hex(data: Any, at: int) -> Any:
    number = 0
    for place in range(at, at + 4):
        byte = _byte(data, place)
        number = number * 16 + (byte - 48 if byte <= 57 else (byte | 32) - 87)
    return number


@inlined
def _put(text: Any, put: int, code: int) -> Any:
    """Writes the character as UTF-8 at `put`; the offset after it."""
    at = np.uint64(put)
    if code < 0x80:
        text[at] = code
        return put + 1
    one = np.uint64(1)
    if code < 0x800:
        text[at] = 0xC0 | (code >> 6)
        text[at + one] = 0x80 | (code & 0x3F)
        return put + 2
    if code < 0x10000:
        text[at] = 0xE0 | (code >> 12)
        text[at + one] = 0x80 | ((code >> 6) & 0x3F)
        text[at + one + one] = 0x80 | (code & 0x3F)
        return put + 3
    text[at] = 0xF0 | (code >> 18)
    text[at + one] = 0x80 | ((code >> 12) & 0x3F)
    text[at + one + one] = 0x80 | ((code >> 6) & 0x3F)
    text[at + one + one + one] = 0x80 | (code & 0x3F)
    return put + 4


@inlined
def _letter(byte: int) -> Any:
    """The character of a letter after a backslash."""
    if byte == 98:
        return 8
    if byte == 102:
        return 12
    if byte == 110:
        return 10
    if byte == 114:
        return 13
    return 9 if byte == 116 else byte


@inlined
def _unescaped(data: Any, at: int, end: int, text: Any, put: int) -> Any:
    while at < end:
        byte = _byte(data, at)
        if byte != _BACKSLASH:
            text[np.uint64(put)] = byte
            put, at = put + 1, at + 1
        elif _byte(data, at + 1) != 117:
            text[np.uint64(put)] = _letter(_byte(data, at + 1))
            put, at = put + 1, at + 2
        else:
            code = _hex(data, at + 2)
            at += 6
            if code >= 0xD800 and code < 0xDC00:
                code = 0x10000 + ((code - 0xD800) << 10) + (_hex(data, at + 2) - 0xDC00)
                at += 6
            put = _put(text, put, code)
    return put


@compiled_lean
def texts(data: Any, tokens: Any, offsets: Any, text: Any, valid: Any, slow: Any) -> None:
    """Copies texts, and whole numbers unchanged, one after another. `text` has room for all tokens."""
    put = 0
    for row in range(len(valid)):
        kind, first, end = tokens[0, row], tokens[1, row], tokens[2, row]
        if kind == _ESCAPED:
            put = _unescaped(data, first + 1, end - 1, text, put)
            valid[row] = 1
        elif kind == _TEXT or (kind == _WHOLE and not (_byte(data, first) == 45 and _byte(data, first + 1) == 48)):
            for place in range(first + 1, end - 1) if kind == _TEXT else range(first, end):
                text[np.uint64(put)] = data[np.uint64(place)]
                put += 1
            valid[row] = 1
        elif kind != _ABSENT:
            slow[row] = 1
        offsets[row + 1] = put


@inlined
def _two(data: Any, at: int, end: int) -> Any:
    """The number of two digits, or a negative number."""
    tens, ones = _digit(data, at, end), _digit(data, at + 1, end)
    return tens * 10 + ones if tens >= 0 and ones >= 0 else -100


@inlined
def _days(data: Any, at: int, end: int) -> Any:
    """Days since 1970 of the date in ten characters, or _NONE."""
    year = _two(data, at, end) * 100 + _two(data, at + 2, end)
    month, day = _two(data, at + 5, end), _two(data, at + 8, end)
    if _two(data, at, end) < 0 or _two(data, at + 2, end) < 0 or month < 1 or month > 12 or day < 1:
        return _NONE
    if _byte(data, at + 4) != 45 or _byte(data, at + 7) != 45:
        return _NONE
    last = 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31
    if month == 2:
        last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if day > last:
        return _NONE
    shifted = year - 1 if month <= 2 else year
    era_day = 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400
    return era_day + (153 * ((month + 9) % 12) + 2) // 5 + day - 1 - 719468


@inlined
def _nanos(data: Any, at: int, end: int) -> Any:
    """(offset after the fraction of a second whose first digit is at `at`, or -1; nanoseconds): nine digits at most."""
    if _digit(data, at, end) < 0:
        return -1, 0
    nanos, unit = 0, 1_000_000_000
    while unit > 1 and _digit(data, at, end) >= 0:
        unit //= 10
        nanos += _digit(data, at, end) * unit
        at += 1
    return at, nanos


@inlined
def _offset(data: Any, at: int, end: int) -> Any:
    """(position after a zone offset, if any, or -1; its seconds)."""
    byte = _byte(data, at)
    if byte == 90 or byte == 122:
        return at + 1, 0
    if byte != 43 and byte != 45:
        return at, 0
    hours, minutes = _two(data, at + 1, end), _two(data, at + 4, end)
    if hours < 0 or hours > 17 or minutes < 0 or minutes > 59 or _byte(data, at + 3) != 58:
        return -1, 0
    return at + 6, (44 - byte) * (hours * 3600 + minutes * 60)


@inlined
def _stamp(data: Any, at: int, end: int, local: bool, scale: int) -> Any:
    """Microseconds since 1970 of a timestamp that ends before `end`, where a byte is readable; _NONE if it is
    invalid. Truncated towards 1970 to a unit of `scale` microseconds."""
    days = _days(data, at, end)
    at += 10
    if days == _NONE or at >= end:
        return _NONE
    between = _byte(data, at)
    if between != 84 and between != 32 and (between != 116 or local):
        return _NONE
    hour, minute, second, nanos, offset = _two(data, at + 1, end), _two(data, at + 4, end), 0, 0, 0
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or _byte(data, at + 3) != 58:
        return _NONE
    at += 6
    if at < end and _byte(data, at) == 58:
        second = _two(data, at + 1, end)
        at += 3
        if second < 0 or second > 59:
            return _NONE
        if at < end and _byte(data, at) == 46:
            at, nanos = _nanos(data, at + 1, end)
    if not local and at >= 0 and at < end:
        at, offset = _offset(data, at, end)
    if at != end:
        return _NONE
    each = scale * 1000
    number = (days * 86400 + hour * 3600 + minute * 60 + second - offset) * (1_000_000_000 // each) + nanos // each
    if number < 0 and nanos % each != 0:
        number += 1
    return number * scale


@compiled_lean
def days(data: Any, tokens: Any, wide: Any, valid: Any, slow: Any) -> None:
    """Converts dates to days since 1970: day numbers, or texts like 2024-07-13."""
    for row in range(len(wide)):
        kind, first, end = tokens[0, row], tokens[1, row], tokens[2, row]
        number = _NONE
        if kind == _TEXT and end - first == 12:
            number = _days(data, first + 1, end - 1)
        elif kind == _WHOLE:
            number = _whole(data, first, end)
            if number < 0 or number > 0x7FFFFFFF:
                number = _NONE
            elif _byte(data, first) == 45:
                number = -number
        if number != _NONE:
            wide[row] = number
            valid[row] = 1
        elif kind != _ABSENT:
            slow[row] = 1


@compiled_lean
def stamps(data: Any, tokens: Any, limit: int, scale: int, local: bool, wide: Any, valid: Any, slow: Any) -> None:
    """Converts timestamps: numbers from -limit to limit times `scale`, or texts like 2024-07-13T11:36:01.951Z (`local`:
    without offset), truncated to a unit of `scale` microseconds."""
    for row in range(len(wide)):
        kind, first, end = tokens[0, row], tokens[1, row], tokens[2, row]
        number = _NONE
        if kind == _TEXT:
            number = _stamp(data, first + 1, end - 1, local, scale)
        elif kind == _WHOLE:
            digits = _whole(data, first, end)
            if digits >= 0 and digits <= limit:
                wide[row] = (-digits if _byte(data, first) == 45 else digits) * scale
                valid[row] = 1
                continue
        if number != _NONE:
            wide[row] = number
            valid[row] = 1
        elif kind != _ABSENT:
            slow[row] = 1
