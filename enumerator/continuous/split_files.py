"""The files that splits read, and whether they still exist. Lists folders and reads file information."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from penstock.proto.model.changes import GroupChanges
from penstock.proto.model.splits import Split
from penstock.table.storage.filesystem import Storage

FEW: Final = 8
"""Up to this many files of a folder are checked one by one; for more, the folder is listed."""


def paths_of(split: Split) -> Iterator[str]:
    """Every file that reading the split may open, by its path in the table."""
    files = [*([split.base] if split.base else []), *split.logs]
    if isinstance(split.part, GroupChanges):
        files += [file for step in split.part.steps for file in step.files]
    yield from (file.path for file in files)
    if split.ancestry is not None:
        for origin in split.ancestry.origins:
            for item in origin.slices:
                yield from paths_of(item)


def missing_file(storage: Storage, splits: Iterable[Split]) -> str:
    """The first file, by folder and name, that does not exist; '' if all exist. StorageError."""
    folders: dict[str, set[str]] = {}
    for split in splits:
        for path in paths_of(split):
            folder, _, _ = path.rpartition("/")
            folders.setdefault(folder, set()).add(path)
    for folder, paths in sorted(folders.items()):
        unchecked = sorted(paths)
        if len(unchecked) > FEW:
            listed = {info.path for info in storage.list_dir(folder)}
            unchecked = [path for path in unchecked if path not in listed]
        for path in unchecked:
            if storage.file_info(path) is None:
                return path
    return ""
