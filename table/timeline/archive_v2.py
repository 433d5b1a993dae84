"""The LSM history of timeline layout 2: manifests, and the instants of its files.

Source: Hudi `LSMTimeline`, `ArchivedTimelineV1`. `archive_v2_files` decodes the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.proto.model.positions import InstantTime
from penstock.table.config.properties import TableProperties
from penstock.table.storage.filesystem import Storage, redacted_uri
from penstock.table.timeline.archive_v2_files import COLUMNS, MAX_INSTANTS, distinct_instants, metadata_of
from penstock.table.timeline.instants import Action

_VERSION_FILE: Final = "_version_"
_VERSION_BYTES: Final = 64
_MANIFEST_BYTES: Final = 64 << 20
_MANIFEST = re.compile(r"manifest_([0-9]{1,18})")
_HISTORY_FILE = re.compile(r"[0-9]{1,24}_[0-9]{1,24}_[0-9]{1,9}\.parquet")
ARCHIVE_FILE: Final = re.compile(r"\.commits_\.archive\.[0-9]+(?:_.*)?")
_DIGITS = re.compile(r"[0-9]{1,24}")
_WRITES: Final = tuple(str(action) for action in (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT))


def has_archived(storage: Storage, properties: TableProperties) -> bool:
    """Whether any instant was archived, on layout 1 or 2."""
    if properties.layout == 1:
        return any(ARCHIVE_FILE.fullmatch(info.name) for info in storage.list_dir(properties.history_folder))
    version = history_version(storage, properties)
    return version is not None and bool(_manifest_files(storage, properties, version))


def archived_completions(storage: Storage, properties: TableProperties) -> Mapping[InstantTime, InstantTime]:
    """Requested -> completion time of every archived commit, deltacommit and replacecommit of a layout 2 table.

    Only files of the newest manifest count: compacted files stay in the folder for some time. Empty on layout 1, which
    has no completion times. CorruptFile for a manifest or history file that is damaged or missing.
    """
    version = None if properties.layout == 1 else history_version(storage, properties)
    if version is None:
        return {}
    completions: dict[InstantTime, InstantTime] = {}
    for name in _manifest_files(storage, properties, version):
        for requested, completion in _completions(storage, properties, name):
            if completions.setdefault(requested, completion) != completion:
                raise CorruptFile(
                    f"{_where(properties, name)}: instant {requested} completed at {completion}, another history file "
                    f"says {completions[requested]}; expected one completion time"
                )
        if len(completions) > MAX_INSTANTS:
            raise CorruptFile(f"{_where(properties, name)}: with it the history has more than {MAX_INSTANTS} instants")
    return completions


def history_version(storage: Storage, properties: TableProperties) -> int | None:
    """The number of the newest manifest of a layout 2 history; None if there is no history.

    If `_version_` is missing or damaged, the manifest with the highest number counts, as in Hudi.
    """
    folder = properties.history_folder
    try:
        text = storage.read_bytes(f"{folder}/{_VERSION_FILE}", _VERSION_BYTES).decode("ascii", "replace").strip()
    except FileNotFoundError:
        text = ""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    numbers = (_MANIFEST.fullmatch(info.name) for info in storage.list_dir(folder) if not info.is_dir)
    return max((int(match[1]) for match in numbers if match), default=None)


def manifest_path(properties: TableProperties, version: int) -> str:
    """The path of the manifest of this number, relative to the table's base path."""
    return f"{properties.history_folder}/manifest_{version}"


def _manifest_files(storage: Storage, properties: TableProperties, version: int) -> list[str]:
    path = manifest_path(properties, version)
    where = _where(properties, path.rpartition("/")[2])
    try:
        data = storage.read_bytes(path, _MANIFEST_BYTES)
        manifest = json.loads(data.decode("utf-8"))
        names = [entry["fileName"] for entry in manifest["files"]]
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although {_VERSION_FILE} names it") from error
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise CorruptFile(f"{where} is damaged ({str(error)[:200]}): expected JSON with a list of files") from error
    for item in names:
        if not (isinstance(item, str) and _HISTORY_FILE.fullmatch(item)):
            raise CorruptFile(f"{where} names {str(item)[:100]!r}: expected <min>_<max>_<layer>.parquet")
    return list(dict.fromkeys(names))


def _completions(storage: Storage, properties: TableProperties, name: str) -> Iterator[tuple[InstantTime, InstantTime]]:
    where = _where(properties, name)
    instants = distinct_instants(storage, f"{properties.history_folder}/{name}", _WRITES, where)
    for requested, completion in zip(*(instants.column(name).to_pylist() for name in COLUMNS[:2]), strict=True):
        if not (_DIGITS.fullmatch(requested or "") and _DIGITS.fullmatch(completion or "")):
            raise CorruptFile(
                f"{where}: got requested time {str(requested)[:40]!r} and completion time {str(completion)[:40]!r}, "
                "expected digits"
            )
        yield InstantTime(requested), InstantTime(completion)


def history_files(storage: Storage, properties: TableProperties) -> list[str]:
    """The history files in the newest manifest of a layout 2 table; [] without a history."""
    version = history_version(storage, properties)
    return [] if version is None else _manifest_files(storage, properties, version)


def history_metadata(
    storage: Storage, properties: TableProperties, name: str, actions: Collection[str]
) -> Iterator[tuple[str, str, str, bytes]]:
    """(requested time, completion time, action, metadata) of each instant of these actions in a history file.

    Each instant once; '' and b'' for nulls.
    """
    where, path = _where(properties, name), f"{properties.history_folder}/{name}"
    instants = distinct_instants(storage, path, actions, where)
    texts = (instants.column(column).fill_null("").to_pylist() for column in COLUMNS)
    bodies = metadata_of(storage, path, instants.column("row").to_numpy(), where)
    yield from zip(*texts, bodies, strict=True)


def _where(properties: TableProperties, name: str) -> str:
    return f"history file {properties.history_folder}/{name} of table {redacted_uri(properties.base_path)}"
