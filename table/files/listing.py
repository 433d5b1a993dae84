"""Which partitions a table has by its folders, and the data files in one. Lists storage; decides nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.proto.errors import CorruptFile, FormatError, TableError
from penstock.table.config.java_properties import parse_properties
from penstock.table.files.external_names import is_external
from penstock.table.files.names import parse_file_name
from penstock.table.storage.filesystem import FileInfo, Storage, redacted_uri

PARTITION_MARKER: Final = ".hoodie_partition_metadata"
MAX_DEPTH: Final = 32
MAX_FOLDERS: Final = 1_000_000
_LISTERS: Final = 8
_MARKER_BYTES: Final = 1 << 16
_INSTANT = re.compile(r"[0-9]{1,24}")
_META_FOLDER: Final = ".hoodie"


def find_partitions(storage: Storage, skipped: Callable[[str], bool] | None = None) -> tuple[str, ...]:
    """Every partition path, sorted; ('',) for a table whose base folder is the partition, () if none is marked.

    A folder that holds `.hoodie_partition_metadata` (with or without extension) is a partition, and its folders are
    not looked at (Hudi `FileSystemBackedTableMetadata`). Folders called `.hoodie` are passed over, and those below the
    base folder that `skipped` says; a partition's name may begin with a dot. CorruptFile beyond MAX_DEPTH levels or
    MAX_FOLDERS folders (a loop of links, most likely).
    """
    found: list[str] = []
    level, visited = [""], 0
    with ThreadPoolExecutor(max_workers=_LISTERS) as pool:
        for _ in range(MAX_DEPTH + 1):
            visited += len(level)
            if visited > MAX_FOLDERS:
                raise _too_many(storage, f"more than {MAX_FOLDERS} folders")
            listings = [storage.list_dir(level[0])] if len(level) == 1 else list(pool.map(storage.list_dir, level))
            partitions, level = _sorted_out(level, listings)
            found += partitions
            level = [folder for folder in level if skipped is None or not skipped(folder)]
            if not level:
                return tuple(sorted(found))
    raise _too_many(storage, f"folders nested deeper than {MAX_DEPTH} levels")


def _sorted_out(level: Sequence[str], listings: Sequence[list[FileInfo]]) -> tuple[list[str], list[str]]:
    """Of the folders of one level: which are partitions, and the folders in the others."""
    partitions: list[str] = []
    deeper: list[str] = []
    for folder, listing in zip(level, listings, strict=True):
        if any(info.name.startswith(PARTITION_MARKER) and not info.is_dir for info in listing):
            partitions.append(folder)
        else:
            deeper += [info.path for info in listing if info.is_dir and info.name != _META_FOLDER]
    return partitions, deeper


def creating_instants(storage: Storage, partitions: Collection[str]) -> dict[str, str]:
    """The requested time of the instant that created each partition (Hudi `HoodiePartitionMetadata`, `commitTime`).

    The instant may have been rolled back. A partition whose marker is not there, is in another format than
    properties or does not tell is left out.
    """

    def of_one(partition: str) -> str:
        path = f"{partition}/{PARTITION_MARKER}".lstrip("/")
        try:
            return parse_properties(storage.read_bytes(path, _MARKER_BYTES)).get("commitTime", "").strip()
        except (FileNotFoundError, FormatError, ValueError):
            return ""

    ordered = sorted(partitions)
    with ThreadPoolExecutor(max_workers=_LISTERS) as pool:
        told = zip(ordered, pool.map(of_one, ordered), strict=True)
        return {partition: time for partition, time in told if _INSTANT.fullmatch(time)}


def list_data_files(storage: Storage, partition: str, *, strict: bool = False) -> tuple[FileInfo, ...]:
    """The base and log files in a partition's folder (`.cdc` logs too), by name; () if there is no such folder.

    Files that are no data files are left out, and so are those of other writers: only metadata tells of which instant
    they are (`table.files.external_names`). `strict`: TableError where such a Parquet file lies, or one in a folder
    further down.
    """
    infos = storage.list_dir(partition)
    files = [info for info in infos if not info.is_dir and parse_file_name(info.name) is not None]
    if strict:
        known = {info.path for info in files}
        _refuse_foreign(storage, [info for info in infos if info.path not in known])
    return tuple(info for info in files if not is_external(info.name))


def _refuse_foreign(storage: Storage, infos: Sequence[FileInfo]) -> None:
    level = list(infos)
    for _ in range(MAX_DEPTH):
        level = [info for info in level if not info.name.startswith((".", "_"))]
        for info in level:
            if not info.is_dir and info.name.endswith(".parquet"):
                raise TableError(
                    f"file {info.path} of table {redacted_uri(storage.base_path)} was not named by Hudi: another "
                    "writer may have registered it, and only the metadata table records that; it "
                    "cannot be used, and Hudi does not read such a table without it either"
                )
        level = [found for info in level if info.is_dir for found in storage.list_dir(info.path)]
        if not level:
            return


def _too_many(storage: Storage, what: str) -> CorruptFile:
    return CorruptFile(f"partitions of table {redacted_uri(storage.base_path)} cannot be listed: got {what}")
