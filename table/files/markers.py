"""The files that a writer puts beside its data files: markers, and the metadata file of a partition. Pure.

Source: Hudi `WriteMarkers`, `MarkerUtils`, `HoodiePartitionMetadata`. A marker names a data file before it is written,
so that a rollback deletes it; a folder without the metadata file is no partition for Hudi.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from penstock.proto.errors import CorruptFile
from penstock.table.config.java_properties import format_properties
from penstock.table.files.names import parse_file_name
from penstock.table.storage.filesystem import checked_path

TEMPORARY_FOLDER: Final = ".hoodie/.temp"
"""Folder with one folder of markers for each pending instant, relative to the base path."""
MARKER_TYPE_FILE: Final = "MARKERS.type"
"""File in an instant's folder that says who keeps the markers; absent: each marker is a file."""
MAX_MARKER_BYTES: Final = 64 << 20
"""Largest list of markers that is read, in bytes; and the most that is read of all lists of an instant."""
LIST_NAME: Final = re.compile(r"MARKERS[0-9]{1,9}")
"""Name of a list of markers."""

_META_FOLDER: Final = ".hoodie"
_CHECKSUM: Final = ".crc"
_TEMPORARY: Final = ".tmp"
_INFIX: Final = ".marker."
_FOLDER = re.compile(rf"{re.escape(TEMPORARY_FOLDER)}/[0-9]{{1,24}}/")


class IoType(StrEnum):
    """The kind of a write to a data file (Hudi `IOType`)."""

    CREATE = "CREATE"
    """A base file of a new file group; from table version 8 on, also a log file."""
    MERGE = "MERGE"
    """A new base file of an existing file group."""
    APPEND = "APPEND"
    """A log file, up to table version 7."""


class Marker(NamedTuple):
    """The data file that a marker names."""

    partition: str
    """Partition path."""
    file_name: str
    """Name of the data file."""
    io_type: IoType
    """Kind of the write."""


def marker_folder(instant: str) -> str:
    """The folder of an instant's markers, relative to the base path."""
    return f"{TEMPORARY_FOLDER}/{instant}"


def marker_path(instant: str, partition: str, file_name: str, io_type: IoType | str) -> str:
    """The path of a direct marker, an empty file, relative to the base path. CorruptFile as `parse_marker`."""
    folder = f"{marker_folder(instant)}/{partition}" if partition else marker_folder(instant)
    path = f"{folder}/{file_name}{_INFIX}{IoType(io_type)}"
    parse_marker(path)
    return path


def parse_marker(path: str) -> Marker | None:
    """The data file of a marker; None for the path of another file, such as `MARKERS.type`, a checksum that Hadoop
    stores beside a marker on local file systems, or a marker whose writer was killed while it created it.

    `path` is relative to the base path, or to the instant's folder, as in a list of markers. A rollback deletes what it
    returns, so CorruptFile for a path outside of the table, for one in `.hoodie`, for a name that is not a data
    file's, and for an unknown kind.
    """
    prefix = _FOLDER.match(path)
    within = path[prefix.end() :] if prefix else path
    stem, infix, kind = within.rpartition(_INFIX)
    if not infix or kind.endswith((_CHECKSUM, _TEMPORARY)):
        return None
    partition, _, file_name = checked_path(stem).rpartition("/")
    if kind not in IoType.__members__:
        raise CorruptFile(f"marker {path[:300]!r}: got kind {kind[:40]!r}, expected one of {', '.join(IoType)}")
    if parse_file_name(file_name) is None or _META_FOLDER in partition.split("/"):
        raise CorruptFile(f"marker {path[:300]!r} names no data file of a partition: the table is damaged or hostile")
    return Marker(partition, file_name, IoType(kind))


def has_marker_lists(data: bytes) -> bool:
    """Whether the timeline server keeps the markers, by the bytes of `MARKERS.type`; else each marker is a file.

    CorruptFile for an unknown type.
    """
    kind = data[:80].strip()
    if kind not in (b"TIMELINE_SERVER_BASED", b"DIRECT"):
        raise CorruptFile(f"{MARKER_TYPE_FILE}: got {kind!r}, expected TIMELINE_SERVER_BASED or DIRECT")
    return kind == b"TIMELINE_SERVER_BASED"


def parse_marker_list(name: str, data: bytes) -> tuple[Marker, ...]:
    """The markers of a file in an instant's folder with lists (`MARKERS0` to `MARKERS19`), in its order.

    () for a file of another name, such as `MARKERS.type`. A last line without a line end is left out: its writer
    stopped before it could write the data file. CorruptFile as `parse_marker`, and for bytes that are not UTF-8 or
    more than MAX_MARKER_BYTES.
    """
    if LIST_NAME.fullmatch(name) is None:
        return ()
    if len(data) > MAX_MARKER_BYTES:
        raise CorruptFile(f"list of markers {name}: got {len(data)} bytes, at most {MAX_MARKER_BYTES} are read")
    try:
        lines = data[: data.rfind(b"\n") + 1].decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptFile(f"list of markers {name} is not UTF-8: {error.reason} at byte {error.start}") from None
    markers = []
    for line in filter(None, (line.removesuffix("\r") for line in lines)):
        marker = parse_marker(line)
        if marker is None:
            raise CorruptFile(f"list of markers {name}: got {line[:300]!r}, expected <partition>/<file>{_INFIX}<kind>")
        markers.append(marker)
    return tuple(markers)


def partition_metadata(instant: str, partition: str) -> bytes:
    """The bytes of a partition's `.hoodie_partition_metadata`, with the instant that made the partition.

    '' is the partition of a table without partitions: its file is in the base folder, with depth 0.
    """
    depth = partition.count("/") + 1 if partition else 0
    return format_properties({"commitTime": instant, "partitionDepth": str(depth)}, ("partition metadata",))
