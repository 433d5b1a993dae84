"""The range of record keys in a base file's footer, in the order of UTF-16 units as Java's `String.compareTo`.

Source: Hudi `HoodieBloomFilterWriteSupport`, `BloomIndexFileInfo`: a bloom index searches a key only in the files whose
range has it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import InvariantViolation
from penstock.table.arrow_arrays import arrow_array

MIN_KEY: Final = "hoodie_min_record_key"
"""Footer key of the lowest record key."""
MAX_KEY: Final = "hoodie_max_record_key"
"""Footer key of the highest record key."""

_BY_UTF_16: Final = np.arange(256, dtype=np.uint8)
"""Bytes of UTF-8 in the order of UTF-16 units: U+E000 to U+FFFF come after the characters that need two units."""
_BY_UTF_16[0xEE:0xF0] = [0xFE, 0xFF]
_BY_UTF_8: Final = np.arange(256, dtype=np.uint8)
_BY_UTF_8[0xFE:] = [0xEE, 0xEF]


def key_range(keys: pa.StringArray) -> tuple[str, str]:
    """(lowest, highest) of keys without nulls."""
    rows = len(keys)
    if not rows or keys.null_count:
        raise InvariantViolation(f"range of {rows} keys, {keys.null_count} of them null")
    if not (_content(keys) >= 0xF0).any():
        ends = pc.min_max(keys)
        return ends["min"].as_py(), ends["max"].as_py()
    ends = pc.min_max(by_utf_16(keys))
    low, high = (_BY_UTF_8[np.frombuffer(ends[name].as_py(), np.uint8)].tobytes() for name in ("min", "max"))
    return low.decode(), high.decode()


def by_utf_16(keys: pa.StringArray) -> pa.BinaryArray:
    """For each key, bytes whose order is that of the keys by UTF-16 units. Keys have no nulls."""
    if not len(keys):
        return arrow_array([], pa.binary())
    _, offsets, _ = keys.buffers()
    ordered = pa.py_buffer(_BY_UTF_16[_content(keys)])
    return pa.Array.from_buffers(pa.binary(), len(keys), [None, offsets, ordered], offset=keys.offset)


def text_by_utf_16(text: str) -> bytes:
    """The bytes of one key, as `by_utf_16`."""
    return _BY_UTF_16[np.frombuffer(text.encode(), np.uint8)].tobytes()


def _content(keys: pa.StringArray) -> np.ndarray:
    content = keys.buffers()[2]
    return np.frombuffer(content or b"", np.uint8)
