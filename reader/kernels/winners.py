"""Numbers distinct record keys by hash, and looks up batches of base keys.

Arrays: `offsets` (int64 or int32, one more than there are keys) into `data` (uint8), the layout of Arrow strings.
`seeds` are three random uint64 per process, so crafted keys cannot collide. Two keys are equal only if their bytes are
equal; the hash affects the time only, never the result.

Safety: every index is bounded by the caller's arrays. `offsets` must ascend and stay within `data` (arrays
of Arrow or of the checked decoder); `slots` has more entries than keys, so each probe ends at an empty one.
- slots, bloom: the index is masked by their length minus one, and the length is a power of two;
- first[count], numbers[row], codes[row], rows[maybe]: the counters start at 0 and grow by at most one per row;
- known_offsets[number + 1]: a slot that is not EMPTY has a number below the count of distinct keys;
- `_word` reads eight bytes up to the end of a key; it is called only for keys of at least eight bytes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from penstock.reader.kernels.cache import check_word
from penstock.reader.kernels.compilation import compiled_lean, inlined

EMPTY: Final = np.int64(-1)
_LOW_32: Final = np.int64(0xFFFFFFFF)


def _load_word(typing_context: Any, data: Any, at: Any) -> Any:
    """The 8 bytes at `at` as one uint64 in native byte order: one unaligned load."""
    if not (isinstance(data, types.Array) and data.dtype == types.uint8 and isinstance(at, types.Integer)):
        raise TypingError(f"_word reads an array of uint8 at an integer, not {data} at {at}")

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        check_word(context, builder, array, arguments[1])
        start = builder.gep(array.data, [arguments[1]])
        word = context.get_value_type(types.uint64)
        return builder.load(builder.bitcast(start, word.as_pointer()), align=1)

    return types.uint64(data, types.int64), emit


_word: Any = intrinsic(_load_word)


@inlined
def _mix(state: Any, word: Any, seeds: Any) -> Any:
    state = (state ^ word) * seeds[1]
    state = (state ^ (state >> np.uint64(32))) * seeds[2]
    return state ^ (state >> np.uint64(29))


@inlined
def _hash(data: Any, start: int, end: int, seeds: Any) -> Any:
    """Hashes two lanes of 8 bytes in parallel. The last words may overlap others, so the hash includes the length."""
    length = end - start
    left = seeds[0] ^ np.uint64(length)
    right = seeds[2] ^ seeds[0]
    at = start
    while at + 16 < end:
        left = _mix(left, _word(data, at), seeds)
        right = _mix(right, _word(data, at + 8), seeds)
        at += 16
    if length >= 16:
        left = _mix(left, _word(data, end - 16), seeds)
        right = _mix(right, _word(data, end - 8), seeds)
    elif length >= 8:
        left = _mix(left, _word(data, start), seeds)
        right = _mix(right, _word(data, end - 8), seeds)
    else:
        word = np.uint64(0)
        while at < end:
            word = (word << np.uint64(8)) | np.uint64(data[at])
            at += 1
        left = _mix(left, word, seeds)
    return _mix(left, (right << np.uint64(32)) | (right >> np.uint64(32)), seeds)


@inlined
def _bloom_bits(code: Any) -> Any:
    """Two of the 64 bits of a word of the filter."""
    return (np.uint64(1) << ((code >> np.uint64(52)) & np.uint64(63))) | (
        np.uint64(1) << ((code >> np.uint64(58)) & np.uint64(63))
    )


@inlined
def _equal(left: Any, left_start: int, left_end: int, right: Any, right_start: int, right_end: int) -> bool:
    if left_end - left_start != right_end - right_start:
        return False
    shift = right_start - left_start
    at = left_start
    while at + 8 <= left_end:
        if _word(left, at) != _word(right, at + shift):
            return False
        at += 8
    while at < left_end:
        if left[at] != right[at + shift]:
            return False
        at += 1
    return True


@inlined
def _probe(offsets: Any, data: Any, row: int, code: Any, slots: Any, known_offsets: Any, known_data: Any) -> Any:
    """The number of a row's key, or -1."""
    mask = np.uint64(len(slots) - 1)
    tag = np.int64(code >> np.uint64(33))
    place = code & mask
    start, end = offsets[row], offsets[row + 1]
    while True:
        slot = slots[place]
        if slot == EMPTY:
            return EMPTY
        if slot >> np.int64(32) == tag:
            number = slot & _LOW_32
            if _equal(data, start, end, known_data, known_offsets[number], known_offsets[number + 1]):
                return number
        place = (place + np.uint64(1)) & mask


@compiled_lean
def number_keys(
    offsets: Any, data: Any, seeds: Any, keep: Any, slots: Any, bloom: Any, first: Any, numbers: Any
) -> Any:
    """Numbers the distinct keys 0, 1, … in order of first occurrence; returns their count.

    Out: numbers[i] of key i; first[number], the index of its first occurrence; `slots` (int64, all EMPTY before; a
    power of two of at least twice the keys) and `bloom` (uint64, all zero before; a power of two) for `find_keys`.
    `keep` masks hashes.
    """
    mask = np.uint64(len(slots) - 1)
    words = np.uint64(len(bloom) - 1)
    count = 0
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        code = _hash(data, start, end, seeds) & keep
        tag = np.int64(code >> np.uint64(33))
        place = code & mask
        while True:
            slot = slots[place]
            if slot == EMPTY:
                slots[place] = (tag << np.int64(32)) | np.int64(count)
                bloom[(code >> np.uint64(16)) & words] |= _bloom_bits(code)
                first[count] = row
                numbers[row] = count
                count += 1
                break
            if slot >> np.int64(32) == tag:
                number = slot & _LOW_32
                known = first[number]
                if _equal(data, start, end, data, offsets[known], offsets[known + 1]):
                    numbers[row] = number
                    break
            place = (place + np.uint64(1)) & mask
    return count


@compiled_lean
def find_keys(
    offsets: Any,
    data: Any,
    seeds: Any,
    keep: Any,
    slots: Any,
    bloom: Any,
    known_offsets: Any,
    known_data: Any,
    codes: Any,
    rows: Any,
    numbers: Any,
) -> Any:
    """The rows with a known key, ascending, and the number of the key: rows[:n], numbers[:n]; returns n.

    known_offsets, known_data have the distinct keys in the order of their numbers (at least one key). codes, rows and
    numbers are scratch arrays with one more entry than rows.
    """
    mask = np.uint64(len(slots) - 1)
    words = np.uint64(len(bloom) - 1)
    total = len(offsets) - 1
    for row in range(total):
        codes[row] = _hash(data, offsets[row], offsets[row + 1], seeds) & keep
    maybe: Any = 0
    for row in range(total):  # no branch: the write index advances by the result
        code = codes[row]
        bits = _bloom_bits(code)
        rows[maybe] = row
        maybe += np.int64((bloom[(code >> np.uint64(16)) & words] & bits) == bits)
    tagged: Any = 0
    for i in range(maybe):  # this loop does not read the bytes of keys, so loads of many slots overlap
        row = rows[i]
        code = codes[row]
        tag = np.int64(code >> np.uint64(33))
        place = code & mask
        slot = slots[place]
        while slot != EMPTY and slot >> np.int64(32) != tag:
            place = (place + np.uint64(1)) & mask
            slot = slots[place]
        rows[tagged] = row
        numbers[tagged] = slot & _LOW_32
        tagged += np.int64(slot != EMPTY)
    touched = np.uint64(0)
    for i in range(tagged):  # prefetches the bytes of many keys; the sum prevents removal of the reads
        start = known_offsets[numbers[i]]
        if start < len(known_data):
            touched += np.uint64(known_data[start])
    codes[total] = touched
    count: Any = 0
    for i in range(tagged):
        row = rows[i]
        number = numbers[i]
        start, end = offsets[row], offsets[row + 1]
        if not _equal(data, start, end, known_data, known_offsets[number], known_offsets[number + 1]):
            number = _probe(offsets, data, row, codes[row], slots, known_offsets, known_data)
        rows[count] = row
        numbers[count] = number
        count += np.int64(number != EMPTY)
    return count
