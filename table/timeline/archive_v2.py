"""The LSM history of timeline layout 2: manifests, and the instants of its files.

Source: Hudi `LSMTimeline`, `ArchivedTimelineV1`. `archive_v2_files` decodes the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Final

import pyarrow as pa

from penstock.proto.errors import CorruptFile
from penstock.proto.model.positions import InstantTime
from penstock.proto.value_classes import dataclass
from penstock.table.arrow_arrays import numpy_array
from penstock.table.arrow_compute import pc
from penstock.table.config.properties import TableProperties
from penstock.table.storage.filesystem import FileInfo, Storage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.archive_v2_files import COLUMNS, MAX_INSTANTS, distinct_instants, metadata_of
from penstock.table.timeline.fields import MAX_FILE_BYTES
from penstock.table.timeline.instants import Action

VERSION_FILE: Final = "_version_"
"""Name of the file with the number of the newest manifest."""
_VERSION_BYTES: Final = 64
_MANIFEST_BYTES: Final = 64 << 20
_MANIFEST = re.compile(r"manifest_([0-9]{1,18})")
_HISTORY_FILE = re.compile(r"(?P<first>[0-9]{1,24})_(?P<last>[0-9]{1,24})_(?P<layer>[0-9]{1,9})\.parquet")
ARCHIVE_FILE: Final = re.compile(r"\.commits_\.archive\.[0-9]+(?:_.*)?")
_MAX_DIGITS: Final = 24
_WRITES: Final = tuple(str(action) for action in (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT))


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A file of the history, by its name `<first>_<last>_<layer>.parquet`."""

    first: str
    """The earliest requested time in it."""
    last: str
    """The latest requested time in it."""
    layer: int
    """How often its instants were merged into larger files."""
    size_bytes: int
    """Its size, as the manifest records it; negative if it does not."""

    @property
    def name(self) -> str:
        """Its name in the folder of the history."""
        return f"{self.first}_{self.last}_{self.layer}.parquet"


def parse_history_file(name: str, size_bytes: int = -1) -> HistoryFile | None:
    """The parts of a history file's name; None for any other file."""
    match = _HISTORY_FILE.fullmatch(name)
    if match is None or str(int(match["layer"])) != match["layer"]:
        return None
    return HistoryFile(match["first"], match["last"], int(match["layer"]), size_bytes)


def parse_manifest(data: bytes, where: str) -> tuple[HistoryFile, ...]:
    """The files that a manifest lists, each once, in its order. CorruptFile, beginning with `where`, if damaged."""
    try:
        entries = [(entry["fileName"], entry.get("fileLen")) for entry in json.loads(data.decode("utf-8"))["files"]]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise CorruptFile(f"{where} is damaged ({str(error)[:200]}): expected JSON with a list of files") from error
    files: dict[str, HistoryFile] = {}
    for name, size in entries:
        known = isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= MAX_FILE_BYTES
        file = parse_history_file(name, size if known else -1) if isinstance(name, str) else None
        if file is None:
            raise CorruptFile(f"{where} names {str(name)[:100]!r}: expected <min>_<max>_<layer>.parquet")
        files.setdefault(file.name, file)
    return tuple(files.values())


def has_archived(storage: Storage, properties: TableProperties) -> bool:
    """Whether any instant was archived, on layout 1 or 2."""
    if properties.layout == 1:
        return any(ARCHIVE_FILE.fullmatch(info.name) for info in storage.list_dir(properties.history_folder))
    version = history_version(storage, properties)
    return version is not None and bool(manifest_files(storage, properties, version))


@dataclass(frozen=True)
class History:
    """The completion times of the archived writes, as of a manifest."""

    manifest: FileInfo | None = None
    """The manifest that lists the files."""
    files: tuple[FileCompletions, ...] = ()
    """The times, by file."""

    @cached_property
    def by_instant(self) -> Mapping[InstantTime, InstantTime]:
        """The times, by instant."""
        return completions_by_instant(self.files)


@dataclass(frozen=True, slots=True)
class FileCompletions:
    """The completion times of the writes in a history file. They are columns: a table that is years old has 100,000
    archived writes, and each plan reads all of them, mostly for the newest alone."""

    where: str
    """The file, for error texts."""
    requested: pa.ChunkedArray
    """Requested times."""
    completed: pa.ChunkedArray
    """Completion times, in the same order."""


def read_completions(storage: Storage, properties: TableProperties) -> tuple[FileCompletions, ...]:
    """The completion times of every archived commit, deltacommit and replacecommit of a layout 2 table.

    Only files of the newest manifest count: compacted files stay in the folder for some time. Empty on layout 1, which
    has no completion times. CorruptFile for a manifest or history file that is damaged or missing.
    """
    files: list[FileCompletions] = []
    count = 0
    for file in () if properties.layout == 1 else history_files(storage, properties):
        files.append(_completions(storage, properties, file.name))
        count += len(files[-1].requested)
        if count > MAX_INSTANTS:
            raise CorruptFile(f"{files[-1].where}: with it the history has more than {MAX_INSTANTS} instants")
    return tuple(files)


def newest_completion(files: Iterable[FileCompletions]) -> InstantTime | None:
    """The newest completion time in these files; None if they have no writes."""
    newest = [pc.max(file.completed).as_py() for file in files if len(file.completed)]
    return InstantTime(max(newest)) if newest else None


def completions_by_instant(files: Iterable[FileCompletions]) -> Mapping[InstantTime, InstantTime]:
    """Requested -> completion time. CorruptFile for an instant with two completion times."""
    completions: dict[InstantTime, InstantTime] = {}
    checked = partial(str.__new__, InstantTime)  # InstantTime() would check each text again
    for file in files:
        requested_times, completion_times = (
            list(map(checked, texts.to_pylist())) for texts in (file.requested, file.completed)
        )
        of_file = dict(zip(requested_times, completion_times, strict=True))
        if len(of_file) == len(requested_times) and of_file.keys().isdisjoint(completions):
            completions |= of_file
            continue
        for requested, completion in zip(requested_times, completion_times, strict=True):
            if completions.setdefault(requested, completion) != completion:
                raise CorruptFile(
                    f"{file.where}: instant {requested} completed at {completion}, another history file says "
                    f"{completions[requested]}; expected one completion time"
                )
    return completions


def history_version(storage: Storage, properties: TableProperties) -> int | None:
    """The number of the newest manifest of a layout 2 history; None if there is no history.

    If `_version_` is missing or damaged, the manifest with the highest number counts, as in Hudi.
    """
    folder = properties.history_folder
    try:
        text = storage.read_bytes(f"{folder}/{VERSION_FILE}", _VERSION_BYTES).decode("ascii", "replace").strip()
    except FileNotFoundError:
        text = ""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    return max(manifest_versions(storage, properties), default=None)


def manifest_path(properties: TableProperties, version: int) -> str:
    """The path of the manifest of this number, relative to the table's base path."""
    return f"{properties.history_folder}/manifest_{version}"


def manifest_files(storage: Storage, properties: TableProperties, version: int) -> tuple[HistoryFile, ...]:
    """The files in the manifest of this number. CorruptFile if it is damaged or missing."""
    path = manifest_path(properties, version)
    where = _where(properties, path.rpartition("/")[2])
    try:
        data = storage.read_bytes(path, _MANIFEST_BYTES)
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although {VERSION_FILE} names it") from error
    return parse_manifest(data, where)


def manifest_versions(storage: Storage, properties: TableProperties) -> tuple[int, ...]:
    """The numbers of all manifests, ascending."""
    matches = (
        _MANIFEST.fullmatch(info.name) for info in storage.list_dir(properties.history_folder) if not info.is_dir
    )
    return tuple(sorted({int(match[1]) for match in matches if match}))


def _completions(storage: Storage, properties: TableProperties, name: str) -> FileCompletions:
    where = _where(properties, name)
    instants = distinct_instants(storage, f"{properties.history_folder}/{name}", _WRITES, where)
    requested, completed = (instants.column(column) for column in COLUMNS[:2])
    are_times = pc.and_(_are_times(requested), _are_times(completed))
    if not pc.all(are_times, min_count=0).as_py():
        wrong = pc.index(are_times, pa.scalar(value=False)).as_py()
        raise CorruptFile(
            f"{where}: got requested time {str(requested[wrong])[:40]!r} and completion time "
            f"{str(completed[wrong])[:40]!r}, expected digits"
        )
    return FileCompletions(where, requested, completed)


def _are_times(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each text can be an InstantTime; false for null."""
    present = texts.fill_null("")
    return pc.and_(pc.ascii_is_decimal(present), pc.less_equal(pc.binary_length(present), _MAX_DIGITS))


def history_files(storage: Storage, properties: TableProperties) -> tuple[HistoryFile, ...]:
    """The history files in the newest manifest of a layout 2 table; () without a history."""
    version = history_version(storage, properties)
    return () if version is None else manifest_files(storage, properties, version)


def history_metadata(
    storage: Storage, properties: TableProperties, name: str, actions: Collection[str]
) -> Iterator[tuple[str, str, str, bytes]]:
    """(requested time, completion time, action, metadata) of each instant of these actions in a history file.

    Each instant once; '' and b'' for nulls.
    """
    where, path = _where(properties, name), f"{properties.history_folder}/{name}"
    instants = distinct_instants(storage, path, actions, where)
    texts = (instants.column(column).fill_null("").to_pylist() for column in COLUMNS)
    bodies = metadata_of(storage, path, numpy_array(instants.column("row")), where)
    yield from zip(*texts, bodies, strict=True)


def _where(properties: TableProperties, name: str) -> str:
    return f"history file {properties.history_folder}/{name} of table {redacted_uri(properties.base_path)}"
