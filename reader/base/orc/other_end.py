"""A view of an ORC file with another footer, which the library of ORC reads."""

from __future__ import annotations

import io
from typing import Final

import pyarrow as pa

from penstock.table.orc_tail import OrcTail
from penstock.table.orc_timestamps import OtherEnd

_MOST_READ_BYTES: Final = 1 << 28
"""The most repeated bytes of one read; the library of ORC reads 128 KiB of such a stream."""


def with_other_end(source: pa.NativeFile, tail: OrcTail, end: OtherEnd) -> pa.NativeFile:
    """The file with `end` instead of its footer, `tail`. It leaves the given one open."""
    return pa.PythonFile(_WithOtherEnd(source, tail.footer_at, end), mode="r")


class _WithOtherEnd(io.RawIOBase):
    """The first bytes of a file, `kept`, and another end."""

    def __init__(self, source: pa.NativeFile, kept: int, end: OtherEnd) -> None:
        self._source, self._kept, self._end, self._place = source, kept, end, 0
        self._tail_at = kept + end.repeated_bytes
        self._size = self._tail_at + len(end.tail)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._place + size)
        content = b""
        if self._place < self._kept:
            content = bytes(self._source.read_at(min(end, self._kept) - self._place, self._place))
            self._place += len(content)
            if self._place < min(end, self._kept):
                return content
        if self._place < min(end, self._tail_at):
            content += self._repeated(min(end, self._tail_at) - self._place)
        if self._place < end:
            content += self._end.tail[self._place - self._tail_at : end - self._tail_at]
            self._place = end
        return content

    def _repeated(self, size: int) -> bytes:
        if size > _MOST_READ_BYTES:
            raise pa.ArrowInvalid(f"a read of {size} bytes, expected at most {_MOST_READ_BYTES}")
        part = self._end.repeated
        begin = (self._place - self._kept) % len(part)
        self._place += size
        return (part * ((begin + size) // len(part) + 1))[begin : begin + size]
