"""Lists the partitions of a table and their data files from its folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from penstock.proto.errors import CorruptFile, FormatError, TableError
from penstock.proto.model.files import FileRef
from penstock.table.config.java_properties import parse_properties
from penstock.table.files.external_names import is_external
from penstock.table.files.names import data_file_names
from penstock.table.files.slices import DataFile
from penstock.table.storage.filesystem import FileInfo, Storage, is_local
from penstock.table.storage.uris import redacted_uri

PARTITION_MARKER: Final = ".hoodie_partition_metadata"
MAX_DEPTH: Final = 32
MAX_FOLDERS: Final = 1_000_000
_LISTERS: Final = 8
_MARKER_BYTES: Final = 1 << 16
_INSTANT = re.compile(r"[0-9]{1,24}")
_META_FOLDER: Final = ".hoodie"

_T = TypeVar("_T")


def list_partitions(storage: Storage, skipped: Callable[[str], bool] | None = None) -> tuple[str, ...]:
    """Every partition path, sorted; ('',) for a table whose base folder is the partition, () without any marker file.

    A folder with the file `.hoodie_partition_metadata` (with or without extension) is a partition, and its sub-folders
    are not listed (Hudi `FileSystemBackedTableMetadata`). Folders named `.hoodie` are skipped, and folders for which
    `skipped` is true; the name of a partition may begin with a dot. CorruptFile beyond MAX_DEPTH levels or MAX_FOLDERS
    folders, most likely a loop of links.
    """
    return tuple(_walk(storage, skipped, lambda partition, infos: None))


def list_files(
    storage: Storage,
    skipped: Callable[[str], bool] | None = None,
    excluded: Callable[[str], bool] | None = None,
    *,
    strict: bool = False,
) -> dict[str, tuple[DataFile, ...]]:
    """Every partition of `list_partitions`, sorted -> `list_data_files`, with one listing of each folder. () for the
    partitions for which `excluded` is true."""

    def files_in(partition: str, infos: Sequence[FileInfo]) -> tuple[DataFile, ...]:
        return () if excluded is not None and excluded(partition) else _data_files(storage, partition, infos, strict)

    return _walk(storage, skipped, files_in)


def _walk(
    storage: Storage, skipped: Callable[[str], bool] | None, content: Callable[[str, Sequence[FileInfo]], _T]
) -> dict[str, _T]:
    """Every partition, sorted, with `content` of its path and listing."""

    def read(folder: str) -> tuple[list[_T], list[str]]:
        """What a partition contains, or the sub-folders of another folder."""
        listing = storage.list_dir(folder)
        if any(info.name.startswith(PARTITION_MARKER) and not info.is_dir for info in listing):
            return [content(folder, listing)], []
        return [], [info.path for info in listing if info.is_dir and info.name != _META_FOLDER]

    partitions: dict[str, _T] = {}
    level, visited = [""], 0
    for _ in range(MAX_DEPTH + 1):
        visited += len(level)
        if visited > MAX_FOLDERS:
            raise _too_many(storage, f"more than {MAX_FOLDERS} folders")
        deeper: list[str] = []
        for folder, (contents, folders) in zip(level, _each(storage, read, level), strict=True):
            partitions.update((folder, item) for item in contents)
            deeper += folders
        level = [folder for folder in deeper if skipped is None or not skipped(folder)]
        if not level:
            return dict(sorted(partitions.items()))
    raise _too_many(storage, f"folders nested deeper than {MAX_DEPTH} levels")


def _each(storage: Storage, read: Callable[[str], _T], folders: Sequence[str]) -> Iterator[_T]:
    """The results of reading folders, in their order; several at a time, but on a local disk, where threads cost more
    than they save."""
    if len(folders) == 1 or is_local(storage):
        yield from map(read, folders)
        return
    with ThreadPoolExecutor(max_workers=_LISTERS) as pool:
        yield from pool.map(read, folders)


def creating_instants(storage: Storage, partitions: Collection[str]) -> dict[str, str]:
    """The requested time of the instant that created each partition (Hudi `HoodiePartitionMetadata`, `commitTime`).

    The instant may have been rolled back. A partition is left out if its marker file is missing, is not a properties
    file, or has no instant.
    """

    def commit_time(partition: str) -> str:
        path = f"{partition}/{PARTITION_MARKER}".lstrip("/")
        try:
            return parse_properties(storage.read_bytes(path, _MARKER_BYTES)).get("commitTime", "").strip()
        except (FileNotFoundError, FormatError, ValueError):
            return ""

    ordered = sorted(partitions)
    with ThreadPoolExecutor(max_workers=_LISTERS) as pool:
        times = zip(ordered, pool.map(commit_time, ordered), strict=True)
        return {partition: time for partition, time in times if _INSTANT.fullmatch(time)}


def list_data_files(storage: Storage, partition: str, *, strict: bool = False) -> tuple[DataFile, ...]:
    """The base and log files in a partition's folder (`.cdc` logs too), by name; () if the folder does not exist.

    Other files are left out, and so are files of other writers: only metadata records their instants
    (`table.files.external_names`). `strict`: TableError for a Parquet file of another writer, also in sub-folders.
    """
    return _data_files(storage, partition, storage.list_dir(partition), strict)


def list_partition_files(
    storage: Storage, partitions: Collection[str], *, strict: bool = False
) -> dict[str, tuple[DataFile, ...]]:
    """`list_data_files` of several partitions."""
    names = list(partitions)
    files = _each(storage, lambda partition: list_data_files(storage, partition, strict=strict), names)
    return dict(zip(names, files, strict=True))


def _data_files(storage: Storage, partition: str, infos: Sequence[FileInfo], strict: bool) -> tuple[DataFile, ...]:
    by_name = {info.name: info for info in infos if not info.is_dir}
    named = data_file_names(list(by_name))
    if strict:
        of_hudi = {name for name, _ in named}
        _refuse_foreign(storage, [info for info in infos if info.is_dir or info.name not in of_hudi])
    infos_of_names = ((by_name[name], parts) for name, parts in named if not is_external(name))
    return tuple(
        [DataFile(partition, FileRef(info.path, info.size_bytes), parts, True) for info, parts in infos_of_names]
    )


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
        level = [child for info in level if info.is_dir for child in storage.list_dir(info.path)]
        if not level:
            return


def _too_many(storage: Storage, what: str) -> CorruptFile:
    return CorruptFile(f"partitions of table {redacted_uri(storage.base_path)} cannot be listed: got {what}")
