"""The markers of an instant as they are on storage, and the removal of the files that they name."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from typing import Final

from penstock.table.files.listing import PARTITION_MARKER
from penstock.table.files.markers import (
    LIST_NAME,
    MARKER_TYPE_FILE,
    MAX_MARKER_BYTES,
    Marker,
    has_marker_lists,
    marker_folder,
    parse_marker,
    parse_marker_list,
    partition_metadata,
)
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.storage.local_writes import WritableStorage

ATTEMPTS: Final = ".hoodie/.aux/attempts"
"""Folder with one folder for each instant whose files are written by other processes than that of its transaction. Not
among the markers: Hudi 1.2.0 passes over all markers of an instant if their folder has another file in a sub-folder,
and rolls nothing back."""


def attempt_folder(instant: str) -> str:
    """The folder in which attempts at tasks of an instant write their files."""
    return f"{ATTEMPTS}/{instant}"


def create_partition(storage: WritableStorage, partition: str, instant: str) -> None:
    """Creates the marker file of a partition, without which Hudi does not see it, unless there is one."""
    path = f"{partition}/{PARTITION_MARKER}" if partition else PARTITION_MARKER
    with contextlib.suppress(FileExistsError):
        storage.create(path, partition_metadata(instant, partition))


def markers_of(storage: WritableStorage, instant: str) -> list[Marker]:
    """The data files that a write began, by its markers: files, or lists that Hudi's timeline server keeps."""
    folder = marker_folder(instant)
    names = {info.name for info in storage.list_dir(folder) if not info.is_dir}
    if MARKER_TYPE_FILE in names and has_marker_lists(
        storage.read_bytes(f"{folder}/{MARKER_TYPE_FILE}", MAX_MARKER_BYTES)
    ):
        listed: list[Marker] = []
        left = MAX_MARKER_BYTES
        for name in sorted(one for one in names if LIST_NAME.fullmatch(one)):
            data = storage.read_bytes(f"{folder}/{name}", left)
            left -= len(data)
            listed += parse_marker_list(name, data)
        return listed
    found: list[Marker] = []
    level = [folder]
    while level:
        infos = [info for one in level for info in storage.list_dir(one)]
        level = [info.path for info in infos if info.is_dir]
        parsed = (parse_marker(info.path) for info in infos if not info.is_dir)
        found += [marker for marker in parsed if marker is not None]
    return found


def remove_marked_files(
    storage: WritableStorage, instant: str, markers: Iterable[Marker], kept: Collection[str] = ()
) -> None:
    """Removes the base files and `.cdc` logs of the instant that the markers name, but those of the paths `kept`.

    Other files are passed over: on layout 1 a log has the instant of its base file in its name.
    """
    for marker in markers:
        name = parse_file_name(marker.file_name)
        path = f"{marker.partition}/{marker.file_name}" if marker.partition else marker.file_name
        if name is None or name.instant != instant or path in kept:
            continue
        if name.is_cdc if isinstance(name, LogName) else name.write_token:
            storage.remove(path)
