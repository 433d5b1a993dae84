"""Writes files of a table on a local file system, so that a file has its complete content or does not exist."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import shutil
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol, TypeVar

import pyarrow.fs as pafs

from penstock.proto.errors import StorageDenied, StorageError, UnsupportedFeature
from penstock.table.storage.filesystem import ArrowStorage, Storage, open_folder
from penstock.table.storage.uris import redacted_uri, uri_scheme

_T = TypeVar("_T")

_TEMPORARY: Final = ".tmp"
"""Timelines ignore files with this extension, Hudi's and Penstock's."""


class WritableStorage(Storage, Protocol):
    """A table's files that can be written. Paths are those of `Storage`; failures raise StorageError.

    What a call wrote is on the disk when it returns.
    """

    def create(self, path: str, data: bytes) -> None:
        """Creates the file with this content, and the folders above it. No reader sees a part of the content.
        FileExistsError if the path exists; of several callers one creates the file."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Creates the file, or replaces its content. Readers see the content before or after."""
        ...

    def new_file(self, path: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Creates a data file and the folders above it, to be written while the block runs. FileExistsError if the path
        exists. After a failure the file is incomplete."""
        ...

    def staged_file(self, folder: str, path: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Creates a data file in `folder`, to be written while the block runs, which appears at `path` when the block
        has ended without an error. Nothing appears otherwise, nor if `folder` does not exist at the start or at the end
        (`close_folder`): FileNotFoundError. FileExistsError if the path exists."""
        ...

    def close_folder(self, folder: str) -> None:
        """Removes a folder of staged files, in one moment: none of them can appear afterwards. A folder that does not
        exist is no error."""
        ...

    def touch(self, path: str) -> bool:
        """Sets the file's time of the last change to now. False if it does not exist."""
        ...

    def remove(self, path: str) -> bool:
        """Removes a file, and the checksum that Hadoop stores beside it. False if it does not exist."""
        ...

    def remove_folder(self, path: str) -> None:
        """Removes a folder and everything in it. A folder that does not exist is no error."""
        ...

    def make_folder(self, path: str) -> None:
        """Creates a folder and those above it. An existing folder is no error."""
        ...


def open_writable(base_path: str) -> WritableStorage:
    """The files of the table at a local path or a `file:` URI. Nothing is read, and no storage is contacted.

    UnsupportedFeature for another storage: an instant of a timeline needs a file that only one of several writers can
    create, which pyarrow's other file systems do not have. Errors as `open_storage`.
    """
    scheme = uri_scheme(base_path)
    if scheme not in ("", "file"):
        raise UnsupportedFeature(
            f"table {redacted_uri(base_path)[:500]}: writing to {scheme[:40]}: is not supported: nothing was written. "
            "A commit is a file that only one of several writers can create (a conditional put on object stores), and "
            "pyarrow has no such call there: two writers could complete the same instant. Write this table with Hudi, "
            "or write a table on a local or mounted file system; reading is supported"
        )
    return LocalStorage(open_folder(base_path)[1])


class LocalStorage(ArrowStorage):
    """`WritableStorage` of a local folder."""

    def __init__(self, root: str) -> None:
        super().__init__(root.rstrip("/") or "/", pafs.LocalFileSystem(), root)
        self._folder = pathlib.Path(root)

    def create(self, path: str, data: bytes) -> None:
        self._written(path, lambda: self._create(path, data))

    def replace(self, path: str, data: bytes) -> None:
        def replace() -> None:
            with self._temporary(path, data) as (temporary, target):
                temporary.replace(target)

        self._written(path, replace)

    def _create(self, path: str, data: bytes) -> None:
        if not data:  # a process that is killed leaves no temporary file, which would be a second, unknown marker
            target = self._target(path)
            _make_folders(target.parent)
            target.touch(exist_ok=False)
            _sync_folder(target.parent)
            return
        with self._temporary(path, data) as (temporary, target):
            target.hardlink_to(temporary)  # fails if the target exists

    @contextlib.contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
        """A temporary file with the content beside the target; both paths. The folder is synced at the end."""
        target = self._target(path)
        _make_folders(target.parent)
        temporary = target.with_name(f"{target.name}.{secrets.token_hex(6)}{_TEMPORARY}")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary, target
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)

    @contextlib.contextmanager
    def new_file(self, path: str) -> Iterator[BinaryIO]:
        target = self._target(path)
        with self._failures(path):
            _make_folders(target.parent)
            with target.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _sync_folder(target.parent)

    @contextlib.contextmanager
    def staged_file(self, folder: str, path: str) -> Iterator[BinaryIO]:
        target = self._target(path)
        staged = self._target(folder) / f"{target.name}.{secrets.token_hex(6)}{_TEMPORARY}"
        with self._failures(path, passes=FileNotFoundError):
            try:
                with staged.open("xb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                _make_folders(target.parent)
                self._link(staged, target)
            finally:
                staged.unlink(missing_ok=True)
            _sync_folder(target.parent)

    def _link(self, staged: pathlib.Path, target: pathlib.Path) -> None:
        target.hardlink_to(staged)  # fails if the folder was closed, or the target exists

    def close_folder(self, folder: str) -> None:
        closed = f"{folder}.{secrets.token_hex(6)}{_TEMPORARY}"

        def close() -> bool:
            try:
                self._target(folder).rename(self._target(closed))
            except FileNotFoundError:
                return False
            return True

        if self._written(folder, close):
            self.remove_folder(closed)

    def touch(self, path: str) -> bool:
        target = self._target(path)

        def touch() -> bool:
            try:
                os.utime(target)
            except FileNotFoundError:
                return False
            return True

        return self._written(path, touch)

    def remove(self, path: str) -> bool:
        target = self._target(path)

        def remove() -> bool:
            target.with_name(f".{target.name}.crc").unlink(missing_ok=True)
            try:
                target.unlink()
            except FileNotFoundError:
                return False
            _sync_folder(target.parent)
            return True

        return self._written(path, remove)

    def remove_folder(self, path: str) -> None:
        target = self._target(path)
        if not path:
            raise ValueError("the base folder of a table is not removed")

        def remove() -> None:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(target)

        self._written(path, remove)

    def make_folder(self, path: str) -> None:
        self._written(path, lambda: _make_folders(self._target(path)))

    def _target(self, path: str) -> pathlib.Path:
        self._check(path)
        return self._folder / path if path else self._folder

    def _written(self, path: str, action: Callable[[], _T]) -> _T:
        with self._failures(path):
            return action()

    @contextlib.contextmanager
    def _failures(self, path: str, passes: type[OSError] = FileExistsError) -> Iterator[None]:
        """Raises failures of the operating system as StorageError, but FileExistsError and `passes` as they are."""
        try:
            yield
        except (FileExistsError, passes):
            raise
        except PermissionError as error:
            raise StorageDenied(
                f"{self._where(path)} cannot be written by this user ({error.strerror}): give the user permission to "
                "write the table, or write as another user"
            ) from error
        except OSError as error:
            raise StorageError(f"writing {self._where(path)} failed: {error.strerror or error}") from error


def _make_folders(folder: pathlib.Path) -> None:
    """Creates the folder and those above it; their names are on the disk then, so that files in them are too."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError as error:  # a caller would take it for the existing file that it wanted to create
        raise NotADirectoryError(error.errno, "a file has the name of a folder") from error
    _sync_folder(folder.parent)


def _sync_folder(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
