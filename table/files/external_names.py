"""Names of data files that another writer (such as XTable) registered in a Hudi table. Pure.

The file keeps its own name and folder. Metadata (write stats, the metadata table) refers to it by a marked name:
`<name>_<instant>_hudiext`, or with folders between partition and file
`<folders>/<name>_<instant>_fg%3D<escaped folders>_hudiext`. Source: Hudi 1.2.0 `ExternalFilePathUtil`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.proto.value_classes import dataclass
from penstock.table.partitions.values import unescape
from penstock.table.storage.filesystem import checked_path

MARK: Final = "_hudiext"
_FOLDER_MARK: Final = "_fg%3D"
_MOST_CHARACTERS: Final = 8192
_INSTANT: Final = re.compile(r"[0-9]{1,24}")
_OTHER_FORMATS: Final = ("orc", "hfile", "lance")


class ExternalFiles(Enum):
    """Whether a table contains files of other writers."""

    NONE = "none"
    """It contains none."""
    POSSIBLE = "possible"
    """An archived instant may have registered some."""
    KNOWN = "known"
    """It contains some."""


@dataclass(frozen=True, slots=True)
class ExternalName:
    """The parts of a marked name."""

    folder: str
    """Folders between the partition and the file; '' if there are none."""
    name: str
    """The file's own name."""
    instant: str
    """Requested time of the instant that registered the file."""
    extension: str
    """'parquet', unless the name has the extension of another format that Hudi supports."""

    @property
    def file_id(self) -> str:
        """The file group: the file's path in the partition's folder."""
        return f"{self.folder}/{self.name}".lstrip("/")


def is_external(path: str) -> bool:
    """Whether a path or name is marked as a file of another writer."""
    return path.endswith(MARK)


def parse_external_name(name: str) -> ExternalName | None:
    """The parts of a marked name, which has no folders; None for any other name."""
    if not is_external(name) or "/" in name or len(name) > _MOST_CHARACTERS:
        return None
    stem, mark, escaped = name[: -len(MARK)].partition(_FOLDER_MARK)
    original, _, instant = stem.rpartition("_")
    folder = unescape(escaped)
    if not original or not _INSTANT.fullmatch(instant) or bool(mark) != bool(folder):
        return None
    try:
        path = f"{folder}/{original}" if folder else original
        if checked_path(path) != path:
            return None
    except CorruptFile:
        return None
    extension = original.rpartition(".")[2].lower()
    return ExternalName(folder, original, instant, extension if extension in _OTHER_FORMATS else "parquet")


def stored_path(path: str) -> str:
    """The path on storage of a path from metadata: without the mark, if it has one."""
    folder, slash, name = path.rpartition("/")
    external = parse_external_name(name)
    return f"{folder}{slash}{external.name}" if external else path


def folder_of_partition(path: str) -> str:
    """The partition of a path from metadata: its folder without the folders that its mark names."""
    folder, _, name = path.rpartition("/")
    external = parse_external_name(name)
    if external is None or not external.folder:
        return folder
    return folder.removesuffix(external.folder).removesuffix("/") if _ends(folder, external.folder) else folder


def _ends(folder: str, inner: str) -> bool:
    return folder == inner or folder.endswith(f"/{inner}")
