"""Decodes the `files` partition of the metadata table: partitions and their data files. Pure.

Source: Hudi `HoodieMetadataPayload`. The records of a partition's key map file names to sizes; those of
`__all_partitions__` list partition paths. Both also record deletions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef
from penstock.table.files.external_names import MARK, is_external, parse_external_name, stored_path
from penstock.table.files.names import data_file_names, parse_file_name
from penstock.table.files.slices import DataFile
from penstock.table.storage.filesystem import MAX_PATH_BYTES, checked_path, is_plain_path
from penstock.table.timeline.fields import MAX_FILE_BYTES, Fields

FILES: Final = "files"
ALL_PARTITIONS: Final = "__all_partitions__"

_ROOT: Final = "."
"""Replaces the partition path '' of a table without partitions."""
_UNUSUAL: Final = ("/", ":", "\0", MARK)
"""What a path with a folder, a scheme or a mark of another writer contains."""
_NO_NAMES: Final = ("", ".", "..")


def files_key(partition: str) -> str:
    """The key of a partition's record."""
    return partition or _ROOT


def partition_paths(versions: Sequence[Fields | None]) -> frozenset[str]:
    """Every partition, from the records of `ALL_PARTITIONS`, oldest first. CorruptFile for a path outside the table."""
    return frozenset(checked_path("" if path == _ROOT else path) for path in _combined(versions))


def data_files(partition: str, versions: Sequence[Fields | None]) -> tuple[DataFile, ...]:
    """A partition's data files by name, from its records, oldest first.

    As in `files.listing.list_data_files`, other files are left out. A file of another writer has its marked name, which
    has the instant, and its path on storage. CorruptFile for any other name with a folder, and for a mark without an
    instant.
    """
    sizes = _combined(versions)
    if _are_plain(partition, sizes):
        folder = f"{partition}/" if partition else ""
        return tuple(
            [
                DataFile(partition, FileRef(folder + entry, sizes[entry]), name, True)
                for entry, name in data_file_names(sorted(sizes))
            ]
        )
    files: list[DataFile] = []
    for entry, size_bytes in sorted(sizes.items()):
        path = checked_path(f"{partition}/{entry}" if partition else entry)
        marked = is_external(entry)
        if marked or "/" in entry:
            folder, _, bare = entry.rpartition("/")
            external = parse_external_name(bare)
            if external is None or folder != external.folder:
                raise CorruptFile(f"metadata table: got a file {entry[:200]!r} in partition {partition[:200]!r}")
            entry = bare
        name = parse_file_name(entry)
        if name is not None:
            ref = FileRef(stored_path(path) if marked else path, size_bytes)
            files.append(
                DataFile(partition=partition, ref=ref, name=name, listed=True, marked_path=path if marked else "")
            )
    return tuple(files)


def _are_plain(partition: str, names: Collection[str]) -> bool:
    """Whether a quick look at all names together shows that `checked_path` allows the path of each, that none has a
    folder, and none is of another writer. It is true for nearly all partitions."""
    text = "\n".join(names)
    return (
        is_plain_path(partition)
        and text.isascii()
        and not any(part in text for part in _UNUSUAL)
        and len(partition) + 1 + max(map(len, names), default=0) <= MAX_PATH_BYTES
        and not any(name in names for name in _NO_NAMES)
    )


def listing_of(records: Mapping[str, Sequence[Fields | None]]) -> dict[str, dict[str, int]]:
    """Partition path -> name -> size of all files, from all records of `files`. CorruptFile as `partition_paths`."""
    return {
        partition: _combined(records.get(files_key(partition), ()))
        for partition in partition_paths(records.get(ALL_PARTITIONS, ()))
    }


def _combined(versions: Sequence[Fields | None]) -> dict[str, int]:
    """Name -> size after all records of a key, oldest first.

    A newer record may delete a name. Of two sizes the greater counts, as a log may have been appended to. A deleted key
    removes all names.
    """
    sizes: dict[str, int] = {}
    for record in versions:
        if record is None:
            sizes.clear()
            continue
        for name, value in record.mapping("filesystemMetadata").items():
            deleted, size_bytes = (value.get("isDeleted"), value.get("size")) if isinstance(value, dict) else (None, 0)
            if deleted is False and type(size_bytes) is int and 0 <= size_bytes <= MAX_FILE_BYTES and name not in sizes:
                sizes[name] = size_bytes  # the usual case, without a call of max and min
            elif deleted is True:
                sizes.pop(name, None)
            elif deleted is False and isinstance(size_bytes, int) and size_bytes >= 0:
                sizes[name] = max(sizes.get(name, 0), min(size_bytes, MAX_FILE_BYTES))
            else:
                raise CorruptFile(
                    f"{record.where}, field filesystemMetadata: got {str(value)[:80]!r} for {name[:200]!r}, "
                    "expected a size and whether it is deleted"
                )
    return sizes
