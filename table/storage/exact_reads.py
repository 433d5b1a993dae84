"""A remote file whose reads are what was asked for, or an error.

pyarrow's S3 file system takes an answer that is shorter than the range it asked for (a proxy that cuts bodies and mends
their headers; an object that was replaced by a shorter one) for the whole, and says nothing: what follows is whatever
was in its memory. Values would be read from that. Belongs here: noticing it. Not here: what happens then (`storage`).
"""

from __future__ import annotations

import errno
import io
from typing import Final

import pyarrow as pa

_UNREAD: Final = b"\xa7"
"""The mark: a byte that text does not end in."""


class ExactFile:
    """What `pa.PythonFile` needs of a file, over a random access file. Reads move its own position.

    Memory is marked before it is read into. Where the mark is found at the end, as it is in one read of 256 anyhow,
    the file is asked for the bytes where it begins and ends, one at a time: an answer of one byte cannot be short.
    Bytes that were not answered raise OSError (EIO): asking again may help.
    """

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source
        self._size = int(source.size())
        self._at = 0

    @property
    def closed(self) -> bool:
        """Whether it is."""
        return bool(self._source.closed)

    def close(self) -> None:
        """Lets go of the file."""
        self._source.close()

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def writable(self) -> bool:
        """Never."""
        return False

    def tell(self) -> int:
        """The position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position; returns it."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """So many bytes from the position on, fewer only at the file's end."""
        left = max(self._size - self._at, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._exactly(self._at, wanted)
        self._at += wanted
        return data

    def _exactly(self, offset: int, size: int) -> bytes:
        if not size:
            return b""
        data = bytearray(_UNREAD) * size
        self._source.seek(offset)
        got = int(self._source.readinto(data))
        if got != size or (size > 1 and data[-1:] == _UNREAD and self._is_short(data, offset)):
            raise OSError(errno.EIO, f"the storage answered fewer than {size} bytes at byte {offset}")
        return bytes(data)

    def _is_short(self, data: bytearray, offset: int) -> bool:
        """Whether the mark at the end of the data was left there: the file has something else in its place."""
        first, last = len(data.rstrip(_UNREAD)), len(data) - 1
        return any(self._one(offset + place) != _UNREAD for place in {first, last})

    def _one(self, offset: int) -> bytes:
        self._source.seek(offset)
        return bytes(self._source.read(1))
