"""The `files` partition of the metadata table: partitions and data files by name. Pure.

Source: Hudi `HoodieMetadataPayload`. Records under the key of a partition map file names to sizes, under
`__all_partitions__` partition paths; both say what was deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.table.files.external_names import is_external, parse_external_name, stored_path
from penstock.table.files.names import parse_file_name
from penstock.table.storage.filesystem import FileInfo, checked_path
from penstock.table.timeline.fields import MAX_FILE_BYTES, Fields

FILES: Final = "files"
ALL_PARTITIONS: Final = "__all_partitions__"

_ROOT: Final = "."
"""What stands for the partition path '' of a table without partitions."""


def files_key(partition: str) -> str:
    """The key of a partition's record."""
    return partition or _ROOT


def partition_paths(versions: Sequence[Fields | None]) -> frozenset[str]:
    """Every partition, from the records under `ALL_PARTITIONS`, oldest first. CorruptFile for a path that leaves the
    table."""
    return frozenset(checked_path("" if path == _ROOT else path) for path in _combined(versions))


def data_files(partition: str, versions: Sequence[Fields | None]) -> tuple[FileInfo, ...]:
    """A partition's data files by name, from its records, oldest first; times are not known (0).

    As `partitions.list_data_files`: what is no data file is left out. One that another writer made has the name that
    tells its instant, and the path where it lies. CorruptFile for any other name with a folder in it, and for a mark
    that tells no instant.
    """
    found: list[FileInfo] = []
    for name, size_bytes in sorted(_combined(versions).items()):
        path = checked_path(f"{partition}/{name}" if partition else name)
        folder, _, bare = name.rpartition("/")
        external = parse_external_name(bare) if is_external(bare) else None
        if folder != (external.folder if external else "") or (is_external(bare) and external is None):
            raise CorruptFile(f"metadata table: got a file {name[:200]!r} in partition {partition[:200]!r}")
        if parse_file_name(bare) is not None:
            found.append(
                FileInfo(name=bare, path=stored_path(path), size_bytes=size_bytes, is_dir=False, modified_ns=0)
            )
    return tuple(found)


def _combined(versions: Sequence[Fields | None]) -> dict[str, int]:
    """Names with sizes after all versions: what a newer one deletes is gone, of two sizes the greater counts (a log
    that was appended to). A deleted key starts anew."""
    found: dict[str, int] = {}
    for record in versions:
        if record is None:
            found.clear()
            continue
        for name, value in record.mapping("filesystemMetadata").items():
            match value:
                case {"isDeleted": True}:
                    found.pop(name, None)
                case {"isDeleted": False, "size": int(size_bytes)} if size_bytes >= 0:
                    found[name] = max(found.get(name, 0), min(size_bytes, MAX_FILE_BYTES))
                case _:
                    raise CorruptFile(
                        f"{record.where}, field filesystemMetadata: got {str(value)[:80]!r} for {name[:200]!r}, "
                        "expected a size and whether it is deleted"
                    )
    return found
