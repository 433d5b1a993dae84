"""What a listing returns of a file or folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow.fs as pafs

NOT_UTF8: Final = "\udcff"
"""The name of a file or folder whose name is not UTF-8: no text can be that name, and every access is refused."""


class FileInfo(NamedTuple):
    """A file or folder of a table."""

    name: str
    """The last part of `path`."""
    path: str
    """Relative to the table's base path, separated by '/'."""
    size_bytes: int
    """0 for a folder."""
    is_dir: bool
    """Whether it is a folder."""
    modified_ns: int
    """Time of the last change, in nanoseconds since the epoch; 0 if the store does not report it."""


def info_of_entry(entry: pafs.FileInfo, folder: str, is_dir: bool) -> FileInfo:
    """The file or folder of a listing of `folder`. Only its own access fails if its name is not UTF-8."""
    try:
        path = entry.path
    except UnicodeDecodeError:
        path = f"{folder}/{NOT_UTF8}".lstrip("/")
    return file_info(entry, path, is_dir)


def file_info(entry: pafs.FileInfo, path: str, is_dir: bool) -> FileInfo:
    """The file or folder at `path`."""
    return FileInfo(
        name=path.rpartition("/")[2],
        path=path,
        size_bytes=0 if is_dir else int(entry.size or 0),
        is_dir=is_dir,
        modified_ns=int(entry.mtime_ns or 0),
    )
