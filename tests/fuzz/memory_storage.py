"""Tables in memory, with the files that a target or a grammar wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.table.storage.filesystem import FileInfo

PROPERTIES = (
    b"hoodie.table.name=t\nhoodie.table.type=MERGE_ON_READ\nhoodie.table.version=9\n"
    b"hoodie.timeline.layout.version=2\nhoodie.timeline.path=timeline\nhoodie.timeline.history.path=history\n"
)


@dataclass(frozen=True)
class MemoryStorage:
    """A storage of these files."""

    files: Mapping[str, bytes]
    base_path: str = "memory"

    def list_dir(self, path: str) -> list[FileInfo]:
        """The files of one folder."""
        inside = [name for name in sorted(self.files) if name.rpartition("/")[0] == path]
        return [self._info(name) for name in inside]

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """A file's bytes."""
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][:limit_bytes]

    def open_input(self, path: str) -> pa.NativeFile:
        """A file."""
        return pa.BufferReader(self.read_bytes(path, 1 << 40))

    def file_info(self, path: str) -> FileInfo | None:
        """The info of a file."""
        return self._info(path) if path in self.files else None

    def _info(self, path: str) -> FileInfo:
        size = len(self.files[path])
        return FileInfo(name=path.rpartition("/")[2], path=path, size_bytes=size, is_dir=False, modified_ns=0)


def history_of(files: Mapping[str, bytes], manifest: bytes) -> MemoryStorage:
    """A table of layout 2 with this manifest and these files of its history."""
    return MemoryStorage(
        {
            ".hoodie/hoodie.properties": PROPERTIES,
            ".hoodie/timeline/history/_version_": b"1",
            ".hoodie/timeline/history/manifest_1": manifest,
            **files,
        }
    )
