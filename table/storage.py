"""Where a table's bytes are: one small protocol over `pyarrow.fs`, and the check every path from a table passes.

Belongs here: opening, listing, reading, the mapping of storage failures to our errors. Not here: what a file means.
Nothing assumes a local path; retries are those of pyarrow's own file systems.
"""

from __future__ import annotations

import os
import pathlib
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.proto.errors import ConfigurationError, CorruptFile, StorageError

MAX_PATH_BYTES: Final = 4096
"""Longest path of a file inside a table, in UTF-8."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")
_SAME_AS = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_DETAIL_CHARS = 300

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A file or folder. `path` is relative to the table's base path, '/'-separated; `name` its last part.

    `modified_ns` is nanoseconds since the epoch, or 0 where the store does not tell.
    """

    name: str
    path: str
    size_bytes: int
    is_dir: bool
    modified_ns: int


class Storage(Protocol):
    """A table's files by their path relative to `base_path`. Safe to call from several threads.

    Every path passes `checked_path` first, so that nothing outside of `base_path` is touched. A failure that is not
    named below is StorageError.
    """

    @property
    def base_path(self) -> str:
        """An absolute local path, or the URI as it was given, without a trailing '/'."""
        ...

    def list_dir(self, path: str) -> list[FileInfo]:
        """The folder's files and folders, one level deep, sorted by name; [] if there is no such folder."""
        ...

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """The whole file. FileNotFoundError if there is none, CorruptFile if it is larger than `limit_bytes`."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """The file for random access. FileNotFoundError if there is none."""
        ...

    def file_info(self, path: str) -> FileInfo | None:
        """The file or folder at `path`, or None."""
        ...


def checked_path(path: str) -> str:
    """`path` unchanged if it stays under a table's base path, else CorruptFile naming it.

    Refused: absolute paths, a scheme, '.' and '..' and empty parts, NUL, text that is no Unicode, more than
    MAX_PATH_BYTES. '' is the base path itself.
    """
    reason = _refusal(path)
    if reason:
        raise CorruptFile(
            f"path {path[:200]!r} is refused: {reason}; expected a path relative to the table's base path "
            "(the table's metadata is damaged or hostile)"
        )
    return path


def _refusal(path: str) -> str:
    if not path:
        return ""
    if "\0" in path:
        return "it holds a NUL"
    if path.startswith("/"):
        return "it is absolute"
    if _SCHEME.match(path):
        return "it has a scheme"
    try:
        size_bytes = len(path.encode())
    except UnicodeEncodeError:
        return "it is no valid Unicode"
    if size_bytes > MAX_PATH_BYTES:
        return f"it is {size_bytes} bytes long, at most {MAX_PATH_BYTES} are read"
    parts = path.split("/")
    if ".." in parts or "." in parts:
        return "it holds a '.' or '..' part"
    return "it has an empty part" if "" in parts else ""


def shown_uri(base_path: str) -> str:
    """The base path for error texts and logs: user name, password and query values are left out."""
    if "://" not in base_path:
        return base_path
    parts = urllib.parse.urlsplit(base_path)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def open_storage(base_path: str) -> Storage:
    """The storage of a table at a local path or any URI that `pyarrow.fs.FileSystem.from_uri` knows.

    A relative local path is made absolute; s3a, s3n and gcs are taken as s3 and gs. Nothing is read yet: a missing
    folder shows later. ConfigurationError for a URI pyarrow does not know.
    """
    if not base_path or "\0" in base_path:
        raise ConfigurationError(f"table path {base_path!r}: expected a local path or a URI such as s3://bucket/table")
    if not _URI.match(base_path):
        local = os.path.abspath(base_path)  # noqa: PTH100  folds '..' and keeps symbolic links, unlike resolve()
        return ArrowStorage(local, pafs.LocalFileSystem(), local)
    scheme, _, rest = base_path.partition(":")
    uri = f"{_SAME_AS.get(scheme, scheme)}:{rest}"
    try:
        filesystem, root = pafs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise ConfigurationError(
            f"table path {shown_uri(base_path)!r} cannot be opened: {_detail(error)}; expected a local path or a URI "
            "such as s3://bucket/table"
        ) from error
    except OSError as error:
        raise StorageError(f"storage of {shown_uri(base_path)} cannot be opened: {_detail(error)}") from error
    if isinstance(filesystem, pafs.LocalFileSystem):
        return ArrowStorage(root.rstrip("/") or "/", filesystem, root)
    return ArrowStorage(base_path.rstrip("/"), filesystem, root)


class ArrowStorage:
    """`Storage` over a `pyarrow.fs.FileSystem` and the folder `root` in it.

    On a local file system a symbolic link that leads out of the base path is refused (CorruptFile) when a file behind
    it is opened or a folder behind it is listed.
    """

    def __init__(self, base_path: str, filesystem: pafs.FileSystem, root: str) -> None:
        self._base_path = base_path
        self._filesystem = filesystem
        self._root = root
        self._tree = pafs.SubTreeFileSystem(root, filesystem)
        self._local_root = pathlib.Path(root) if isinstance(filesystem, pafs.LocalFileSystem) else None

    @property
    def base_path(self) -> str:
        return self._base_path

    def __repr__(self) -> str:
        return f"ArrowStorage({shown_uri(self._base_path)!r})"

    def list_dir(self, path: str) -> list[FileInfo]:
        self._check(path)
        selector = pafs.FileSelector(path, allow_not_found=True, recursive=False)
        try:
            entries = self._guarded(path, lambda: self._tree.get_file_info(selector))
        except FileNotFoundError:
            return []
        known = (pafs.FileType.File, pafs.FileType.Directory)
        infos = [_file_info(entry, entry.path) for entry in entries if entry.type in known]
        return sorted(infos, key=lambda info: info.name)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        self._check(path)

        def read() -> bytes:
            with self._tree.open_input_file(path) as source:
                return bytes(source.read(limit_bytes + 1))

        data = self._guarded(path, read)
        if len(data) > limit_bytes:
            raise CorruptFile(
                f"file {path} of table {shown_uri(self._base_path)} is larger than expected: at most {limit_bytes} "
                "bytes are read of such a file"
            )
        return data

    def open_input(self, path: str) -> pa.NativeFile:
        self._check(path)
        return self._guarded(path, lambda: self._tree.open_input_file(path))

    def file_info(self, path: str) -> FileInfo | None:
        self._check(path)
        try:
            entry = self._guarded(path, lambda: self._stat(path))
        except FileNotFoundError:
            return None
        return None if entry.type == pafs.FileType.NotFound else _file_info(entry, path)

    def _stat(self, path: str) -> pafs.FileInfo:
        """pyarrow's answer; the base path itself is asked for without the '/' a subtree appends, which no file has."""
        return self._tree.get_file_info(path) if path else self._filesystem.get_file_info(self._root)

    def _check(self, path: str) -> None:
        checked_path(path)
        if self._local_root is None:
            return
        try:
            inside = (self._local_root / path).resolve().is_relative_to(self._local_root.resolve())
        except (RuntimeError, OSError) as error:
            raise CorruptFile(f"file {path} of table {self._base_path}: {_detail(error)}") from error
        if not inside:
            raise CorruptFile(
                f"file {path} of table {self._base_path} is refused: a symbolic link leads out of the base path; "
                "expected every file under the base path"
            )

    def _guarded(self, path: str, action: Callable[[], _T]) -> _T:
        """`action`'s answer; its failures as FileNotFoundError or StorageError, both with the path."""
        where = f"{path or 'the base folder'} of table {shown_uri(self._base_path)}"
        try:
            return action()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(f"no such file: {where}") from error
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"storage failed on {where}: {_detail(error)}; asking again may help") from error


def _file_info(entry: pafs.FileInfo, path: str) -> FileInfo:
    is_dir = entry.type == pafs.FileType.Directory
    return FileInfo(
        name=path.rpartition("/")[2],
        path=path,
        size_bytes=0 if is_dir else int(entry.size or 0),
        is_dir=is_dir,
        modified_ns=int(entry.mtime_ns or 0),
    )


def _detail(error: BaseException) -> str:
    """The first line of an error's text, bounded (pyarrow appends whole search logs)."""
    lines = str(error).splitlines()
    return lines[0][:_DETAIL_CHARS] if lines else type(error).__name__
