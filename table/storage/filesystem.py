"""The files of a table: a small protocol over `pyarrow.fs`, and the check of every path that a table contains.

Maps storage failures to Penstock errors. Works for local and remote paths alike. Retries are those of pyarrow's file
systems.
"""

from __future__ import annotations

import errno
import os
import pathlib
import re
from collections.abc import Callable
from operator import attrgetter
from typing import Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.proto.errors import AccessError, ConfigurationError, CorruptFile, StorageDenied, StorageError
from penstock.table.storage.exact_reads import ExactFile
from penstock.table.storage.file_info import FileInfo as FileInfo
from penstock.table.storage.file_info import file_info, info_of_entry
from penstock.table.storage.folder_entries import folder_entries
from penstock.table.storage.local_links import has_no_link
from penstock.table.storage.local_reads import read_local
from penstock.table.storage.refusals import Denied, UnexplainedRefusal, WrongRegion, refusal_of, requested_region
from penstock.table.storage.uris import (
    AZURE_SCHEMES,
    EXPECTED_PATH,
    folder_uri,
    is_uri,
    is_utf8,
    redacted_uri,
    uri_scheme,
    without_signature,
)

MAX_PATH_BYTES: Final = 4096
"""Longest path of a file inside a table, in bytes of UTF-8."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")
_DOTS: Final = frozenset({".", ".."})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})
_DETAIL_CHARS = 300
_LISTED: Final = (pafs.FileType.File, pafs.FileType.Directory)

_T = TypeVar("_T")


class Storage(Protocol):
    """A table's files by their path relative to `base_path`. Safe to call from several threads.

    Every path is checked by `checked_path` first, so that no file outside of `base_path` is accessed. Failures that
    are not listed below raise StorageError.
    """

    @property
    def base_path(self) -> str:
        """An absolute local path, or the URI as the caller wrote it, without a trailing '/'."""
        ...

    def list_dir(self, path: str) -> list[FileInfo]:
        """The files and folders directly in the folder, sorted by name; [] if the folder does not exist."""
        ...

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """The content of the file. FileNotFoundError if it does not exist, CorruptFile beyond `limit_bytes`."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Opens the file for random access. FileNotFoundError if it does not exist."""
        ...

    def file_info(self, path: str) -> FileInfo | None:
        """The file or folder at `path`, or None."""
        ...


def checked_path(path: str) -> str:
    """Returns `path` if it stays under a table's base path, else raises CorruptFile with the path.

    Refused are absolute paths, URI schemes, the parts '.', '..' and '', NUL, text that is not valid Unicode, and paths
    longer than MAX_PATH_BYTES. '' is the base path itself.
    """
    if is_plain_path(path):
        return path
    reason = _refusal(path)
    if reason:
        raise CorruptFile(
            f"path {path[:200]!r} is refused: {reason}; expected a path relative to the table's base path "
            "(the table's metadata is damaged or hostile)"
        )
    return path


def _refusal(path: str) -> str:
    if "\0" in path:
        return "it contains a NUL character"
    if path.startswith("/"):
        return "it is absolute"
    if _SCHEME.match(path):
        return "it has a scheme"
    if not is_utf8(path):
        return "it is not valid Unicode"
    size_bytes = len(path.encode())
    if size_bytes > MAX_PATH_BYTES:
        return f"it is {size_bytes} bytes long, at most {MAX_PATH_BYTES} are read"
    parts = path.split("/")
    if not _DOTS.isdisjoint(parts):
        return "it has a '.' or '..' part"
    return "it has an empty part" if "" in parts else ""


def is_plain_path(path: str) -> bool:
    """Whether a quick look shows that `checked_path` allows the path, as it does for nearly all."""
    return not path or (
        path.isascii()
        and len(path) <= MAX_PATH_BYTES
        and path[0] != "/"
        and path[-1] != "/"
        and "//" not in path
        and ":" not in path
        and "\0" not in path
        and (("/." not in path and path[0] != ".") or _DOTS.isdisjoint(path.split("/")))
    )


def open_storage(base_path: str) -> Storage:
    """Opens the storage of a table at a local path or a URI: file, s3, gs, abfs, hdfs or viewfs.

    A relative local path is made absolute; s3a and s3n open as s3, gcs as gs. Nothing is read: a missing folder is
    reported by the first read. ConfigurationError for text that is not UTF-8, another scheme, or a URI that pyarrow
    refuses.
    """
    filesystem, root = open_folder(base_path)
    if not is_uri(base_path):
        return ArrowStorage(root, filesystem, root)
    if isinstance(filesystem, pafs.LocalFileSystem):
        return ArrowStorage(root.rstrip("/") or "/", filesystem, root)
    return ArrowStorage(base_path.rstrip("/"), filesystem, root, sends_tokens(base_path))


def open_folder(path: str, what: str = "table path") -> tuple[pafs.FileSystem, str]:
    """The file system of a local path or URI, and the folder in it. Otherwise as `open_storage`."""
    uri = folder_uri(path, what)
    if not uri:
        return pafs.LocalFileSystem(), os.path.abspath(path)  # noqa: PTH100  keeps symbolic links, unlike resolve()
    redacted = redacted_uri(path)
    try:
        if uri_scheme(uri) in AZURE_SCHEMES:
            from penstock.table.storage.azure import open_account

            filesystem, root = open_account(uri, os.environ)
        else:
            filesystem, root = pafs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        reason = storage_detail(error, uri)
        raise ConfigurationError(f"{what} {redacted[:200]!r} cannot be opened: {reason}; {EXPECTED_PATH}") from None
    except OSError as error:
        raise StorageError(f"storage of {redacted} cannot be opened: {storage_detail(error, uri)}") from None
    return filesystem, root


def sends_tokens(base_path: str) -> bool:
    """Whether the URI is one of Azure whose requests need a token."""
    if uri_scheme(base_path) not in AZURE_SCHEMES:
        return False
    from penstock.table.storage import azure

    return azure.sends_tokens(base_path, os.environ)


def is_local(storage: Storage) -> bool:
    """Whether the storage is a local file system or memory, where a read of a few bytes takes microseconds."""
    return not is_uri(storage.base_path)


class ArrowStorage:
    """`Storage` over a `pyarrow.fs.FileSystem` and the folder `root` in it.

    On a local file system, opening a file or listing a folder through a symbolic link that leads out of the base path
    raises CorruptFile.
    """

    def __init__(self, base_path: str, filesystem: pafs.FileSystem, root: str, queries_first: bool = False) -> None:
        """`queries_first`: a file is looked up before it is opened. pyarrow ends the process if Azure's library gets no
        token while a file is opened; the look-up fails with an error instead, and its token is kept."""
        self._base_path = base_path
        self._filesystem = filesystem
        self._root = root
        self._queries_first = queries_first
        self._tree = pafs.SubTreeFileSystem(root, filesystem)
        self._local_root = pathlib.Path(root) if isinstance(filesystem, pafs.LocalFileSystem) else None

    @property
    def base_path(self) -> str:
        return self._base_path

    def __repr__(self) -> str:
        return f"ArrowStorage({redacted_uri(self._base_path)!r})"

    def list_dir(self, path: str) -> list[FileInfo]:
        self._check(path)
        try:
            entries = self._guarded(path, lambda: folder_entries(self._tree, path))
        except FileNotFoundError:
            return []
        typed = ((entry, entry.type) for entry in entries)
        folder = pafs.FileType.Directory
        infos = [info_of_entry(entry, path, kind == folder) for entry, kind in typed if kind in _LISTED]
        return sorted(infos, key=attrgetter("name"))

    def local_folder(self, path: str) -> str | None:
        """As in `local_listing.LocalFolders`."""
        self._check(path)
        return None if self._local_root is None else str(self._local_root / path)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        self._check(path)
        data = read_local(f"{self._root}/{path}", limit_bytes + 1) if self._local_root is not None else None
        if data is None:
            data = self._guarded(path, lambda: self._start_of(path, limit_bytes + 1))
        if len(data) > limit_bytes:
            raise CorruptFile(
                f"file {path} of table {redacted_uri(self._base_path)} is larger than expected: at most {limit_bytes} "
                "bytes are read of such a file"
            )
        return data

    def open_input(self, path: str) -> pa.NativeFile:
        self._check(path)
        return self._guarded(path, lambda: self._opened(path))

    def file_info(self, path: str) -> FileInfo | None:
        self._check(path)
        try:
            entry = self._guarded(path, lambda: self._stat(path))
        except FileNotFoundError:
            return None
        kind = entry.type
        return None if kind == pafs.FileType.NotFound else file_info(entry, path, kind == pafs.FileType.Directory)

    def _start_of(self, path: str, size_bytes: int) -> bytes:
        with self._opened(path) as source:
            return bytes(source.read(size_bytes))

    def _opened(self, path: str) -> pa.NativeFile:
        """Opens the file; a remote one as `ExactFile`."""
        if self._queries_first:
            self._tree.get_file_info(path)
        source = self._tree.open_input_file(path)
        return source if self._local_root is not None else pa.PythonFile(ExactFile(source), mode="r")

    def _stat(self, path: str) -> pafs.FileInfo:
        """pyarrow's file info. The base path is queried without the '/' that a subtree appends."""
        return self._tree.get_file_info(path) if path else self._filesystem.get_file_info(self._root)

    def _check(self, path: str) -> None:
        checked_path(path)
        if self._local_root is None or has_no_link(self._root, path):
            return
        try:
            inside = (self._local_root / path).resolve().is_relative_to(self._local_root.resolve())
        except (RuntimeError, OSError) as error:
            raise self._failure(path, error) or CorruptFile(
                f"file {path} of table {redacted_uri(self._base_path)}: {storage_detail(error)}"
            ) from error
        if not inside:
            raise CorruptFile(
                f"file {path} of table {redacted_uri(self._base_path)} is refused: a symbolic link leads out of "
                "the base path; expected every file under the base path"
            )

    def _guarded(self, path: str, action: Callable[[], _T]) -> _T:
        """The result of `action`; raises its failures as FileNotFoundError or a Penstock error, with the path."""
        try:
            return action()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(f"no such file: {self._where(path)}") from error
        except (OSError, pa.ArrowException) as error:
            failure = self._failure(path, error) or StorageError(
                f"storage failed on {self._where(path)}: {storage_detail(error, self._base_path)}; a retry may succeed"
            )
            cause = error if without_signature(str(error)) == str(error) else None
        raise failure from cause  # after the block: otherwise the failure keeps the error as its context

    def _failure(self, path: str, error: Exception) -> CorruptFile | AccessError | ConfigurationError | None:
        """The error for a permanent failure; None for one that a retry may resolve."""
        detail = storage_detail(error, self._base_path)
        if isinstance(error, PermissionError) or getattr(error, "errno", None) in _FORBIDDEN:
            return StorageDenied(
                f"{self._where(path)} is not readable by this user ({detail}); give the user permission to read the "
                "table, or read as another user"
            )
        if isinstance(error, IsADirectoryError) or _is_folder_error(error):
            return CorruptFile(f"{self._where(path)} is a folder, expected a file")
        if self._local_root is not None:
            return None
        match self._refusal(error):
            case Denied() | UnexplainedRefusal():
                return StorageDenied(
                    f"storage refuses {self._where(path)}: {detail}: check the credentials of this process, their "
                    "permissions on the bucket, and the region"
                )
            case WrongRegion(region):
                requested, variable = requested_region(self._base_path, os.environ)
                return ConfigurationError(
                    f"{self._where(path)}: the bucket is not in region {requested or '(none given)'}"
                    f"{f', it is in {region}' if region else f' ({detail})'}: give ?region={region or 'REGION'} in the "
                    f"table's URI, or {variable}"
                )
            case None:
                return None

    def _refusal(self, error: Exception) -> Denied | WrongRegion | UnexplainedRefusal | None:
        """The store's refusal; if its response has no body, the refusal of a list request, which has one."""
        refusal = refusal_of(str(error))
        if isinstance(refusal, UnexplainedRefusal):
            try:
                self._filesystem.get_file_info(pafs.FileSelector(self._root, allow_not_found=True))
            except (OSError, pa.ArrowException) as list_error:
                return refusal_of(str(list_error)) or refusal
        return refusal

    def _where(self, path: str) -> str:
        return f"{path or 'the base folder'} of table {redacted_uri(self._base_path)}"


def _is_folder_error(error: Exception) -> bool:
    """Whether the text says that the path is a folder: pyarrow sets no errno for a folder opened as a file."""
    text = str(error)
    return isinstance(error, OSError) and (text.endswith("is a directory") or text.startswith("Not a regular file"))


def storage_detail(error: BaseException, uri: str = "") -> str:
    """The first line of an error text, limited in length (pyarrow appends search logs), with `uri` and signatures
    redacted."""
    text = without_signature(str(error).replace(uri, redacted_uri(uri)) if uri else str(error))
    lines = text.splitlines()
    return lines[0][:_DETAIL_CHARS] if lines else type(error).__name__
