"""A remote file whose reads return exactly the requested bytes, or raise an error.

pyarrow's S3 file system accepts a response that is shorter than the requested range (a proxy that cuts bodies and
corrects their headers, or an object that was replaced by a shorter one) without an error. The rest of the buffer then
holds old memory, and values would be decoded from it. `ExactFile` detects this.
"""

from __future__ import annotations

import errno
import io
from typing import Final

import pyarrow as pa

from penstock.table.storage.uris import without_signature

_UNREAD: Final = b"\xa7"
"""The marker byte: text does not end with it."""


class ExactFile:
    """The file interface that `pa.PythonFile` requires, over a random access file, with a position of its own.

    Each read fills its buffer with a marker byte first. If the buffer ends with the marker after the read (also by
    chance, in one read of 256), the first and last marker bytes of that end are read again, one byte at a time: a
    response of one byte cannot be short. A short response raises OSError (EIO); a retry may succeed. No error text has
    the signature of a URL.
    """

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source
        self._size = int(source.size())
        self._at = 0

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._source.closed)

    def close(self) -> None:
        """Closes the file."""
        self._source.close()

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def writable(self) -> bool:
        """False."""
        return False

    def tell(self) -> int:
        """The current position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Sets the position and returns it."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Reads `size` bytes from the position on; fewer only at the end of the file."""
        left = max(self._size - self._at, 0)
        count = left if size is None or size < 0 else min(size, left)
        data = self._exactly(self._at, count)
        self._at += count
        return data

    def _exactly(self, offset: int, size: int) -> bytes:
        if not size:
            return b""
        data = bytearray(_UNREAD) * size
        text, got = "", 0
        try:
            self._source.seek(offset)
            got = int(self._source.readinto(data))
        except OSError as error:
            text = without_signature(str(error))
            if text == str(error):
                raise
        if text:  # after the block: otherwise the new error keeps the other one as its context
            raise OSError(text)
        if got != size or (size > 1 and data[-1:] == _UNREAD and self._is_short(data, offset)):
            raise OSError(errno.EIO, f"the storage returned fewer than {size} bytes at byte {offset}")
        return bytes(data)

    def _is_short(self, data: bytearray, offset: int) -> bool:
        """Whether the marker bytes at the end of the data were not overwritten: the file has other bytes there."""
        first, last = len(data.rstrip(_UNREAD)), len(data) - 1
        return any(self._byte_at(offset + index) != _UNREAD for index in {first, last})

    def _byte_at(self, offset: int) -> bytes:
        self._source.seek(offset)
        return bytes(self._source.read(1))
