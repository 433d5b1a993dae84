"""A folder of a table as a storage of its own, for the metadata table."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from penstock.table.storage.filesystem import FileInfo, Storage, checked_path
from penstock.table.storage.local_listing import LocalFolders

if TYPE_CHECKING:
    from penstock.table.storage.local_writes import WritableStorage


class FolderStorage(Storage):
    """A `Storage` whose base path is the folder `folder` of another storage. All paths are relative to that folder."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    @property
    def base_path(self) -> str:
        return f"{self._storage.base_path}/{self._folder}"

    def list_dir(self, path: str) -> list[FileInfo]:
        return [self._relative(info) for info in self._storage.list_dir(self._outer_path(path))]

    def local_folder(self, path: str) -> str | None:
        """As in `local_listing.LocalFolders`."""
        outer = self._outer_path(path)
        return self._storage.local_folder(outer) if isinstance(self._storage, LocalFolders) else None

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        return self._storage.read_bytes(self._outer_path(path), limit_bytes)

    def open_input(self, path: str) -> pa.NativeFile:
        return self._storage.open_input(self._outer_path(path))

    def file_info(self, path: str) -> FileInfo | None:
        info = self._storage.file_info(self._outer_path(path))
        return None if info is None else self._relative(info)

    def _outer_path(self, path: str) -> str:
        checked_path(path)
        return f"{self._folder}/{path}" if path else self._folder

    def _relative(self, info: FileInfo) -> FileInfo:
        return info._replace(path=info.path.removeprefix(self._folder).removeprefix("/"))


class WritableFolder(FolderStorage):
    """A `WritableStorage` whose base path is the folder `folder` of another one."""

    def __init__(self, storage: WritableStorage, folder: str) -> None:
        super().__init__(storage, folder)
        self._writable = storage

    def create(self, path: str, data: bytes) -> None:
        self._writable.create(self._outer_path(path), data)

    def replace(self, path: str, data: bytes) -> None:
        self._writable.replace(self._outer_path(path), data)

    def new_file(self, path: str) -> contextlib.AbstractContextManager[BinaryIO]:
        return self._writable.new_file(self._outer_path(path))

    def staged_file(self, folder: str, path: str) -> contextlib.AbstractContextManager[BinaryIO]:
        return self._writable.staged_file(self._outer_path(folder), self._outer_path(path))

    def close_folder(self, folder: str) -> None:
        self._writable.close_folder(self._outer_path(folder))

    def touch(self, path: str) -> bool:
        return self._writable.touch(self._outer_path(path))

    def remove(self, path: str) -> bool:
        return self._writable.remove(self._outer_path(path))

    def remove_folder(self, path: str) -> None:
        self._writable.remove_folder(self._outer_path(path))

    def make_folder(self, path: str) -> None:
        self._writable.make_folder(self._outer_path(path))
