"""The bucket of each record key in Hudi's simple bucket index (Hudi `BucketIdentifier`, `KeyGenUtils`, release 1.2).

Java's hash of a list of values, which are taken from the text of the key: the whole key, unless it has both `,` and
`:`; then the values of the hash fields in `field:value,field:value`.

Safety: `offsets` ascend and stay within `data` (a valid Arrow array), `names` likewise; `hashes` and `problems` have a
row for each key. `_text_hash` reads a character only if all of its bytes are before `stop`; `_find` and `_find_last`
stay between their bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.reader.kernels.compilation import compiled_lean, inlined

_LOW_32: Final = np.int64(0xFFFFFFFF)
_COMMA: Final = 44
_COLON: Final = 58
_NULL: Final = np.frombuffer(b"__null__", np.uint8)
_EMPTY: Final = np.frombuffer(b"__empty__", np.uint8)

FINE: Final = 0
ENDLESS: Final = 1
"""Hudi's loop over the fields of this key does not end."""
DIFFERS: Final = 2
"""Hudi 0.15 takes other values from this key than 1.x."""


def bucket_numbers(
    keys: pa.StringArray, buckets: int, hash_fields: Sequence[str], *, as_hudi_0_15: bool = False
) -> np.ndarray:
    """The bucket of each key, int32, from 0 to `buckets` - 1. The other arguments and errors are those of
    `key_hashes`."""
    if not 0 < buckets < 1 << 31:
        raise InvariantViolation(f"{buckets} buckets")
    return (key_hashes(keys, hash_fields, as_hudi_0_15=as_hudi_0_15) % buckets).astype(np.int32)


def key_hashes(keys: pa.StringArray, hash_fields: Sequence[str], *, as_hudi_0_15: bool = False) -> np.ndarray:
    """The number of each key, int64 from 0 to 2^31 - 1, whose remainder is its bucket.

    hash_fields: the columns of the record key that determine the bucket (`hoodie.bucket.index.hash.field`), as a rule
    all of them. as_hudi_0_15: for tables that Hudi 0.15 writes too. ConfigurationError, with the key, for a key that
    Hudi cannot hash, or that 0.15 puts into another bucket than 1.x: its rows would repeat.
    """
    if keys.null_count or not hash_fields:
        raise InvariantViolation(f"buckets of {keys.null_count} null keys by {len(hash_fields)} columns")
    hashes, problems = _hashes(keys, hash_fields)
    refused = problems == ENDLESS if not as_hudi_0_15 else problems != FINE
    if refused.any():
        row = int(np.flatnonzero(refused)[0])
        key = str(keys[row])[:200]
        raise ConfigurationError(
            f"bucket index: record key {key!r} has ',' or ':' in a value: "
            + (
                "no release of Hudi finds its bucket"
                if problems[row] == ENDLESS
                else "Hudi 0.15 and 1.x put it into different buckets, so that its row would repeat"
            )
            + "; use index='simple', or another record key"
        )
    return np.asarray(hashes & 0x7FFFFFFF)


def spread(keys: pa.StringArray, parts: int) -> np.ndarray:
    """One of so many parts for each key, int64 from 0 on; equal keys have the same one."""
    return np.asarray(_hashes(keys, ("",))[0] % parts)


def _hashes(keys: pa.StringArray, hash_fields: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(hash of each key, its problem)."""
    names = [name.encode() for name in hash_fields]
    name_bytes = np.frombuffer(b"".join(names) or b"\0", np.uint8)
    name_offsets = np.cumsum([0, *map(len, names)])
    hashes, problems = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.uint8)
    data, offsets = key_bytes(keys)
    hash_keys(data, offsets, name_bytes, name_offsets, _NULL, _EMPTY, hashes, problems)
    return hashes, problems


def key_bytes(keys: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """(uint8 data, int32 offsets) of an array of strings without nulls. They are read-only: a kernel is compiled once
    for such arrays, and again for others."""
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets if len(keys) else bytes(4), np.int32)
    content = np.frombuffer(data or b"\0", np.uint8)
    bounds.flags.writeable = content.flags.writeable = False
    return content, bounds[keys.offset : keys.offset + len(keys) + 1] if len(keys) else bounds


@inlined
def _text_hash(data: Any, start: int, stop: int) -> Any:
    """Java `String.hashCode` of UTF-8 bytes, as an unsigned number of 32 bits."""
    h = np.int64(0)
    at = start
    while at < stop:
        first = np.int64(data[at])
        width = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        if width > stop - at:
            return h
        if width == 1:
            h = (h * 31 + first) & _LOW_32
        elif width == 2:
            h = (h * 31 + ((first & 31) << 6 | np.int64(data[at + 1]) & 63)) & _LOW_32
        elif width == 3:
            unit = (first & 15) << 12 | (np.int64(data[at + 1]) & 63) << 6 | np.int64(data[at + 2]) & 63
            h = (h * 31 + unit) & _LOW_32
        else:
            code = (first & 7) << 18 | (np.int64(data[at + 1]) & 63) << 12
            code |= (np.int64(data[at + 2]) & 63) << 6 | np.int64(data[at + 3]) & 63
            code -= 0x10000
            h = (h * 31 + (0xD800 + (code >> 10))) & _LOW_32
            h = (h * 31 + (0xDC00 + (code & 1023))) & _LOW_32
        at += width
    return h


@inlined
def _find(data: Any, byte: int, start: int, stop: int) -> Any:
    """The first place of the byte from `start` on; -1 if there is none."""
    for at in range(start, stop):
        if data[at] == byte:
            return np.int64(at)
    return np.int64(-1)


@inlined
def _find_last(data: Any, byte: int, start: int, last: int) -> Any:
    """The last place of the byte from `start` to `last`; -1 if there is none."""
    at = last
    while at >= start:
        if data[at] == byte:
            return np.int64(at)
        at -= 1
    return np.int64(-1)


@inlined
def _equal(data: Any, start: int, stop: int, other: Any, other_start: int, other_stop: int) -> Any:
    if stop - start != other_stop - other_start:
        return False
    for j in range(stop - start):  # noqa: SIM110  kernels have no generators
        if data[start + j] != other[other_start + j]:
            return False
    return True


@inlined
def _named(data: Any, start: int, stop: int, names: Any, name_offsets: Any) -> Any:
    for place in range(len(name_offsets) - 1):
        if _equal(data, start, stop, names, name_offsets[place], name_offsets[place + 1]):
            return True
    return False


@inlined
def _lacks_colon(data: Any, start: int, stop: int) -> Any:
    """Whether a part between commas has no `:`; Hudi 0.15 splits at every comma."""
    colons = 0
    for at in range(start, stop):
        if data[at] == _COLON:
            colons += 1
        elif data[at] == _COMMA:
            if colons == 0:
                return True
            colons = 0
    return colons == 0


@inlined
def _values_hash(
    data: Any, start: int, stop: int, names: Any, name_offsets: Any, null_text: Any, empty_text: Any
) -> Any:
    """(Java's hash of the list of values, or -1 if Hudi's loop does not end, number of values)."""
    h = np.int64(1)
    count = 0
    at = np.int64(start)
    while at < stop:
        colon = _find(data, _COLON, at, stop)
        if colon < 0:
            return np.int64(-1), count
        following = _find(data, _COLON, colon + 1, stop)
        is_last = following < 0
        comma = _find_last(data, _COMMA, start, following) if following >= 0 else np.int64(-1)
        while comma < colon and following >= 0:  # a colon within the value
            following = _find(data, _COLON, following + 1, stop)
            comma = _find_last(data, _COMMA, start, following) if following >= 0 else np.int64(-1)
        named = _named(data, at, colon, names, name_offsets)
        end = comma if comma >= 0 else np.int64(stop)
        if not named and comma < 0 and not is_last:  # Hudi then begins again at the first colon, for ever
            return np.int64(-1), count
        if named:
            count += 1
            is_null = _equal(data, colon + 1, end, null_text, 0, len(null_text))
            if is_null or _equal(data, colon + 1, end, empty_text, 0, len(empty_text)):
                h = (h * 31) & _LOW_32
            else:
                h = (h * 31 + _text_hash(data, colon + 1, end)) & _LOW_32
        at = comma + 1 if comma >= 0 else np.int64(stop)
    return h, count


@compiled_lean
def hash_keys(
    data: Any,
    offsets: Any,
    names: Any,
    name_offsets: Any,
    null_text: Any,
    empty_text: Any,
    hashes: Any,
    problems: Any,
) -> Any:
    """hashes[row]: Java's hash of the key's values, as an unsigned number of 32 bits; problems[row]: as above."""
    for row in range(len(offsets) - 1):
        start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
        has_comma = _find(data, _COMMA, start, stop) >= 0
        has_colon = _find(data, _COLON, start, stop) >= 0
        h, count = np.int64(0), 0
        if has_comma and has_colon:
            h, count = _values_hash(data, start, stop, names, name_offsets, null_text, empty_text)
        if h < 0:
            problems[row] = ENDLESS
            h = np.int64(0)
        elif has_colon and (not has_comma or count == 0 or _lacks_colon(data, start, stop)):
            problems[row] = DIFFERS
        if count == 0:
            h = (31 + _text_hash(data, start, stop)) & _LOW_32
        hashes[row] = h
    return 0
