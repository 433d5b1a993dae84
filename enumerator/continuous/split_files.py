"""The files that reading splits takes, and whether they are still there.

Shell: lists and asks for files. Not here: what a missing file means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from penstock.proto.model.changes import GroupChanges
from penstock.proto.model.splits import Split
from penstock.table.storage.filesystem import Storage

FEW: Final = 8
"""Files of a folder that are asked for one by one; of more the folder is listed."""


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
    """The first file, by folder and name, that is not there; '' if all are. StorageError."""
    folders: dict[str, set[str]] = {}
    for split in splits:
        for path in paths_of(split):
            folder, _, _ = path.rpartition("/")
            folders.setdefault(folder, set()).add(path)
    for folder, paths in sorted(folders.items()):
        asked = sorted(paths)
        if len(asked) > FEW:
            there = {info.path for info in storage.list_dir(folder)}
            asked = [path for path in asked if path not in there]
        for path in asked:
            if storage.file_info(path) is None:
                return path
    return ""
