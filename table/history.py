"""Instants that left the active timeline: the LSM history of layout 2, and whether layout 1 has an archive.

Source: Hudi `LSMTimeline`, `ArchivedTimelineV1`. Belongs here: what was archived. Not here: the active timeline.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.positions import InstantTime
from penstock.table.instants import Action
from penstock.table.parquet_checks import check_columns, tells_storage
from penstock.table.parquet_pages import check_pages
from penstock.table.properties import TableProperties
from penstock.table.storage import Storage, is_near, shown_uri

_VERSION_FILE: Final = "_version_"
_VERSION_BYTES: Final = 64
_MANIFEST_BYTES: Final = 64 << 20
_MAX_ROWS: Final = 20_000_000
_MAX_GROUP_BYTES: Final = 2 << 30
_ROWS_AT_ONCE: Final = 64
_MANIFEST = re.compile(r"manifest_([0-9]{1,18})")
_HISTORY_FILE = re.compile(r"[0-9]{1,24}_[0-9]{1,24}_[0-9]{1,9}\.parquet")
ARCHIVE_FILE: Final = re.compile(r"\.commits_\.archive\.[0-9]+(?:_.*)?")
_DIGITS = re.compile(r"[0-9]{1,24}")
_COLUMNS: Final = ("instantTime", "completionTime", "action")
_WRITES: Final = tuple(str(action) for action in (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT))


def has_archived(storage: Storage, properties: TableProperties) -> bool:
    """Whether any instant was archived, on either layout."""
    if properties.layout == 1:
        return any(ARCHIVE_FILE.fullmatch(info.name) for info in storage.list_dir(properties.history_folder))
    version = history_version(storage, properties)
    return version is not None and bool(_manifest_files(storage, properties, version))


def archived_completions(storage: Storage, properties: TableProperties) -> Mapping[InstantTime, InstantTime]:
    """Requested -> completion time of every archived commit, deltacommit and replacecommit of a layout 2 table.

    Only files of the newest manifest count: what was compacted away stays in the folder for a while. Empty on layout
    1, which does not keep completion times. CorruptFile for a manifest or history file that is damaged or missing.
    """
    version = None if properties.layout == 1 else history_version(storage, properties)
    if version is None:
        return {}
    found: dict[InstantTime, InstantTime] = {}
    for name in _manifest_files(storage, properties, version):
        for requested, completion in _completions(storage, properties, name):
            if found.setdefault(requested, completion) != completion:
                raise CorruptFile(
                    f"{_where(properties, name)}: instant {requested} completed at {completion}, another history file "
                    f"says {found[requested]}; expected one completion time"
                )
    return found


def history_version(storage: Storage, properties: TableProperties) -> int | None:
    """The number of the newest manifest of a layout 2 history, None if there is no history.

    If `_version_` is lost or unreadable the highest manifest counts, as in Hudi.
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


def _manifest_files(storage: Storage, properties: TableProperties, version: int) -> list[str]:
    name = f"manifest_{version}"
    where = _where(properties, name)
    try:
        data = storage.read_bytes(f"{properties.history_folder}/{name}", _MANIFEST_BYTES)
        manifest = json.loads(data.decode("utf-8"))
        names = [entry["fileName"] for entry in manifest["files"]]
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although {_VERSION_FILE} names it") from error
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise CorruptFile(f"{where} is damaged ({str(error)[:200]}): expected JSON with a list of files") from error
    for item in names:
        if not (isinstance(item, str) and _HISTORY_FILE.fullmatch(item)):
            raise CorruptFile(f"{where} names {str(item)[:100]!r}: expected <min>_<max>_<layer>.parquet")
    return names


def _completions(storage: Storage, properties: TableProperties, name: str) -> Iterator[tuple[InstantTime, InstantTime]]:
    table = _history_rows(storage, properties, name)
    for row in table.to_pylist():
        requested, completion, action = (row[column] for column in _COLUMNS)
        if action not in _WRITES:
            continue
        if not (_DIGITS.fullmatch(requested or "") and _DIGITS.fullmatch(completion or "")):
            raise CorruptFile(
                f"{_where(properties, name)}: got requested time {str(requested)[:40]!r} and completion time "
                f"{str(completion)[:40]!r}, expected digits"
            )
        yield InstantTime(requested), InstantTime(completion)


def history_files(storage: Storage, properties: TableProperties) -> list[str]:
    """The names of the history files that the newest manifest of a layout 2 table names; [] without a history."""
    version = history_version(storage, properties)
    return [] if version is None else _manifest_files(storage, properties, version)


def history_metadata(storage: Storage, properties: TableProperties, name: str) -> Iterator[tuple[str, str, str, bytes]]:
    """Requested time, completion time, action and metadata of each instant in a history file; '' and b'' for nulls."""
    where = _where(properties, name)
    columns = [*_COLUMNS, "metadata"]
    try:
        with storage.open_input(f"{properties.history_folder}/{name}") as source:
            file = _checked(storage, source, columns)
            groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
            largest = max((group.total_byte_size for group in groups), default=0)
            if file.metadata.num_rows > _MAX_ROWS or largest > _MAX_GROUP_BYTES:
                raise CorruptFile(
                    f"{where} holds {file.metadata.num_rows} instants in row groups of up to {largest} bytes, at most "
                    f"{_MAX_ROWS} and {_MAX_GROUP_BYTES} are read"
                )
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns):
                texts = (batch.column(column).cast(pa.string()).to_pylist() for column in _COLUMNS)
                bodies = batch.column("metadata").cast(pa.binary()).to_pylist()
                for requested, completion, action, body in zip(*texts, bodies, strict=True):
                    yield requested or "", completion or "", action or "", body or b""
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although the manifest names it") from error
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        if tells_storage(error):
            raise StorageError(f"{where} cannot be read: {str(error)[:200]}; asking again may help") from error
        raise CorruptFile(f"{where} cannot be read as a history file: {str(error)[:200]}") from error


def _history_rows(storage: Storage, properties: TableProperties, name: str) -> pa.Table:
    """The columns of `_COLUMNS`, as strings."""
    where = _where(properties, name)
    try:
        with storage.open_input(f"{properties.history_folder}/{name}") as source:
            file = _checked(storage, source, _COLUMNS)
            if file.metadata.num_rows > _MAX_ROWS:
                raise CorruptFile(f"{where} holds {file.metadata.num_rows} instants, at most {_MAX_ROWS} are read")
            table = file.read(columns=list(_COLUMNS))
            texts = table.select(_COLUMNS).cast(pa.schema([(column, pa.string()) for column in _COLUMNS]))
            texts.validate(full=True)
            return texts
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although the manifest names it") from error
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        if tells_storage(error):
            raise StorageError(f"{where} cannot be read: {str(error)[:200]}; asking again may help") from error
        raise CorruptFile(f"{where} cannot be read as a history file: {str(error)[:200]}") from error


def _checked(storage: Storage, source: pa.NativeFile, columns: Collection[str]) -> pq.ParquetFile:
    """The file, held against what pyarrow takes at its word."""
    file = pq.ParquetFile(source)
    check_columns(file.metadata)
    if is_near(storage):
        for number in range(file.metadata.num_row_groups):
            check_pages(source, file.metadata, number, columns)
    return file


def _where(properties: TableProperties, name: str) -> str:
    return f"history file {properties.history_folder}/{name} of table {shown_uri(properties.base_path)}"
