"""Writes archived instants: archive files of timeline layout 1, the history of layout 2.

Source: Hudi `TimelineArchiverV1`, `LSMTimelineWriter`. A file of layout 1 appears whole. A file of the history counts
as soon as a manifest lists it, and a manifest as soon as `_version_` names it. Each function is called under the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.engine.table_services.serviced_table import ServicedTable
from penstock.proto.errors import InvariantViolation, WriteConflict
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.filesystem import FileInfo
from penstock.table.timeline.archive import MERGE_PLAN, archive_number, archived_in
from penstock.table.timeline.archive_v1_encoder import StateFile, encode_archive
from penstock.table.timeline.archive_v2 import (
    VERSION_FILE,
    HistoryFile,
    history_files,
    history_version,
    manifest_files,
    manifest_path,
    manifest_versions,
    parse_history_file,
)
from penstock.table.timeline.archive_v2_encoder import (
    ArchivedAction,
    encode_manifest,
    history_rows,
    merged_name,
    write_history,
)
from penstock.table.timeline.archive_v2_files import all_rows, distinct_instants
from penstock.table.timeline.instants import Action, State
from penstock.writer.table_services.archival import files_to_merge, manifests_to_keep

InstantKey = tuple[str, Action]
"""Requested time, and action of the completed file."""

_ARCHIVED: Final = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT, Action.CLEAN, Action.ROLLBACK)
_PLANNED: Final = (Action.CLEAN, Action.REPLACE_COMMIT, Action.CLUSTERING, Action.COMPACTION, Action.LOG_COMPACTION)
_INFLIGHT_PLANS: Final = (Action.REPLACE_COMMIT, Action.CLUSTERING)


@dataclass(frozen=True, slots=True)
class InstantFiles:
    """The state files of a completed instant, in the order of their states."""

    files: tuple[StateFile, ...]
    """Requested, inflight, completed, as far as they exist. The completed file exists."""

    @property
    def completed(self) -> StateFile:
        """The completed file."""
        return self.files[-1]

    def plan(self) -> bytes:
        """The plan, as the history has it; b'' without one. Source: Hudi `MetadataConversionUtils`."""
        pending = self.files[:-1]
        if not pending or pending[0].instant.action not in _PLANNED:
            return b""
        first, last = pending[0], pending[-1]
        takes_inflight = first.instant.action in _INFLIGHT_PLANS and last.instant.state is State.INFLIGHT
        return last.data if takes_inflight and last.data else first.data


def archived_already(serviced: ServicedTable, table: HudiTable, keys: Sequence[InstantKey]) -> frozenset[InstantKey]:
    """Those of these instants that are archived, after an archival that was killed."""
    storage, properties = serviced.storage, table.properties
    wanted = frozenset(keys)
    found: set[InstantKey] = set()
    if properties.layout == 1:
        names = [info.name for info in storage.list_dir(properties.history_folder)]
        for name in sorted(filter(archive_number, names), key=lambda name: archive_number(name) or 0, reverse=True):
            here = archived_in(storage, properties, name) & wanted
            if not here:
                break
            found |= here
        return frozenset(found)
    first = min(time for time, _ in keys)
    for file in history_files(storage, properties):
        if file.last >= first:
            path = f"{properties.history_folder}/{file.name}"
            instants = distinct_instants(storage, path, _ARCHIVED, f"{serviced.where}, history file {path}")
            times, actions = (instants.column(name).to_pylist() for name in ("instantTime", "action"))
            found |= {(time, Action(action)) for time, action in zip(times, actions, strict=True)} & wanted
    return frozenset(found)


def write_archive(serviced: ServicedTable, table: HudiTable, instants: Sequence[InstantFiles]) -> None:
    """Archives instants, by requested time, in one file."""
    if table.properties.layout == 1:
        _write_archive_file(serviced, table, instants)
    else:
        _write_history_file(serviced, table, instants)


def _write_archive_file(serviced: ServicedTable, table: HudiTable, instants: Sequence[InstantFiles]) -> None:
    """Creates the archive file with the next number. WriteConflict if Hudi was interrupted while it merged archive
    files: the next number may be that of its merged file."""
    storage, folder = serviced.storage, table.properties.history_folder
    names = [info.name for info in storage.list_dir(folder)]
    if MERGE_PLAN in names:
        raise WriteConflict(
            f"{serviced.where}: a merge of its archive files by Hudi is not complete ({folder}/{MERGE_PLAN}): "
            "nothing was archived; let a writer of Hudi archive once"
        )
    number = max((archive_number(name) or 0 for name in names), default=0) + 1
    data = encode_archive([file for item in instants for file in item.files], serviced.where)
    storage.create(f"{folder}/.commits_.archive.{number}_1-0-1", data)


def _write_history_file(serviced: ServicedTable, table: HudiTable, instants: Sequence[InstantFiles]) -> None:
    actions = [
        ArchivedAction(
            requested_time=item.completed.instant.requested_time,
            completion_time=str(item.completed.instant.completion_time),
            action=str(item.completed.instant.action),
            metadata=item.completed.data,
            plan=item.plan(),
        )
        for item in instants
    ]
    name = HistoryFile(actions[0].requested_time, actions[-1].requested_time, 0, -1).name
    known = history_files(serviced.storage, table.properties)
    file = _new_history_file(serviced, table, name, known, [history_rows(actions)])
    _publish(serviced, table, (*known, file))


def merge_history(serviced: ServicedTable, table: HudiTable) -> None:
    """Merges files of the history, layer by layer, and removes manifests and files that are no longer needed."""
    storage, folder = serviced.storage, table.properties.history_folder
    layer = 0
    while chosen := files_to_merge(known := history_files(storage, table.properties), layer):
        rows = (
            batch
            for file in chosen
            for batch in all_rows(storage, f"{folder}/{file.name}", f"{serviced.where}, history file {file.name}")
        )
        merged = _new_history_file(serviced, table, merged_name(chosen), known, rows)
        _publish(serviced, table, (*(file for file in known if file not in chosen), merged))
        layer += 1
    _remove_old(serviced, table, layer)


def _new_history_file(
    serviced: ServicedTable, table: HudiTable, name: str, known: Iterable[HistoryFile], rows: Iterable[object]
) -> HistoryFile:
    """Writes a file of the history, which no manifest lists yet. A process that was killed may have left a part."""
    if any(file.name == name for file in known):
        raise InvariantViolation(f"{serviced.where}: its history has the file {name} already")
    path = f"{table.properties.history_folder}/{name}"
    serviced.storage.remove(path)
    with serviced.storage.new_file(path) as file:
        write_history(file, rows)
    info = serviced.storage.file_info(path)
    written = None if info is None else parse_history_file(name, info.size_bytes)
    if written is None:
        raise InvariantViolation(f"{serviced.where}: history file {path} is gone, or has another name")
    return written


def _publish(serviced: ServicedTable, table: HudiTable, files: Sequence[HistoryFile]) -> None:
    """Makes these the files of the history. Without `_version_`, readers take the manifest with the highest number."""
    storage, properties = serviced.storage, table.properties
    version = (history_version(storage, properties) or 0) + 1
    storage.remove(manifest_path(properties, version))
    storage.create(manifest_path(properties, version), encode_manifest(files))
    path = f"{properties.history_folder}/{VERSION_FILE}"
    storage.remove(path)
    storage.create(path, str(version).encode())


def _remove_old(serviced: ServicedTable, table: HudiTable, merges: int) -> None:
    storage, properties = serviced.storage, table.properties
    versions = manifest_versions(storage, properties)
    kept = manifests_to_keep(versions, merges)
    if len(kept) == len(versions):
        return
    names = {file.name for version in kept for file in manifest_files(storage, properties, version)}
    for version in versions:
        if version not in kept:
            storage.remove(manifest_path(properties, version))
    for info in _data_files(storage.list_dir(properties.history_folder)):
        if info.name not in names:
            storage.remove(info.path)


def _data_files(infos: Iterable[FileInfo]) -> Iterator[FileInfo]:
    return (info for info in infos if not info.is_dir and parse_history_file(info.name) is not None)
