"""Bytes of a file that is far away, sliced as if they were here: only what is asked for is read, a window at a time.

For looks at a log's framing that leave the contents alone. Not here: what the bytes mean (`blocks`).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

WINDOW_BYTES: Final = 64 << 10
LONGEST_BYTES: Final = 16 << 20
"""The longest slice: of a block's header or footer no more is looked at."""


class RemoteRangeTooLong(ValueError):
    """A slice was asked for that is longer than any part of a block but its content."""


class RemoteBytes:
    """A file's bytes. `len`, and slices as memoryviews; the two windows read last are kept. One thread."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source, self._size = source, int(source.size())
        self._windows: list[tuple[int, memoryview]] = []

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice) -> memoryview:
        """RemoteRangeTooLong for more than `LONGEST_BYTES`; OSError and ArrowException as the file has them."""
        start, stop, _ = wanted.indices(self._size)
        if stop - start > LONGEST_BYTES:
            raise RemoteRangeTooLong(f"{stop - start} bytes at byte {start}: at most {LONGEST_BYTES} are looked at")
        if stop <= start:
            return memoryview(b"")
        for first, window in self._windows:
            if first <= start and stop <= first + len(window):
                return window[start - first : stop - first]
        window = memoryview(self._source.read_at(min(max(stop - start, WINDOW_BYTES), self._size - start), start))
        self._windows = [*self._windows[-1:], (start, window)]
        return window[: stop - start]
