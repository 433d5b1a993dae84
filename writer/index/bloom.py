"""The bloom index: a file whose footer excludes all searched keys is not read.

Source: Hudi `HoodieBloomIndex`, `HoodieKeyLookupHandle`. A footer without a range or a filter excludes nothing: Hudi
fails on a file without a filter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.parquet.key_filter import Footer, footer_bloom_filter, footer_key_range
from penstock.table.parquet.key_range import by_utf_16
from penstock.writer.kernels.bloom import find_key_bits


class SearchedKeys:
    """The keys that a write searches, sorted once for all files. Memory: a copy of the keys."""

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        """keys: text, none null."""
        self._chunks = [_Chunk(some) for some in keys if len(some)]

    def may_be_in(self, footer: Footer) -> bool:
        """Whether a file with this footer may have one of the keys."""
        key_range = footer_key_range(footer)
        inside = [(chunk, chunk.places(key_range)) for chunk in self._chunks]
        inside = [(chunk, places) for chunk, places in inside if len(places)]
        if not inside:
            return False
        bloom = footer_bloom_filter(footer)
        if bloom is None:
            return True
        return any(bloom.may_contain(chunk.keys, places, find_key_bits).any() for chunk, places in inside)


class _Chunk:
    """Keys in one array."""

    def __init__(self, keys: pa.Array) -> None:
        self.keys = keys if pa.types.is_string(keys.type) else keys.cast(pa.string())
        texts = by_utf_16(self.keys)
        self._order: npt.NDArray[np.int64] = pc.sort_indices(texts).to_numpy().astype(np.int64)
        self._sorted = texts.take(pa.array(self._order))

    def places(self, key_range: tuple[bytes, bytes] | None) -> npt.NDArray[np.int64]:
        """The places of the keys in this range."""
        if key_range is None:
            return self._order
        rows = range(len(self._order))
        first = bisect_left(rows, key_range[0], key=self._text)
        return self._order[first : bisect_right(rows, key_range[1], key=self._text)]

    def _text(self, place: int) -> bytes:
        text: bytes = self._sorted[place].as_py()
        return text
