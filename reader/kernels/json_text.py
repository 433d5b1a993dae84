"""Writes rows as JSON objects, one batch per call: joins members whose values are texts, in one pass.

Arrays: `text` (uint8) has the texts of all columns, `offsets` (int64, [columns, rows + 1]) their positions; `valid`
(uint8, [columns, rows]) is 0 for a null, else 1 (`measure` marks texts to be escaped with 2); `forms` (uint8,
[columns]) the form of the values (`measure` changes QUOTED to PLAIN); `names` (uint8) the heads of members
(`,"name":`), `name_offsets` (int64, [columns + 1]) their positions; the first `comma` bytes of each separate members.

Safety: `offsets` and `name_offsets` must ascend and stay within `text` and `names`, after which `OVERCOPY` more
bytes are readable; `measure` counts the bytes that `write` writes, and `OVERCOPY` bytes after them may be overwritten.
- `measure` writes ends[row + 1], of rows + 1 entries, valid[column, row] and forms[column]; it reads within `offsets`;
- `write` begins each row at ends[row] and writes exactly the bytes that `measure` counted, by the same forms and the
  marks in `valid`; a pair of words may extend 15 bytes further, into the next row, which is written later, or into
  OVERCOPY.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from penstock.reader.kernels.cache import check_word
from penstock.reader.kernels.compilation import compiled_lean, inlined

OVERCOPY: Final = 16
"""Bytes are copied in pairs of words of eight; the last pair may extend this far."""

RAW: Final = 0
"""The unchanged text."""
QUOTED: Final = 1
"""A JSON string: in quotes, with `"`, `\\` and control characters escaped as `json.dumps` does."""
NUMBER: Final = 2
"""A floating-point number of Arrow: whole numbers get `.0`; nan, inf and -inf become Java's names in quotes."""
PLAIN: Final = 3
"""QUOTED, if no value of the column has a character to be escaped; `measure` marks such columns."""

ESCAPED: Final = 2

_QUOTE, _BACKSLASH, _SPACE, _ZERO, _NINE, _MINUS = 34, 92, 32, 48, 57, 45
_SMALL_N, _SMALL_I, _POINT = 110, 105, 46
_NAN: Final = np.frombuffer(b'"NaN"', np.uint8)
_INFINITY: Final = np.frombuffer(b'"-Infinity"', np.uint8)
_NULL: Final = np.frombuffer(b"null", np.uint8)
_UNICODE: Final = np.frombuffer(b"\\u00", np.uint8)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHORT: Final = np.zeros(32, np.uint8)
"""The letter of the short escape of a control character."""
for _code, _letter in ((8, b"b"), (9, b"t"), (10, b"n"), (12, b"f"), (13, b"r")):
    _SHORT[_code] = _letter[0]


@inlined
def _escapes(text: Any, start: int, end: int) -> Any:
    """The number of bytes that escaping adds."""
    more: Any = 0
    for at in range(start, end):
        byte = text[at]
        short = (byte >= 8) & (byte <= 13) & (byte != 11)  # no branch, so that the loop is vectorised
        more += np.int64(byte == _QUOTE) + np.int64(byte == _BACKSLASH)
        more += np.int64(5) * np.int64(byte < _SPACE) - np.int64(4) * np.int64(short)
    return more


@inlined
def _needs_escape(text: Any, start: int, end: int) -> Any:
    """Whether any byte must be escaped."""
    found = np.uint8(0)
    for byte in text[start:end]:  # not by index, and all in bytes: thirty times as fast as `_escapes`
        found = np.uint8(found | np.uint8((byte < _SPACE) | (byte == _QUOTE) | (byte == _BACKSLASH)))
    return found


@inlined
def _is_whole(text: Any, start: int, end: int) -> bool:
    for at in range(start, end):
        byte = text[at]
        if not (_ZERO <= byte <= _NINE or (byte == _MINUS and at == start)):
            return False
    return True


@inlined
def _special(text: Any, start: int, end: int) -> int:
    """0 for a number, 1 for nan, 2 for inf, 3 for -inf."""
    if end - start == 3 and text[start] == _SMALL_N:
        return 1
    if end - start == 3 and text[start] == _SMALL_I:
        return 2
    if end - start == 4 and text[start + 1] == _SMALL_I:
        return 3
    return 0


@compiled_lean
def measure(
    text: Any, offsets: Any, valid: Any, forms: Any, name_offsets: Any, comma: int, nulls: bool, ends: Any
) -> Any:
    """Sets ends[row + 1] (int64, rows + 1 places) to the end of each row's object in the output, ends[0] to 0.

    `nulls`: a null is written as `null`; otherwise its member is omitted.
    """
    rows = len(ends) - 1
    for row in range(rows + 1):
        ends[row] = 0
    for column in range(len(forms)):
        head = name_offsets[column + 1] - name_offsets[column]
        absent = head + 4 if nulls else 0
        if forms[column] == QUOTED and not _needs_escape(text, offsets[column, 0], offsets[column, rows]):
            forms[column] = PLAIN
        form = forms[column]
        if form in (RAW, PLAIN):
            around = head + (2 if form == PLAIN else 0)
            for row in range(rows):  # no branch, so that the loop is vectorised
                there = np.int64(valid[column, row])
                size = offsets[column, row + 1] - offsets[column, row] + around
                ends[row + 1] += there * size + (1 - there) * absent
            continue
        for row in range(rows):
            if not valid[column, row]:
                ends[row + 1] += absent
                continue
            start, end = offsets[column, row], offsets[column, row + 1]
            size = head + end - start
            if form == QUOTED:
                more = _escapes(text, start, end)
                size += 2 + more
                if more:
                    valid[column, row] = ESCAPED
            else:
                special = _special(text, start, end)
                if special:
                    size = head + (5 if special == 1 else 8 + special)
                elif _is_whole(text, start, end):
                    size += 2
            ends[row + 1] += size
    for row in range(rows):
        size = ends[row + 1]
        ends[row + 1] = ends[row] + size + 2 - (comma if size else 0)
    return 0


def _copy_word(typing_context: Any, out: Any, at: Any, source: Any, place: Any) -> Any:
    """out[at..at+7] = source[place..place+7]: one unaligned load and store."""
    arrays = isinstance(out, types.Array) and isinstance(source, types.Array)
    if not (arrays and out.dtype == source.dtype == types.uint8):
        raise TypingError(f"_word copies between arrays of uint8, not from {source} to {out}")

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = context.get_value_type(types.uint64).as_pointer()
        places = []
        for number in (0, 2):
            array = context.make_array(signature.args[number])(context, builder, arguments[number])
            check_word(context, builder, array, arguments[number + 1])
            places.append(builder.gep(array.data, [arguments[number + 1]]))
        to, of = places
        builder.store(builder.load(builder.bitcast(of, word), align=1), builder.bitcast(to, word), align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, source, types.int64), emit


_word: Any = intrinsic(_copy_word)


@inlined
def _put(out: Any, at: int, source: Any, start: int, end: int) -> Any:
    place = start
    while place < end:
        _word(out, at + place - start, source, place)
        _word(out, at + place - start + 8, source, place + 8)
        place += 16
    return at + end - start


@inlined
def _put_few(out: Any, at: int, source: Any, start: int, end: int) -> Any:
    for place in range(start, end):
        out[at + place - start] = source[place]
    return at + end - start


@inlined
def _put_escaped(out: Any, at: int, text: Any, start: int, end: int) -> Any:
    for place in range(start, end):
        byte = text[place]
        if byte in (_QUOTE, _BACKSLASH):
            out[at] = _BACKSLASH
            out[at + 1] = byte
            at += 2
        elif byte >= _SPACE:
            out[at] = byte
            at += 1
        elif _SHORT[byte]:
            out[at] = _BACKSLASH
            out[at + 1] = _SHORT[byte]
            at += 2
        else:
            at = _put_few(out, at, _UNICODE, 0, 4)
            out[at] = _HEX[byte >> 4]
            out[at + 1] = _HEX[byte & 15]
            at += 2
    return at


@inlined
def _put_number(out: Any, at: int, text: Any, start: int, end: int) -> Any:
    special = _special(text, start, end)
    if special == 1:
        return _put_few(out, at, _NAN, 0, 5)
    if special == 3:
        return _put_few(out, at, _INFINITY, 0, 11)
    if special == 2:
        out[at] = _QUOTE
        return _put_few(out, at + 1, _INFINITY, 2, 11)
    whole = _is_whole(text, start, end)
    at = _put(out, at, text, start, end)
    if whole:
        out[at] = _POINT
        out[at + 1] = _ZERO
        at += 2
    return at


@compiled_lean
def write(
    text: Any,
    offsets: Any,
    valid: Any,
    forms: Any,
    names: Any,
    name_offsets: Any,
    comma: int,
    nulls: bool,
    ends: Any,
    out: Any,
) -> Any:
    """Writes the objects into `out` of size ends[-1] + OVERCOPY, with the `ends` and `valid` of `measure`."""
    for row in range(len(ends) - 1):
        at = ends[row]
        out[at] = 123
        at += 1
        first = True
        for column in range(len(forms)):
            there = valid[column, row]
            if not there and not nulls:
                continue
            at = _put(out, at, names, name_offsets[column] + (comma if first else 0), name_offsets[column + 1])
            first = False
            if not there:
                at = _put_few(out, at, _NULL, 0, 4)
                continue
            start, end = offsets[column, row], offsets[column, row + 1]
            form = forms[column]
            if form in (QUOTED, PLAIN):
                out[at] = _QUOTE
                if there == ESCAPED:
                    at = _put_escaped(out, at + 1, text, start, end)
                else:
                    at = _put(out, at + 1, text, start, end)
                out[at] = _QUOTE
                at += 1
            elif form == NUMBER:
                at = _put_number(out, at, text, start, end)
            else:
                at = _put(out, at, text, start, end)
        out[at] = 125
    return 0
