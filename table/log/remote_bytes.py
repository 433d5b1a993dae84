"""The bytes of a remote file, with slices that read only the requested ranges, one window at a time.

For reading a log's framing (`blocks`) without the contents.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

WINDOW_BYTES: Final = 64 << 10
"""Least bytes of one read."""
LONGEST_BYTES: Final = 16 << 20
"""The longest slice, for a block's header or footer."""


class RemoteRangeTooLong(ValueError):
    """A requested slice exceeds `LONGEST_BYTES`, which no header or footer does."""


class RemoteBytes:
    """The bytes of a file: `len`, and slices as memoryviews. Caches the last two windows. Not thread-safe."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source, self._size = source, int(source.size())
        self._windows: list[tuple[int, memoryview]] = []

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, key: slice) -> memoryview:
        """RemoteRangeTooLong beyond `LONGEST_BYTES`; OSError and ArrowException of the file."""
        start, stop, _ = key.indices(self._size)
        if stop - start > LONGEST_BYTES:
            raise RemoteRangeTooLong(f"{stop - start} bytes at byte {start}: at most {LONGEST_BYTES} are read")
        if stop <= start:
            return memoryview(b"")
        for first, window in self._windows:
            if first <= start and stop <= first + len(window):
                return window[start - first : stop - first]
        window = memoryview(self._source.read_at(min(max(stop - start, WINDOW_BYTES), self._size - start), start))
        self._windows = [*self._windows[-1:], (start, window)]
        return window[: stop - start]
