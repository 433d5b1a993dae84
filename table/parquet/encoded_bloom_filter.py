"""A bloom filter of record keys in base64, of which only the bits of the searched keys are decoded.

The filter of a file has some 400 KB, and a key has thirty bits.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.proto.errors import CorruptFile
from penstock.table.parquet.bloom_filter import bloom_filter_layout

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PAD: Final = b"="
_INVALID: Final = 255
_MOST_BITS: Final = 5_000_000
"""Bits of all keys in all rows that are decoded of one filter, in a fifth of a second. In ten rows of Hudi's filters a
thousand keys have less than a tenth of that."""
_ROW_BITS: Final = 1_000
"""A row takes as long as so many bits."""


def _values() -> npt.NDArray[np.uint8]:
    """Character -> its six bits."""
    values = np.full(256, _INVALID, np.uint8)
    values[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64)
    values[ord(_PAD)] = 0
    return values


_VALUES: Final = _values()


class EncodedBloomFilter:
    """A filter in its text. CorruptFile unless the text has the layout of a filter of the type.

    Characters are checked when they are decoded. `where` names the file in errors.
    """

    def __init__(self, text: bytes, type_code: str, where: str) -> None:
        padding = len(text) - len(text.rstrip(_PAD))
        if len(text) % 4 or padding > 2 or _PAD in text[: len(text) - padding]:
            raise CorruptFile(f"{where}: bloom filter: {len(text)} characters that are not base64")
        self._text, self._where = text, where
        layout = bloom_filter_layout(len(text) // 4 * 3 - padding, self._bytes, type_code, where)
        self._characters = np.frombuffer(text, np.uint8)
        self._starts = layout.starts
        self.hashes = layout.hashes
        """Number of bits of a key."""
        self.bits = layout.bits
        """Number of bits of a row."""

    def may_contain_any(self, bits: npt.NDArray[np.int64]) -> bool:
        """Whether one of the keys with these bits (`key_bits.key_bits`) may have been added. True for a filter without
        rows, if one of the bits is not base64, and if there are too many bits to decode."""
        if not self._starts or len(self._starts) * max(bits.size, _ROW_BITS) > _MOST_BITS:
            return True
        return any(self._row_may_contain_any(start, bits) for start in self._starts)

    def _row_may_contain_any(self, start: int, bits: npt.NDArray[np.int64]) -> bool:
        places = start + (bits >> 3)
        sextets = _VALUES[self._characters[places[..., None] // 3 * 4 + np.arange(4)]]
        if (sextets == _INVALID).any():
            return True
        parts = sextets.astype(np.int64)
        triples = parts[..., 0] << 18 | parts[..., 1] << 12 | parts[..., 2] << 6 | parts[..., 3]
        is_set = triples >> (16 - places % 3 * 8) >> (bits & 7) & 1
        return bool(is_set.all(axis=-1).any())

    def _bytes(self, start: int, count: int) -> bytes:
        first = start // 3
        group = self._text[first * 4 : -(-(start + count) // 3) * 4]
        try:
            return base64.b64decode(group, validate=True)[start - first * 3 :][:count]
        except (binascii.Error, ValueError) as error:
            raise CorruptFile(f"{self._where}: bloom filter: it is not base64 ({error})") from None
