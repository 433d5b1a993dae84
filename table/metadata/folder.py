"""A folder of a table as a storage of its own, for the metadata table."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.table.storage.filesystem import FileInfo, Storage, checked_path


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
        return replace(info, path=info.path.removeprefix(self._folder).removeprefix("/"))
