"""Names of data files that another writer made and registered in a Hudi table (XTable and others). Pure.

Such a file keeps its own name and place; metadata (write stats, the metadata table) tells of it by a marked one:
`<name>_<instant>_hudiext`, and with folders between partition and file
`<folders>/<name>_<instant>_fg%3D<folders, escaped>_hudiext`. Source: Hudi 1.2.0 `ExternalFilePathUtil`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.table.partitions.values import unescape
from penstock.table.storage.filesystem import checked_path

_MARK: Final = "_hudiext"
_FOLDER_MARK: Final = "_fg%3D"
_MOST_CHARACTERS: Final = 8192
_INSTANT: Final = re.compile(r"[0-9]{1,24}")
_OTHER_FORMATS: Final = ("orc", "hfile", "lance")


class ExternalFiles(Enum):
    """What is known of whether a table holds files of other writers."""

    NONE = "none"
    POSSIBLE = "possible"
    """An instant that was archived may have registered some."""
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class ExternalName:
    """`folder` is between the partition's folder and the file, '' if none; `instant` is the one that registered it;
    `extension` is 'parquet' unless the name says another format of Hudi's."""

    folder: str
    name: str
    instant: str
    extension: str

    @property
    def file_id(self) -> str:
        """The file group: the file's path in the partition's folder."""
        return f"{self.folder}/{self.name}".lstrip("/")


def is_external(path: str) -> bool:
    """Whether a path or name is marked as another writer's file."""
    return path.endswith(_MARK)


def parse_external_name(name: str) -> ExternalName | None:
    """A marked name (no folders before it) taken apart; None if it is none."""
    if not is_external(name) or "/" in name or len(name) > _MOST_CHARACTERS:
        return None
    stem, mark, escaped = name[: -len(_MARK)].partition(_FOLDER_MARK)
    original, _, instant = stem.rpartition("_")
    folder = unescape(escaped)
    if not original or not _INSTANT.fullmatch(instant) or bool(mark) != bool(folder):
        return None
    try:
        inside = f"{folder}/{original}" if folder else original
        if checked_path(inside) != inside:
            return None
    except CorruptFile:
        return None
    extension = original.rpartition(".")[2].lower()
    return ExternalName(folder, original, instant, extension if extension in _OTHER_FORMATS else "parquet")


def stored_path(path: str) -> str:
    """Where the file of a path from metadata lies: without the mark, if it has one."""
    folder, slash, name = path.rpartition("/")
    external = parse_external_name(name)
    return f"{folder}{slash}{external.name}" if external else path


def folder_of_partition(path: str) -> str:
    """The folder of a path from metadata, without the folders that its mark says are inside the partition."""
    folder, _, name = path.rpartition("/")
    external = parse_external_name(name)
    if external is None or not external.folder:
        return folder
    return folder.removesuffix(external.folder).removesuffix("/") if _ends(folder, external.folder) else folder


def _ends(folder: str, inner: str) -> bool:
    return folder == inner or folder.endswith(f"/{inner}")
