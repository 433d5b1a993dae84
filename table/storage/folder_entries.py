"""Lists one folder of a file system of pyarrow."""

from __future__ import annotations

import pyarrow.fs as pafs

_MARKED_FOLDERS = "gcs"
"""The type name of Google Cloud Storage, of which pyarrow lists only folders that an object marks. Writers of tables
make no such object."""


def folder_entries(tree: pafs.SubTreeFileSystem, folder: str) -> list[pafs.FileInfo]:
    """The files and folders directly in the folder; [] if it does not exist.

    On Google Cloud Storage everything below the folder is listed: a request for each thousand objects.
    """
    if tree.base_fs.type_name != _MARKED_FOLDERS:
        return list(tree.get_file_info(pafs.FileSelector(folder, allow_not_found=True, recursive=False)))
    return children(folder, tree.get_file_info(pafs.FileSelector(folder, allow_not_found=True, recursive=True)))


def children(folder: str, below: list[pafs.FileInfo]) -> list[pafs.FileInfo]:
    """The files and folders directly in the folder, by everything below it."""
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, pafs.FileInfo] = {}
    for entry in below:
        name, _, rest = entry.path.removeprefix(prefix).partition("/")
        if not rest:
            entries[name] = entry
        elif name not in entries:
            entries[name] = pafs.FileInfo(prefix + name, type=pafs.FileType.Directory)
    return list(entries.values())
