"""Reads small files of the local file system."""

from __future__ import annotations

import os
import stat
from typing import Final

_FLAGS: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def read_local(path: str, limit_bytes: int) -> bytes | None:
    """The bytes of a file, at most the first `limit_bytes`; None if another reader must read it, and report why.

    It is None after any error, for anything but a regular file, and if the file changes its size while it is read.
    pyarrow takes several times as long for a file of a few kilobytes, and a timeline has thousands.
    """
    try:
        file = os.open(path, _FLAGS)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return None
            size_bytes = status.st_size
            data = os.read(file, min(limit_bytes, size_bytes + 1))
        finally:
            os.close(file)
    except (OSError, ValueError):
        return None
    return data if len(data) == min(limit_bytes, size_bytes) else None
